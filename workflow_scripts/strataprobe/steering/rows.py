"""Item-level rows: both candidates' scores under every push."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from strataprobe import files
from strataprobe.datasets.control import ControlDataset
from strataprobe.steering.pushes import Key

COLUMNS = (
    *("item", "task", "states", "layer", "method", "number", "alpha"),
    *("score_a", "score_b", "gold", "correct"),
)


def item_rows(
    dataset: ControlDataset,
    task: str,
    items: Sequence[int],
    keys: Sequence[Key],
    scores: np.ndarray,
    *,
    erased_at: int,
) -> list[dict[str, Any]]:
    """One row an item and push, in the order of items; `method` "none" is the unchanged pass.

    Args:
        scores: (1 + pushes ..., items, 2) log-probabilities (nats); after the pushes, erasures: `method` is
            "erased", its number 0 for the classes and from 1 for labels dealt anew.
        erased_at: the layer of these.
    """
    erased = range(len(scores) - 1 - len(keys))
    names = [
        ("", None, "none", 0, None),
        *keys,
        *(("own_prompt", erased_at, "erased", number, None) for number in erased),
    ]
    rows = []
    for place, index in enumerate(items):
        item = dataset.controls[index]
        for (states, layer, method, number, alpha), (a, b) in zip(
            names, scores[:, place].tolist(), strict=True
        ):
            right = a > b if item.gold == "a" else b > a
            rows.append(
                {
                    "item": item.id, "task": task, "states": states, "layer": layer, "method": method,
                    "number": number, "alpha": alpha, "score_a": a, "score_b": b, "gold": item.gold,
                    "correct": int(right),
                }
            )  # fmt: skip
    return rows


def write_rows(path: str | os.PathLike[str], rows: Iterable[dict[str, Any]]) -> None:
    """Write them as csv, numbers in full, atomically."""
    files.write_rows(path, COLUMNS, rows)
