"""Leave-group-out transfer, decodability in distribution and within each group, for all layers at once.

Every probe is scikit-learn's `StandardScaler` and `LogisticRegression` on some of the pairs (see `solver`);
both halves of a pair stand on the same side. Pairs are dealt to folds in turn within each group, so folds
are balanced in groups, and the training folds of a held-out fold are the inner folds among which a layer is
chosen without it.

Source: fragility paper, sections 3.2 and 4.1 (1b); DEFINITIONS, transfer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strataprobe import statistics
from strataprobe.probes.by_group import refuse_groups
from strataprobe.transfer.sample import Sample
from strataprobe.transfer.solver import refuse_infinite, solve


def measure(
    states: np.ndarray,
    labels: np.ndarray,
    pairs: np.ndarray,
    groups: Sequence[str],
    *,
    settings: dict[str, Any],
) -> dict[str, Any]:
    """Transfer between groups, and decodability over all pairs and within each group.

    Two conventions, by name: `default` chooses the layer by cross-validation on the training groups;
    `published` takes the best layer on the held-out group itself, which is optimistic. Ties go to the
    earlier layer. Intervals resample pairs within groups and choose the layer anew in every replicate;
    probes are not trained anew.

    Args:
        states: (layers, items, hidden) activations.
        labels: (items,) of -1 or +1.
        pairs: (items,) the index of each item's pair.
        groups: (items,) each item's group.
        settings: `C`, `max_iterations`, `folds` (of cross-validation), `bootstrap` (replicates), `seed` (of
            the bootstrap), `singled_out` (groups to repeat by themselves; those not here are passed over).

    Returns:
        `pairs`: {group: how many}, the bootstrap's clusters;
        `transfer`: {`default`, `published`: {mean, interval, groups: {group: {accuracy, layer, interval}},
        singled_out}, `by_layer`: {held-out group: [accuracy]}, `choice_by_layer`: {held-out group:
        [cross-validated accuracy on the others]}};
        `in_distribution`: {by_layer, best_layer, accuracy, interval (of the best layer, so optimistic),
        selected: {accuracy, interval, layers}: the layer chosen inside each fold; None with 2 folds};
        `within_group`: {group: {by_layer, best, layer, interval, whole_set_layer, at_whole_set_layer}}.

    Raises:
        DatasetError: items without groups, one group only, a group of one pair; names all.
        ProbeError: non-finite activations.
    """
    refuse_groups(labels, pairs, groups, least=2, purpose="transfer between groups")
    refuse_infinite(states)
    sample = Sample.of(labels, pairs, groups, settings)
    hits = _between(states, sample, settings)
    whole = _in_distribution(hits, sample)
    return {
        "pairs": {name: int(sample.members(name).sum()) for name in sample.names},
        "transfer": _transfer(hits, sample, settings["singled_out"]),
        "in_distribution": whole,
        "within_group": _within(states, sample, whole["best_layer"], settings),
    }


@dataclass(frozen=True)
class _Hits:
    """Right answers of held-out pairs, by what was left out of training.

    Attributes:
        without_group: {group: (layers, pairs)}, trained on all other groups.
        without_fold: {fold: (layers, pairs)}, trained on all other folds.
        without_both: {(group, fold): (layers, pairs)}, on the other groups' other folds.
        without_two: {(fold, fold): (layers, pairs)}, on all folds but these; in both orders.
    """

    without_group: dict[str, np.ndarray]
    without_fold: dict[int, np.ndarray]
    without_both: dict[tuple[str, int], np.ndarray]
    without_two: dict[tuple[int, int], np.ndarray]


def _between(states: np.ndarray, sample: Sample, settings: dict[str, Any]) -> _Hits:
    """All probes that train on pairs of several groups, in one solve."""
    numbers = [k for k in range(sample.folds) if (sample.fold == k).any()]
    plan: dict[Any, np.ndarray] = {}
    for name in sample.names:
        plan[name] = ~sample.members(name)
        plan |= {(name, k): ~sample.members(name) & (sample.fold != k) for k in numbers}
    plan |= {k: sample.fold != k for k in numbers}
    # With two folds, nothing is left to train on.
    two = [(k, j) for k in numbers for j in numbers if k < j and len(numbers) > 2]
    plan |= {(k, j): (sample.fold != k) & (sample.fold != j) for k, j in two}
    train = np.stack(list(plan.values()))
    hits = sample.hits(_logits(states, sample, train, settings))
    found = dict(zip(plan, np.moveaxis(hits, 1, 0), strict=True))
    return _Hits(
        without_group={name: found[name] for name in sample.names},
        without_fold={k: found[k] for k in numbers},
        without_both={(name, k): found[name, k] for name in sample.names for k in numbers},
        without_two={(k, j): found[pair] for pair in two for k, j in (pair, pair[::-1])},
    )


def _logits(states: np.ndarray, sample: Sample, train: np.ndarray, settings: dict[str, Any]) -> np.ndarray:
    """(layers, fits, items) logits; train: (fits, pairs) booleans."""
    solved = solve(
        states,
        sample.labels,
        train[:, sample.pair],
        C=settings["C"],
        max_iterations=settings["max_iterations"],
    )
    return solved.logits


def _transfer(hits: _Hits, sample: Sample, singled_out: Sequence[str]) -> dict[str, Any]:
    """Both conventions, and every layer of every held-out group."""
    choices = {
        name: _gathered({k: found for (g, k), found in hits.without_both.items() if g == name}, sample)
        for name in sample.names
    }
    published = {name: (found, sample.members(name)) for name, found in hits.without_group.items()}
    default = {name: (found, ~sample.members(name)) for name, found in choices.items()}
    return {
        "default": _convention(default, hits, sample, singled_out),
        "published": _convention(published, hits, sample, singled_out),
        "by_layer": {
            name: sample.by_layer(found, sample.members(name)) for name, found in hits.without_group.items()
        },
        "choice_by_layer": {
            name: sample.by_layer(found, ~sample.members(name)) for name, found in choices.items()
        },
    }


def _convention(
    chosen_by: dict[str, tuple[np.ndarray, np.ndarray]],
    hits: _Hits,
    sample: Sample,
    singled_out: Sequence[str],
) -> dict[str, Any]:
    """Transfer to each group at the layer that is best by (hits, pairs that count in them)."""
    groups, replicates = {}, []
    for name, (choose, chosen) in chosen_by.items():
        tested = sample.members(name)
        layer, found = sample.picked(choose, chosen, hits.without_group[name], tested)
        accuracy = found / sample.total(tested)
        replicates.append(accuracy)
        groups[name] = {
            "accuracy": float(accuracy[0]),
            "layer": int(layer[0]),
            "interval": statistics.percentile_interval(accuracy[1:]),
        }
    mean = np.mean(replicates, axis=0)
    return {
        "mean": float(mean[0]),
        "interval": statistics.percentile_interval(mean[1:]),
        "groups": groups,
        "singled_out": {name: groups[name] for name in singled_out if name in groups},
    }


def _gathered(by_fold: dict[int, np.ndarray], sample: Sample) -> np.ndarray:
    """(layers, pairs) hits of each pair by the probes that did not train on its fold; others are 0."""
    gathered = np.zeros_like(next(iter(by_fold.values())))
    for fold, found in by_fold.items():
        gathered[:, sample.fold == fold] = found[:, sample.fold == fold]
    return gathered


def _in_distribution(hits: _Hits, sample: Sample) -> dict[str, Any]:
    """Cross-validated over all pairs: every layer, the best one, and a layer chosen inside the folds."""
    everyone = np.ones(len(sample.fold), bool)
    gathered = _gathered(hits.without_fold, sample)
    layer, found = sample.picked(gathered, everyone, gathered, everyone)
    accuracy = found / sample.total(everyone)
    return {
        "by_layer": sample.by_layer(gathered, everyone),
        "best_layer": int(layer[0]),
        "accuracy": float(accuracy[0]),
        "interval": statistics.percentile_interval(accuracy[1:]),
        "selected": _selected(hits, sample),
    }


def _selected(hits: _Hits, sample: Sample) -> dict[str, Any] | None:
    """Nested cross-validation: a fold is tested at the layer that is best among the other folds."""
    if not hits.without_two:
        return None
    right, layers = np.zeros(len(sample.counts)), []
    for fold, test in hits.without_fold.items():
        inner = {j: found for (k, j), found in hits.without_two.items() if k == fold}
        held = sample.fold == fold
        layer, found = sample.picked(_gathered(inner, sample), ~held, test, held)
        right += found
        layers.append(int(layer[0]))
    accuracy = right / sample.total(np.ones(len(sample.fold), bool))
    return {
        "accuracy": float(accuracy[0]),
        "interval": statistics.percentile_interval(accuracy[1:]),
        "layers": layers,
    }


def _within(
    states: np.ndarray, sample: Sample, whole_set_layer: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """Cross-validated within each group, on its pairs alone."""
    within = {}
    for name in sample.names:
        part = sample.only(name)
        numbers = sorted(set(part.fold.tolist()))
        train = np.stack([part.fold != k for k in numbers])
        hits = part.hits(_logits(states[:, sample.members(name)[sample.pair]], part, train, settings))
        gathered = _gathered({k: hits[:, place] for place, k in enumerate(numbers)}, part)
        everyone = np.ones(len(part.fold), bool)
        layer, found = part.picked(gathered, everyone, gathered, everyone)
        by_layer = part.by_layer(gathered, everyone)
        accuracy = found / part.total(everyone)
        within[name] = {
            "by_layer": by_layer,
            "best": float(accuracy[0]),
            "layer": int(layer[0]),
            "interval": statistics.percentile_interval(accuracy[1:]),
            "whole_set_layer": whole_set_layer,
            "at_whole_set_layer": by_layer[whole_set_layer],
        }
    return within
