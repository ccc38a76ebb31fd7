"""The best layer and mode, in each of the ways in which the paper's tables choose it.

Source: levels paper, tables 1, 3, 4, 5 and 7; DEFINITIONS, tables.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def picks(
    correct: np.ndarray,
    masks: Mapping[str, np.ndarray],
    types: Sequence[str],
    places: Sequence[dict[str, Any]],
    modes: Sequence[str],
    seeds: Sequence[int],
) -> dict[str, Any]:
    """Every choice of a layer and a mode, and what stands there.

    Of equally good ones the lowest layer is taken, then the first mode. Means over seeds are compared as
    counts of right items, so that equal ones are equal.

    Args:
        correct: (modes, seeds, layers, items) booleans.
        masks: name -> (items,) booleans, "all" among them.
        types: the names among them that are control types.
        places: one dict a layer: its number in `hidden_states`, our block's and its depth.

    Returns:
        `global`: by the mean over seeds (Table 4); `seeds`: each seed's own best (Tables 1 and 5 are the
        first seed's); `modes`: the best of each mode by the mean (Table 3); `types`: the best on each control
        type by the mean (Table 7). An entry has layer, mode, `accuracy` (under `types`: of that type's
        items), that of each of its `seeds`, their `sd` (ddof 0, as Table 4 has it), and the accuracies of
        its `splits`.
    """
    counts = {name: correct[..., mask].sum(axis=-1) for name, mask in masks.items()}  # (modes, seeds, layers)
    overall = counts["all"].sum(axis=1)

    def stands(best: tuple[int, int], own: slice = slice(None), split: str = "all") -> dict[str, Any]:
        layer, mode = best
        there = correct[mode, own, layer]  # (seeds, items)
        each = there[:, masks[split]].mean(axis=1)
        return {
            **places[layer],
            "mode": modes[mode],
            "accuracy": float(there[:, masks[split]].mean()),
            "seeds": dict(zip(map(str, seeds[own]), each.tolist(), strict=True)),
            "sd": float(each.std()),
            "splits": {name: float(there[:, mask].mean()) for name, mask in masks.items()},
        }

    return {
        "global": stands(_best(overall)),
        "seeds": {
            str(seed): stands(_best(counts["all"][:, place]), slice(place, place + 1))
            for place, seed in enumerate(seeds)
        },
        "modes": {mode: stands((_best(overall[[place]])[0], place)) for place, mode in enumerate(modes)},
        "types": {kind: stands(_best(counts[kind].sum(axis=1)), split=kind) for kind in types},
    }


def _best(counts: np.ndarray) -> tuple[int, int]:
    """Layer and mode of the largest of (modes, layers) counts."""
    layer, mode = np.unravel_index(np.argmax(counts.T), counts.T.shape)
    return int(layer), int(mode)


def profiles(
    correct: np.ndarray, masks: Mapping[str, np.ndarray], modes: Sequence[str], seeds: Sequence[int]
) -> dict[str, Any]:
    """Mode -> `correct` (seed -> one text a layer), `accuracy` (split -> mean over seeds a layer) and `sd`.

    `sd` is that of all items' accuracy over seeds (ddof 1), a layer; None with one seed.
    """
    return {
        mode: {
            "correct": {str(seed): as_texts(rows) for seed, rows in zip(seeds, of_mode, strict=True)},
            "accuracy": {
                name: (of_mode[..., mask].sum(axis=(0, 2)) / (len(seeds) * mask.sum())).tolist()
                for name, mask in masks.items()
            },
            "sd": spread(of_mode),
        }
        for mode, of_mode in zip(modes, correct, strict=True)
    }


def as_texts(correct: np.ndarray) -> list[str]:
    """(layers, items) booleans as one text of "1" and "0" a layer."""
    return ["".join("1" if right else "0" for right in row) for row in correct.tolist()]


def spread(correct: np.ndarray) -> list[float | None]:
    """(seeds, layers, items) -> sd over seeds of each layer's accuracy (ddof 1)."""
    if len(correct) < 2:
        return [None] * correct.shape[1]
    return correct.mean(axis=-1).std(axis=0, ddof=1).tolist()
