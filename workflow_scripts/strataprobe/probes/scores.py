"""What a trained probe is worth: held-out scores by layer and the paper's summary of them.

Source: fragility paper, section 3.3; field names from its appendix E.6 (`LayerProbingResult`).
"""

from typing import Any

import numpy as np

from strataprobe import statistics
from strataprobe.probes.store import Problem, Trained
from strataprobe.probes.training import train


def score(logits: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    """Held-out scores of each layer.

    Args:
        logits: (layers, items) probe logits.
        labels: (items,) of -1 or +1.

    Returns:
        (layers,) arrays: `accuracy` (z > 0 is the positive class), `loss` (mean cross-entropy, nats; the
        reference's field), `log_loss` (the same in bits: 1 bit is chance), `auc`, `d_prime`.
    """
    positive = labels > 0
    nats = statistics.log_loss(logits, positive)
    return {
        "accuracy": ((logits > 0) == positive).mean(axis=-1),
        "loss": nats,
        "log_loss": nats / np.log(2),
        "auc": statistics.auc(logits, positive),
        "d_prime": statistics.d_prime(logits, positive),
    }


def measure(
    problem: Problem, *, seed: int, settings: dict[str, Any]
) -> tuple[Trained, list[dict[str, Any]], dict[str, Any]]:
    """Train and score the probes of all layers.

    Args:
        problem: activations and split.
        seed: seeds initial weights and bootstrap.
        settings: the study's `probe` section.

    Returns:
        The probes; one dict a layer (`LayerProbeScore` and our fields); the summary over layers.

    Raises:
        ProbeError: the probes cannot be trained on this input.
    """
    trained = train(problem.train_states, problem.labels[problem.train], seed=seed, settings=settings)
    logits = trained.logits("raw", problem.test_states)
    labels = problem.labels[problem.test]
    scores = score(logits, labels)
    correct = (logits > 0) == (labels > 0)
    replicates = _bootstrap_accuracy(correct, problem.pairs[problem.test], settings["bootstrap"], seed)
    layers = [
        {
            "layer": layer,
            "depth": layer / len(correct),
            **{name: _number(values[layer]) for name, values in scores.items()},
            "train_loss": float(trained.train_loss[0, layer]),
            "accuracy_interval": statistics.percentile_interval(replicates[:, layer]),
        }
        for layer in range(len(correct))
    ]
    summary = summarise(scores["accuracy"], settings["onset_threshold"])
    summary["mean_accuracy_interval"] = statistics.percentile_interval(replicates.mean(axis=1))
    summary["test_pair_accuracy"] = _by_pair(correct, problem.pairs[problem.test])
    summary["layer_scores"] = layers
    return trained, layers, summary


def summarise(accuracy: np.ndarray, onset_threshold: float) -> dict[str, Any]:
    """Onset layer, peak, depth and breadth of an accuracy profile.

    Onset is the first block with accuracy >= threshold; depth = onset / layers, 1 where there is none;
    breadth is the share of blocks at or above the threshold; the peak is the first of the best blocks.

    Source: fragility paper, section 3.3.
    """
    above = np.flatnonzero(accuracy >= onset_threshold)
    onset = int(above[0]) if len(above) else None
    return {
        "onset_layer": onset,
        "peak_layer": int(np.argmax(accuracy)),
        "peak_accuracy": float(accuracy.max()),
        "mean_accuracy": float(accuracy.mean()),
        "moral_encoding_depth": 1.0 if onset is None else onset / len(accuracy),
        "moral_encoding_breadth": len(above) / len(accuracy),
    }


def _bootstrap_accuracy(correct: np.ndarray, pairs: np.ndarray, replicates: int, seed: int) -> np.ndarray:
    """(replicates, layers) accuracy when test pairs are drawn with replacement."""
    _, member = np.unique(pairs, return_inverse=True)
    clusters = int(member.max()) + 1
    counts = statistics.cluster_counts(clusters, replicates, seed)[:, member]  # (replicates, items)
    return counts @ correct.T / counts.sum(axis=1, keepdims=True)


def _by_pair(correct: np.ndarray, pairs: np.ndarray) -> dict[str, list[Any]]:
    """Accuracy of each test pair over its halves and all layers, by the pair's place in the dataset.

    What a bootstrap over pairs of a whole trajectory needs of a checkpoint (onset intervals).
    """
    places, member = np.unique(pairs, return_inverse=True)
    right = np.bincount(member, correct.mean(axis=0)) / np.bincount(member)
    return {"pairs": places.tolist(), "accuracy": right.tolist()}


def _number(value: float) -> float | None:
    """A float, or None for NaN (JSON has no word for it)."""
    return None if np.isnan(value) else float(value)


def metadata(problem: Problem, settings: dict[str, Any]) -> dict[str, Any]:
    """What the reference keeps as a result's metadata, and how the states were pooled."""
    return {
        "solver": settings["solver"],
        "n_epochs": settings["epochs"],
        "lr": settings["learning_rate"],
        "onset_threshold": settings["onset_threshold"],
        "train_pairs": len(problem.train) // 2,
        "test_pairs": len(problem.test) // 2,
        "pooling": problem.pooling,
        "conventions": settings["conventions"],
    }
