"""Our tables in the paper's form as pages to read: ours and published side by side, a row a step or set."""

import html
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import pandas as pd

from strataprobe.files import atomic

TITLES = {
    "table1": "Table 1: onset and plateau",
    "table2": "Table 2: accuracy and critical noise over training",
    "table3": "Table 3: mean critical noise over seeds",
    "tableA": "Table of appendix A: peak accuracy of each foundation's own probe",
    "tableD2": "Table of appendix D.2: lexical floors",
}
_INDEX = {
    "table1": ("model", "dataset"),
    "table2": ("model", "dataset", "step"),
    "table3": ("model", "dataset", "step"),
    "tableA": ("model", "dataset", "step"),
    "tableD2": ("dataset", "group"),
}
_OF_MODELS = (
    "Ours: mean over seeds ± standard deviation (ddof 1). Published: OLMo-2 1B, fragility paper; it stands "
    "only beside the same quantity in the same units, and is another model's number wherever ours is not "
    "OLMo-2 1B."
)
_OF_DATASETS = (
    "Ours: the sets of this study, by pair-disjoint folds. Published: fragility paper, of its own sets of "
    "the same construction."
)
_MARKS = {"contradicted": "†", "withdrawn": "‡"}
_MEANING = {
    "†": "contradicted by another number of the same paper or of its authors' files",
    "‡": "withdrawn by its authors",
}
_STYLE = (
    "body{font:14px/1.45 sans-serif;color:#222;margin:1.5em}"
    "p{max-width:60em;color:#444}"
    "div{overflow-x:auto}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    "th,td{padding:.25em .7em;text-align:right;white-space:nowrap}"
    "thead th{text-align:center;vertical-align:bottom;white-space:normal;min-width:5em;max-width:11em}"
    "thead tr:last-child th,thead th[rowspan]{border-bottom:1px solid #222}"
    "thead th[rowspan]{text-align:left}"
    "tbody th{text-align:left;font-weight:normal}"
    "tbody tr:nth-child(even) td{background:#f4f4f4}"
    ".first{border-left:1px solid #ccc}"
)


def wide(table: str, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows of one table, spread out: two columns a quantity, ours and published, as text.

    Args:
        table: "table1", "table2", "table3", "tableA" or "tableD2".
        rows: as `published.paper_tables` gives them.

    Returns:
        Index: what a row is of. Columns: (quantity, "ours" or "published"), the latter only where the paper
        prints one of them; a mean over seeds as "0.709 ± 0.025". A dagger marks a published number that is
        contradicted, a double dagger a withdrawn one.
    """
    names = _INDEX[table]
    cells: dict[tuple[Any, ...], dict[tuple[str, str], str]] = {}
    sides: dict[str, set[str]] = {}
    for row in rows:
        heading = _heading(table, row)
        place = cells.setdefault(tuple(_place(row, name) for name in names), {})
        place[heading, "ours"] = _ours(row)
        sides.setdefault(heading, {"ours"})
        if row["published"] is not None:
            place[heading, "published"] = _published(row)
            sides[heading].add("published")
    keys = [(heading, side) for heading, found in sides.items() for side in sorted(found)]
    return pd.DataFrame(
        [[own.get(key, "") for key in keys] for own in cells.values()],
        index=_index(list(cells), names),
        columns=_index(keys, ("", "")),
    )


def write_page(path: str | os.PathLike[str], table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write one table as a page of its own, complete or not at all."""
    frame, title = wide(table, rows), html.escape(TITLES[table])
    page = "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>",
            f"<p>{html.escape(_OF_DATASETS if table == 'tableD2' else _OF_MODELS)}</p>",
            f"<div>\n{_table(frame)}\n</div>" if len(frame) else "<p>No row.</p>",
            *(f"<p>{html.escape(note)}</p>" for note in _notes(table, rows)),
            "</body>\n</html>\n",
        ]
    )
    with atomic(path) as place:
        place.write_text(page, encoding="utf-8")


def _index(keys: list[tuple[Any, ...]], names: Sequence[str]) -> pd.MultiIndex:
    """An index of tuples that may be none."""
    levels = list(zip(*keys, strict=True)) if keys else [[] for _ in names]
    return pd.MultiIndex.from_arrays(levels, names=names)


def _table(frame: pd.DataFrame) -> str:
    """The frame in two rows of headings; what a row shares with the one above is left out."""
    runs = [(heading, len(list(run))) for heading, run in groupby(heading for heading, _ in frame.columns)]
    upper = [_cell("th", name, rowspan=2) for name in frame.index.names]
    upper += [_cell("th", heading, colspan=count, **{"class": "first"}) for heading, count in runs]
    first = [{"class": "first"} if side == "ours" else {} for _, side in frame.columns]
    lower = [_cell("th", side, **look) for (_, side), look in zip(frame.columns, first, strict=True)]
    body, above = [], (None,) * frame.index.nlevels
    for place, values in zip(frame.index, frame.to_numpy(), strict=True):
        same = [place[: level + 1] == above[: level + 1] for level in range(len(place))]
        named = ["" if known else str(name) for name, known in zip(place, same, strict=True)]
        cells = [_cell("td", value, **look) for value, look in zip(values, first, strict=True)]
        body.append("".join([*(_cell("th", name, scope="row") for name in named), *cells]))
        above = place
    head = [f"<tr>{''.join(cells)}</tr>" for cells in (upper, lower)]
    lines = ["<table>", "<thead>", *head, "</thead>", "<tbody>", *(f"<tr>{row}</tr>" for row in body)]
    return "\n".join([*lines, "</tbody>", "</table>"])


def _cell(tag: str, text: str, **attributes: Any) -> str:
    said = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<{tag}{said}>{html.escape(text)}</{tag}>"


def _notes(table: str, rows: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """What each mark means, then what is known of the marked numbers, those alike together."""
    marked = [row for row in rows if row["published"] is not None and row["published_status"] in _MARKS]
    there = {_MARKS[row["published_status"]] for row in marked}
    yield from (f"{mark} {meaning}." for mark, meaning in _MEANING.items() if mark in there)
    said: dict[tuple[str, str, str], dict[str, None]] = {}
    for row in marked:
        # The number is the paper's, so its note is the same beside every model of ours.
        place = " ".join(str(_place(row, name)) for name in _INDEX[table] if name != "model")
        key = _MARKS[row["published_status"]], _heading(table, row), row["published_note"]
        said.setdefault(key, {})[place] = None
    yield from (f"{mark} {what} ({', '.join(at)}): {note}." for (mark, what, note), at in said.items())


def _place(row: Mapping[str, Any], name: str) -> Any:
    if name == "group":
        return row["group"] or "all"
    if name == "step" and row["step"] is None:
        return "first at 100 %"
    return row[name]


def _heading(table: str, row: Mapping[str, Any]) -> str:
    if table == "tableA":
        return str(row["group"])
    words = [str(row["quantity"]).replace("_", " ")]
    if row["group"] and table != "tableD2":
        words.append(str(row["group"]))
    if row["control"] and row["control"] != "raw":
        words.append("in units of RMS")
    if row["means"]:
        words.append(str(row["means"]))
    return ", ".join(words)


def _ours(row: Mapping[str, Any]) -> str:
    """Steps as they are, everything else to three digits after the point."""
    whole = "step" in str(row["quantity"])

    def said(number: float) -> str:
        return f"{number:.0f}" if whole and float(number).is_integer() else f"{number:.{1 if whole else 3}f}"

    text = "-" if row["value"] is None else said(row["value"])
    if row["spread"] is not None:
        text += f" ± {said(row['spread'])}"
    return f"{text} ({row['note']})" if row["note"] else text


def _published(row: Mapping[str, Any]) -> str:
    """No more digits than are printed: 0.96 is not 0.960."""
    numbers = [row[name] for name in ("published", "published_spread") if row[name] is not None]
    return " ± ".join(f"{number:.10g}" for number in numbers) + _MARKS.get(row["published_status"], "")
