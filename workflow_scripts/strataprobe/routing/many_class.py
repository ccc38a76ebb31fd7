"""The diagnostic on a probe of many classes of a pairs dataset, coarsened to a property.

The groups of the pairs (a moral foundation, a construction, a domain) are the classes of a probe on each
pair's positive sentence. In distribution it is cross-validated. Then each group is left out in turn and put
to the probe of the others: it is an item, its sentences are its stimuli, and a partition of the groups into
two sides says where it should go.

Source: lucky-defaults paper, section 5.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strataprobe import concentration
from strataprobe.concentration import Partition, Thresholds
from strataprobe.concentration.partition import partition_faults
from strataprobe.errors import DatasetError, listing, numbered
from strataprobe.probes.multinomial import predict
from strataprobe.routing.fits import solved, stratified_folds

_ROUTED = (
    "coarse_accuracy", "coarse_low", "coarse_high", "p_top_min", "p_top_mean", "max_share", "top_class",
    "hhi", "effective_targets", "side_mass", "verdict", "relabelling_p", "prototype_p",
)  # fmt: skip


@dataclass(frozen=True)
class Sentences:
    """The positive sentences, in the order of their ids.

    Attributes:
        rows: (sentences,) their places among the cache's items.
        names: the groups, sorted.
        group: (sentences,) which of them each belongs to.
    """

    rows: np.ndarray
    names: tuple[str, ...]
    group: np.ndarray

    @classmethod
    def of(cls, ids: Sequence[str], labels: np.ndarray, groups: Sequence[str]) -> "Sentences":
        rows = np.array(sorted(np.flatnonzero(labels > 0).tolist(), key=lambda row: ids[row]), int)
        own = [groups[row] for row in rows.tolist()]
        names = tuple(sorted(set(own)))
        return cls(rows, names, np.array([names.index(name) for name in own], int))

    def counts(self, predicted: np.ndarray) -> np.ndarray:
        """(layers, groups, classes) sentences of each group by class predicted, (layers, sentences)."""
        classes = len(self.names)
        return concentration.counted(self.group, predicted, item_count=classes, class_count=classes)


def many_class_rows(
    states: np.ndarray,
    ids: Sequence[str],
    labels: np.ndarray,
    groups: Sequence[str],
    *,
    name: str,
    dataset: str = "",
    partition: Partition,
    settings: Mapping[str, Any],
    thresholds: Thresholds,
    workers: int = 1,
) -> list[dict[str, Any]]:
    """One row a layer: the probe in distribution, and where it routes groups that it has never seen.

    One sentence of each pair is used, so no pair stands on both sides of a fold.

    Args:
        states: (layers, items, hidden) activations.
        ids: (items,) a name each.
        labels: (items,) of -1 or +1.
        groups: (items,) each item's group.
        name: of the partition.
        dataset: whose groups they are, for errors.
        partition: of the groups.
        settings: `C`, `tolerance`, `max_iterations`; `folds`; `bootstrap` (replicates over groups); `seed`.
        thresholds: of the gate.
        workers: layers solved at a time.

    Returns:
        `partition`, `layer`, `depth`, `classes`, `items` (both the number of groups), `stimuli` (sentences);
        `class_accuracy`, `property_accuracy`, `in_p_top_min`, `in_p_top_mean` in distribution; of the routing
        of groups left out the columns of `concentration.described`.

    Raises:
        DatasetError: a partition that does not fit the groups, or groups too few or too small; names all.
        ProbeError: non-finite states, or no convergence.
    """
    sentences = Sentences.of(ids, labels, groups)
    _refuse(
        sentences,
        partition,
        settings["folds"],
        f"partition '{name}'" + (f" of '{dataset}'" if dataset else ""),
    )
    inside, routed = _predictions(states[:, sentences.rows], sentences, settings, workers)
    classes = len(sentences.names)
    side = partition.numbers(sentences.names)
    right = side[inside] == side[sentences.group]
    within = concentration.measure(sentences.counts(inside), side, side)
    described = concentration.described(
        sentences.counts(routed),
        sentences.names,
        side,
        side,
        thresholds=thresholds,
        property_accuracy=right.mean(axis=1),
        replicates=settings["bootstrap"],
        seed=settings["seed"],
    )
    return [
        {
            "partition": name,
            "layer": layer,
            "depth": layer / len(states),
            "classes": classes,
            "items": classes,
            "stimuli": len(sentences.rows),
            "class_accuracy": float((inside[layer] == sentences.group).mean()),
            "property_accuracy": float(right[layer].mean()),
            "in_p_top_min": float(within.p_top_min[layer]),
            "in_p_top_mean": float(within.p_top_mean[layer]),
            **{column: one[column] for column in _ROUTED},
        }
        for layer, one in enumerate(described)
    ]


def _refuse(sentences: Sentences, partition: Partition, folds: int, what: str) -> None:
    sizes = np.bincount(sentences.group, minlength=len(sentences.names)).tolist()
    faults = partition_faults(partition.sides, partition.of, sentences.names, noun="group")
    strange = sorted(set(partition.of) - set(sentences.names))
    faults += [f"group '{group}' is on a side, but no pair is of it" for group in strange]
    faults += [
        f"group '{group}' has {numbered(size, 'pair')}, fewer than the {folds} folds of cross-validation"
        for group, size in zip(sentences.names, sizes, strict=True)
        if size < folds
    ]
    for side in partition.sides:
        own = [group for group in sentences.names if partition.of.get(group) == side]
        if len(own) == 1:
            faults.append(
                f"side '{side}' has the group '{own[0]}' alone: with it left out, no class is on that side"
            )
    if faults:
        raise DatasetError(listing(what, faults))


def _predictions(
    states: np.ndarray, sentences: Sentences, settings: Mapping[str, Any], workers: int
) -> tuple[np.ndarray, np.ndarray]:
    """(layers, sentences) classes, by the probes without a sentence's fold and those without its group."""
    fold = stratified_folds(sentences.group, settings["folds"], settings["seed"])
    out = np.concatenate(
        [
            fold == np.arange(settings["folds"])[:, None],
            sentences.group == np.arange(len(sentences.names))[:, None],
        ]
    )
    classes = len(sentences.names)
    coefficients, intercepts = solved(
        states, sentences.group, classes, ~out, settings, f"{classes} groups", workers
    )
    found = np.empty((2, *states.shape[:2]), int)
    for fit, own in enumerate(out):
        which = 0 if fit < settings["folds"] else 1
        found[which][:, own] = predict(states[:, own], coefficients[:, fit], intercepts[:, fit])
    return found[0], found[1]
