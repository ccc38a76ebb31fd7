"""What a revision's name says of it. Each public suite has a scheme of its own:

`stage1-step1000-tokens3B`, `stage2-ingredient3-step23852-tokens51B`, `stage1-step-40000`, `step-125000`,
`step143000`, `step150-tokens1B`, `ckpt_042`, `global_step1000`, `iter_0001000`, `checkpoint-500`, `main`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

MAIN = "main"

# Digits are bounded: a longer number is a hash or a date, and nothing here is to choke on it.
_STEP = (
    r"(?:(?:global[-_]?)?step|ckpt|checkpoint|iter(?:ation)?)[-_]?"
    r"(?P<step>[0-9]{1,15})(?P<thousand>k(?![a-z0-9]))?"
)
_PART = re.compile(
    rf"(?:stage[-_]?(?P<stage>[0-9]{{1,9}})"
    rf"|ingredient[-_]?(?P<ingredient>[0-9]{{1,9}})"
    rf"|{_STEP}"
    r"|tokens?[-_]?(?P<tokens>[0-9]{1,9}(?:\.[0-9]{1,6})?)(?P<unit>[kmbt])"
    r")(?:[-_./](?=.)|\Z)",
    re.IGNORECASE,
)
_STEP_ANYWHERE = re.compile(rf"(?<![a-z]){_STEP}(?![0-9])", re.IGNORECASE)
_TOKENS = {"k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_PARSED, _BY_NAME, _LAST = range(3)


@dataclass(frozen=True)
class RevisionName:
    """A revision's name and what it says; None where it says nothing.

    Attributes:
        name: the name itself.
        stage, ingredient: of training, as the suite counts them.
        step: training step, or the number of the checkpoint where the suite counts those (`ckpt_042`).
        tokens: number of tokens seen.
        understood: whether every part of the name was read. A name that was not has at most a step, and is
            ordered by the name itself.
    """

    name: str
    stage: int | None = None
    ingredient: int | None = None
    step: int | None = None
    tokens: int | None = None
    understood: bool = True

    @property
    def place(self) -> tuple:
        """Sort key: by (stage, ingredient, step) as integers, then what is not understood, then `main`.

        What a name does not say comes first (a suite's plain `step10` before `stage1-step5`), but a stage
        without a step is its end. Numbers within a name that is not understood count as numbers too.
        """
        by_name = (_natural(self.name), self.name)
        if self.name == MAIN:
            return (_LAST, by_name)
        if not self.understood:
            return (_BY_NAME, by_name)
        said = (self.stage, self.ingredient)
        step = (1, 0) if self.step is None else (0, self.step)
        first = tuple(-1 if number is None else number for number in said)
        return (_PARSED, first, step, -1 if self.tokens is None else self.tokens, by_name)


def parse(name: str) -> RevisionName:
    """Read a revision's name. Never fails: what cannot be read is said by `understood`."""
    if name == MAIN:
        return RevisionName(name)
    said: dict[str, int] = {}
    position = 0
    while found := _PART.match(name, position):
        part = _numbers(found)
        if part.keys() & said.keys():
            break
        said |= part
        position = found.end()
    if said.keys() & {"stage", "step"} and position == len(name):
        return RevisionName(name, **said)
    step = _STEP_ANYWHERE.search(name)
    return RevisionName(name, step=_step(step) if step else None, understood=False)


def in_order(names: Iterable[str]) -> list[RevisionName]:
    """The names, read, in the order of training, whatever the order they come in."""
    return sorted(map(parse, names), key=lambda name: name.place)


def _numbers(found: re.Match) -> dict[str, int]:
    """What one part of a name says."""
    if found["step"] is not None:
        return {"step": _step(found)}
    if found["tokens"] is not None:
        whole, _, part = found["tokens"].partition(".")
        unit = _TOKENS[found["unit"].lower()]
        return {"tokens": int(whole) * unit + int(part or 0) * unit // 10 ** len(part)}
    return {key: int(found[key]) for key in ("stage", "ingredient") if found[key] is not None}


def _step(found: re.Match) -> int:
    return int(found["step"]) * (1000 if found["thousand"] else 1)


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """The name in pieces, its runs of digits as numbers."""
    pieces = re.findall(r"[0-9]{1,15}|[^0-9]+", name)
    return tuple((0, int(piece), "") if piece[0] in "0123456789" else (1, 0, piece) for piece in pieces)
