"""Running targets with their donors' states: each prompt once unchanged, then on from the changed block."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from strataprobe.behavior import Continuations
from strataprobe.behavior.continuations import CANDIDATES
from strataprobe.behavior.edited import score_changed
from strataprobe.behavior.roles import Roles
from strataprobe.datasets.answers import margins
from strataprobe.datasets.control import ANCHORS, ControlDataset
from strataprobe.errors import ModelError
from strataprobe.lm import OutputMap, Row, plan_trees
from strataprobe.lm.edited import Condition, Edit, Kept, keep, keeping, over
from strataprobe.patching.donors import NORM, direction
from strataprobe.patching.grid import Window

BARE = "bare"
"""States of the donor's sentence alone; any other source is its own prompt of the same task."""

T = TypeVar("T")
J = TypeVar("J")

Job = tuple[int, str]
"""An item and a task: one prompt, with both its continuations."""

_Made = Callable[[int, Kept, np.ndarray], Sequence[Condition]]


@dataclass
class Runner:
    """A model and the prompts it is run with.

    Attributes:
        roles: where the roles stand in each prompt.
        sentences: tokens and roles of each bare sentence.
        first: number in `hidden_states` of the first layer that is patched.
        prompted: job -> for each of its rows, (layers, 3, hidden size) states from `first` on.
        bare: item -> the same of its bare sentence.
    """

    output: OutputMap
    dataset: ControlDataset
    continuations: Continuations
    roles: Mapping[Job, Roles]
    sentences: Sequence[tuple[list[int], Roles]]
    first: int
    seed: int
    batch_tokens: int
    threads: int
    prompted: dict[Job, list[Tensor]] = field(default_factory=dict)
    bare: dict[int, Tensor] = field(default_factory=dict)

    @property
    def layers(self) -> list[int]:
        """The layers whose states are taken, as the model numbers them (`lm.EMBED` is -1)."""
        return list(range(self.first - 1, self.output.lm.n_layers))

    def unchanged(self) -> dict[Job, float]:
        """Each job's margin, gold minus other, in nats; keeps every donor's states on the way."""
        with keeping(self.output.lm):
            for item, states in self._over(range(len(self.sentences)), self._bare_states):
                self.bare[item] = states
            found = {}
            for job, (margin, states) in self._over(list(self.roles), self._prompted_states):
                found[job], self.prompted[job] = margin, states
        return found

    def patched(
        self,
        jobs: Sequence[Job],
        donors: Callable[[Job], Sequence[tuple[str, str, int]]],
        windows: Sequence[Window],
    ) -> Iterator[tuple[Job, np.ndarray]]:
        """Each job's margins under each of its donors' states.

        Args:
            donors: of a job: (states' source, kind, donor) one by one.
            windows: the layers patched together, one window after the other for each donor.

        Yields:
            The job and (donors, windows) margins in nats.
        """
        with keeping(self.output.lm):
            yield from self._over(jobs, partial(self._patched, donors=donors, windows=windows))

    def _patched(
        self,
        job: Job,
        *,
        donors: Callable[[Job], Sequence[tuple[str, str, int]]],
        windows: Sequence[Window],
    ) -> np.ndarray:
        wanted = donors(job)

        def conditions(row: int, kept: Kept, columns: np.ndarray) -> list[Condition]:
            target = kept.at(self.layers, columns)
            made = []
            for source, kind, donor in wanted:
                states = self._given(job[1], row, source, donor)
                if kind == NORM:
                    states = self._norm_matched(job[0], donor, target, states)
                made += [self._edits(states, columns, window) for window in windows]
            return made

        scores, _ = self._scored(job, conditions)
        return self._margins(job, scores)[1:].reshape(len(wanted), len(windows))

    def _edits(self, states: Tensor, columns: np.ndarray, window: Window) -> list[Edit]:
        # Of roles that share a token the later one counts, so that each token is written once.
        roles = [role for role, column in enumerate(columns) if column not in columns[role + 1 :]]
        size, start = window
        return [
            Edit(layer - 1, columns[roles], states[layer - self.first, roles])
            for layer in range(start, start + size)
        ]

    def _given(self, task: str, row: int, source: str, donor: int) -> Tensor:
        if source == BARE:
            return self.bare[donor]
        rows = self.prompted[donor, task]
        return rows[min(row, len(rows) - 1)]

    def _norm_matched(self, target: int, donor: int, own: Tensor, given: Tensor) -> Tensor:
        """The target's states, moved as far as the donor's are away, each role in one random direction."""
        ids = [self.dataset.controls[place].id for place in (target, donor)]
        drawn = [direction(self.seed, *ids, role, own.shape[-1]) for role in ANCHORS]
        units = torch.from_numpy(np.stack(drawn)).to(own.device, torch.float32)
        length = (given.to(own.device).float() - own.float()).norm(dim=-1, keepdim=True)
        return (own.float() + length * units).to(own.dtype)

    def _bare_states(self, item: int) -> Tensor:
        tokens, roles = self.sentences[item]
        kept = keep(self.output.lm, [tokens], Row((0,), 0, len(tokens)))
        return kept.at(self.layers, kept.columns[0][roles.places])

    def _prompted_states(self, job: Job) -> tuple[float, list[Tensor]]:
        scores, states = self._scored(job, lambda _row, _kept, _columns: ())
        return float(self._margins(job, scores)[0]), states

    def _scored(self, job: Job, conditions: _Made) -> tuple[np.ndarray, list[Tensor]]:
        """(1 + conditions, 2) log-probabilities of candidates a and b, unchanged first; and clean states."""
        lm, texts = self.output.lm, self.continuations
        numbers = [texts.numbers[(*job, candidate)] for candidate in CANDIDATES]
        found: dict[int, np.ndarray] = {}
        states = []
        for place, row in enumerate(plan_trees(texts.read, list(dict.fromkeys(numbers)), lm.sharing_limit)):
            kept = keep(lm, texts.read, row)
            columns = kept.columns[0][self.roles[job].places]
            states.append(kept.at(self.layers, columns))
            scores = score_changed(
                self.output, texts, kept, row.members, conditions(place, kept, columns),
                batch_tokens=self.batch_tokens,
            )  # fmt: skip
            found |= dict(zip(row.members, scores.T, strict=True))
        return np.stack([found[number] for number in numbers], axis=1), states

    def _margins(self, job: Job, scores: np.ndarray) -> np.ndarray:
        """(n,) gold minus other of (n, 2) scores, unpatched first."""
        if not np.isfinite(scores).all():
            lm, (item, task) = self.output.lm, job
            remedy = "; bfloat16 and float32 hold what float16 cannot" if lm.dtype == "float16" else ""
            when = "patched" if np.isfinite(scores[0]).all() else "unpatched"
            raise ModelError(
                f"{lm.name} (dtype {lm.dtype}): {self.dataset.controls[item].id} {task}, {when}: its "
                f"log-probability is not a finite number{remedy}"
            )
        return margins(scores[:, None], [self.dataset.controls[job[0]].gold])[:, 0]

    def _over(self, jobs: Sequence[J], work: Callable[[J], T]) -> Iterator[tuple[J, T]]:
        """Each job with what `work` makes of it."""
        return zip(jobs, over(jobs, work, lm=self.output.lm, threads=self.threads), strict=True)
