"""Many probes on the same activations, solved at once for all layers.

Permutations, control tasks and folds ask for hundreds of trainings that differ in labels, in which items are
trained on or in where they begin, and in nothing else. Each is a column here: activations are read once for
all of them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from strataprobe.probes.training import _BETA1, _BETA2, _EPSILON, initial_probe, train

# Activations, weights and moments solved at once: what the caches of a core hold.
_CACHED_BYTES = 2**21
# Matrix products with fewer columns than this are slow.
_FEWEST_COLUMNS = 64


def solve_many(
    states: np.ndarray, labels: np.ndarray, used: np.ndarray, *, seed: int, settings: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Train one probe a layer and column, each as `probes.train` trains its `raw` probe.

    All columns start from the same initial weights, those the study's own probe has for this seed. With the
    solver "adam" all are solved in one batched loop; "logistic" has no batched form and is called once a
    column.

    Args:
        states: (layers, items, hidden) float32 activations.
        labels: (columns, items) of -1 or +1.
        used: (columns, items) booleans, the items a column is trained on; at least one each.
        seed: seeds the initial weights.
        settings: `solver`, `learning_rate`, `epochs`.

    Returns:
        (layers, hidden, columns) weights and (layers, 1, columns) biases, float32: the logits are
        states @ weights + biases.

    Raises:
        ProbeError: a column of the logistic solver with one class only.
    """
    if settings["solver"] != "adam":
        solved = [
            train(states[:, kept], own[kept], seed=seed, settings=settings)
            for own, kept in zip(labels, used, strict=True)
        ]
        weights = np.stack([trained.weights[0] for trained in solved], axis=-1)
        return weights, np.stack([trained.biases[0] for trained in solved], axis=-1)[:, None, :]
    layers, _, hidden = states.shape
    start = initial_columns(range(layers), hidden, [seed])
    weights = solve_adam(states, labels, used, start, settings)
    return weights[:, :hidden], weights[:, hidden:]


def initial_columns(layers: Sequence[int], hidden: int, seeds: Sequence[int]) -> np.ndarray:
    """(layers, hidden + 1, seeds) float32 initial weights, the bias last: those of `initial_probe`.

    Args:
        layers: the number of each layer; a layer's start does not depend on the others.
        seeds: one a column; equal ones are drawn once.
    """
    distinct, column = np.unique(np.asarray(seeds), return_inverse=True)
    drawn = [
        np.stack([initial_probe(layer, hidden, seed) for seed in distinct.tolist()], axis=1)
        for layer in layers
    ]
    return np.stack(drawn)[:, :, column]


def solve_adam(
    states: np.ndarray,
    labels: np.ndarray,
    used: np.ndarray,
    start: np.ndarray,
    settings: dict[str, Any],
) -> np.ndarray:
    """Adam probes of every layer and column, each from a start of its own.

    Args:
        states: (layers, items, hidden) float32 activations.
        labels: (columns, items) of -1 or +1.
        used: (columns, items) booleans, the items a column is trained on; at least one each.
        start: (layers, hidden + 1, columns) float32 weights, the bias last; with a last axis of 1, one for
            all columns.
        settings: `learning_rate`, `epochs`.

    Returns:
        (layers, hidden + 1, columns) float32 weights, the bias last.
    """
    layers, items, hidden = states.shape
    columns = len(labels)
    targets = (labels > 0).T.astype(np.float32)
    shares = (used.T / used.sum(axis=1)).astype(np.float32)
    weights = np.empty((layers, hidden + 1, columns), np.float32)
    weights[:] = start
    # An epoch goes twice through the activations, and through the weights, their moments and gradients.
    column_bytes = 4 * (4 * (hidden + 1) + 2 * items)
    wide = max(_FEWEST_COLUMNS, _CACHED_BYTES // column_bytes)
    wide = -(-columns // -(-columns // wide))  # parts of one size
    deep = max(1, _CACHED_BYTES // (4 * items * (hidden + 1) + wide * column_bytes))
    for layer in range(0, layers, deep):
        block = slice(layer, layer + deep)
        # The bias is the weight of a feature that is always 1.
        features = np.concatenate([states[block], np.ones((*states[block].shape[:2], 1), np.float32)], axis=2)
        for column in range(0, columns, wide):
            part = slice(column, column + wide)
            solved = np.ascontiguousarray(weights[block, :, part])
            _descend(features, targets[:, part], shares[:, part], solved, settings)
            weights[block, :, part] = solved
    return weights


def _descend(
    features: np.ndarray,
    targets: np.ndarray,
    shares: np.ndarray,
    weights: np.ndarray,
    settings: dict[str, Any],
) -> None:
    """All epochs, the weights (layers, features, columns) changed in place.

    torch's Adam with its sums kept undivided: M = sum beta1^(t-s) g_s and V = sum beta2^(t-s) g_s^2 are its
    moments over (1 - beta), and both factors go into the step's length and epsilon.

    Args:
        features: (layers, items, features) float32.
        targets, shares: (items, columns) 0 or 1, and each item's weight in the mean loss.
    """
    transposed = features.transpose(0, 2, 1)
    residual = np.empty((len(features), *targets.shape), np.float32)
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    step = np.empty_like(weights)  # the gradient, then what is made of it
    for epoch in range(1, settings["epochs"] + 1):
        np.matmul(features, weights, out=residual)
        _sigmoid(residual)
        residual -= targets
        residual *= shares
        np.matmul(transposed, residual, out=step)
        first *= np.float32(_BETA1)
        first += step
        second *= np.float32(_BETA2)
        step *= step
        second += step
        spread = np.sqrt((1 - _BETA2**epoch) / (1 - _BETA2))
        np.sqrt(second, out=step)
        step += np.float32(_EPSILON * spread)
        np.divide(first, step, out=step)
        step *= np.float32(settings["learning_rate"] * spread * (1 - _BETA1) / (1 - _BETA1**epoch))
        weights -= step


def _sigmoid(logits: np.ndarray) -> None:
    """1 / (1 + exp(-z)) in place; for very negative z, exp overflows to infinity and 0 is right."""
    np.negative(logits, out=logits)
    with np.errstate(over="ignore"):
        np.exp(logits, out=logits)
    logits += np.float32(1)
    np.reciprocal(logits, out=logits)


def accuracies(states: np.ndarray, labels: np.ndarray, weights: np.ndarray, biases: np.ndarray) -> np.ndarray:
    """(columns, layers) accuracy of each column's probes on its own labels; z > 0 is the positive class.

    Args:
        states: (layers, items, hidden) activations to test on.
        labels: (columns, items) of -1 or +1.
        weights, biases: as `solve_many` returns them.
    """
    positive = (states @ weights + biases) > 0  # (layers, items, columns)
    return (positive == (labels > 0).T[None]).mean(axis=1).T
