"""A routing study as flat rows: cells, counts of predictions, words and threshold sensitivity.

The columns are those of the tables; docs/outputs.md says what each holds.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from strataprobe import concentration
from strataprobe.concentration import PASS, Thresholds
from strataprobe.routing.audit import Audited
from strataprobe.routing.cells import Crossing, Predicted
from strataprobe.routing.stimuli import Stimuli

Row = dict[str, Any]


def cell_rows(
    crossings: Sequence[Crossing],
    stimuli: Stimuli,
    *,
    layers: int,
    thresholds: Thresholds,
    settings: Mapping[str, Any],
) -> list[Row]:
    """One row a cell: what the diagnostic says of it, beside the canonical words and the control.

    Args:
        crossings: every scope's, in the scopes' order.
        stimuli: of the dataset.
        layers: blocks of the model, for depth.
        thresholds: of the gate.
        settings: `bootstrap` (replicates over items), `seed`.
    """
    rows: list[Row] = []
    for crossing in crossings:
        beside = _beside(crossing, stimuli)
        described = concentration.described(
            _flat(crossing.invented, crossing),
            crossing.classes,
            stimuli.sides(crossing.classes),
            stimuli.sides(crossing.invented.stimuli.words),
            thresholds=thresholds,
            property_accuracy=[own["property_accuracy"] for own in beside],
            replicates=settings["bootstrap"],
            seed=settings["seed"],
        )
        size = {
            "scope": crossing.scope,
            "classes": len(crossing.classes),
            "items": len(crossing.invented.stimuli.words),
            "stimuli": len(crossing.invented.stimuli.ids),
        }
        for place, found, own in zip(_places(crossing), described, beside, strict=True):
            rows.append({**size, **place, "depth": place["layer"] / layers, **found, **own})
    return _with_paths(rows, list(stimuli.design.scopes), thresholds)


def _places(crossing: Crossing) -> list[Row]:
    """Direction, anchors and layer of each cell, in the order of the flattened predictions."""
    return [
        {"direction": crossing.direction, "train_anchor": train, "test_anchor": test, "layer": layer}
        for train in crossing.train_anchors
        for test in crossing.test_anchors
        for layer in crossing.layers
    ]


def _flat(predicted: Predicted, crossing: Crossing) -> np.ndarray:
    """(cells, words, classes) counts."""
    counts = predicted.counts(len(crossing.classes))
    return counts.reshape(-1, *counts.shape[-2:])


def _beside(crossing: Crossing, stimuli: Stimuli) -> list[Row]:
    """Of each cell: the canonical words' own test stimuli, and the control, under the same probe.

    In the control the other number of arguments is printed, and accuracy is by the word's own side.
    """
    counts, side = _flat(crossing.canonical, crossing), stimuli.sides(crossing.classes)
    canonical = concentration.measure(counts, side, side)
    swapped = [
        concentration.measure(_flat(part, crossing), side, stimuli.sides(part.stimuli.words)).coarse_accuracy
        for part in crossing.swapped or ()
    ]
    invented_swapped, canonical_swapped = swapped or (None, None)
    columns = {
        "class_accuracy": np.trace(counts, axis1=1, axis2=2) / counts.sum(axis=(1, 2)),
        "property_accuracy": canonical.coarse_accuracy,
        "canonical_p_top_min": canonical.p_top_min,
        "canonical_p_top_mean": canonical.p_top_mean,
        "swapped_property_accuracy": canonical_swapped,
        "swapped_coarse_accuracy": invented_swapped,
    }
    return [
        {name: None if values is None else float(values[cell]) for name, values in columns.items()}
        for cell in range(len(counts))
    ]


def _with_paths(rows: list[Row], scopes: Sequence[str], thresholds: Thresholds) -> list[Row]:
    """Each row with the path of its cell over all scopes."""
    by_scope = [[row for row in rows if row["scope"] == scope] for scope in scopes]
    verdicts = np.array([[row["verdict"] for row in own] for own in by_scope]).T
    found = concentration.paths(verdicts, _floors(by_scope), thresholds)
    for own in by_scope:
        for row, path in zip(own, found, strict=True):
            row["path"] = str(path)
    return rows


def _floors(by_scope: Sequence[Sequence[Row]]) -> np.ndarray:
    """(cells, scopes) p_top_min."""
    return np.array([[row["p_top_min"] for row in own] for own in by_scope]).T


def sensitivity_rows(cells: Sequence[Row], scopes: Sequence[str], levels: Sequence[float]) -> list[Row]:
    """How many of the cells that pass at the first scope are flagged at each level of the threshold."""
    by_scope = [[row for row in cells if row["scope"] == scope] for scope in scopes]
    passed = np.array([row["verdict"] == PASS for row in by_scope[0]])
    return concentration.sensitivity(_floors(by_scope), passed, levels)


def count_rows(crossings: Sequence[Crossing], stimuli: Stimuli) -> list[Row]:
    """One row a cell, word and predicted class, where the class is predicted at all."""
    known = stimuli.design.words
    rows = []
    for crossing in crossings:
        places = _places(crossing)
        for canonical, part in ((False, crossing.invented), (True, crossing.canonical)):
            counts = _flat(part, crossing)
            for cell, word, to in np.argwhere(counts).tolist():
                item, predicted = part.stimuli.words[word], crossing.classes[to]
                rows.append(
                    {
                        "scope": crossing.scope,
                        **places[cell],
                        "item": item,
                        "item_property": known[item].property,
                        "canonical": canonical,
                        "predicted": predicted,
                        "predicted_property": known[predicted].property,
                        "count": int(counts[cell, word, to]),
                    }
                )
    return rows


def word_rows(audited: Sequence[Audited], crossings: Sequence[Crossing], scope: str) -> list[Row]:
    """One row a word: its pieces, and what share of the invented words' predictions it attracts.

    Args:
        audited: every word.
        crossings: all of them.
        scope: the one whose cells are counted, all directions together.
    """
    own = [crossing for crossing in crossings if crossing.scope == scope]
    counts = sum(_flat(crossing.invented, crossing).sum(axis=(0, 1)) for crossing in own)
    share = dict(zip(own[0].classes, (counts / counts.sum()).tolist(), strict=True))
    return [
        {
            "word": one.word,
            "canonical": one.canonical,
            "property": one.property,
            "pieces": " ".join(one.mentioned),
            "n_pieces": len(one.mentioned),
            "target": one.target,
            "out_of_design": one.out_of_design,
            "real_words": " ".join(one.real_words),
            "attracted": share.get(one.word),
        }
        for one in audited
    ]
