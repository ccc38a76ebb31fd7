"""All controls on the probes of one (checkpoint, dataset, seed).

Source: fragility paper, appendix C; TRAPS 16 to 20; the measures' own sources in their modules.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from strataprobe import statistics
from strataprobe.controls.mdl import FRACTIONS, TEMPERATURES, codelengths
from strataprobe.controls.null import benjamini_hochberg, p_values, pair_flips
from strataprobe.controls.tasks import control_labels, item_types, seen_share, word_types
from strataprobe.datasets.lexemes import components, refuse_missing_words, split_by_lexeme
from strataprobe.errors import DatasetError
from strataprobe.probes.scores import _bootstrap_accuracy
from strataprobe.probes.solve import accuracies, solve_many
from strataprobe.probes.store import Problem
from strataprobe.statistics import finite

SETTINGS = ("permutations", "control_tasks", "code_orders", "false_discovery")
_NO_WORDS = "the dataset gives no contrast words (field 'contrast')"


def measure(
    problem: Problem,
    contrast: Sequence[Sequence[str]],
    *,
    seed: int,
    settings: dict[str, Any],
    groups: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Selectivity, permutation null, code length, false discoveries and the leave-lexeme-out split.

    The probe of every control is the study's: its solver, its settings, its initial weights for this seed,
    on activations as they are.

    Args:
        problem: activations and split.
        contrast: the contrast words of each pair, indexed by `problem.pairs`. If no pair has any, what
            needs words is null, with the reason.
        seed: seeds everything random, each by a key of its own.
        settings: `permutations`, `control_tasks`, `code_orders` (orders of the online code),
            `false_discovery` (rate q), and of the study's `probe` section `solver`, `learning_rate`,
            `epochs`, `test_fraction`, `bootstrap`.
        groups: (pairs,) what the leave-lexeme-out split is stratified by; None: by nothing.

    Returns:
        JSON-ready: `layers` (one dict a layer), `max` and `mean` over layers, `control`, `code`,
        `lexeme_split`, `settings`, and the numbers of pairs.

    Raises:
        DatasetError: some pairs have contrast words and others have none (named), or words that are not
            of these pairs.
        ProbeError: the probes cannot be trained on this input.
    """
    names = _pair_names(problem, contrast)
    worded = any(map(len, contrast))
    if worded:
        refuse_missing_words(contrast, names)
    control, description = _control(problem, contrast, seed, settings, worded)
    right = _accuracies(problem, control, seed, settings)
    count = 1 + settings["permutations"]
    observed, null, controlled = right[0], right[1:count], right[count:]
    code = _code(problem, seed, settings)
    rows = _layers(observed, null, controlled, settings)
    layers = [row | of_code for row, of_code in zip(rows, code, strict=True)]
    mean = _fields(observed.mean(), null.mean(axis=1), controlled.mean(axis=1))
    return {
        "layers": layers,
        "max": _fields(observed.max(), null.max(axis=1), controlled.max(axis=1)),
        "mean": mean | {"significant_layers": sum(row["significant"] for row in layers)},
        "control": description,
        "code": {
            "items": len(problem.labels),
            "fractions": list(FRACTIONS),
            "temperatures": list(TEMPERATURES),
        },
        "lexeme_split": _lexeme_split(problem, contrast, names, groups, seed, settings, worded),
        "train_pairs": len(problem.train) // 2,
        "test_pairs": len(problem.test) // 2,
        "settings": {name: settings[name] for name in SETTINGS} | {"solver": settings["solver"]},
    }


def _pair_names(problem: Problem, contrast: Sequence[Sequence[str]]) -> list[str]:
    """(pairs,) the dataset's id of each pair."""
    pairs = int(problem.pairs.max()) + 1
    if len(contrast) != pairs or len(set(problem.pairs.tolist())) != pairs:
        raise DatasetError(
            f"contrast words are given for {len(contrast)} pairs, the activations are of {pairs} "
            "(both must come from the same dataset)"
        )
    names = [""] * pairs
    for pair, item in zip(problem.pairs.tolist(), problem.ids, strict=True):
        names[pair] = item.rpartition(":")[0] or item
    return names


def _control(
    problem: Problem, contrast: Sequence[Sequence[str]], seed: int, settings: dict[str, Any], worded: bool
) -> tuple[np.ndarray, dict[str, Any]]:
    """(tasks, items) control labels, none without words, and how much of the control can be known."""
    nothing = np.empty((0, len(problem.labels)), int)
    if not worded:
        return nothing, {"refused": _NO_WORDS}
    types = item_types(word_types(contrast), problem.labels, problem.pairs)
    try:
        labels = control_labels(types, problem.train, settings["control_tasks"], seed)
    except DatasetError as error:
        return nothing, {"refused": str(error)}
    seen = seen_share(types, problem.train, problem.test)
    return labels, {"tasks": len(labels), "words": len(set(types)), "seen": seen, "ceiling": (1 + seen) / 2}


def _accuracies(problem: Problem, control: np.ndarray, seed: int, settings: dict[str, Any]) -> np.ndarray:
    """(1 + permutations + tasks, layers) on the true labels, the permuted ones, the control tasks'."""
    flips = pair_flips(int(problem.pairs.max()) + 1, settings["permutations"], seed)
    labels = np.concatenate([problem.labels[None], problem.labels * flips[:, problem.pairs], control])
    used = np.ones((len(labels), len(problem.train)), bool)
    solved = solve_many(problem.train_states, labels[:, problem.train], used, seed=seed, settings=settings)
    return accuracies(problem.test_states, labels[:, problem.test], *solved)


def _layers(
    observed: np.ndarray, null: np.ndarray, controlled: np.ndarray, settings: dict[str, Any]
) -> list[dict[str, Any]]:
    q = benjamini_hochberg(p_values(observed, null))
    return [
        {
            "layer": layer,
            "depth": layer / len(observed),
            **_fields(observed[layer], null[:, layer], controlled[:, layer]),
            "q": float(q[layer]),
            "significant": bool(q[layer] <= settings["false_discovery"]),
        }
        for layer in range(len(observed))
    ]


def _fields(observed: float, null: np.ndarray, controlled: np.ndarray) -> dict[str, float | None]:
    """An accuracy beside the same accuracy under (permutations,) permuted and (tasks,) control labels.

    Selectivity is accuracy minus the tasks' mean; `control_sd` their spread (ddof 1); `null_high` the 95 %
    quantile of the permutations.
    """
    control = float(controlled.mean()) if len(controlled) else None
    return {
        "accuracy": float(observed),
        "control_accuracy": control,
        "control_sd": finite(controlled.std(ddof=1)) if len(controlled) > 1 else None,
        "selectivity": None if control is None else float(observed) - control,
        "null_mean": float(null.mean()),
        "null_high": float(np.percentile(null, 95)),
        "p": float(p_values(observed, null)),
    }


def _code(problem: Problem, seed: int, settings: dict[str, Any]) -> list[dict[str, float]]:
    """One dict a layer; compression is the uniform code's bits, one an item, over the code's."""
    bits, own = codelengths(
        problem.states,
        problem.labels,
        problem.pairs,
        orders=settings["code_orders"],
        seed=seed,
        settings=settings,
    )
    return [
        {
            "codelength_bits": float(length),
            "probe_codelength_bits": float(plain),
            "compression": len(problem.labels) / float(length),
        }
        for length, plain in zip(bits, own, strict=True)
    ]


def _lexeme_split(
    problem: Problem,
    contrast: Sequence[Sequence[str]],
    names: Sequence[str],
    groups: Sequence[str] | None,
    seed: int,
    settings: dict[str, Any],
    worded: bool,
) -> dict[str, Any]:
    """Accuracy on pairs none of whose contrast words the probe has seen, or why there is none."""
    if not worded:
        return {"refused": _NO_WORDS, "accuracy": None, "test_pairs": 0}
    by = list(groups) if groups is not None else [""] * len(contrast)
    try:
        train, test = split_by_lexeme(contrast, by, seed, settings["test_fraction"], ids=names)
    except DatasetError as error:
        return {"refused": str(error), "accuracy": None, "test_pairs": 0}
    items = np.isin(problem.pairs, test)
    weights, biases = solve_many(
        problem.states, problem.labels[None], ~items[None], seed=seed, settings=settings
    )
    positive = (problem.states[:, items] @ weights + biases)[..., 0] > 0
    correct = positive == (problem.labels[items] > 0)
    replicates = _bootstrap_accuracy(correct, problem.pairs[items], settings["bootstrap"], seed)
    return {
        "refused": None,
        "accuracy": correct.mean(axis=1).tolist(),
        "interval": [statistics.percentile_interval(of_layer) for of_layer in replicates.T],
        "mean_accuracy": float(correct.mean()),
        "mean_interval": statistics.percentile_interval(replicates.mean(axis=1)),
        "train_pairs": len(train),
        "test_pairs": len(test),
        "largest_set": int(np.bincount(components(contrast)).max()),
        "test_groups": {name: [by[i] for i in test].count(name) for name in sorted(set(by)) if name},
    }
