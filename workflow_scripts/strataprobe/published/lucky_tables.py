"""The lucky-defaults paper's Tables 1 to 4 from our cells, the published numbers beside them.

Long rows, one a number, with the columns `COLUMNS`. Tables 1 and 2 set ours beside what is printed for the
same scope or threshold, whatever the model: the comparison is of what happens to a cell. Tables 3 and 4 list
cells; the paper's stand as rows of their own, or beside ours where ours is the same cell of the same model.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from strataprobe.concentration import LUCKY
from strataprobe.published.lucky_results import Cell, Cells, Row, at_scope, block_of, cell_name, quoted
from strataprobe.published.numbers import BESIDE, Number, Numbers

_TEXT = (
    *("model", "revision", "dataset", "cell", "path", "scope", "direction", "train_anchor", "test_anchor"),
    *("quantity", "threshold", "verdict", "note"),
)
_NUMBERS = ("layer", "value", "interval_low", "interval_high", "n")
_PUBLISHED = ("published_model", "published_cell", "published_verdict")
COLUMNS = (*_TEXT, *_NUMBERS, *_PUBLISHED, "published_n", *BESIDE)
TABLES = tuple(f"lucky_table{number}" for number in range(1, 5))
QUANTITIES = {
    "coarse_accuracy": "property_accuracy", "hhi": "hhi", "max_share": "max_share", "p_top_min": "p_w_min",
}  # fmt: skip
"""Our columns and what the published numbers call them."""

TITLES = {
    "lucky_table1": "Lucky-defaults paper, Table 1: one cell over readout scopes",
    "lucky_table2": "Lucky-defaults paper, Table 2: flagged cells by threshold",
    "lucky_table3": "Lucky-defaults paper, Table 3: cells that the marginal indices let pass",
    "lucky_table4": "Lucky-defaults paper, Table 4: p_w,min over scopes of the cells that pass at the first",
}
INDEX = {
    "lucky_table1": ("model", "dataset", "cell", "scope"),
    "lucky_table2": ("model", "dataset", "threshold"),
    "lucky_table3": ("model", "dataset", "cell", "scope"),
    "lucky_table4": ("model", "dataset", "cell", "path"),
}
_LAYERS = (
    "Our layers are blocks, from 0; the paper counts the embeddings as 0, so its layer is our block + 1."
)
INTRODUCTIONS = {
    "lucky_table1": (
        "Ours: of each model the cell with the highest A_π among those that pass the gate at the first "
        "scope, with 95 % intervals over its words and the verdict at each scope. Published: one cell of "
        f"OLMo-2 7B at the same scopes. {_LAYERS}"
    ),
    "lucky_table2": (
        "How many of the cells that pass at the first scope reach the threshold with p_w,min at any scope. "
        "Published: of the eight cells of Table 4, which are of three models."
    ),
    "lucky_table3": (
        "Cells with a high A_π whose every word goes to one class, while HHI and the largest share stay "
        "within the gate. Published: the cells of the development sweep, whose layers and anchors are not "
        "printed. A model without a row has no such cell."
    ),
    "lucky_table4": (
        "p_w,min, its 95 % interval over words and the verdict at each scope, of every cell that passes at "
        "the first. Published: beside ours where it is the same cell of the same model, else by itself. A "
        f"model without a row of ours has no such cell. {_LAYERS}"
    ),
}
_NAMES = {"coarse_accuracy": "A_π", "hhi": "HHI", "max_share": "largest share", "p_top_min": "p_w,min"}
_BOUNDS = {
    "coarse_accuracy": ("coarse_low", "coarse_high"),
    "p_top_min": ("p_top_min_low", "p_top_min_high"),
}
FLAGGED_CELLS = "flagged_cells"
_POOLED = "all models"
_PAPER = "lucky_defaults"
_FLAGGED = 0.95  # the paper's own threshold, section 3.2


def table1(models: Sequence[Cells], numbers: Numbers) -> list[Row]:
    """One cell of each model over the scopes: A_pi, HHI, largest share, p_w,min and verdict."""
    rows = []
    for found in models:
        if (best := found.best()) is None:
            continue
        cell, passes = best
        said = (
            "" if passes else f"no cell passes{at_scope(found.first, found.scopes)}: the highest A_π of all"
        )
        for scope in found.scopes:
            for quantity, published in QUANTITIES.items():
                number = numbers.look_up(paper=_PAPER, place="Table 1", dataset=scope, quantity=published)
                rows.append(_beside(_cell_row(found, cell, scope, quantity, note=said), number))
                said = ""  # once is enough for a cell
    return rows


def table2(
    models: Sequence[Cells], numbers: Numbers, sensitivity: Iterable[Mapping[str, Any]] = ()
) -> list[Row]:
    """Flagged cells by threshold: of each model, and of all together where there are several.

    Args:
        sensitivity: rows of the table `routing_sensitivity`; those of other checkpoints than `models` are
            left out.
    """
    last = {(found.model, found.revision, found.dataset) for found in models}
    counts: dict[tuple[str, str, str], dict[float, tuple[int, int]]] = {}
    for row in sensitivity:
        own = str(row["model"]), str(row["revision"]), str(row["dataset"])
        if own in last:
            at = counts.setdefault(own, {})
            at[float(row["threshold"])] = int(row["flagged"]), int(row["passed"])
    for dataset in dict.fromkeys(own[2] for own in counts):
        each = [at for own, at in counts.items() if own[2] == dataset]
        shared = [level for level in each[0] if all(level in at for at in each)]
        if len(each) > 1:
            summed = {
                level: tuple(map(sum, zip(*(at[level] for at in each), strict=True))) for level in shared
            }
            counts[_POOLED, "", dataset] = summed
    rows = []
    for (model, revision, dataset), at in counts.items():
        for level in sorted(at, reverse=True):
            flagged, passed = at[level]
            number = numbers.look_up(paper=_PAPER, place="Table 2", group=f"threshold {level:.2f}")
            own = {"model": model, "revision": revision, "dataset": dataset, "threshold": f"{level:g}"}
            row = _row(quantity=FLAGGED_CELLS, value=flagged, n=passed, note=f"of {passed}", **own)
            rows.append(_beside(row, number))
    return rows


def table3(models: Sequence[Cells], numbers: Numbers, *, hhi: float, max_share: float) -> list[Row]:
    """Cells that are lucky defaults while HHI and largest share are within the gate; then the paper's.

    Args:
        hhi: of the gate: an index below it is within.
        max_share: of the gate: a share up to it is within.
    """
    rows = []
    for found in models:
        for cell, by_scope in found.rows.items():
            for scope in found.scopes:
                own = by_scope.get(scope)
                if own and own["verdict"] == LUCKY and own["hhi"] < hhi and own["max_share"] <= max_share:
                    rows += [_beside(_cell_row(found, cell, scope, name), None) for name in QUANTITIES]
    ours = {theirs: name for name, theirs in QUANTITIES.items()}
    alone = [number for number in numbers.find(paper=_PAPER, place="Table 3") if number.quantity in ours]
    return rows + [_published_row(number, ours[number.quantity]) for number in alone]


def table4(models: Sequence[Cells], numbers: Numbers) -> list[Row]:
    """p_w,min over the scopes: cells that pass at the first, and published cells of models that we have."""
    printed = numbers.find(paper=_PAPER, place="Table 4")
    rows, beside = [], set()
    for found in models:
        numbered = {(cell, number.dataset): number for number in printed if (cell := found.matching(number))}
        same = {cell for cell, _ in numbered}
        for cell in found.rows:
            if cell in same or cell in found.passing:
                for scope in found.scopes:
                    number = numbered.get((cell, scope))
                    rows.append(_beside(_cell_row(found, cell, scope, "p_top_min"), number))
                    beside |= {number}
    flagged = {_published_cell(number) for number in printed if number.note == "flagged"}
    for number in printed:
        if number not in beside:
            path = LUCKY if _published_cell(number) in flagged else "retracted"
            rows.append({**_published_row(number, "p_top_min"), "path": path})
    return rows


OF_CELLS: dict[str, Callable[..., list[Row]]] = {
    "lucky_table1": table1,
    "lucky_table2": table2,
    "lucky_table3": table3,
    "lucky_table4": table4,
}


def made(
    cells: Iterable[Mapping[str, Any]],
    sensitivity: Iterable[Mapping[str, Any]],
    numbers: Numbers,
    *,
    hhi: float,
    max_share: float,
) -> dict[str, list[Row]]:
    """All four tables by name.

    Args:
        cells, sensitivity: rows of the tables `routing_cells` and `routing_sensitivity`, of any models.
        hhi, max_share: thresholds of the gate, for Table 3.
    """
    models = Cells.last(cells)
    return {
        "lucky_table1": table1(models, numbers),
        "lucky_table2": table2(models, numbers, sensitivity),
        "lucky_table3": table3(models, numbers, hhi=hhi, max_share=max_share),
        "lucky_table4": table4(models, numbers),
    }


def heading(table: str, row: Mapping[str, Any]) -> str:
    """What a row's column of the page is called."""
    if table == "lucky_table2":
        return "flagged cells"
    return f"p_w,min at {quoted(row['scope'])}" if table == "lucky_table4" else _NAMES[row["quantity"]]


def place(row: Mapping[str, Any]) -> str:
    """Which published number stands beside a row, for the notes of the page."""
    return " at ".join(filter(None, (row["published_cell"], row["scope"] or row["threshold"])))


def _row(**given: Any) -> Row:
    return dict.fromkeys(_TEXT, "") | dict.fromkeys(_NUMBERS) | given


def _cell_row(found: Cells, cell: Cell, scope: str, quantity: str, note: str = "") -> Row:
    """One number of one cell at one scope; without a value where the study has not this scope."""
    own = found.at(cell, scope) or {}
    bounds = (own.get(name) for name in _BOUNDS.get(quantity, ("", "")))
    direction, train, test, layer = cell
    return _row(
        model=found.model, revision=found.revision, dataset=found.dataset, cell=cell_name(cell),
        path=found.path(cell), scope=scope, direction=direction, train_anchor=train, test_anchor=test,
        layer=layer, quantity=quantity, value=own.get(quantity), n=own.get("items"),
        verdict=own.get("verdict", "") if quantity == "p_top_min" else "", note=note,
        **dict(zip(("interval_low", "interval_high"), bounds, strict=True)),
    )  # fmt: skip


def _published_row(number: Number, quantity: str) -> Row:
    """A number of the paper's that ours has no counterpart of, as a row of its own."""
    own = {"model": number.model, "dataset": "published", "cell": _published_cell(number)}
    return _beside(_row(**own, scope=number.dataset, quantity=quantity), number)


def _published_cell(number: Number) -> str:
    """As printed, with the block that its layer is here."""
    if number.layer is None:
        return number.group
    return f"{number.group}, layer {number.layer}, our block {block_of(number)}"


def _beside(row: Row, number: Number | None) -> Row:
    if number is None:
        blank = dict.fromkeys(("published_n", *BESIDE[:3]))
        return {**row, **blank, **dict.fromkeys((*_PUBLISHED, *BESIDE[3:]), "")}
    comparable = row["value"] is not None and (number.unit != "count" or row["n"] == number.n)
    flagged = number.quantity == QUANTITIES["p_top_min"] and number.value >= _FLAGGED
    return {
        **row,
        "published_model": number.model,
        "published_cell": _published_cell(number) if number.layer is not None else "",
        "published_n": number.n,
        "published_verdict": LUCKY if flagged else "",
        "published": number.value,
        "published_spread": number.spread,
        # Counts of different totals have no difference worth a number.
        "difference": row["value"] - number.value if comparable else None,
        "published_status": number.status,
        "published_note": number.note,
    }
