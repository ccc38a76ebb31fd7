"""The layer with the largest lift, and what the largest of so many is worth."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from strataprobe.patching.donors import CORRECT, WRONG
from strataprobe.patching.effects import Effects
from strataprobe.statistics import finite

_DIGITS = 12  # equal lifts are equal in every replicate, whatever their sums' last bits


def peak(lift: np.ndarray, layers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Layer and size of the largest lift, row by row; of equals the lowest layer.

    Where no lift is above 0 there is no such layer: at the last block, say, it is 0 whatever the model does.

    Args:
        lift: (rows, layers), NaN where it does not exist.
        layers: (layers,) their numbers, rising.

    Returns:
        Two (rows,) arrays, NaN where there is none.
    """
    filled = np.where(np.isfinite(lift), lift.round(_DIGITS), -np.inf)
    best = filled.argmax(axis=1)
    largest = filled[np.arange(len(filled)), best]
    return np.where(largest > 0, layers[best], np.nan), np.where(np.isfinite(largest), largest, np.nan)


def null_of_largest(
    effects: Effects,
    groups: Sequence[str],
    masks: Mapping[str, np.ndarray],
    *,
    permutations: int,
    seed: int,
) -> dict[str, dict[str, Any]]:
    """How large the largest lift over layers is where a donor's own answer says nothing of what it does.

    Which donors are right is exchanged among the items of a language and type, for all targets and layers at
    once: a donor that turns every target stays one donor.

    Args:
        groups: (items,) within which donors are exchanged.
        masks: split -> (items,) booleans.

    Returns:
        Split -> `mean`, `quantile_95` and `p` (one-sided, the sample counted), None where no lift exists, and
        `permutations` (those in which one did).
    """
    rows = [
        _Shuffled(effects, _labels(effects.right, groups, seed, number)) for number in range(permutations)
    ]
    sample = _Shuffled(effects, effects.right)
    return {
        split: _judged(sample.largest(mask), [row.largest(mask) for row in rows])
        for split, mask in masks.items()
    }


def _labels(right: np.ndarray, groups: Sequence[str], seed: int, number: int) -> np.ndarray:
    """(items,) right and wrong, exchanged within groups; what has no answer keeps having none."""
    rng = np.random.Generator(np.random.Philox(key=[seed, number]))
    shuffled = right.copy()
    names = np.array(groups)
    for group in dict.fromkeys(groups):
        own = np.flatnonzero((names == group) & np.isfinite(right))
        shuffled[own] = right[rng.permutation(own)]
    return shuffled


class _Shuffled:
    """Lifts of each target where these donors count as right."""

    def __init__(self, effects: Effects, labels: np.ndarray) -> None:
        targets = np.concatenate([effects.targets[kind] for kind in (CORRECT, WRONG)])
        donors = np.concatenate([effects.donors[kind] for kind in (CORRECT, WRONG)])
        turned = np.concatenate(
            [effects.turned[kind].reshape(len(effects.places), -1) for kind in (CORRECT, WRONG)], axis=1
        )
        size = len(effects.right)
        shares, there = [], effects.wrong.copy()
        for value in (1, 0):
            own = labels[donors] == value
            count = np.bincount(targets[own], minlength=size)
            sums = [np.bincount(targets[own], weights=row[own], minlength=size) for row in turned]
            shares.append(np.array(sums) / np.maximum(count, 1))
            there &= count > 0
        self.lifts, self.there = shares[0] - shares[1], there

    def largest(self, mask: np.ndarray) -> float:
        """The largest mean lift over layers; NaN where no target of the split has both kinds."""
        chosen = self.there & mask
        if not chosen.any():
            return np.nan
        return float(self.lifts[:, chosen].mean(axis=1).max())


def _judged(sample: float, drawn: Sequence[float]) -> dict[str, Any]:
    known = np.array([value for value in drawn if np.isfinite(value)])
    if not np.isfinite(sample) or not len(known):
        return {"mean": None, "quantile_95": None, "p": None, "permutations": len(known)}
    reached = int((known >= sample - 10.0**-_DIGITS).sum())
    return {
        "mean": finite(known.mean()),
        "quantile_95": finite(np.quantile(known, 0.95)),
        "p": (1 + reached) / (1 + len(known)),
        "permutations": len(known),
    }
