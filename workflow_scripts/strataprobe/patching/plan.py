"""Who gives to whom in one task, what came of it, and how that is written down."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from strataprobe.behavior.roles import Roles, differing
from strataprobe.datasets.answers import read, written
from strataprobe.datasets.control import ControlDataset
from strataprobe.patching.donors import KINDS, Pair, choose
from strataprobe.patching.grid import Window
from strataprobe.patching.runs import BARE, Job, Runner


@dataclass
class Plan:
    """One task and source of states: who gives to whom, and what came of it.

    Attributes:
        clean: (items,) unchanged margins, NaN where an item lacks the task.
        pairs: kind -> pairs of target and donor.
        unequal: kind -> what is unequal of each pair (`differing`), joined by blanks.
        patched: kind -> (pairs, windows) margins.
    """

    task: str
    source: str
    clean: np.ndarray
    pairs: Mapping[str, Sequence[Pair]]
    unequal: Mapping[str, Sequence[str]]
    patched: dict[str, np.ndarray]

    @classmethod
    def of(
        cls, task: str, source: str, runner: Runner, clean: Mapping[Job, float], own: Mapping[str, Any]
    ) -> "Plan":
        controls = runner.dataset.controls
        margin = np.array([clean.get((item, task), np.nan) for item in range(len(controls))])
        pairs = choose(controls, read(written(margin)), own)

        def given(donor: int) -> Roles:
            return runner.sentences[donor][1] if source == BARE else runner.roles[donor, task]

        unequal = {
            kind: [" ".join(differing(given(donor), runner.roles[target, task])) for target, donor in found]
            for kind, found in pairs.items()
        }
        return cls(task, source, margin, pairs, unequal, {})

    @cached_property
    def targets(self) -> dict[int, list[tuple[str, int]]]:
        """Target -> its pairs as (kind, place among the pairs of that kind), kind after kind."""
        found: dict[int, list[tuple[str, int]]] = {}
        for kind in KINDS:
            for place, (target, _) in enumerate(self.pairs[kind]):
                found.setdefault(target, []).append((kind, place))
        return found

    def donors(self, target: int) -> list[tuple[str, str, int]]:
        """What `Runner.patched` asks for."""
        return [
            (self.source, kind, self.pairs[kind][place][1]) for kind, place in self.targets.get(target, ())
        ]

    def take(self, target: int, found: np.ndarray, windows: int) -> None:
        """Note a target's (donors, windows) margins, in the order of `donors`."""
        for (kind, place), margins in zip(self.targets.get(target, ()), found, strict=True):
            if kind not in self.patched:
                self.patched[kind] = np.full((len(self.pairs[kind]), windows), np.nan)
            self.patched[kind][place] = margins

    def summary(self, grid: Sequence[Window], blocks: int) -> dict[str, Any]:
        ties = sum(int((margins == 0).sum()) for margins in self.patched.values())
        return {
            "task": self.task,
            "states": self.source,
            "correct": written(self.clean),
            "ties": {"clean": int((self.clean == 0).sum()), "patched": ties},
            "kinds": {kind: self._kind(kind) for kind in KINDS},
            "outcomes": [
                {
                    **layer_of(window, blocks),
                    "right": {kind: written(self._margins(kind, len(grid))[:, place]) for kind in KINDS},
                }
                for place, window in enumerate(grid)
            ],
        }

    def rows(self, grid: Sequence[Window], dataset: ControlDataset) -> Iterator[dict[str, Any]]:
        for place, (size, start) in enumerate(grid):
            for kind in KINDS:
                margins = self._margins(kind, len(grid))[:, place].tolist()
                for (target, donor), unequal, margin in zip(
                    self.pairs[kind], self.unequal[kind], margins, strict=True
                ):
                    yield {
                        "task": self.task, "states": self.source, "window": size, "layer": start,
                        "block": start - 1 if start else None, "kind": kind,
                        "target": dataset.controls[target].id, "donor": dataset.controls[donor].id,
                        "unequal": unequal, "clean_margin": float(self.clean[target]),
                        "patched_margin": margin,
                    }  # fmt: skip

    def _kind(self, kind: str) -> dict[str, Any]:
        counted = Counter(what for unequal in self.unequal[kind] for what in unequal.split())
        return {
            "targets": [target for target, _ in self.pairs[kind]],
            "donors": [donor for _, donor in self.pairs[kind]],
            "unequal": sum(map(bool, self.unequal[kind])),
            "unequal_in": dict(sorted(counted.items())),
        }

    def _margins(self, kind: str, windows: int) -> np.ndarray:
        return self.patched.get(kind, np.empty((0, windows)))


def layer_of(window: Window, blocks: int) -> dict[str, Any]:
    """A window's size, and its first layer in both numberings and by depth."""
    size, start = window
    return {"window": size, "layer": start, "block": start - 1 if start else None, "depth": start / blocks}
