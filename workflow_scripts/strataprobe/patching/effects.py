"""Rescue, lift and harm of patching, of the sample and of all its bootstrap replicates at once.

All arrays that are returned have the sample in row 0 and replicates after it. Targets are resampled by their
translation groups; their donors stay with them.

Source: levels paper, appendix G.3; DEFINITIONS, patching.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strataprobe.bootstrap import Draws
from strataprobe.datasets.answers import read
from strataprobe.errors import StrataprobeError, listing
from strataprobe.patching.donors import CORRECT, KINDS, WRONG


@dataclass(frozen=True)
class Effects:
    """One task and source of states at the windows of one size.

    Attributes:
        places: `layer` (number in `hidden_states`), `block` and `depth` of each window's first layer.
        right: (items,) 1 where an item is right unpatched, 0 where wrong, NaN without an answer.
        turned: kind -> (layers, pairs) 1 where the patched run is right.
        targets, donors: kind -> (pairs,) places of the items.
        unequal: kind -> pairs whose roles differ in length or order.
    """

    task: str
    states: str
    window: int
    places: Sequence[Mapping[str, Any]]
    right: np.ndarray
    turned: Mapping[str, np.ndarray]
    targets: Mapping[str, np.ndarray]
    donors: Mapping[str, np.ndarray]
    unequal: Mapping[str, int]

    @property
    def layers(self) -> np.ndarray:
        return np.array([place["layer"] for place in self.places])

    @property
    def wrong(self) -> np.ndarray:
        """(items,) whether an item is wrong unpatched: rescue is of these alone."""
        return self.right == 0

    def donor_counts(self, kind: str) -> np.ndarray:
        """(items,) donors of each target."""
        return np.bincount(self.targets[kind], minlength=len(self.right))

    def rights(self, kind: str) -> np.ndarray:
        """(layers, items) runs of each target that are right."""
        size = len(self.right)
        rows = [np.bincount(self.targets[kind], weights=row, minlength=size) for row in self.turned[kind]]
        return np.array(rows).reshape(len(self.places), size)

    def both_kinds(self, mask: np.ndarray) -> np.ndarray:
        """(items,) wrong targets of a split that have a correct and a wrong donor: lift is of these alone."""
        return mask & self.wrong & (self.donor_counts(CORRECT) > 0) & (self.donor_counts(WRONG) > 0)

    def rescue(self, draws: Draws, kind: str, mask: np.ndarray) -> np.ndarray:
        """(1 + replicates, layers) share of a wrong target's runs that are right, averaged over targets."""
        return self._within(draws, self._share(kind), mask & self.wrong & (self.donor_counts(kind) > 0))

    def broken(self, draws: Draws, kind: str, mask: np.ndarray) -> np.ndarray:
        """The same of right targets: share of their runs that are wrong."""
        chosen = mask & (self.right == 1) & (self.donor_counts(kind) > 0)
        return self._within(draws, 1 - self._share(kind), chosen)

    def lift(self, draws: Draws, mask: np.ndarray) -> np.ndarray:
        """Rescue by correct donors minus rescue by wrong donors, within each target, then averaged."""
        return self._within(draws, self._share(CORRECT) - self._share(WRONG), self.both_kinds(mask))

    def rescue_pooled(self, draws: Draws, kind: str, mask: np.ndarray) -> np.ndarray:
        """As published: share of all wrong targets' runs that are right."""
        chosen = mask & self.wrong
        return draws.ratio(self.rights(kind) * chosen, self.donor_counts(kind) * chosen)

    def lift_pooled(self, draws: Draws, mask: np.ndarray) -> np.ndarray:
        """As published: difference of the pooled rates, which mixes targets with unlike donors."""
        return self.rescue_pooled(draws, CORRECT, mask) - self.rescue_pooled(draws, WRONG, mask)

    def _share(self, kind: str) -> np.ndarray:
        """(layers, items) share of each target's runs that are right, 0 where it has no donor."""
        return self.rights(kind) / np.maximum(self.donor_counts(kind), 1)

    def _within(self, draws: Draws, values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        return draws.ratio(values * chosen, chosen.astype(float))


def read_effects(summary: Mapping[str, Any]) -> list[Effects]:
    """What a summary says, for each task, source of states and size of window.

    Raises:
        StrataprobeError: outcomes of another number of pairs than there are.
    """
    found, faults = [], []
    for run in summary["runs"]:
        sizes = dict.fromkeys(one["window"] for one in run["outcomes"])
        pairs = {kind: len(run["kinds"][kind]["targets"]) for kind in KINDS}
        for one in run["outcomes"]:
            faults += [
                f"{run['task']} {run['states']}, layer {one['layer']}: {len(one['right'][kind])} {kind} "
                f"runs for {count} pairs"
                for kind, count in pairs.items()
                if len(one["right"][kind]) != count
            ]
        found += [] if faults else [_effects(run, size) for size in sizes]
    if faults:
        raise StrataprobeError(listing("patching", faults))
    return found


def _effects(run: Mapping[str, Any], size: int) -> Effects:
    own = [one for one in run["outcomes"] if one["window"] == size]
    kinds = run["kinds"]
    return Effects(
        task=run["task"],
        states=run["states"],
        window=size,
        places=own,
        right=read(run["correct"]),
        turned={kind: np.array([read(one["right"][kind]) for one in own]) for kind in KINDS},
        targets={kind: np.array(kinds[kind]["targets"], dtype=np.int64) for kind in KINDS},
        donors={kind: np.array(kinds[kind]["donors"], dtype=np.int64) for kind in KINDS},
        unequal={kind: kinds[kind]["unequal"] for kind in KINDS},
    )
