"""Prompts run with their states read, pushed or erased at the roles' places."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from strataprobe.behavior import Continuations, prepare
from strataprobe.behavior.edited import score_changed
from strataprobe.behavior.roles import Roles, in_prompts, in_sentences
from strataprobe.datasets.control import ANCHORS, ControlDataset
from strataprobe.errors import ModelError, listing
from strataprobe.lm import LoadedLM, OutputMap, plan_trees, states_at
from strataprobe.lm.edited import Condition, Kept, keep
from strataprobe.recoverability.codings import Coding

OWN_PROMPT, BARE = "own_prompt", "bare"

Conditions = Callable[[Kept, np.ndarray], Sequence[Condition]]
"""What is changed in a row, given where the roles' tokens stand in it."""


@dataclass(frozen=True)
class States:
    """What stands at the items' roles.

    Attributes:
        values: (layers, items, roles, hidden) float32.
        heeded: (items, roles) booleans: not the text's first token. That one sees nothing but itself, and in
            many models is a sink a hundred times as long as any other: a spread over items would be its own.
    """

    values: np.ndarray
    heeded: np.ndarray

    def in_roles(self, mode: str, coding: Coding) -> "States":
        """Those of a mode's letters, where a and b may swap roles."""
        return States(
            by_roles(self.values, mode, coding), by_roles(self.heeded[..., None], mode, coding)[..., 0]
        )


@dataclass(frozen=True)
class Asking:
    """A checkpoint and the prompts it is asked with.

    Attributes:
        dataset: every item, with no other prompts than those of the tasks.
        continuations: of all of them.
        roles: (item, task) -> its roles' tokens in the prompt.
    """

    lm: LoadedLM
    output: OutputMap
    dataset: ControlDataset
    continuations: Continuations
    roles: dict[tuple[int, str], Roles]
    batch_tokens: int
    threads: int

    @classmethod
    def of(
        cls,
        lm: LoadedLM,
        dataset: ControlDataset,
        tasks: Sequence[str],
        *,
        chat: bool,
        batch_tokens: int,
        threads: int,
    ) -> "Asking":
        """Raises:
        ModelError: prompts that cannot be asked (`behavior.prepare`), or without their item's sentence.
        """
        asked = replace(
            dataset,
            controls=tuple(
                replace(item, prompts={task: item.prompts[task] for task in tasks if task in item.prompts})
                for item in dataset.controls
            ),
        )
        continuations = prepare(lm, asked, chat=chat)
        roles = in_prompts(lm, asked, continuations, chat=chat)
        return cls(lm, OutputMap.of(lm), asked, continuations, roles, batch_tokens, threads)

    def items(self, task: str) -> list[int]:
        """Items that have the task's prompt."""
        return [index for index, own in self.roles if own == task]

    def states(self, task: str, layers: Sequence[int], source: str) -> "States":
        """States at `ANCHORS` of every item, NaN where one lacks the prompt.

        A state that hangs on the same tokens in several items is taken from the first of them, so that no
        rounding tells them apart.

        Args:
            layers: blocks, or `lm.EMBED`, ascending.
            source: `OWN_PROMPT`, or `BARE`: the sentence alone, without a BOS.
        """
        if source == BARE:
            pairs = in_sentences(self.lm, self.dataset)
            items, tokens = list(range(len(pairs))), [sequence for sequence, _ in pairs]
            places = [roles.places for _, roles in pairs]
        else:
            items = self.items(task)
            tokens = [self._prompt(index, task) for index in items]
            places = [self.roles[index, task].places for index in items]
        shape = (len(layers), len(self.dataset.controls), len(ANCHORS), self.lm.hidden_size)
        found = np.full(shape, np.nan, np.float32)
        batches = states_at(
            self.lm, tokens, places, ids=[self.dataset.controls[index].id for index in items],
            layers=layers, batch_tokens=self.batch_tokens, threads=self.threads,
            then=lambda one: (one.numbers, one.states.float().cpu().numpy(), one.places),
        )  # fmt: skip
        for numbers, states, of in batches:
            for number, own in zip(numbers, of, strict=True):
                found[:, items[number]] = states[:, own]
        self._check_finite(found, items)
        heeded = np.zeros(shape[1:3], bool)
        first: dict[tuple[int, ...], tuple[int, int]] = {}
        for index, sequence, own in zip(items, tokens, places, strict=True):
            heeded[index] = own > 0
            for role, place in enumerate(own):
                like = first.setdefault(tuple(sequence[: place + 1]), (index, role))
                found[:, index, role] = found[:, like[0], like[1]]
        return States(found, heeded)

    def scored(self, index: int, task: str, conditions: Conditions) -> np.ndarray:
        """(1 + n, 2) log-probabilities (nats) of candidates a and b: unchanged, and under each condition."""
        numbers = [self.continuations.numbers[index, task, candidate] for candidate in ("a", "b")]
        rows = plan_trees(self.continuations.read, numbers, self.lm.sharing_limit)
        scores: dict[int, np.ndarray] = {}
        for row in rows:
            kept = keep(self.lm, self.continuations.read, row)
            # The roles stand before the answers part, so that all members have them at the same columns.
            columns = kept.columns[0][self.roles[index, task].places]
            found = score_changed(
                self.output, self.continuations, kept, row.members, conditions(kept, columns),
                batch_tokens=self.batch_tokens,
            )  # fmt: skip
            scores |= dict(zip(row.members, found.T, strict=True))
        return np.stack([scores[number] for number in numbers], axis=1)

    def _prompt(self, index: int, task: str) -> list[int]:
        """The tokens that stand before the answers part."""
        one, other = (self.continuations.numbers[index, task, candidate] for candidate in ("a", "b"))
        first = min(self.continuations.spans[number][0] for number in (one, other))
        return self.continuations.tokens[one][: max(first, 1)]

    def _check_finite(self, states: np.ndarray, items: list[int]) -> None:
        bad = [self.dataset.controls[index].id for index in items if not np.isfinite(states[:, index]).all()]
        if bad:
            remedy = "; bfloat16 and float32 hold what float16 cannot" if self.lm.dtype == "float16" else ""
            raise ModelError(
                listing(
                    f"states of {self.lm.name} (dtype {self.lm.dtype}{remedy})",
                    [f"{name}: not finite" for name in bad],
                )
            )


def by_roles(states: np.ndarray, mode: str, coding: Coding) -> np.ndarray:
    """(..., items, roles, n) what stands at the positions of a mode's letters, where a and b may swap roles.

    Args:
        states: (..., items, 3, n) at `ANCHORS`.
    """
    places = np.stack([role_places(mode, swapped) for swapped in coding.swapped])
    return states[..., np.arange(len(places))[:, None], places, :]


def role_places(mode: str, swapped: bool) -> np.ndarray:
    """(roles,) which of `ANCHORS` plays the role of each letter of a mode."""
    other = {"a": "b", "b": "a"} if swapped else {}
    return np.array([ANCHORS.index(other.get(letter, letter)) for letter in mode])
