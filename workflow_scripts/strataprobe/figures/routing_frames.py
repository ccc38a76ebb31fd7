"""What figures of lucky defaults take out of the table `routing_cells`: cells, scopes, and their looks."""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from strataprobe.concentration import (
    FAIL,
    LUCKY,
    NOT_PASSED,
    PASS,
    PROPERTY_ONLY,
    RETRACTED,
)
from strataprobe.concentration.scopes import scopes_of
from strataprobe.errors import StrataprobeError, listing, numbered
from strataprobe.figures import style
from strataprobe.figures.level_names import refuse_unknown
from strataprobe.published.lucky_results import at_scope, cell_name, layer_of, quoted
from strataprobe.tabular.routing_columns import ROUTING_TEXT

PATHS = (LUCKY, RETRACTED, PASS)
"""What becomes of cells that pass at the first scope, in the order in which figures list them."""
# Colour alone is lost in grey print: each path and each verdict has a marker and a dash or hatch too.
PATH_LOOK: dict[str, dict[str, Any]] = {
    LUCKY: {"color": style.VERMILION, "marker": "^", "linestyle": "-"},
    RETRACTED: {"color": style.BLUE, "marker": "s", "linestyle": (0, (4, 1.5))},
    PASS: {"color": style.GREEN, "marker": "o", "linestyle": (0, (1, 1))},
}
VERDICT_LOOK: dict[str, dict[str, Any]] = {
    PASS: {"color": style.GREEN, "marker": "o"},
    LUCKY: {"color": style.VERMILION, "marker": "^"},
    PROPERTY_ONLY: {"color": style.SKY, "marker": "D"},
    FAIL: {"color": style.GREY, "marker": "x"},
}
A_PI, P_MIN = r"$A_\pi$", r"$p_{w,\min}$"
BARS = (
    f"Bars: 95 % bootstrap over the words; that of {P_MIN} begins at its value, since leaving words out can "
    "only raise a minimum."
)

_NOTE_WIDTH = 116  # letters of the small print in a line of the page's width
_MATH = re.compile(r"\$[^$]*\$")
_STAND_IN = "\ue000"  # of no language: stands for a letter of a formula

Models = Sequence[Sequence[str]]
Cell = tuple[str, str, str, str, int | None]  # model, direction, anchor trained on, anchor tested on, layer

_CELL = ("model", "direction", "train_anchor", "test_anchor", "layer")


@dataclass(frozen=True)
class Routes:
    """The cells of one or several models on one dataset, one revision a model, over their scopes.

    Attributes:
        scopes: from the fewest classes and words to the most.
        cells: every cell, in the order of the table; `rows` have their places here in column "cell".
        paths: cell -> what becomes of it over the scopes.
    """

    rows: pd.DataFrame
    models: tuple[str, ...]
    absent: tuple[str, ...]
    dataset: str
    scopes: tuple[str, ...]
    cells: tuple[Cell, ...]
    paths: dict[Cell, str]

    @classmethod
    def of(cls, table: pd.DataFrame, models: Models = ()) -> "Routes":
        """
        Args:
            table: rows of `routing_cells`.
            models: (name, revision) of the models wanted, in order; all of the table's if empty.

        Raises:
            StrataprobeError: no rows, several datasets, several revisions of a model, or a cell twice.
        """
        rows = of_models(table, models)
        names = [
            f"{row[:5]} at {row[5]}" for row in rows[[*_CELL, "scope"]].itertuples(index=False, name=None)
        ]
        twice = (
            sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
        )
        if twice:
            more = [f"and {len(twice) - 5} more"] if len(twice) > 5 else []
            raise StrataprobeError(listing("cells that are in the table twice", [*twice[:5], *more]))
        keys = [
            (*map(str, row[:4]), layer_of(row[4]))
            for row in rows[list(_CELL)].itertuples(index=False, name=None)
        ]
        paths: dict[Cell, str] = {}
        for key, path in zip(keys, rows["path"].astype(str), strict=True):
            paths[key] = path or paths.get(key) or NOT_PASSED
        place = {key: number for number, key in enumerate(paths)}
        there = list(dict.fromkeys(rows["model"].astype(str)))
        asked = list(dict.fromkeys(str(name) for name, _ in models)) or there
        return cls(
            rows.assign(cell=[place[key] for key in keys]),
            tuple(name for name in asked if name in there),
            tuple(name for name in asked if name not in there),
            str(rows["dataset"].iloc[0]),
            scopes_of(rows[["scope", "classes", "items"]].drop_duplicates().to_dict("records")),
            tuple(paths),
            paths,
        )

    @property
    def first(self) -> str:
        return self.scopes[0]

    @property
    def at_first(self) -> str:
        """` at 5x5`, to put behind "passes"; nothing where there is one scope."""
        return at_scope(self.first, self.scopes)

    @property
    def passing(self) -> list[Cell]:
        """The cells that pass at the first scope, those that turn out lucky defaults first."""
        return [cell for path in PATHS for cell in self.cells if self.paths[cell] == path]

    def over_scopes(self, column: str) -> dict[Cell, np.ndarray]:
        """Cell -> (scopes,) values, NaN where it has none (or text, "" where it has none)."""
        wide = self.rows.pivot(index="cell", columns="scope", values=column)
        wide = wide.reindex(index=range(len(self.cells)), columns=list(self.scopes))
        found = wide.fillna("").to_numpy(str) if column in ROUTING_TEXT else wide.to_numpy(float)
        return dict(zip(self.cells, found, strict=True))

    def chosen(self, scopes: Sequence[str]) -> list[str]:
        """The scopes asked for, or all.

        Raises:
            StrataprobeError: one asked for does not exist.
        """
        refuse_unknown(scopes=(scopes, self.scopes))
        return list(scopes or self.scopes)

    def name(self, cell: Cell) -> str:
        """A cell in words; without its model where the figure has one."""
        return (f"{cell[0]}: " if len(self.models) > 1 else "") + cell_name(cell[1:], "L")

    def about(self) -> str:
        """Whose cells, of what, and how many at each scope."""
        counts = self.rows.groupby("scope").size()
        least, most = int(counts.min()), int(counts.max())
        each = f"{most}" if least == most else f"{least} to {most}"
        noun = "cell" if most == 1 else "cells"
        beside = " a scope" if len(self.scopes) > 1 else ""
        return f"{', '.join(self.models)}; {self.dataset}; {each} {noun}{beside}."

    def lacking(self) -> list[str]:
        """Sentences that name what is missing: models, and cells without a row at some scope."""
        said = [f"No row at all: {', '.join(self.absent)}."] if self.absent else []
        short = int((self.rows.groupby("cell").size() < len(self.scopes)).sum())
        if short:
            verb = "has" if short == 1 else "have"
            said.append(f"{short} of {len(self.cells)} cells {verb} no row at some scope: gaps in lines.")
        return said

    def outcome(self) -> str:
        """How many cells pass at the first scope, and what becomes of them."""
        if not self.passing:
            return f"No cell passes the gate{self.at_first}."
        counts = {path: list(self.paths.values()).count(path) for path in PATHS}
        verb = "passes" if len(self.passing) == 1 else "pass"
        said = f"Of {numbered(len(self.cells), 'cell')} {len(self.passing)} {verb} the gate{self.at_first}"
        if len(self.scopes) == 1:
            return f"{said}."
        over = ", ".join(f"{counts[path]} {path}" for path in PATHS)
        return f"{said}; over the larger scopes: {over}."


def of_models(table: pd.DataFrame, models: Models = ()) -> pd.DataFrame:
    """The rows of these (model, revision), of one dataset.

    Raises:
        StrataprobeError: no rows, several datasets, or several revisions of a model; all are named.
    """
    if models:
        wanted = {(str(name), str(revision)) for name, revision in models}
        places = zip(table["model"].astype(str), table["revision"].astype(str), strict=True)
        table = table[[place in wanted for place in places]]
    if table.empty:
        raise StrataprobeError("the figure's tables have no row for it; there is nothing to draw")
    datasets = sorted(table["dataset"].astype(str).unique())
    faults = [f"dataset: {', '.join(datasets)}; choose one"] if len(datasets) > 1 else []
    revisions = table["revision"].astype(str).groupby(table["model"].astype(str)).unique()
    faults += [
        f"{name}: revisions {', '.join(map(str, found))}; choose one"
        for name, found in revisions.items()
        if len(found) > 1
    ]
    if faults:
        raise StrataprobeError(listing("a figure shows one dataset, and one revision of each model", faults))
    return table


def scope_label(scope: str) -> str:
    """A scope's name beside a panel, a size as 5 × 5."""
    return scope if quoted(scope) != scope else scope.replace("x", " × ")


def scope_axis(axes: Axes, scopes: Sequence[str]) -> None:
    """Scopes on the x axis, which is named by what their names are of."""
    axes.set_xticks(range(len(scopes)), [scope_label(scope) for scope in scopes])
    sizes = all(quoted(scope) == scope for scope in scopes)
    axes.set_xlabel("readout classes × invented words" if sizes else "scope")
    axes.grid(axis="x", visible=False)


def small_print(lines: Sequence[str], width: float) -> list[str]:
    """Lines that a page of this width (inches) holds, formulas counted as they are seen, not as written."""
    letters = int(_NOTE_WIDTH * width / style.TEXT_WIDTH)
    found = []
    for line in lines:
        formulas = iter(_MATH.findall(line))
        plain = _MATH.sub(lambda math: _STAND_IN * len(re.sub(r"\\mathrm|[\\{}_$]", "", math[0])), line)
        for part in textwrap.wrap(plain, letters):
            found.append(re.sub(f"{_STAND_IN}+", lambda _, own=formulas: next(own), part))
    return found


def apart(places: Sequence[float], least: float, low: float, high: float) -> np.ndarray:
    """Places for labels: as near to their own as can be, at least `least` apart, between `low` and `high`.

    Least squares under the order of the places (pooled neighbours); what does not fit is spread evenly.
    """
    count = len(places)
    if count == 0:
        return np.zeros(0)
    least = min(least, (high - low) / max(count - 1, 1))
    order = np.argsort(places, kind="stable")
    steps = least * np.arange(count)
    blocks: list[list[float]] = []  # mean, size
    for value in np.asarray(places, dtype=float)[order] - steps:
        blocks.append([value, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            mean, size = blocks.pop()
            before = blocks[-1]
            blocks[-1] = [(before[0] * before[1] + mean * size) / (before[1] + size), before[1] + size]
    fitted = np.concatenate([np.full(int(size), mean) for mean, size in blocks]) + steps
    found = np.empty(count)
    found[order] = np.clip(fitted, low + steps, high - steps[::-1])
    return found
