"""Predictions that were made elsewhere: a csv with one row a stimulus, counted by cell, item and class."""

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from strataprobe.concentration.measures import LEAST_STIMULI, WHY_TWO, counted
from strataprobe.concentration.partition import Partition, nearest, partition_faults, quoted
from strataprobe.errors import StrataprobeError, listing

COLUMNS = ("item", "property", "stimulus", "predicted")
"""Of each row: the item, the side intended for it, the id of the stimulus, the class predicted for it."""
CELL_COLUMNS = ("scope", "direction", "train_anchor", "test_anchor", "layer")
"""Further columns that tell cells apart; each may be there or not."""

_LINES_SHOWN = 8
_STIMULI_SHOWN = 5


@dataclass(frozen=True)
class Cells:
    """Cells that were tested on the same items.

    Attributes:
        numbers: which of the file's cells each is, in the order in which they first occur.
        places: one dict a cell, of the file's cell columns; a layer is a whole number.
        items: by name, so that nothing depends on the order of rows.
        item_sides: (items,) of 0 or 1, as intended.
        counts: (cells, items, classes).
    """

    numbers: tuple[int, ...]
    places: tuple[Mapping[str, str | int], ...]
    items: tuple[str, ...]
    item_sides: np.ndarray
    counts: np.ndarray


@dataclass(frozen=True)
class Predictions:
    """What a file of predictions holds.

    Attributes:
        sides: the two sides of the property, by name.
        classes: those of the partition, in its order.
        class_sides: (classes,) of 0 or 1.
        cell_columns: those that the file has.
        cells: all cells, those with the same items together, in the order of the file.
    """

    sides: tuple[str, str]
    classes: tuple[str, ...]
    class_sides: np.ndarray
    cell_columns: tuple[str, ...]
    cells: tuple[Cells, ...]


@dataclass
class _Faults:
    """What is wrong, and the lines on which it is."""

    path: str
    said: dict[str, list[int]] = field(default_factory=dict)

    def add(self, said: str, line: int) -> None:
        self.said.setdefault(said, []).append(line)

    def listed(self) -> list[str]:
        found = []
        for said, (first, *others) in sorted(self.said.items(), key=lambda fault: fault[1][0]):
            shown = ", ".join(map(str, others[:_LINES_SHOWN]))
            more = f" and {len(others) - _LINES_SHOWN} more" if len(others) > _LINES_SHOWN else ""
            also = f" (also on line{'s' if len(others) > 1 else ''} {shown}{more})" if others else ""
            found.append(f"{self.path}:{first}: {said}{also}")
        return found


@dataclass(frozen=True)
class _Table:
    """Column -> (rows,) texts, and the line on which each row begins."""

    columns: Mapping[str, tuple[str, ...]]
    lines: Sequence[int]
    cell_columns: tuple[str, ...]

    def rows(self, *names: str) -> Iterable[tuple[str, ...]]:
        return zip(*(self.columns[name] for name in names), strict=True) if names else ((),) * len(self.lines)


def read_predictions(
    path: str | os.PathLike[str], partition: Partition, *, cell_columns: Sequence[str] | None = None
) -> Predictions:
    """Read per-stimulus predictions: columns `COLUMNS`, and those that tell cells apart.

    The file is text throughout: an item called "NA" is an item. Blank lines count for nothing.

    Args:
        path: csv, UTF-8, one row a stimulus of a cell; a stimulus's id occurs once in its cell and item.
        partition: of the classes; what was never predicted may be among them.
        cell_columns: names of the columns that tell cells apart, all of which must be there. By default any
            of `CELL_COLUMNS` that is.

    Raises:
        StrataprobeError: one message with all faults of the partition and the file, by line: a column that
            is missing or unknown, no rows, rows of another length, empty fields, classes or sides that the
            partition does not have, an item of two properties, a stimulus twice, an item with one stimulus.
    """
    faults = _Faults(str(path))
    about_partition = [f"partition: {said}" for said in partition_faults(partition.sides, partition.of)]
    table = _read(path, cell_columns, faults)
    if table is not None:
        _check_fields(table, partition, faults)
        _check_stimuli(table, faults)
    if found := about_partition + faults.listed():
        raise StrataprobeError(listing("predictions", found))
    return _counted(table, partition)


def _read(path: str | os.PathLike[str], cell_columns: Sequence[str] | None, faults: _Faults) -> _Table | None:
    """The file's columns; None where its header or its text leaves nothing to check."""
    if (text := _text(path, faults)) is None:
        return None
    reader = csv.reader(io.StringIO(text, newline=""))
    header: list[str] = []
    rows, lines, line = [], [], 1
    try:
        for row in reader:
            if row and not header:
                header = row
            elif row and len(row) != len(header):
                faults.add(f"{len(row)} fields, but the header has {len(header)}", line)
            elif row:
                rows.append(row)
                lines.append(line)
            line = reader.line_num + 1
    except csv.Error as error:
        faults.add(f"not readable as csv from here on: {error}", line)
    if not header:
        faults.add(f"the file is empty; its first line names the columns {quoted(COLUMNS)}", 1)
        return None
    known = CELL_COLUMNS if cell_columns is None else tuple(cell_columns)
    if not _columns_fit(header, known, known if cell_columns is not None else (), faults):
        return None
    if not rows:
        faults.add("there is no row below the header; there should be one a stimulus", 1)
        return None
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    if "layer" in columns:  # "04" and "4" are one layer
        columns["layer"] = tuple(str(int(text)) if _is_whole(text) else text for text in columns["layer"])
    return _Table(columns, lines, tuple(name for name in known if name in columns))


def _text(path: str | os.PathLike[str], faults: _Faults) -> str | None:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise StrataprobeError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        faults.add("not UTF-8 (save the file as UTF-8)", content.count(b"\n", 0, error.start) + 1)
        return None


def _columns_fit(header: Sequence[str], known: Sequence[str], needed: Sequence[str], faults: _Faults) -> bool:
    """Whether each wanted column is there once, and no other."""
    wanted = (*COLUMNS, *known)
    wrong = [f"column '{name}' is missing" for name in (*COLUMNS, *needed) if name not in header]
    for name in dict.fromkeys(header):
        if name not in wanted:
            wrong.append(f"column '{name}' is unknown; {nearest(name, wanted)}")
        elif header.count(name) > 1:
            wrong.append(f"column '{name}' is there {header.count(name)} times")
    for said in wrong:
        faults.add(said, 1)
    return not wrong


def _check_fields(table: _Table, partition: Partition, faults: _Faults) -> None:
    """Each field by itself: filled, and of the partition where it names a class or a side."""
    known = {"predicted": ("class", tuple(partition.of)), "property": ("property", partition.sides)}
    for name, values in table.columns.items():
        noun, allowed = known.get(name, ("", ()))
        wrong = {}
        for value in set(values):  # few, where rows are many
            if not value.strip():
                wrong[value] = f"field '{name}' is empty"
            elif noun and value not in allowed:
                wrong[value] = f"{noun} '{value}' is not of the partition; {nearest(value, allowed)}"
            elif name == "layer" and not _is_whole(value):
                wrong[value] = f"layer '{value}' is not a whole number"
        if wrong:
            for line, value in zip(table.lines, values, strict=True):
                if value in wrong:
                    faults.add(wrong[value], line)


def _check_stimuli(table: _Table, faults: _Faults) -> None:
    """Rows beside one another: one property an item, each stimulus once, two stimuli or more."""
    property_of: dict[str, tuple[str, int]] = {}
    first_line: dict[tuple[tuple[str, ...], str], dict[str, int]] = {}
    twice: dict[str, list[tuple[str, int, int]]] = {}
    rows = zip(table.lines, table.rows(*table.cell_columns), table.rows(*COLUMNS[:3]), strict=True)
    for line, cell, (item, side, stimulus) in rows:
        if not item.strip() or not stimulus.strip():
            continue  # a fault already
        stated, where = property_of.setdefault(item, (side, line))
        if side.strip() and stated.strip() and side != stated:
            faults.add(f"item '{item}' is '{side}' here, but '{stated}' on line {where}", line)
        earlier = first_line.setdefault((cell, item), {}).setdefault(stimulus, line)
        if earlier != line:
            twice.setdefault(item, []).append((stimulus, earlier, line))
    for item, found in twice.items():
        shown = ", ".join(f"'{stimulus}' (line {one})" for stimulus, one, _ in found[:_STIMULI_SHOWN])
        more = f" and {len(found) - _STIMULI_SHOWN} more" if len(found) > _STIMULI_SHOWN else ""
        told = quoted(table.cell_columns) if table.cell_columns else "nothing"
        said = f"item '{item}' has stimuli again in the same cell (cells differ in {told}): {shown}{more}"
        faults.add(said, found[0][2])
    for (_, item), own in first_line.items():
        if len(own) < LEAST_STIMULI:
            faults.add(f"item '{item}' has a single stimulus in its cell: {WHY_TWO}", min(own.values()))


def _counted(table: _Table, partition: Partition) -> Predictions:
    classes, names = tuple(partition.of), tuple(sorted(set(table.columns["item"])))
    sides = dict(table.rows("item", "property"))
    item_sides = np.array([partition.sides.index(sides[name]) for name in names], np.int64)
    cell, places = _indexed(table.rows(*table.cell_columns))
    item, _ = _indexed(table.columns["item"], names)
    predicted, _ = _indexed(table.columns["predicted"], classes)
    # A cell and an item together stand for the item here, so that one count serves all cells.
    pairs = cell * len(names) + item
    found = counted(pairs, predicted, item_count=len(places) * len(names), class_count=len(classes))
    counts = found.reshape(len(places), len(names), len(classes))
    return Predictions(
        sides=partition.sides,
        classes=classes,
        class_sides=partition.numbers(classes),
        cell_columns=table.cell_columns,
        cells=tuple(_with_the_same_items(table.cell_columns, places, names, item_sides, counts)),
    )


def _indexed(values: Iterable, known: Sequence | None = None) -> tuple[np.ndarray, list]:
    """The index of each value among the known ones, or among all in the order in which they first occur."""
    place = {} if known is None else {value: index for index, value in enumerate(known)}
    indices = [place.setdefault(value, len(place)) for value in values]
    return np.array(indices, np.int64), list(place)


def _with_the_same_items(
    cell_columns: Sequence[str], places: Sequence, names: Sequence[str], sides: np.ndarray, counts: np.ndarray
) -> Iterable[Cells]:
    present = counts.any(axis=-1)  # (cells, items)
    kinds, _ = _indexed(map(bytes, present))
    for kind in dict.fromkeys(kinds.tolist()):
        own = np.flatnonzero(kinds == kind)
        there = np.flatnonzero(present[own[0]])
        yield Cells(
            numbers=tuple(own.tolist()),
            places=tuple(_place(cell_columns, places[cell]) for cell in own),
            items=tuple(names[item] for item in there),
            item_sides=sides[there],
            counts=counts[np.ix_(own, there)],
        )


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _place(cell_columns: Sequence[str], values: Sequence[str]) -> dict[str, str | int]:
    pairs = zip(cell_columns, values, strict=True)
    return {name: int(value) if name == "layer" else value for name, value in pairs}
