"""Verb-out: does a probe know control, or the verbs it has seen?

Source: levels paper, appendix H; DEFINITIONS, verb-out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from strataprobe.recoverability.picks import as_texts, spread

CLEAN, PARTIAL, LEAKAGE = "clean", "partial", "leakage-dominant"
UNSTABLE, NOTHING = "unstable", "learned nothing"


def verdict(gap: float, item_out: float, settings: Mapping[str, float]) -> str:
    """What a gap between item-out and verb-out accuracy says.

    |gap| < `clean_gap`: "clean", or "learned nothing" where item-out is below `least_item_out`; from there on
    "partial", from `leak_gap` on "leakage-dominant"; -`clean_gap` or less: "unstable".
    """
    if gap <= -settings["clean_gap"]:
        return UNSTABLE
    if gap >= settings["leak_gap"]:
        return LEAKAGE
    if gap >= settings["clean_gap"]:
        return PARTIAL
    return CLEAN if item_out >= settings["least_item_out"] else NOTHING


def clean_window(
    item_out: Sequence[float], out: Sequence[float], gap: Sequence[float], settings: Mapping[str, float]
) -> tuple[int, int] | None:
    """First and last layer of the longest run in which both accuracies are high and the gap is clean.

    High is `clean_window` or more, clean below `clean_gap`. Of equally long runs the first; None without any.
    """
    longest: tuple[int, int] | None = None
    first = None
    least = settings["clean_window"]
    for layer, (one, other, apart) in enumerate(zip(item_out, out, gap, strict=True)):
        if not (one >= least and other >= least and apart < settings["clean_gap"]):
            first = None
            continue
        first = layer if first is None else first
        if longest is None or layer - first > longest[1] - longest[0]:
            longest = (first, layer)
    return longest


def verb_table(
    item_out: np.ndarray,
    out: np.ndarray,
    labels: np.ndarray,
    types: Mapping[str, np.ndarray],
    places: Sequence[dict[str, Any]],
    modes: Sequence[str],
    seeds: Sequence[int],
    settings: Mapping[str, float],
) -> dict[str, Any]:
    """Item-out beside verb-out, by control type, at every layer and mode.

    Predictions are pooled over folds and split by type within each seed; means and sd (ddof 1) are over
    seeds.

    Args:
        item_out, out: (modes, seeds, layers, items) booleans of both schemes.
        labels: (items,) of -1 or +1.
        types: control type -> (items,) booleans.

    Returns:
        `modes`: mode -> `correct`, `balanced_accuracy` and `types`: type -> lists over layers of `item_out`,
        `item_out_sd`, `verb_out`, `verb_out_sd`, `gap` and `verdict`; `peaks`: type -> mode -> the same at
        the type's item-out peak (Table 9); `clean_window`: type -> mode -> the window's ends, or None.
    """
    table: dict[str, Any] = {}
    for mode, item_right, verb_right in zip(modes, item_out, out, strict=True):
        table[mode] = {
            "correct": {str(seed): as_texts(rows) for seed, rows in zip(seeds, verb_right, strict=True)},
            "balanced_accuracy": balanced_accuracy(verb_right, labels),
            "types": {
                kind: _of_type(item_right[..., mask], verb_right[..., mask], settings)
                for kind, mask in types.items()
            },
        }
    return {
        "modes": table,
        "peaks": {
            kind: {mode: _peak(table[mode]["types"][kind], places) for mode in modes} for kind in types
        },
        "clean_window": {
            kind: {mode: _window(table[mode]["types"][kind], places, settings) for mode in modes}
            for kind in types
        },
    }


def balanced_accuracy(correct: np.ndarray, labels: np.ndarray) -> list[float]:
    """(seeds, layers, items) -> mean of both classes' accuracies, over seeds, a layer."""
    sides = [correct[..., labels == side].mean(axis=(0, 2)) for side in (-1, 1) if (labels == side).any()]
    return np.mean(sides, axis=0).tolist()


def _of_type(item_out: np.ndarray, out: np.ndarray, settings: Mapping[str, float]) -> dict[str, list[Any]]:
    """Lists over layers; both are (seeds, layers, the type's items)."""
    number = item_out.shape[0] * item_out.shape[2]
    one, other = item_out.sum(axis=(0, 2)), out.sum(axis=(0, 2))
    # Divided once, so that a gap of a tenth is 0.1 exactly.
    means, gaps = (one / number).tolist(), ((one - other) / number).tolist()
    return {
        "item_out": means,
        "item_out_sd": spread(item_out),
        "verb_out": (other / number).tolist(),
        "verb_out_sd": spread(out),
        "gap": gaps,
        "verdict": [verdict(gap, mean, settings) for gap, mean in zip(gaps, means, strict=True)],
    }


def _peak(rows: Mapping[str, list[Any]], places: Sequence[dict[str, Any]]) -> dict[str, Any]:
    layer = int(np.argmax(rows["item_out"]))
    return places[layer] | {name: values[layer] for name, values in rows.items()}


def _window(
    rows: Mapping[str, list[Any]], places: Sequence[dict[str, Any]], settings: Mapping[str, float]
) -> dict[str, Any] | None:
    ends = clean_window(rows["item_out"], rows["verb_out"], rows["gap"], settings)
    if ends is None:
        return None
    first, last = (places[end] for end in ends)
    return {
        "layers": [first["layer"], last["layer"]],
        "blocks": [first["block"], last["block"]],
        "depth": [first["depth"], last["depth"]],
    }
