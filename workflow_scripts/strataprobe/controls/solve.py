"""Many labellings of the same activations, solved at once for all layers.

A control asks for hundreds of trainings that differ in labels, or in which items are trained on, and in
nothing else. Each is a column here: activations are read once for all of them.
"""

from typing import Any

import numpy as np

from strataprobe.probes.training import _CACHED_BYTES, _adam_step, _sigmoid, initial_weights, train


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
    layers, items, hidden = states.shape
    targets = (labels > 0).T.astype(np.float32)
    shares = (used.T / used.sum(axis=1)).astype(np.float32)
    start, offset = initial_weights(layers, hidden, seed)
    # An epoch reads the activations twice, and the weights with their moments: what the caches hold.
    together = 4 * (items * hidden + len(labels) * (5 * hidden + 2 * items))
    size = max(1, _CACHED_BYTES // together)
    blocks = [slice(first, first + size) for first in range(0, layers, size)]
    solved = [_adam(states[b], targets, shares, start[b], offset[b], settings) for b in blocks]
    weights, biases = (np.concatenate(parts) for parts in zip(*solved, strict=True))
    return weights, biases


def _adam(
    states: np.ndarray,
    targets: np.ndarray,
    shares: np.ndarray,
    start: np.ndarray,
    offset: np.ndarray,
    settings: dict[str, Any],
) -> tuple[np.ndarray, np.ndarray]:
    """These layers and all columns in one loop over epochs, with the step of `probes.training`.

    Args:
        targets, shares: (items, columns) 0 or 1, and each item's weight in the mean loss.
    """
    columns = targets.shape[1]
    weights = np.repeat(start[:, :, None], columns, axis=2)  # (layers, hidden, columns)
    biases = np.repeat(offset[:, None, None], columns, axis=2)  # (layers, 1, columns)
    transposed = states.transpose(0, 2, 1)
    moments = [np.zeros_like(part) for part in (weights, weights, biases, biases)]
    for step in range(1, settings["epochs"] + 1):
        residual = _sigmoid(states @ weights + biases)
        residual -= targets
        residual *= shares
        gradients = transposed @ residual, residual.sum(axis=1, keepdims=True)
        _adam_step(weights, gradients[0], moments[0], moments[1], step, settings["learning_rate"])
        _adam_step(biases, gradients[1], moments[2], moments[3], step, settings["learning_rate"])
    return weights, biases


def accuracies(states: np.ndarray, labels: np.ndarray, weights: np.ndarray, biases: np.ndarray) -> np.ndarray:
    """(columns, layers) accuracy of each column's probes on its own labels; z > 0 is the positive class.

    Args:
        states: (layers, items, hidden) activations to test on.
        labels: (columns, items) of -1 or +1.
        weights, biases: as `solve_many` returns them.
    """
    positive = (states @ weights + biases) > 0  # (layers, items, columns)
    return (positive == (labels > 0).T[None]).mean(axis=1).T
