"""The diagnostic on predictions that were made elsewhere: the same rows as of a study made here.

Nothing is known of canonical words, blocks or tokens there, so their columns are empty, and the gate is one
condition shorter (see `concentration.described`).

Source: lucky-defaults paper, section 3.4.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from strataprobe import concentration
from strataprobe.concentration import PASS, Cells, Predictions, Thresholds
from strataprobe.concentration.scopes import scopes_of

ALL = "all"
"""The scope of predictions that name none."""

_NOT_KNOWN = (
    "depth", "class_accuracy", "property_accuracy", "canonical_p_top_min", "canonical_p_top_mean",
    "swapped_property_accuracy", "swapped_coarse_accuracy",
)  # fmt: skip
_PLACE = ("direction", "train_anchor", "test_anchor", "layer")

Row = dict[str, Any]


def summary_of(
    predictions: Predictions, *, thresholds: Thresholds, settings: Mapping[str, Any]
) -> dict[str, list[Row]]:
    """The summary of a routing study from counted predictions.

    Args:
        predictions: see `concentration.read_predictions`.
        thresholds: of the gate.
        settings: `bootstrap` (replicates over items), `sensitivity` (levels of the threshold), `seed`.

    Returns:
        `cells`, `counts` and `sensitivity` as `routing.measure` gives them; `leakage` and `words` are empty.
        A cell's path goes over the scopes it is in, from the fewest items to the most (see `scopes_of`),
        in whatever order the file has them.
    """
    cells = _in_order(
        predictions, [_cell_rows(predictions, own, thresholds, settings) for own in predictions.cells]
    )
    order = {scope: place for place, scope in enumerate(scopes_of(cells))}
    paths: dict[tuple, list[Row]] = {}
    for row in sorted(cells, key=lambda row: order[row["scope"]]):
        paths.setdefault(tuple(row[name] for name in _PLACE), []).append(row)
    for own in paths.values():
        found = concentration.paths(
            np.array([[row["verdict"] for row in own]]),
            np.array([[row["p_top_min"] for row in own]]),
            thresholds,
        )
        for row in own:
            row["path"] = str(found[0])
    passed = [own for own in paths.values() if own[0]["verdict"] == PASS]
    return {
        "cells": cells,
        "counts": [
            row
            for own in _in_order(predictions, [_count_rows(predictions, own) for own in predictions.cells])
            for row in own
        ],
        "leakage": [],
        "words": [],
        "sensitivity": _sensitivity(passed, settings["sensitivity"]),
    }


def _cell_rows(
    predictions: Predictions, own: Cells, thresholds: Thresholds, settings: Mapping[str, Any]
) -> list[Row]:
    described = concentration.described(
        own.counts,
        predictions.classes,
        predictions.class_sides,
        own.item_sides,
        thresholds=thresholds,
        property_accuracy=None,
        replicates=settings["bootstrap"],
        seed=settings["seed"],
        names=own.items,
    )
    return [
        {
            "scope": place.get("scope", ALL),
            "classes": len(predictions.classes),
            "items": len(own.items),
            "stimuli": int(counts.sum()),
            **{name: place.get(name) for name in _PLACE},
            **found,
            **dict.fromkeys(_NOT_KNOWN),
        }
        for place, counts, found in zip(own.places, own.counts, described, strict=True)
    ]


def _in_order(predictions: Predictions, found: Sequence[Sequence[Any]]) -> list[Any]:
    """What was found of each cell, in the order of the file: cells of the same items stand together there.

    Args:
        found: of each of `predictions.cells`, one entry a cell.
    """
    numbers = [number for own in predictions.cells for number in own.numbers]
    entries = [entry for own in found for entry in own]
    return [entries[place] for place in np.argsort(numbers).tolist()]


def _count_rows(predictions: Predictions, own: Cells) -> list[list[Row]]:
    """The rows of each cell: one an item and class, where the class is predicted at all."""
    sides = dict(zip(predictions.classes, predictions.class_sides.tolist(), strict=True))
    return [
        [
            {
                "scope": place.get("scope", ALL),
                **{name: place.get(name) for name in _PLACE},
                "item": own.items[item],
                "item_property": predictions.sides[own.item_sides[item]],
                "canonical": False,
                "predicted": predictions.classes[to],
                "predicted_property": predictions.sides[sides[predictions.classes[to]]],
                "count": int(counts[item, to]),
            }
            for item, to in np.argwhere(counts).tolist()
        ]
        for place, counts in zip(own.places, own.counts, strict=True)
    ]


def _sensitivity(passed: Sequence[Sequence[Row]], levels: Sequence[float]) -> list[Row]:
    """As over cells of one shape: a cell counts by the highest floor of its scopes."""
    highest = np.array([[max(row["p_top_min"] for row in own)] for own in passed]).reshape(-1, 1)
    return concentration.sensitivity(highest, np.ones(len(passed), bool), levels)
