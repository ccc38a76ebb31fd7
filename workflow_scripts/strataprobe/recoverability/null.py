"""Labellings that would be as likely if nothing were encoded, and what a maximum over them says.

Two of them, for two questions. `exchange_in_pairs`: were control not encoded, either member of a minimal pair
could as well have been the subject-control one. Twins keep opposite labels and classes their sizes, so what
biases leave-one-out below chance biases the null alike. The tie between a verb and its label is broken, so
this null says nothing of verb identity. `exchange_verbs`: all verbs of a balanced fold change their type
together, so every verb keeps one label for all its items, and twins their opposite ones. There are two
labellings a fold: few, where many verbs hang together.

Source: TRAPS 18 and 19; Phipson and Smyth (2010) for p.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from strataprobe.controls.null import p_values
from strataprobe.datasets.control import ControlItem
from strataprobe.datasets.lexemes import keyed_draws
from strataprobe.recoverability.folds import Folds

_QUANTILE = 95


def exchange_in_pairs(
    items: Sequence[ControlItem], labels: np.ndarray, permutations: int, seed: int
) -> np.ndarray:
    """(permutations, items) labels permuted within each minimal pair: kept or exchanged, equally often.

    Items that name no pair are permuted among themselves within their language. Permutation k depends on
    seed and k alone, not on how many there are.
    """
    draws = keyed_draws("exchange in pairs", seed, permutations * len(items)).reshape(permutations, -1)
    blocks: dict[tuple[str, str | None], list[int]] = {}
    for place, item in enumerate(items):
        blocks.setdefault((item.language, item.pair), []).append(place)
    permuted = np.empty(draws.shape, labels.dtype)
    for block in blocks.values():
        permuted[:, block] = labels[block][np.argsort(draws[:, block], axis=1, kind="stable")]
    return permuted


def exchange_verbs(balanced: Folds, labels: np.ndarray, permutations: int, seed: int) -> np.ndarray:
    """(permutations, items) labels turned round in each balanced fold as a whole, half of the time."""
    draws = keyed_draws("exchange of verbs", seed, permutations * len(balanced.names))
    signs = np.where(draws.reshape(permutations, -1) >> np.uint64(63), 1, -1)
    return labels * signs[:, balanced.held]


def beside_null(observed: int, best: np.ndarray, items: int) -> dict[str, Any]:
    """A maximum beside its null: `mean`, `quantile_95` and `p`, accuracies.

    Args:
        observed: right items of the observed labels, at the best (layer, mode).
        best: (permutations,) the same under permuted labels.
    """
    return {
        "observed": observed / items,
        "mean": float(best.mean()) / items,
        "quantile_95": float(np.percentile(best, _QUANTILE)) / items,
        "p": float(p_values(np.array(observed), best)),
        "permutations": len(best),
    }
