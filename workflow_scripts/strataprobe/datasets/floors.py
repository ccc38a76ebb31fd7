"""Lexical floors: how far surface features alone separate the two sides of a dataset of pairs.

Source: fragility paper, section 3.2 and appendix D.2; the formulas: docs/methods.md.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from strataprobe.datasets.bags import Bags
from strataprobe.datasets.floor_scores import Features, Fold, Task, floor, pair_folds
from strataprobe.datasets.mirrors import contrast_balance, length_cause, words_cause
from strataprobe.datasets.pairs import PairsDataset
from strataprobe.datasets.quality import count_words
from strataprobe.datasets.splits import split_pairs
from strataprobe.datasets.vectors import Vectors
from strataprobe.errors import DatasetError, listing, numbered

# In how many training sentences a form must stand: over a whole dataset, and within one group.
_MIN_DF, _MIN_DF_IN_A_GROUP = 2, 1


def measure(
    dataset: PairsDataset, *, seeds: Sequence[int], settings: dict[str, Any], test_fraction: float = 0.2
) -> dict[str, Any]:
    """All floors of a dataset that need no model.

    Args:
        dataset: the pairs.
        seeds: of the probes' own splits.
        settings: `folds`, `bootstrap`, `max_iter`, and `characters` (shortest and longest run).
        test_fraction: the probes' share of test pairs.

    Returns:
        Floors (see `floor`) by kind, `unigrams`, `characters` and `length` (words): `whole` {kind},
        `groups` {group: {kind}}, `own_split` {seed: {kind}} with the test pairs' `groups` inside, and
        `transfer` {kind: {groups: {held-out group}, mean_accuracy, mean_floor}} without `length`, or None
        for a dataset of one group. `contrast`: {whole, groups: {group}} of `contrast_balance`.

    Raises:
        DatasetError: groups with fewer pairs than folds, an empty vocabulary; lists all.
    """
    texts = dataset.items().texts
    kinds: dict[str, Features] = {
        "unigrams": Bags.words(texts),
        "characters": Bags.characters(texts, *settings["characters"]),
        "length": Vectors.of(np.array([count_words(text) for text in texts]), len(texts), "length in words"),
    }
    plan = _plan(dataset, kinds, seeds, test_fraction, settings)
    bags = {kind: features for kind, features in kinds.items() if isinstance(features, Bags)}
    plan["transfer"] = _transfer_plan(dataset, bags) if len(set(dataset.groups)) > 1 else {}
    found = _solve(dataset, plan, settings)
    return found | {
        "transfer": {kind: _over_groups(groups) for kind, groups in found["transfer"].items()} or None,
        "contrast": {"whole": contrast_balance(dataset.pairs), "groups": _contrast_by_group(dataset)},
    }


def _contrast_by_group(dataset: PairsDataset) -> dict[str, Any]:
    return {
        group: contrast_balance([pair for pair in dataset.pairs if pair.group == group])
        for group in dict.fromkeys(dataset.groups)
    }


def model_floors(
    dataset: PairsDataset,
    token_counts: np.ndarray,
    embedding_states: np.ndarray | None,
    *,
    settings: dict[str, Any],
    seeds: Sequence[int] = (),
    test_fraction: float = 0.2,
) -> dict[str, Any]:
    """The floors of a dataset that a model's tokenizer and embedding layer give.

    Args:
        dataset: the pairs.
        token_counts: (items,) the model's tokens of each sentence.
        embedding_states: (items, hidden) pooled states that enter the first block; None leaves them out.
        settings, seeds, test_fraction: as in `measure`; `characters` is not read.

    Returns:
        Floors by kind, `tokens` and `embedding`: `whole`, `groups` and `own_split`, as in `measure`.

    Raises:
        DatasetError: arrays that do not fit the dataset, states that are not finite, groups with fewer
            pairs than folds.
    """
    items = 2 * len(dataset.pairs)
    kinds: dict[str, Features] = {"tokens": Vectors.of(token_counts, items, "length in tokens")}
    if embedding_states is not None:
        kinds["embedding"] = Vectors.of(embedding_states, items, "states of the embedding layer")
    return _solve(dataset, _plan(dataset, kinds, seeds, test_fraction, settings), settings)


def leave_group_out(dataset: PairsDataset, features: Features, *, settings: dict[str, Any]) -> dict[str, Any]:
    """Train on all groups but one and test on that one, for each group.

    Returns:
        `groups` {held-out group: see `floor`}, `mean_accuracy` (the published kind: raw) and `mean_floor`.

    Raises:
        DatasetError: a dataset of one group, or an empty vocabulary.
    """
    if len(set(dataset.groups)) < 2:
        raise DatasetError(
            f"dataset '{dataset.name}': transfer needs at least 2 groups, and all of its pairs are of group "
            f"'{dataset.groups[0]}' (field 'group' names what is held out)"
        )
    return _over_groups(_solve(dataset, _transfer_plan(dataset, {"": features}), settings)[""])


def gate(probe_accuracy: float, floor: float, margin: float = 0.10) -> dict[str, Any]:
    """Validation gate: the probe beats its floor by at least `margin`.

    Source: fragility paper, section 3.3.
    """
    lift = probe_accuracy - floor
    # 0.73 - 0.63 is a hair below 0.10.
    return {
        "probe_accuracy": probe_accuracy,
        "floor": floor,
        "margin": margin,
        "lift": lift,
        "passed": bool(lift >= margin - 1e-9),
    }


def _plan(
    dataset: PairsDataset,
    kinds: dict[str, Features],
    seeds: Sequence[int],
    test_fraction: float,
    settings: dict[str, Any],
) -> dict[str, Any]:
    """The tasks of `whole`, `groups` and `own_split`, nested as their results will be."""
    _refuse_small_groups(dataset, settings["folds"])
    items = dataset.items()
    groups = np.array(items.groups)

    def tasks(name: str, folds: list[Fold], min_df: int, by: np.ndarray | None = None) -> dict[str, Task]:
        return {
            kind: Task(name, features, items.labels, items.pairs, folds, min_df, by)
            for kind, features in kinds.items()
        }

    def crossed(rows: np.ndarray) -> list[Fold]:
        return pair_folds(items.pairs, rows, settings["folds"])

    def own(seed: int) -> list[Fold]:
        train, test = split_pairs(dataset.groups, seed, test_fraction)
        return [tuple(np.flatnonzero(np.isin(items.pairs, side)) for side in (train, test))]

    return {
        "whole": tasks("all pairs", crossed(np.arange(len(groups))), _MIN_DF),
        "groups": {
            group: tasks(f"group '{group}'", crossed(np.flatnonzero(groups == group)), _MIN_DF_IN_A_GROUP)
            for group in dict.fromkeys(items.groups)
        },
        "own_split": {
            str(seed): tasks(f"test pairs of seed {seed}", own(seed), _MIN_DF, groups) for seed in seeds
        },
    }


def _transfer_plan(dataset: PairsDataset, kinds: dict[str, Features]) -> dict[str, dict[str, Task]]:
    """kind -> held-out group -> its task."""
    items = dataset.items()
    groups = np.array(items.groups)

    def task(features: Features, group: str) -> Task:
        fold = np.flatnonzero(groups != group), np.flatnonzero(groups == group)
        return Task(f"transfer to '{group}'", features, items.labels, items.pairs, [fold], _MIN_DF)

    return {
        kind: {group: task(features, group) for group in dict.fromkeys(items.groups)}
        for kind, features in kinds.items()
    }


def _refuse_small_groups(dataset: PairsDataset, folds: int) -> None:
    faults = [
        f"group '{group}' has {numbered(size, 'pair')}, and {folds} folds by pair need at least {folds}"
        for group, size in Counter(dataset.groups).items()
        if size < folds
    ]
    if faults:
        raise DatasetError(listing(f"dataset '{dataset.name}': no lexical floor", faults))


def _solve(dataset: PairsDataset, plan: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The plan with each task replaced by its floor, once none of them has a fault."""
    faults = [fault for task in _leaves(plan) for fault in task.faults()]
    if faults:
        raise DatasetError(listing(f"dataset '{dataset.name}': no lexical floor", faults))
    return _replaced(
        plan, lambda task: floor(task, settings=settings, cause=partial(_likely_cause, dataset, task))
    )


def _leaves(plan: dict[str, Any]) -> Iterator[Task]:
    for value in plan.values():
        if isinstance(value, Task):
            yield value
        else:
            yield from _leaves(value)


def _replaced(plan: dict[str, Any], by: Callable[[Task], dict[str, Any]]) -> dict[str, Any]:
    return {
        name: by(value) if isinstance(value, Task) else _replaced(value, by) for name, value in plan.items()
    }


def _likely_cause(dataset: PairsDataset, task: Task) -> str:
    rows = np.unique(np.concatenate(task.folds[0]))
    if isinstance(task.features, Vectors) and task.features.values.shape[1] == 1:
        return length_cause(task.features.values[rows, 0], task.labels[rows], task.pairs[rows])
    return words_cause([dataset.pairs[pair] for pair in np.unique(task.pairs[rows])])


def _over_groups(groups: dict[str, Any]) -> dict[str, Any]:
    return {
        "groups": groups,
        "mean_accuracy": float(np.mean([found["accuracy"] for found in groups.values()])),
        "mean_floor": float(np.mean([found["floor"] for found in groups.values()])),
    }
