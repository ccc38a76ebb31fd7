"""Our tables in the paper's form as pages to read: ours and published side by side, a row a step or set."""

import html
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import pandas as pd

from strataprobe.files import atomic
from strataprobe.published import curation_tables, lucky_tables

_SELF_NAMED = {name: module for module in (lucky_tables, curation_tables) for name in module.TITLES}
"""Tables whose modules say what their pages are called."""
TITLES = {
    "table1": "Table 1: onset and plateau",
    "table2": "Table 2: accuracy and critical noise over training",
    "table3": "Table 3: mean critical noise over seeds",
    "tableA": "Table of appendix A: peak accuracy of each foundation's own probe",
    "tableD2": "Table of appendix D.2: lexical floors",
    "levels_table1": "Levels paper, Table 1: behaviour, LM-head readout, probe recoverability",
    "levels_table2": "Levels paper, Table 2: the two formats of behaviour",
    "levels_table3": "Levels paper, Table 3: best probe by feature mode",
    "levels_table4": "Levels paper, Table 4: probes of three seeds",
    "levels_table5": "Levels paper, Table 5: levels by language",
    "levels_table6": "Levels paper, Table 6: options in both orders",
    "levels_table7": "Levels paper, Table 7: behaviour and probe by control type",
    "levels_table8": "Levels paper, Table 8: verb-out in every mode",
    "levels_table9": "Levels paper, Table 9: verb-out at the peak for subject control",
    **{name: module.TITLES[name] for name, module in _SELF_NAMED.items()},
}
_INDEX = {
    "table1": ("model", "dataset"),
    "table2": ("model", "dataset", "step"),
    "table3": ("model", "dataset", "step"),
    "tableA": ("model", "dataset", "step"),
    "tableD2": ("dataset", "group"),
    "levels_table2": ("dataset", "language", "item", "variant"),
    **{f"levels_table{number}": ("model", "dataset") for number in (1, 3, 4, 9)},
    "levels_table5": ("model", "dataset", "language"),
    "levels_table6": ("model", "dataset", "variant"),
    "levels_table7": ("model", "dataset", "task", "type"),
    "levels_table8": ("model", "dataset", "mode", "type"),
    **{name: module.INDEX[name] for name, module in _SELF_NAMED.items()},
}
_LEVELS = "levels_"
_PROMPTS = "levels_table2"
_IN_GROUP = ("language", "variant", "task", "mode", "type")
"""Index names that a levels table's groups consist of, in the order in which they do."""
_OF_MODELS = (
    "Ours: mean over seeds ± standard deviation (ddof 1). Published: OLMo-2 1B, fragility paper; it stands "
    "only beside the same quantity in the same units, and is another model's number wherever ours is not "
    "OLMo-2 1B."
)
_OF_DATASETS = (
    "Ours: the sets of this study, by pair-disjoint folds. Published: fragility paper, of its own sets of "
    "the same construction."
)
_OF_LEVELS = (
    "Ours: of this study's own items. Published: levels paper, of the model that the notes name; it stands "
    "only beside the same quantity by the same definition. Layers as the paper counts them: k is the output "
    "of block k - 1, and 0 the embedding."
)
_OF_PROMPTS = (
    "Both continuations are scored by the sum of their tokens' log-probabilities; the answer is right where "
    "the gold candidate's is the higher one. Worded for this project after the paper's frames."
)
_COUNTS = (lucky_tables.FLAGGED_CELLS, *curation_tables.COUNTS)
_PEAKS = ("lm_head", "probe", "item_out")
"""Quantities of levels tables whose layer is named beside them."""
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
        table: of `TITLES`.
        rows: as `published.paper_tables` or `published.levels_tables` gives them.

    Returns:
        Index: what a row is of. Columns: (quantity, "ours" or "published"), the latter only where the paper
        prints one of them; a mean over seeds as "0.709 ± 0.025". A dagger marks a published number that is
        contradicted, a double dagger a withdrawn one.
    """
    names = _INDEX[table]
    if table == _PROMPTS:
        return _texts(rows, names)
    cells: dict[tuple[Any, ...], dict[tuple[str, str], str]] = {}
    sides: dict[str, set[str]] = {}
    for row in rows:
        heading = _heading(table, row)
        place = cells.setdefault(tuple(_place(row, name, names) for name in names), {})
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
            f"<p>{html.escape(_introduction(table))}</p>",
            f"<div>\n{_table(frame)}\n</div>" if len(frame) else "<p>No row.</p>",
            *(f"<p>{html.escape(note)}</p>" for note in _notes(table, rows)),
            "</body>\n</html>\n",
        ]
    )
    with atomic(path) as place:
        place.write_text(page, encoding="utf-8")


def _introduction(table: str) -> str:
    if table in _SELF_NAMED:
        return _SELF_NAMED[table].INTRODUCTIONS[table]
    if table.startswith(_LEVELS):
        return _OF_PROMPTS if table == _PROMPTS else _OF_LEVELS
    return _OF_DATASETS if table == "tableD2" else _OF_MODELS


def _texts(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> pd.DataFrame:
    """The prompts of Table 2: they are ours alone."""
    shown = {"prompt": "prompt", "a": "continuation of a", "b": "continuation of b", "gold": "gold"}
    return pd.DataFrame(
        [[str(row[name]) for name in shown] for row in rows],
        index=_index([tuple(row[name] for name in names) for row in rows], names),
        columns=_index([(said, "ours") for said in shown.values()] if rows else [], ("", "")),
    )


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
    if table == _PROMPTS:
        return
    rows = list(rows)
    yield from _beside(rows)
    marked = [row for row in rows if row["published"] is not None and row["published_status"] in _MARKS]
    there = {_MARKS[row["published_status"]] for row in marked}
    yield from (f"{mark} {meaning}." for mark, meaning in _MEANING.items() if mark in there)
    said: dict[tuple[str, str, str], dict[str, None]] = {}
    names = _INDEX[table]
    for row in marked:
        # The number is the paper's, so its note is the same beside every model of ours.
        place = (
            _SELF_NAMED[table].place(row)
            if table in _SELF_NAMED
            else " ".join(str(_place(row, name, names)) for name in names if name != "model")
        )
        key = _MARKS[row["published_status"]], _heading(table, row), row["published_note"]
        said.setdefault(key, {})[place] = None
    yield from (f"{mark} {what} ({', '.join(at)}): {note}." for (mark, what, note), at in said.items())


def _beside(rows: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Which published model stands beside which of ours."""
    pairs = {(row["model"], other) for row in rows if (other := row.get("published_model"))}
    if pairs:
        yield "Beside " + ", ".join(f"{own}: {other}" for own, other in sorted(pairs)) + "."


def _place(row: Mapping[str, Any], name: str, names: Sequence[str]) -> Any:
    if name in _IN_GROUP:
        within = [other for other in names if other in _IN_GROUP]
        return row["group"].split("/")[within.index(name)]
    if name == "group":
        return row["group"] or "all"
    if name == "step" and row["step"] is None:
        return "first at 100 %"
    return row[name]


def _heading(table: str, row: Mapping[str, Any]) -> str:
    if table in _SELF_NAMED:
        return _SELF_NAMED[table].heading(table, row)
    if table.startswith(_LEVELS):
        return _heading_of_level(table, row)
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


def _heading_of_level(table: str, row: Mapping[str, Any]) -> str:
    quantity, group = row["quantity"], row["group"]
    words = ["accuracy" if table == "levels_table6" else "mean behaviour" if group == "" else "behaviour"]
    if quantity not in ("behaviour", "debiased"):
        words = [quantity.replace("lm_head", "LM-head").replace("_", " ")]
    within = [name for name in _INDEX[table] if name in _IN_GROUP]
    words += group.split("/")[len(within) :] if group else []
    if table == "levels_table4" and group == "":
        words.append("mean")
    if table == "levels_table1" and quantity.startswith(("lm_head", "probe")):
        words.append(row["definition"])
    return ", ".join(words)


def _ours(row: Mapping[str, Any]) -> str:
    """Steps and counts as they are, everything else to three digits after the point."""
    whole = "step" in str(row["quantity"]) or row["quantity"] in _COUNTS

    def said(number: float) -> str:
        return f"{number:.0f}" if whole and float(number).is_integer() else f"{number:.{1 if whole else 3}f}"

    text = "-" if row["value"] is None else said(row["value"])
    if row.get("spread") is not None:
        text += f" ± {said(row['spread'])}"
    if row.get("interval_low") is not None:
        text += f" [{said(row['interval_low'])}, {said(row['interval_high'])}]"
    said_too = [_at(row["hidden_state"], row["mode"], row["group"])] if _is_peak(row) else []
    said_too += [each for each in (row.get("verdict"), row["note"]) if each]
    return f"{text} ({', '.join(said_too)})" if said_too else text


def _is_peak(row: Mapping[str, Any]) -> bool:
    """Whether a row of a levels table is of a layer that is worth naming beside it."""
    chosen = row["quantity"] in _PEAKS and not row["group"].startswith("seed")
    return chosen and row.get("hidden_state") is not None


def _at(hidden_state: int, mode: str = "", group: str = "") -> str:
    """A layer, and the mode where the group does not say it already."""
    return f"layer {hidden_state}" + (f" {mode}" if mode and mode not in group.split("/") else "")


def _published(row: Mapping[str, Any]) -> str:
    """No more digits than are printed: 0.96 is not 0.960."""
    numbers = [row[name] for name in ("published", "published_spread") if row[name] is not None]
    text = " ± ".join(f"{number:.10g}" for number in numbers) + _MARKS.get(row["published_status"], "")
    if verdict := row.get("published_verdict"):
        text += f" ({verdict})"
    layer = row.get("published_hidden_state")
    return text if layer is None or row["quantity"] not in _PEAKS else f"{text} ({_at(layer)})"
