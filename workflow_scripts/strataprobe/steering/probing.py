"""Probes trained anew on states from which the classes were erased: did the erasure work?"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from strataprobe.probes.solve import initial_columns, solve_adam
from strataprobe.recoverability.folds import Folds
from strataprobe.steering import erasure


def refitted(
    states: np.ndarray,
    labels: np.ndarray,
    folds: Folds,
    *,
    layer: int,
    seed: int,
    training: Mapping[str, Any],
    heeded: np.ndarray | None = None,
    concept: np.ndarray | None = None,
) -> float:
    """How well the published probe tells classes apart, with or without something erased first.

    What is erased from held-out items is learnt from training items alone: an eraser that has seen an item
    makes the means of the others differ by just that item, and a probe is then wrong about it always.

    Args:
        states: (items, positions, hidden) float32.
        labels: (items,) of -1 or +1, what the probe is to tell.
        folds: which items are held out together.
        layer, seed: give the initial weights, fold k those of seed + stride x k.
        training: `learning_rate`, `epochs`.
        heeded: (items, positions) booleans: the states that are erased; all by default.
        concept: (items,) of -1 or +1, what is erased; None: nothing.

    Returns:
        Accuracy on the items held out.
    """
    heeded = np.ones(states.shape[:2], bool) if heeded is None else heeded
    right = np.zeros(len(labels), bool)
    for fold, (used, start) in enumerate(zip(folds.used, folds.seeds(seed), strict=True)):
        told = _told(states, heeded, concept, used)
        held = folds.held == fold
        logits = _logits(told, labels, used, layer, start, training)
        right[held] = (logits[held] >= 0) == (labels[held] > 0)
    return float(right.mean())


def _told(states: np.ndarray, heeded: np.ndarray, concept: np.ndarray | None, used: np.ndarray) -> np.ndarray:
    """(items, positions x hidden) float32 features, the concept erased as it is in the used items."""
    if concept is not None:
        erasers = erasure.fit_all(states[used], concept[used], heeded[used])
        states = erasure.erase(erasers, states, heeded)
    return np.ascontiguousarray(states.reshape(len(states), -1), np.float32)


def _logits(
    told: np.ndarray,
    labels: np.ndarray,
    used: np.ndarray,
    layer: int,
    seed: int,
    training: Mapping[str, Any],
) -> np.ndarray:
    """(items,) of a probe trained on the used ones. Each has features of its own, so each is a solve."""
    start = initial_columns([layer], told.shape[1], [seed])
    weights = solve_adam(told[None], labels[None], used[None], start, dict(training))[0, :, 0]
    return told @ weights[:-1] + weights[-1]
