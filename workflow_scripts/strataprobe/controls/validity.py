"""A trained probe on other sentences: paraphrases of its test pairs, and an adversarial set.

Source: fragility paper, appendix C (paraphrase transfer, adversarial lexical swap).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from strataprobe.errors import DatasetError, listing
from strataprobe.probes.scores import _bootstrap_accuracy
from strataprobe.probes.store import Trained
from strataprobe.statistics import percentile_interval

_OTHER_SAMPLE = 2**64  # the second sample of a bootstrap draws from a stream of its own


def matched_items(wanted: Sequence[str], available: Sequence[str]) -> np.ndarray:
    """Where each wanted item's counterpart stands: (wanted,) indices into `available`.

    Raises:
        DatasetError: items without a counterpart; names all of them.
    """
    place = {item: index for index, item in enumerate(available)}
    faults = [f"'{item}' has no counterpart of the same id" for item in wanted if item not in place]
    if faults:
        raise DatasetError(listing("paraphrases are missing", faults))
    return np.array([place[item] for item in wanted], dtype=np.int64)


def paraphrase_transfer(
    trained: Trained,
    original_states: np.ndarray,
    paraphrase_states: np.ndarray,
    labels: np.ndarray,
    pairs: np.ndarray,
    replicates: int,
    seed: int,
    variant: str = "raw",
) -> dict[str, Any]:
    """Accuracy of a probe on paraphrases of its test pairs, beside that on the originals.

    The same pairs are drawn for both in each bootstrap replicate, so the interval of the difference is a
    paired one. The probe is not trained again.

    Args:
        trained: probes of all layers, trained on other pairs.
        original_states, paraphrase_states: (layers, items, hidden), item by item counterparts
            (`matched_items`).
        labels: (items,) of -1 or +1.
        pairs: (items,) pair of each item.
        replicates: bootstrap replicates.
        seed: seeds the bootstrap.
        variant: which probe of a layer.

    Returns:
        `layers` (layer, `original`, `accuracy` on the paraphrases, `accuracy_interval`, `difference` =
        accuracy - original, `difference_interval`, `agreement`: share of items on which both readings
        agree), `mean` over layers with the same fields, and `pairs`.

    Raises:
        ValueError: states, labels and pairs do not belong together.
    """
    if original_states.shape != paraphrase_states.shape:
        raise ValueError(f"originals are {original_states.shape}, paraphrases {paraphrase_states.shape}")
    original = _correct(trained, original_states, labels, pairs, variant)
    correct = _correct(trained, paraphrase_states, labels, pairs, variant)
    after = _bootstrap_accuracy(correct, pairs, replicates, seed)
    change = _bootstrap_accuracy(correct.astype(float) - original, pairs, replicates, seed)
    return _compared(original, correct, after, change, {"agreement": (original == correct).mean(axis=1)}) | {
        "pairs": len(np.unique(pairs))
    }


def adversarial_transfer(
    trained: Trained,
    original_states: np.ndarray,
    original_labels: np.ndarray,
    original_pairs: np.ndarray,
    states: np.ndarray,
    labels: np.ndarray,
    pairs: np.ndarray,
    groups: Sequence[str],
    replicates: int,
    seed: int,
    variant: str = "raw",
) -> dict[str, Any]:
    """Accuracy of a probe on sentences in which surface features say nothing of the label.

    Its sentences are not the originals' counterparts, so both samples of pairs are drawn independently for
    the interval of the difference.

    Args:
        trained: probes of all layers.
        original_states, original_labels, original_pairs: the probe's own test items.
        states, labels, pairs: the adversarial items, shaped alike.
        groups: (items,) what is decoupled in each item's pair.
        replicates, seed, variant: as in `paraphrase_transfer`.

    Returns:
        As `paraphrase_transfer`, without `agreement`; `original_pairs`; and `groups`: name to the same
        comparison for that group's items.

    Raises:
        ValueError: states, labels and pairs do not belong together.
    """
    original = _correct(trained, original_states, original_labels, original_pairs, variant)
    correct = _correct(trained, states, labels, pairs, variant)
    before = _bootstrap_accuracy(original, original_pairs, replicates, seed)

    def compare(chosen: np.ndarray) -> dict[str, Any]:
        after = _bootstrap_accuracy(correct[:, chosen], pairs[chosen], replicates, seed + _OTHER_SAMPLE)
        found = _compared(original, correct[:, chosen], after, after - before, {})
        return found | {"pairs": len(np.unique(pairs[chosen]))}

    named = np.asarray(groups)
    return compare(np.ones(len(labels), bool)) | {
        "original_pairs": len(np.unique(original_pairs)),
        "groups": {name: compare(named == name) for name in sorted(set(groups))},
    }


def _correct(
    trained: Trained, states: np.ndarray, labels: np.ndarray, pairs: np.ndarray, variant: str
) -> np.ndarray:
    """(layers, items) booleans."""
    if states.shape[0] != trained.weights.shape[1] or not states.shape[1] == len(labels) == len(pairs) > 0:
        raise ValueError(
            f"states are {states.shape}, for {trained.weights.shape[1]} layers, {len(labels)} labels and "
            f"{len(pairs)} pair indices"
        )
    return (trained.logits(variant, states) > 0) == (labels > 0)


def _compared(
    original: np.ndarray,
    correct: np.ndarray,
    after: np.ndarray,
    change: np.ndarray,
    further: dict[str, np.ndarray],
) -> dict[str, Any]:
    """Layer by layer and for the mean over layers; `after` and `change` are (replicates, layers)."""

    def row(layers: list[int]) -> dict[str, Any]:
        before, now = float(original[layers].mean()), float(correct[layers].mean())
        return {
            "original": before,
            "accuracy": now,
            "accuracy_interval": percentile_interval(after[:, layers].mean(axis=1)),
            "difference": now - before,
            "difference_interval": percentile_interval(change[:, layers].mean(axis=1)),
            **{name: float(values[layers].mean()) for name, values in further.items()},
        }

    every = list(range(len(original)))
    return {"layers": [{"layer": layer, **row([layer])} for layer in every], "mean": row(every)}
