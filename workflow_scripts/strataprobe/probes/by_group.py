"""Probes of one group's pairs alone (foundation-specific probes), and the peak that chance would give them.

A group has few test sentences, and its peak is a maximum over layers: a peak of 0.7 on 16 sentences is what
chance gives. So beside each peak stands the distribution of a chance peak, by two ways.

Source: fragility paper, appendix A; field names from the reference's result files.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from strataprobe.errors import DatasetError, ProbeError, listing, numbered
from strataprobe.probes.scores import score, summarise
from strataprobe.probes.solve import accuracies, solve_many
from strataprobe.probes.store import Problem
from strataprobe.probes.training import train

_QUANTILE = 0.95


def measure(
    problem: Problem, groups: Sequence[str], *, seed: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """Train and score the probes of all layers, for each group by itself.

    A group's training and test items are those of the problem's split that belong to it.

    Args:
        problem: activations and split.
        groups: (items,) each item's group.
        seed: seeds initial weights (the same for every group, as in the problem's own probe) and flips.
        settings: the study's `probe` section, and `permutations` (0 leaves that estimate out).

    Returns:
        `foundation_layer_scores`: a list of {foundation, layer, accuracy, loss, n_pairs (of training)};
        `per_foundation_summary`: {group: {onset_layer, peak_layer, peak_accuracy, depth, breadth}};
        `chance_peak`: {group: {layers, test_items, independent, permutation}}, see `independent_peak` and
        `permuted_peaks`; a permutation estimate also has `p_value`, the share of peaks (the true labels'
        counted in) that reach the group's own; `chance_peak_pooled`: all groups' permuted peaks together.

    Raises:
        DatasetError: an item without a group, or groups too small to be probed; names all.
        ProbeError: non-finite activations, or a group whose probes cannot be trained.
    """
    refuse_groups(problem.labels, problem.pairs, groups, least=1, purpose="probes by group")
    _refuse_infinite(problem.states)
    member = np.asarray(groups, dtype=object)
    sides = {
        group: (problem.train[member[problem.train] == group], problem.test[member[problem.test] == group])
        for group in dict.fromkeys(groups)
    }
    _refuse_empty_sides(sides)
    scores, summaries, chance, pooled = [], {}, {}, []
    for group, (train_items, test_items) in sides.items():
        layers, summaries[group] = _one_group(problem, group, train_items, test_items, seed, settings)
        scores += layers
        peaks = permuted_peaks(
            problem, train_items, test_items, seed=group_key(seed, group), start=seed, settings=settings
        )
        pooled.append(peaks)
        chance[group] = {
            "layers": len(layers),
            "test_items": len(test_items),
            "independent": independent_peak(len(test_items), len(layers)),
            "permutation": _described(peaks, summaries[group]["peak_accuracy"]),
        }
    return {
        "foundation_layer_scores": scores,
        "per_foundation_summary": summaries,
        "chance_peak": chance,
        "chance_peak_pooled": _described(np.concatenate(pooled)),
    }


def metadata(settings: dict[str, Any]) -> dict[str, Any]:
    """What the reference keeps as this result's metadata, and how the probe was trained."""
    return {
        "solver": settings["solver"],
        "n_epochs": settings["epochs"],
        "lr": settings["learning_rate"],
        "onset_threshold": settings["onset_threshold"],
        "min_pairs_per_foundation": 2,
        "permutations": settings["permutations"],
        "conventions": settings["conventions"],
    }


def refuse_groups(
    labels: np.ndarray, pairs: np.ndarray, groups: Sequence[str], *, least: int, purpose: str
) -> None:
    """Refuse items whose groups cannot serve a measure by group.

    Args:
        labels: (items,) of -1 or +1.
        pairs: (items,) the index of each item's pair.
        groups: (items,) each item's group.
        least: how many groups the measure needs.
        purpose: the measure, for the message.

    Raises:
        DatasetError: items without a group, fewer groups than `least`, a group of one pair, a pair in two
            groups or without one of its halves; lists all faults.
    """
    bare = [item for item, group in enumerate(groups) if not (group and str(group).strip())]
    if bare:
        raise DatasetError(
            f"{purpose}: {len(bare)} of {numbered(len(groups), 'item')} have no group, "
            f"the first is item {bare[0]} (give every pair a 'group')"
        )
    of_pair: dict[int, set[str]] = {}
    sides: dict[int, set[int]] = {}
    for pair, group, label in zip(np.asarray(pairs).tolist(), groups, np.sign(labels).tolist(), strict=True):
        of_pair.setdefault(pair, set()).add(group)
        sides.setdefault(pair, set()).add(label)
    sizes = Counter(group for found in of_pair.values() for group in found)
    faults = []
    if len(sizes) < least:
        faults.append(f"there is only the group {_names(sizes)}; at least {least} groups are needed")
    faults += [
        f"group '{group}' has 1 pair (2 or more are needed, so that one can be held out)"
        for group, size in sizes.items()
        if size == 1
    ]
    faults += [f"pair {pair} is in {_names(sorted(f))} at once" for pair, f in of_pair.items() if len(f) > 1]
    faults += [f"pair {pair} has only one of its halves" for pair, found in sides.items() if len(found) < 2]
    if faults:
        raise DatasetError(listing(purpose, faults))


def _names(groups: Sequence[str] | Counter[str]) -> str:
    return ", ".join(f"'{group}'" for group in groups) or "(none)"


def _refuse_infinite(states: np.ndarray) -> None:
    bad = np.flatnonzero(~np.isfinite(states).all(axis=(1, 2)))
    if len(bad):
        raise ProbeError(
            f"layers {bad.tolist()}: activations are not finite; capture them again in float32 or bfloat16"
        )


def _refuse_empty_sides(sides: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    faults = [
        f"group '{group}' has {numbered(len(train_items) // 2, 'training pair')} and "
        f"{numbered(len(test_items) // 2, 'test pair')}; each side needs at least 1"
        for group, (train_items, test_items) in sides.items()
        if not (len(train_items) and len(test_items))
    ]
    if faults:
        raise DatasetError(listing("probes by group", faults))


def _one_group(
    problem: Problem,
    group: str,
    train_items: np.ndarray,
    test_items: np.ndarray,
    seed: int,
    settings: dict[str, Any],
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One dict a layer, and the group's summary over layers, in the reference's words."""
    trained = train(problem.states[:, train_items], problem.labels[train_items], seed=seed, settings=settings)
    found = score(trained.logits("raw", problem.states[:, test_items]), problem.labels[test_items])
    layers = [
        {
            "foundation": group,
            "layer": layer,
            "accuracy": float(accuracy),
            "loss": float(loss),
            "n_pairs": len(train_items) // 2,
        }
        for layer, (accuracy, loss) in enumerate(zip(found["accuracy"], found["loss"], strict=True))
    ]
    over = summarise(found["accuracy"], settings["onset_threshold"])
    summary = {key: over[key] for key in ("onset_layer", "peak_layer", "peak_accuracy")}
    summary["depth"] = over["moral_encoding_depth"]
    summary["breadth"] = over["moral_encoding_breadth"]
    return layers, summary


def independent_peak(test_items: int, layers: int) -> dict[str, float]:
    """Mean and 95 % quantile of the best of `layers` independent guessers on `test_items` sentences.

    Exact: the maximum of binomials(n, 1/2) / n. Layers of a model agree with each other, so their true
    chance peak lies lower.
    """
    mass = np.array([math.comb(test_items, right) for right in range(test_items + 1)], float) / 2**test_items
    below = np.cumsum(mass) ** layers  # chance that the best has at most so many right
    mean = np.diff(below, prepend=0.0) @ np.arange(test_items + 1) / test_items
    quantile = np.searchsorted(below, _QUANTILE) / test_items
    return {"mean": float(mean), "quantile_95": float(quantile)}


def permuted_peaks(
    problem: Problem,
    train_items: np.ndarray,
    test_items: np.ndarray,
    *,
    seed: int,
    start: int,
    settings: dict[str, Any],
) -> np.ndarray:
    """(permutations,) peaks over layers of the same probe when labels are flipped within pairs.

    Each permutation turns each pair's labels round with probability 1/2, training and test pairs alike.

    Args:
        seed: seeds the flips; permutation k does not depend on how many there are.
        start: seeds the initial weights.
    """
    count = settings["permutations"]
    if count == 0:
        return np.empty(0)
    items = np.concatenate([train_items, test_items])
    _, pair = np.unique(problem.pairs[items], return_inverse=True)
    rng = np.random.Generator(np.random.Philox(key=seed))
    flips = np.where(rng.integers(2, size=(count, int(pair.max()) + 1)), 1, -1)
    labels = problem.labels[items] * flips[:, pair]  # (permutations, items)
    known, held = labels[:, : len(train_items)], labels[:, len(train_items) :]
    states = problem.states[:, train_items]
    weights, biases = solve_many(states, known, np.ones(known.shape, bool), seed=start, settings=settings)
    return accuracies(problem.states[:, test_items], held, weights, biases).max(axis=1)


def _described(peaks: np.ndarray, observed: float | None = None) -> dict[str, Any] | None:
    """Mean and 95 % quantile of permuted peaks, and where an observed peak stands; None without any."""
    if len(peaks) == 0:
        return None
    described: dict[str, Any] = {
        "mean": float(peaks.mean()),
        "quantile_95": float(np.quantile(peaks, _QUANTILE, method="inverted_cdf")),
        "permutations": len(peaks),
    }
    if observed is not None:
        described["p_value"] = float((1 + (peaks >= observed - 1e-12).sum()) / (1 + len(peaks)))
    return described


def group_key(seed: int, group: str) -> int:
    """A generator's key of seed and group's name: groups of one size must not draw the same."""
    return seed | int.from_bytes(hashlib.sha256(group.encode()).digest()[:8], "little") << 64
