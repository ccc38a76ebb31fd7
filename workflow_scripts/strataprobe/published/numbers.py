"""The numbers that the three papers print, to stand beside ours.

One row a number, in `resources/published/{fragility,levels,lucky_defaults}.csv`; its README says what the
columns mean. A published number is never a test's expected value: its status says what is known of it.
"""

import csv
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strataprobe.errors import StrataprobeError, listing

Row = dict[str, Any]

COLUMNS = (
    *("paper", "place", "model", "revision", "step", "dataset", "quantity", "group", "layer"),
    *("value", "spread", "n", "unit", "status", "note"),
)
PAPERS = ("fragility", "levels", "lucky_defaults")
STATUSES = ("ok", "contradicted", "withdrawn")
BESIDE = ("published", "published_spread", "difference", "published_status", "published_note")
"""What `Numbers.beside` adds to a row."""

_KEY = COLUMNS[:9]
_REQUIRED = ("paper", "place", "quantity", "value", "unit", "status")


@dataclass(frozen=True)
class Number:
    """One printed number and where it stands.

    Attributes:
        step, layer, n: None where the paper gives none; layers are numbered as the paper does.
        printed: the value as printed; `value` is the same as a number.
        status: `ok`, `contradicted` (the paper, or its authors' files, say otherwise elsewhere) or
            `withdrawn` (its authors have taken back what was read from it).
    """

    paper: str
    place: str
    model: str
    revision: str
    step: int | None
    dataset: str
    quantity: str
    group: str
    layer: int | None
    printed: str
    value: float
    spread: float | None
    n: int | None
    unit: str
    status: str
    note: str

    @property
    def rounding(self) -> float:
        """Half a unit of the last printed digit: how far the unrounded number can be."""
        mantissa, _, exponent = self.printed.lower().partition("e")
        digits = len(mantissa.partition(".")[2])
        return 0.5 * 10.0 ** (int(exponent or 0) - digits)


class Numbers:
    """All published numbers, with look-up by where they stand and what they are."""

    def __init__(self, numbers: Iterable[Number]) -> None:
        self._all = tuple(numbers)
        self._places: dict[tuple[str, str], list[Number]] = {}
        for number in self._all:
            self._places.setdefault((number.paper, number.place), []).append(number)

    def __iter__(self) -> Iterator[Number]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def find(self, **equal: Any) -> list[Number]:
        """The numbers whose fields have these values, in the order of the files.

        Raises:
            StrataprobeError: a field that numbers do not have.
        """
        if wrong := sorted(set(equal) - set(Number.__dataclass_fields__)):
            raise StrataprobeError(f"published numbers have no field {', '.join(wrong)}")
        place = (equal.get("paper"), equal.get("place"))
        among: Iterable[Number] = self._places.get(place, ()) if None not in place else self._all
        return [
            number
            for number in among
            if all(getattr(number, name) == wanted for name, wanted in equal.items())
        ]

    def look_up(self, **equal: Any) -> Number | None:
        """The one number with these fields, or None.

        Raises:
            StrataprobeError: several numbers have them; the message names what tells them apart.
        """
        found = self.find(**equal)
        if len(found) > 1:
            differ = [name for name in _KEY if len({getattr(number, name) for number in found}) > 1]
            said = ", ".join(f"{name} {value!r}" for name, value in equal.items())
            raise StrataprobeError(
                f"published numbers: {len(found)} have {said}; they differ in {', '.join(differ)}"
            )
        return found[0] if found else None

    def beside(
        self, rows: Sequence[Mapping[str, Any]], *, paper: str, place: str, model: str | None = None
    ) -> list[Row]:
        """Our rows with what the paper prints in that place for the same thing.

        A row and a number are of the same thing when they agree in `quantity`, `dataset`, `group`, `step` and
        `layer`; what a row lacks, or has as None or "", a number must lack too. Our model may be another than
        the paper's, which is the point of the comparison, so it is `model` that chooses among the paper's.

        Args:
            model: the published model to compare with; numbers that belong to no model always count.

        Returns:
            Each row with `published`, `published_spread`, `difference` (ours less the published one),
            `published_status`, `published_note`: None, and "" for text, where the paper has no such number.

        Raises:
            StrataprobeError: a row matches several numbers of that place.
        """
        placed = []
        for row in rows:
            wanted = _wanted(row)
            if model is not None and self.find(paper=paper, place=place, model=model, **wanted):
                wanted["model"] = model
            elif model is not None:
                wanted["model"] = ""
            number = self.look_up(paper=paper, place=place, **wanted)
            ours = row.get("value")
            placed.append(
                {
                    **row,
                    "published": None if number is None else number.value,
                    "published_spread": None if number is None else number.spread,
                    "difference": None if number is None or ours is None else ours - number.value,
                    "published_status": "" if number is None else number.status,
                    "published_note": "" if number is None else number.note,
                }
            )
        return placed


def read_numbers(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Numbers:
    """Read files of published numbers, or all three of a folder.

    Raises:
        StrataprobeError: a file is not there or has faults; all of them are listed, by line and column.
    """
    if isinstance(paths, str | os.PathLike):
        folder = Path(paths)
        paths = [folder / f"{paper}.csv" for paper in PAPERS] if folder.is_dir() else [folder]
    numbers: list[Number] = []
    faults: list[str] = []
    seen: dict[tuple[Any, ...], str] = {}
    for path in paths:
        for line, row in _lines(path, faults):
            number, wrong = _number(row)
            faults += [f"{path}:{line}: {fault}" for fault in wrong]
            if number is None:
                continue
            key = tuple(getattr(number, name) for name in _KEY)
            if key in seen:
                faults.append(
                    f"{path}:{line}: there already, at {seen[key]} (all of {', '.join(_KEY)} are equal)"
                )
            seen.setdefault(key, f"{path}:{line}")
            numbers.append(number)
    if faults:
        raise StrataprobeError(listing("published numbers", faults))
    return Numbers(numbers)


def _lines(path: str | os.PathLike[str], faults: list[str]) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with open(path, encoding="utf-8", newline="") as handle:
            reader = csv.DictReader(handle, restkey="", restval="")
            if tuple(reader.fieldnames or ()) != COLUMNS:
                faults.append(f"{path}:1: its header is not {','.join(COLUMNS)}")
                return
            for row in reader:
                if "" in row:
                    faults.append(f"{path}:{reader.line_num}: more fields than the header has")
                    continue
                yield reader.line_num, row
    except (OSError, UnicodeDecodeError) as error:
        faults.append(f"cannot read {path}: {error}")


def _number(row: Mapping[str, str]) -> tuple[Number | None, list[str]]:
    faults = [f"'{name}' is empty" for name in _REQUIRED if not row[name]]
    for name, allowed in (("status", STATUSES), ("paper", PAPERS)):
        if row[name] and row[name] not in allowed:
            faults.append(f"'{name}' is '{row[name]}', not one of {', '.join(allowed)}")
    if row["status"] in STATUSES[1:] and not row["note"]:
        faults.append(f"'note' is empty, but the status {row['status']} needs its reason")
    parsed: dict[str, Any] = {}
    for name, kind in (("step", int), ("layer", int), ("n", int), ("value", float), ("spread", float)):
        try:
            parsed[name] = kind(row[name]) if row[name] else None
            if kind is float and parsed[name] is not None and not math.isfinite(parsed[name]):
                raise ValueError
        except ValueError:
            wanted = "a whole number" if kind is int else "a finite number"
            faults.append(f"'{name}' is '{row[name]}', not {wanted}")
    if faults:
        return None, faults
    text = {name: row[name] for name in COLUMNS if name not in parsed}
    return Number(**text, **parsed, printed=row["value"]), []


def _wanted(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields by which a row is looked up."""
    wanted = {name: row.get(name) or "" for name in ("dataset", "quantity", "group")}
    for name in ("step", "layer"):
        value = row.get(name)
        wanted[name] = None if value in (None, "") else int(value)
    return wanted
