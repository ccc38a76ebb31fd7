"""Section 4.3 of the fragility paper from our fine-tuning experiments, the published values beside ours.

Long rows, one a number, with the columns of the paper's other tables: `model` is the experiment, `group` the
condition. What is published stands beside the condition of the same name, whatever the model, the corpus and
the length of the run: its last step beside our last, its loss at the start beside ours.

The paper compares raw critical noise alone. Whether its separation outlives the scale controls (the quantity
`undercutting` of the table `curation_differences`) cannot be asked of it: the files of its runs hold
accuracies and critical noise, neither activations nor their scale (a later rerun of its authors has the RMS
by layer; none of it is printed). Rows in units of RMS are ours alone.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from strataprobe.onsets import spread
from strataprobe.published.numbers import BESIDE, Number, Numbers
from strataprobe.published.paper_tables import PAPER_MODEL
from strataprobe.tabular import SEED_MEAN
from strataprobe.tabular.curation_columns import BASE

Row = dict[str, Any]
Which = tuple[str, str, str, str]

TABLE = "section4_3"
TITLES = {TABLE: "Section 4.3: fine-tuning on several corpora"}
INDEX = {TABLE: ("model", "dataset", "group")}
INTRODUCTIONS = {
    TABLE: (
        "Ours: each condition at its last step, mean over runs ± standard deviation (ddof 1), a run being "
        "the mean over seeds of the probe's split; base, before fine-tuning, over those seeds. Critical "
        "noise in activation units where it does not say RMS, loss in nats a token. Published: OLMo-2 1B "
        "from step 1000 of its pre-training, 16 layers, one run of 1000 steps, one split, one noise draw "
        "(fragility paper); it stands beside the condition of the same name, is of another corpus, and of "
        "another model wherever ours is not OLMo-2 1B. Raw noise alone cannot tell robustness from the "
        "scale of activations: whether a separation outlives the scale controls stands in the table "
        "curation_differences, and cannot be asked of the published numbers, which come without activations."
    )
}
COUNTS = ("fragile_layers", "corpus_tokens")
"""Whole numbers, without a difference from the published ones: those are of other totals and other texts."""
HEADINGS: dict[Which, str] = {
    ("peak_accuracy", "", "", ""): "peak accuracy",
    ("mean_accuracy", "", "", ""): "mean accuracy",
    (
        "mean_critical_noise",
        "raw",
        "grid_sampled",
        "capped",
    ): "mean critical noise, sampled on the grid, capped",
    ("mean_critical_noise", "raw", "grid_exact", "capped"): "mean critical noise, exact on the grid, capped",
    ("mean_critical_noise", "raw", "continuous", "dropped"): "mean critical noise, continuous, dropped",
    ("mean_critical_noise", "rms_after", "continuous", "dropped"): (
        "mean critical noise, in units of RMS, continuous, dropped"
    ),
    ("fragile_layers", "raw", "grid_sampled", ""): "fragile layers",
    ("loss", "", "", ""): "loss",
    ("corpus_tokens", "", "", ""): "corpus tokens",
}
"""(quantity, control, statistic, means) of what is shown, in order, and its column on the page."""

_PLACE = {"paper": "fragility", "place": "section 4.3", "model": PAPER_MODEL}
_BASE_REVISION = "step1000"
# Of the four values of critical noise the paper's is the one from one draw on its grid.
_OURS_ALONE = {which for which in HEADINGS if which[1] and which[2] != "grid_sampled"}


def section4_3(curation: Iterable[Mapping[str, Any]], numbers: Numbers) -> list[Row]:
    """Accuracy, critical noise, fragile layers, loss and corpus of each condition, the base first.

    Args:
        curation: rows of the table `curation`, of any experiments and datasets; single runs and seeds
            count, `mean` rows do not.

    Returns:
        Rows with `paper_tables.COLUMNS`: the value is the mean over runs of each run's mean over seeds, the
        spread that of the runs' means (ddof 1), n the runs; of the base they are over seeds.
    """
    rows = []
    for (experiment, dataset, condition), own in _by_condition(curation).items():
        last = max(row["step"] for row in own)
        for which in HEADINGS:
            for step in dict.fromkeys((0, last) if which[0] == "loss" else (last,)):
                found = [row for row in own if row["step"] == step and _which(row) == which]
                if found:
                    place = {"model": experiment, "dataset": dataset, "group": condition, "step": step}
                    named = dict(zip(("quantity", "control", "statistic", "means"), which, strict=True))
                    rows.append(_beside({**place, **named, **_over_runs(found)}, numbers))
    return rows


def heading(table: str, row: Mapping[str, Any]) -> str:
    """What a row's column of the page is called."""
    said = HEADINGS[_which(row)]
    if row["quantity"] != "loss":
        return said
    return f"{said} at the first step" if row["step"] == 0 else f"{said} before the last snapshot"


def place(row: Mapping[str, Any]) -> str:
    """Which published number stands beside a row, for the notes of the page."""
    return str(row["group"])


def _by_condition(curation: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str], list[Row]]:
    """(experiment, dataset, condition) -> its rows of single runs and seeds; the base before the others."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in curation:
        if row["seed"] != SEED_MEAN:
            found.setdefault((row["experiment"], row["dataset"], row["condition"]), []).append(dict(row))
    tables = list(dict.fromkeys(key[:2] for key in found))
    return dict(sorted(found.items(), key=lambda item: (tables.index(item[0][:2]), item[0][2] != BASE)))


def _which(row: Mapping[str, Any]) -> Which:
    quantity, control, statistic, means = (
        row[name] or "" for name in ("quantity", "control", "statistic", "means")
    )
    return quantity, control, statistic, means


def _over_runs(rows: Sequence[Mapping[str, Any]]) -> Row:
    """Mean, spread and number of the runs' means over seeds; of the base, which has no run, of its seeds."""
    of_base = all(row["run"] == "" for row in rows)
    runs: dict[str, list[float]] = {}
    for row in rows:
        if row["value"] is not None:
            runs.setdefault(row["seed"] if of_base else row["run"], []).append(float(row["value"]))
    means = [float(np.mean(values)) for values in runs.values()]
    note = "over seeds" if of_base and len(means) > 1 else ""
    return {"value": float(np.mean(means)) if means else None, "spread": spread(means), "n": len(means),
            "note": note}  # fmt: skip


def _beside(row: Row, numbers: Numbers) -> Row:
    number = _number(row, numbers)
    if number is None:
        return {**row, **dict.fromkeys(BESIDE[:3]), **dict.fromkeys(BESIDE[3:], "")}
    comparable = row["value"] is not None and row["quantity"] not in COUNTS
    said = [number.note, f"of {number.n} layers" if row["quantity"] == "fragile_layers" else ""]
    return {
        **row,
        "note": "published: of another corpus" if row["quantity"] == "corpus_tokens" else row["note"],
        "published": number.value,
        "published_spread": number.spread,
        "difference": row["value"] - number.value if comparable else None,
        "published_status": number.status,
        "published_note": "; ".join(filter(None, said)),
    }


def _number(row: Mapping[str, Any], numbers: Numbers) -> Number | None:
    """What the paper prints of the same condition: at its start beside our first step, else at its end."""
    if _which(row) in _OURS_ALONE:
        return None
    # A condition may say more after the paper's name for it, as narrative-sized does.
    name = re.split(r"[-_.]", row["group"])[0]
    revision = _BASE_REVISION if row["group"] == BASE else f"lora-{name}"
    found = [
        number
        for number in numbers.find(**_PLACE, revision=revision, quantity=row["quantity"])
        if number.dataset in ("", row["dataset"])
        and (row["quantity"] != "loss" or (number.step == 0) == (row["step"] == 0))
    ]
    return found[0] if found else None
