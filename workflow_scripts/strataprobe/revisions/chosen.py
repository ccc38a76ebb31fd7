"""Which revisions of a repository's list a study asks for: every step of a range, or every k-th of them.

What the config says stands here as a plain mapping: {pattern, from, to, every} or {every, matching}.
"""

import difflib
import fnmatch
import re
from collections.abc import Mapping, Sequence
from typing import Any

from strataprobe.errors import numbered
from strataprobe.revisions.table import Listed, Table

_NEAREST = 3
_FEW = 10


def choose(asked: Mapping[str, Any], table: Table) -> tuple[list[Listed], list[str]]:
    """The revisions asked for, and what is wrong.

    Args:
        asked: `{"pattern": "step{step}", "from": 0, "to": 40, "every": 10}` (both ends may be taken), or
            `{"every": 4, "matching": "stage1-*"}` (`matching` None: every revision with a step).
        table: the repository's list.

    Returns:
        The revisions in order, and a text for each fault: steps that no ref or more than one has, a
        pattern that fits nothing. With faults, the revisions are those that could be told.
    """
    if "pattern" in asked:
        return _in_range(asked, table)
    matching = asked.get("matching")
    fit = [
        row
        for row in table.rows
        if (row.step is not None if matching is None else fnmatch.fnmatchcase(row.ref, matching))
    ]
    if not fit:
        wanted = "has a step" if matching is None else f"matches {matching!r}"
        return [], [f"no ref of {table.repo} {wanted}; {instead(matching or 'step', table)}"]
    return fit[:: asked["every"]], []


def fitting(pattern: str, table: Table) -> dict[int, list[Listed]]:
    """Revisions by step whose refs a pattern fits; `{step}` and `{tokens}` in it stand for a number each."""
    numbers = {"{step}": r"(?P<step>[0-9]{1,15})", "{tokens}": r"[0-9]+(?:\.[0-9]+)?"}
    form = "".join(numbers.get(part, re.escape(part)) for part in re.split(r"(\{\w+\})", pattern))
    found: dict[int, list[Listed]] = {}
    for row in table.rows:
        if match := re.fullmatch(form, row.ref):
            found.setdefault(int(match["step"]), []).append(row)
    return found


def instead(word: str, table: Table) -> str:
    """What there is in place of a ref, as the end of a message: the nearest refs, or else the first ones."""
    refs = [row.ref for row in table.rows]
    near = difflib.get_close_matches(word, refs, n=_NEAREST, cutoff=0.5)
    if near:
        return f"nearest of its {numbered(len(refs), 'ref')}: {', '.join(near)}"
    return f"its {numbered(len(refs), 'ref')}: {shortened(refs, _NEAREST)}"


def shortened(names: Sequence[Any], most: int = _FEW) -> str:
    """Names with commas between, "and 7 more" at the end where they are many."""
    rest = [f"and {len(names) - most} more"] if len(names) > most else []
    return ", ".join([*map(str, names[:most]), *rest])


def _in_range(asked: Mapping[str, Any], table: Table) -> tuple[list[Listed], list[str]]:
    pattern = asked["pattern"]
    found = fitting(pattern, table)
    steps = range(asked["from"], asked["to"] + 1, asked["every"])
    if not found:
        return [], [f"no ref of {table.repo} is like {pattern!r}; {instead(pattern, table)}"]
    faults = []
    missing = [step for step in steps if step not in found]
    if missing:
        near = dict.fromkeys(row.ref for step in missing for row in _around(step, found))
        steps_of = "step" if len(missing) == 1 else "steps"
        faults.append(
            f"{table.repo} has no ref like {pattern!r} of {steps_of} {shortened(missing)}; "
            f"nearest: {shortened(list(near))}"
        )
    for step in steps:
        if len(rows := found.get(step, [])) > 1:
            refs = " and ".join(row.ref for row in rows)
            faults.append(f"step {step}: {refs} are like {pattern!r}; a pattern is to fit one ref a step")
    return [found[step][0] for step in steps if step in found], faults


def _around(step: int, found: Mapping[int, list[Listed]]) -> list[Listed]:
    """The revisions just below and just above a step."""
    below = max((other for other in found if other < step), default=None)
    above = min((other for other in found if other > step), default=None)
    return [found[other][0] for other in (below, above) if other is not None]
