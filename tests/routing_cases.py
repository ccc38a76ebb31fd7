"""A made-up lucky-defaults study: predictions drawn from a seeded generator, and what they come to.

Nothing is measured here. The measures are computed from the drawn counts by a few lines of their own, so that
tables and figures have numbers that belong together: cells that pass throughout, that are retracted, that
turn out lucky defaults with one or with two targets, and many that never pass. In every other cell there is a
class of the readout that nothing goes to, not even its own stimuli.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from strataprobe import tables
from strataprobe.tables.routing import routing_rows

CLASSES = {
    "and": "binary", "or": "binary", "implies": "binary", "not": "unary", "necessarily": "unary",
    "xor": "binary", "nand": "binary", "possibly": "unary", "always": "unary", "negate": "unary",
    "nor": "binary", "iff": "binary", "unless": "binary", "definitely": "unary", "unprovably": "unary",
}  # fmt: skip
ITEMS = {
    "bliq": "binary", "dren": "binary", "molex": "binary", "vusp": "unary", "perph": "unary",
    **dict.fromkeys(("krev", "sond", "glin", "twiv", "fump"), "binary"),
    **dict.fromkeys(("kelm", "zorf", "gleph", "drelth", "vrith", "nilph"), "unary"),
}  # fmt: skip
SCOPES = {"5x5": (5, 5), "5x16": (5, 16), "10x16": (10, 16), "15x16": (15, 16)}
SIDES = ("binary", "unary")
ANCHORS = {
    "mention": ("operator-after", "sentence-final"),
    "call": ("operator-after", "first-arg", "close-paren", "sentence-final"),
}
DIRECTIONS = (("mention", "call"), ("call", "mention"))
LAYERS, BLOCKS, STIMULI = (4, 10, 15, 20, 25), 30, 50
GATE = {"property": 0.65, "coarse": 0.65, "hhi": 0.70, "max": 0.85, "low": 0.20, "high": 0.80, "lucky": 0.95}
THRESHOLDS = (0.60, 0.70, 0.80, 0.85, 0.90, 0.95, 0.99)
# Place among the 80 cells -> what it is; all others are noise or collapse.
STORIES = {
    2: "retracts", 9: "one target", 18: "passes", 26: "two targets", 33: "retracts", 41: "retracts",
    47: "one target", 52: "lucky at once", 60: "retracts", 66: "passes", 71: "lucky at once",
}  # fmt: skip
SHUNNED = "implies"
CELL = ("direction", "train_anchor", "test_anchor", "layer")


def cells_of_study() -> list[tuple[str, str, str, int]]:
    return [
        (f"{train}->{test}", anchor, other, layer)
        for train, test in DIRECTIONS
        for anchor in ANCHORS[train]
        for other in ANCHORS[test]
        for layer in LAYERS
    ]


def summary(
    model: str = "made-up",
    *,
    seed: int = 0,
    passing: bool = True,
    revision="main",
    step=None,
    dataset="operators",
) -> dict[str, Any]:
    """What the study writes of one checkpoint; with `passing` False no cell has a story."""
    cells, counts = [], []
    for place, cell in enumerate(cells_of_study()):
        story = STORIES.get(place, "") if passing else ""
        own = [_scope(seed, place, number, story) for number in range(len(SCOPES))]
        rows = [_cell_row(cell, scope, *found) for scope, found in zip(SCOPES, own, strict=True)]
        said = _path(rows)
        cells += [{**row, "path": said} for row in rows]
        for scope, found in zip(SCOPES, own, strict=True):
            counts += _count_rows(cell, scope, found[0], found[1])
    key = {"model": model, "revision": revision, "step": step, "dataset": dataset}
    largest = _largest(cells)
    flagged = [
        {"threshold": level, "flagged": sum(one >= level for one in largest), "passed": len(largest)}
        for level in THRESHOLDS
    ]
    words = [_word_row(seed, name) for name in (*CLASSES, *ITEMS)]
    return {
        **key, "cells": cells, "counts": counts, "words": words, "leakage": _leakage(seed),
        "sensitivity": flagged, "many_class": many_class(seed),
    }  # fmt: skip


def frame(table: str, *summaries: dict[str, Any]) -> pd.DataFrame:
    """The rows of a table as a figure gets them: written as csv, and read."""
    return as_read(table, routing_rows(table, summaries))


def as_read(table: str, rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "part.csv"
        tables.write_csv(path, rows, tables.COLUMNS[table])
        return tables.read_parts([path])


def again(table: str, changed: pd.DataFrame) -> pd.DataFrame:
    """A changed frame, written and read once more; what is not a number there is an empty field."""
    return as_read(table, changed.astype(object).where(changed.notna(), None).to_dict("records"))


def _scope(seed: int, place: int, number: int, story: str) -> tuple[np.ndarray, np.ndarray, float]:
    """((items, classes) counts, (classes, classes) counts of the canonical words, property accuracy)."""
    rng = np.random.default_rng([seed, place, number])
    classes, items = _names(number)
    shunned = [SHUNNED] if place % 2 == 0 else []
    right, spread, one = _habits(story, number, np.random.default_rng([seed, place]))
    found = np.zeros((len(items), len(classes)), dtype=int)
    habit = np.random.default_rng([seed, place, 99])
    favourite = {side: habit.permutation([c for c, own in CLASSES.items() if own == side]) for side in SIDES}
    for row, item in enumerate(items):
        shares = np.zeros(len(classes))
        # One of five, or a fifth of all, goes to the other side.
        turned = right == 1.0 and row % 5 == 3
        for side in SIDES:
            mass = right if (side == ITEMS[item]) != turned else 1 - right
            known = [c for c in favourite[side] if c in classes and c not in shunned]
            own = np.full(len(known), (1 - spread) / max(len(known) - 1, 1))
            own[0] = spread
            for name, share in zip(known, own / own.sum(), strict=True):
                shares[classes.index(name)] += mass * share
        if one:
            target = "nand" if "nand" in classes else "or"
            shares[:] = 0.0
            shares[classes.index(target)] = 1.0
        found[row] = rng.multinomial(STIMULI, shares / shares.sum())
    accuracy = 0.72 + 0.2 * rng.random() if story else 0.45 + 0.45 * rng.random()
    sure = 0.6 + 0.4 * rng.random()
    base = np.full((len(classes), len(classes)), (1 - sure) / max(len(classes) - 1, 1))
    np.fill_diagonal(base, sure)
    base[:, [classes.index(c) for c in shunned]] = 0
    base /= base.sum(axis=1, keepdims=True)
    canonical = np.stack([rng.multinomial(STIMULI, row) for row in base])
    return found, canonical, accuracy


def _habits(story: str, number: int, rng: np.random.Generator) -> tuple[float, float, bool]:
    """(share on the right side, share of the favourite class within a side, all to one class)."""
    if story == "passes":
        return 0.80, 0.80, False
    if story == "retracts":
        return (0.84, 0.74, 0.60, 0.52)[number], 0.72, False
    if story == "one target":
        return (0.80, 0.76, 1.0, 1.0)[number], 0.74, number >= 2
    if story == "two targets":
        return (0.82, 0.80, 1.0, 0.85)[number], (0.7, 0.7, 1.0, 0.8)[number], False
    if story == "lucky at once":
        return 1.0, 1.0, False
    return 0.42 + 0.2 * rng.random(), rng.choice([0.4, 0.6, 0.8, 1.0]), bool(rng.random() < 0.12)


def _names(number: int) -> tuple[list[str], list[str]]:
    count, words = list(SCOPES.values())[number]
    return list(CLASSES)[:count], list(ITEMS)[:words]


def measured(counts: np.ndarray, number: int) -> dict[str, Any]:
    """A_pi, shares and marginal indices of one cell, in plain lines."""
    classes, items = _names(number)
    same = np.array([[CLASSES[c] == ITEMS[i] for c in classes] for i in items])
    marginal = counts.sum(axis=0) / counts.sum()
    top = counts.max(axis=1) / counts.sum(axis=1)
    second = np.array([CLASSES[c] == SIDES[1] for c in classes])
    return {
        "coarse_accuracy": float((counts * same).sum() / counts.sum()),
        "p_top_min": float(top.min()),
        "p_top_mean": float(top.mean()),
        "p_top_max": float(top.max()),
        "max_share": float(marginal.max()),
        "top_class": classes[int(marginal.argmax())],
        "hhi": float((marginal**2).sum()),
        "effective_targets": float(1 / (marginal**2).sum()),
        "side_mass": float(marginal[second].sum()),
    }


def _cell_row(cell, scope: str, counts, canonical, accuracy: float) -> dict[str, Any]:
    number = list(SCOPES).index(scope)
    classes, items = _names(number)
    own = measured(counts, number)
    by_item = [measured_item(counts, number, row) for row in range(len(items))]
    half = 1.96 * float(np.std(by_item)) / np.sqrt(len(items))
    top = canonical.max(axis=1) / STIMULI
    called = cell[0].endswith("call")
    return {
        "scope": scope, "classes": len(classes), "items": len(items), "stimuli": int(counts.sum()),
        **dict(zip(CELL, cell, strict=True)), "depth": cell[3] / BLOCKS,
        "class_accuracy": float(np.trace(canonical) / canonical.sum()), "property_accuracy": accuracy, **own,
        "coarse_low": max(own["coarse_accuracy"] - half, 0.0),
        "coarse_high": min(own["coarse_accuracy"] + half, 1.0),
        "p_top_min_low": own["p_top_min"], "p_top_min_high": min(own["p_top_min"] + 0.12, own["p_top_mean"]),
        "verdict": _verdict(own, accuracy), "relabelling_mean": 0.5,
        "relabelling_q95": 0.5 + 0.9 / np.sqrt(len(items)) * abs(own["side_mass"] - 0.5) + 0.05,
        "relabelling_p": 0.04 if own["coarse_accuracy"] > 0.7 else 0.4, "prototype_mean": 0.5,
        "prototype_q95": 0.7, "prototype_p": 0.05, "canonical_p_top_min": float(top.min()),
        "canonical_p_top_mean": float(top.mean()),
        "swapped_property_accuracy": 0.3 if called else None,
        "swapped_coarse_accuracy": 0.35 if called else None,
    }  # fmt: skip


def measured_item(counts: np.ndarray, number: int, row: int) -> float:
    """A_pi of one word."""
    classes, items = _names(number)
    same = np.array([CLASSES[c] == ITEMS[items[row]] for c in classes])
    return float(counts[row][same].sum() / counts[row].sum())


def _verdict(own: dict[str, Any], accuracy: float) -> str:
    if own["coarse_accuracy"] >= GATE["coarse"] and own["p_top_min"] >= GATE["lucky"]:
        return "lucky default"
    gate = (
        own["coarse_accuracy"] >= GATE["coarse"] and own["hhi"] < GATE["hhi"]
        and own["max_share"] <= GATE["max"] and GATE["low"] <= own["side_mass"] <= GATE["high"]
    )  # fmt: skip
    if accuracy < GATE["property"]:
        return "fail"
    return "pass" if gate else "property only"


def _path(rows: list[dict[str, Any]]) -> str:
    if rows[0]["verdict"] != "pass":
        return "not passed"
    if any(row["p_top_min"] >= GATE["lucky"] for row in rows[1:]):
        return "lucky default"
    return "pass" if all(row["verdict"] == "pass" for row in rows[1:]) else "retracted"


def _largest(cells: list[dict[str, Any]]) -> list[float]:
    """The largest p_w,min over the scopes of each cell that passes at the first."""
    found: dict[tuple, float] = {}
    for row in cells:
        if row["path"] != "not passed":
            cell = tuple(row[name] for name in CELL)
            found[cell] = max(found.get(cell, 0.0), row["p_top_min"])
    return list(found.values())


def _count_rows(cell, scope: str, counts, canonical) -> list[dict[str, Any]]:
    classes, items = _names(list(SCOPES).index(scope))
    rows = []
    for names, sides, table, own in ((items, ITEMS, counts, False), (classes, CLASSES, canonical, True)):
        for row, column in zip(*np.nonzero(table), strict=True):
            rows.append(
                {
                    "scope": scope, **dict(zip(CELL, cell, strict=True)), "item": names[row],
                    "item_property": sides[names[row]], "canonical": own, "predicted": classes[column],
                    "predicted_property": CLASSES[classes[column]], "count": int(table[row, column]),
                }
            )  # fmt: skip
    return rows


def _word_row(seed: int, name: str) -> dict[str, Any]:
    canonical = name in CLASSES
    rng = np.random.default_rng([seed, len(name), ord(name[0])])
    pieces = [name] if canonical else [name[:2], name[2:]]
    return {
        "word": name, "canonical": canonical, "property": CLASSES.get(name) or ITEMS[name], "pieces": pieces,
        "n_pieces": len(pieces), "target": "1" if canonical else "2+",
        "out_of_design": bool(rng.random() < 0.1), "real_words": [] if canonical else pieces[:1],
        "attracted": float(rng.random()) if canonical else None,
    }  # fmt: skip


def _leakage(seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng([seed, 5])
    return [
        {
            "notation": notation, "anchor": anchor, "layer": layer, "classes": 15,
            "folds_accuracy": 0.99, "folds_property_accuracy": 0.99,
            "held_out_accuracy": float(0.7 + 0.2 * rng.random()), "held_out_property_accuracy": 0.95,
        }
        for notation in ANCHORS
        for anchor in ANCHORS[notation]
        for layer in LAYERS
    ]  # fmt: skip


def many_class(seed: int = 0, partitions=("individualising", "binding"), layers: int = BLOCKS) -> list[dict]:
    """Rows of many-class probes by layer: one partition that means something, one that is luck."""
    rows = []
    for number, partition in enumerate(partitions):
        rng = np.random.default_rng([seed, number, 8])
        for layer in range(layers):
            rise = 1 / (1 + np.exp(-(layer / layers - 0.3) * 14))
            accuracy = 1 / 6 + 0.62 * rise + rng.normal(0, 0.02)
            coarse = 0.5 + (0.24 if number == 0 else 0.1) * rise + rng.normal(0, 0.03)
            least = (0.35 + 0.1 * rise if number == 0 else 0.5 + 0.47 * rise) + rng.normal(0, 0.015)
            least = float(np.clip(least, 0, 1))
            lucky = least >= 0.95 and coarse >= 0.65
            passes = coarse >= 0.65 and least < 0.95
            rows.append(
                {
                    "partition": partition, "layer": layer, "depth": layer / layers, "classes": 6, "items": 6,
                    "stimuli": 240, "class_accuracy": accuracy, "property_accuracy": 0.5 + 0.42 * rise,
                    "in_p_top_min": 0.3 + 0.5 * rise, "in_p_top_mean": 0.4 + 0.5 * rise,
                    "coarse_accuracy": coarse, "coarse_low": coarse - 0.14, "coarse_high": coarse + 0.12,
                    "p_top_min": least, "p_top_mean": (least + 1) / 2, "max_share": 0.5, "top_class": "care",
                    "hhi": 0.3, "effective_targets": 3.3, "side_mass": 0.45,
                    "verdict": "lucky default" if lucky else "pass" if passes else "property only",
                    "relabelling_p": 0.05 if coarse > 0.7 else 0.35, "prototype_p": 0.2,
                }
            )  # fmt: skip
    return rows
