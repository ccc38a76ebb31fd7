"""What selection and chance are worth, for every scheme of folds, by closed-form ridge."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from strataprobe.datasets.control import ControlItem
from strataprobe.recoverability import null, ridge
from strataprobe.recoverability.codings import Coding
from strataprobe.recoverability.folds import Folds
from strataprobe.recoverability.picks import as_texts

_OF_VERBS = ("verb_out", "balanced")


def closed_form(
    states: Mapping[str, np.ndarray],
    coding: Coding,
    schemes: Mapping[str, Folds],
    items: Sequence[ControlItem],
    masks: Mapping[str, np.ndarray],
    places: Sequence[dict[str, Any]],
    settings: Mapping[str, Any],
) -> dict[str, dict[str, Any]]:
    """Ridge accuracies, nested selection and null of each scheme.

    Args:
        states: position -> (layers, items, hidden).
        masks: split -> (items,) booleans.
        settings: `modes`, `ridge`, `permutations`, `seeds` (the first seeds the permutations).

    Returns:
        `ridge`: scheme -> mode -> accuracy a layer; `nested`: scheme -> `accuracy` by split, `correct` and
        the `picks` with how many folds made them; `null`: scheme -> the observed maximum over layers and
        modes beside its null, and `single`: mode -> the null's mean accuracy a layer.
    """
    modes = settings["modes"]
    residuals = ridge.residual_matrices(ridge.gram_matrices(states, coding.swapped, modes), settings["ridge"])
    found: dict[str, dict[str, Any]] = {"ridge": {}, "nested": {}, "null": {}}
    for name, folds in schemes.items():
        signs = coding.labels[:, None].astype(float)
        right = ridge.right(ridge.held_out_predictions(residuals, signs, folds), signs)[..., 0]
        found["ridge"][name] = {mode: right[:, k].mean(axis=-1).tolist() for k, mode in enumerate(modes)}
        selected = ridge.nested_selection(residuals, coding.labels, folds)
        chosen = Counter(zip(selected.layers.tolist(), selected.modes.tolist(), strict=True))
        found["nested"][name] = {
            "accuracy": {split: float(selected.correct[mask].mean()) for split, mask in masks.items()},
            "correct": as_texts(selected.correct[None])[0],
            "picks": [
                places[layer] | {"mode": modes[mode], "folds": folds_of}
                for (layer, mode), folds_of in chosen.most_common()
            ],
        }
        found["null"][name] = _null(residuals, right, coding, folds, schemes, items, places, settings)
    return found


def _null(
    residuals: np.ndarray,
    right: np.ndarray,
    coding: Coding,
    folds: Folds,
    schemes: Mapping[str, Folds],
    items: Sequence[ControlItem],
    places: Sequence[dict[str, Any]],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """The maximum of (layers, modes, items) right ones beside its null."""
    count, seed, modes = settings["permutations"], settings["seeds"][0], settings["modes"]
    if folds.name not in _OF_VERBS:
        exchange = "in pairs"
        permuted = null.exchange_in_pairs(items, coding.labels, count, seed)
    elif "balanced" in schemes:
        exchange = "of verbs"
        permuted = null.exchange_verbs(schemes["balanced"], coding.labels, count, seed)
    else:
        return {"refused": "no verbs to exchange: see why folds balanced in type are refused"}
    best, single = ridge.null_counts(residuals, permuted, folds)
    counts = right.sum(axis=-1)
    layer, mode = np.unravel_index(np.argmax(counts), counts.shape)
    return {
        "exchange": exchange,
        **places[layer],
        "mode": modes[mode],
        **null.beside_null(int(counts.max()), best, len(items)),
        "single": {name: (single[:, k] / len(items)).tolist() for k, name in enumerate(modes)},
    }
