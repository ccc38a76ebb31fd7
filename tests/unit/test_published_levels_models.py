"""What the levels paper prints of several models stands beside the same quantity of ours, and only there."""

import csv
from collections import Counter

import pytest

import tabulate_levels_models
from strataprobe import files, levels, tables
from strataprobe.bootstrap import Estimate
from strataprobe.published import Numbers, levels_models, read_numbers
from tests import levels_cases as cases
from tests import levels_paper as paper
from tests.unit.test_levels_models import one
from tests.unit.test_published import FOLDER

PLACES = ("section 4.1", "section 4.2", "section 4.5")
OF_ONE_MODEL = {"behaviour", "lm_head", "probe", "surplus", "gap"}
NOT_IN_TABLE_1 = {"qwen3-1.7b", "llama-3.2-3b"}
BLANK = {
    "published_model": "", "published_place": "", "published": None, "difference": None,
    "published_status": "", "published_note": "",
}  # fmt: skip


@pytest.fixture(scope="module")
def numbers() -> Numbers:
    return read_numbers(FOLDER)


def of_the_paper(numbers, **settings) -> list[dict]:
    """Rows over the seven models with as many right answers as the paper's tables print."""
    each = zip(*(paper.summaries(numbers, model) for model in paper.MODELS), strict=True)
    models = [
        {"name": name, "family": paper.FAMILIES[name], "base": paper.BASES.get(name)} for name in paper.MODELS
    ]
    settings = paper.SETTINGS | {"bootstrap": 20} | settings
    return tables.levels_models_rows(*map(list, each), models, settings, numbers)


@pytest.fixture(scope="module")
def rows(numbers) -> list[dict]:
    return of_the_paper(numbers)


def standing(rows: list[dict]) -> list[dict]:
    return [row for row in rows if row["published"] is not None]


def change(
    model: str, split="all", name="change:mean_behavior", value=0.25, definition=""
) -> levels.Quantity:
    return levels.Quantity(name, model, f"{model}-base", split, Estimate(value), definition=definition)


def test_every_printed_number_of_several_models_stands_beside_one_row(rows, numbers):
    printed = Counter(
        (number.place, number.model, number.value / (100 if number.unit == "percent" else 1), number.status)
        for place in PLACES
        for number in numbers.find(paper="levels", place=place)
        if number.quantity not in OF_ONE_MODEL and number.model not in NOT_IN_TABLE_1
    )
    ours = Counter(
        (row["published_place"], row["published_model"], row["published"], row["published_status"])
        for row in standing(rows)
    )
    assert ours == printed
    assert sum(printed.values()) >= 17


def test_what_is_not_contradicted_agrees_up_to_the_rounding_of_the_paper_s_terms(rows):
    """Interval widths are not the paper's: which items are right, it does not say."""
    checked = 0
    for row in standing(rows):
        assert row["difference"] == pytest.approx(row["value"] - row["published"])
        if row["published_status"] == "ok" and "interval" not in row["quantity"]:
            tolerance = 0.002 if row["quantity"].startswith("relative") else 0.0011
            assert abs(row["difference"]) < tolerance, row
            checked += 1
    assert checked >= 12


def test_contradicted_numbers_are_told_from_what_the_paper_s_own_tables_give(rows):
    told = {
        row["quantity"]: (row["value"], row["published"], row["other"])
        for row in standing(rows)
        if row["published_status"] == "contradicted"
    }
    assert told == {
        "inverted_cells": (8, 3, ""),
        "leave_family_out_least:mean_behavior": (pytest.approx(0.529, abs=0.0005), 0.549, "qwen3"),
        "leave_family_out_most:mean_behavior": (pytest.approx(0.596, abs=0.0005), 0.552, "gemma"),
    }
    for row in standing(rows):
        assert row["published_note"] or row["published_status"] == "ok"


def test_beside_another_readout_or_probe_stands_nothing_but_behaviour_s_numbers(numbers):
    """Leave-pair-out probes of the decorrelated coding are not what the paper printed."""
    made = [
        list(column) for column in zip(cases.summaries(model="a"), cases.summaries(1, model="b"), strict=True)
    ]
    models = [{"name": "b", "base": "a"}]
    for conventions, more in (("default", False), ("published", True)):
        settings = cases.SETTINGS | {"bootstrap": 20, "conventions": conventions}
        found = {
            row["quantity"] for row in standing(tables.levels_models_rows(*made, models, settings, numbers))
        }
        assert found >= {
            "change:mean_behavior", "relative_change:mean_behavior", "widest_interval",
            "leave_family_out_least:mean_behavior",
        }  # fmt: skip
        compared = {
            "change:recoverability", "relative_change:recoverability", "change:surplus", "mean_surplus",
            "inverted_cells",
        }  # fmt: skip
        assert (found & compared == compared) if more else not found & compared


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("qwen3-0.6b-instruct", ("qwen3-0.6b", -0.084, "section 4.5")),
        ("qwen3-0.6b", ("qwen3-0.6b", -0.084, "section 4.5")),
        ("llama-3.2-1b-instruct", ("llama-3.2-1b", -0.063, "section 4.2")),
        ("gemma-4-e4b-it", ("", None, "")),  # measured by the paper, which prints no change of it
        ("qwen3-1.7b-instruct", ("", None, "")),  # only the change of its surplus is printed
        ("smollm2-135m-instruct", ("qwen3-0.6b", -0.084, "section 4.5")),
    ],
)
def test_a_change_stands_beside_that_of_its_own_pair_else_of_the_paper_s_main_one(numbers, model, expected):
    row = levels_models.beside(change(model), "control", numbers)
    assert (row["published_model"], row["published"], row["published_place"]) == expected
    assert row["difference"] == (None if expected[1] is None else pytest.approx(0.25 - expected[1]))


def test_only_the_same_quantity_of_the_same_items_has_a_number_beside_it(numbers):
    told = levels_models.beside(change("qwen3-0.6b"), "control", numbers)
    assert told["published"] == -0.084
    for other, dataset in (
        (change("qwen3-0.6b", split="en"), "control"),
        (change("qwen3-0.6b", name="change:qa"), "control"),
        (change("qwen3-0.6b", name="change:surplus", definition="readout default; coding paper"), "control"),
        (change("qwen3-0.6b"), "control-generated"),
        (levels.Quantity("mean_behavior", "", "", "all", Estimate(0.5)), "control"),
    ):  # fmt: skip
        assert levels_models.beside(other, dataset, numbers) == BLANK
    assert levels_models.beside(change("qwen3-0.6b"), "control", None) == BLANK
    absent = levels_models.beside(change("qwen3-0.6b", value=None), "control", numbers)
    assert (absent["published"], absent["difference"]) == (-0.084, None)


def test_percentages_are_given_as_fractions(numbers):
    share = change("qwen3-0.6b", name="relative_change:mean_behavior", value=-0.14)
    row = levels_models.beside(share, "control", numbers)
    assert row["published"] == pytest.approx(-0.141)
    assert row["difference"] == pytest.approx(0.001)


def test_the_script_writes_them_and_does_without_them(tmp_path):
    places = []
    pairs = zip(cases.summaries(model="a"), cases.summaries(1, model="b"), strict=True)
    for level, own in zip(("b", "r", "p"), pairs, strict=True):
        places.append([tmp_path / f"{level}{number}.json" for number in range(2)])
        for place, summary in zip(places[-1], own, strict=True):
            files.write_json(place, summary)
    settings = cases.SETTINGS | {"bootstrap": 20}
    how = {"models": [{"name": "b", "base": "a"}], "settings": settings}
    for name, numbers in (("with", FOLDER / "levels.csv"), ("without", None)):
        tabulate_levels_models.main(*places, tmp_path / f"{name}.csv", numbers=numbers, **how)
    beside, alone = (tables.read_rows(tmp_path / f"{name}.csv") for name in ("with", "without"))
    row = one(beside, quantity="change:mean_behavior", split="all")
    assert (row["published"], row["published_place"], row["published_status"]) == (
        -0.084,
        "section 4.5",
        "ok",
    )
    own = [column for column in tables.COLUMNS["levels_models"] if column not in BLANK]
    assert [[row[name] for name in own] for row in beside] == [[row[name] for name in own] for row in alone]
    assert {tuple(row[name] for name in BLANK) for row in alone} == {tuple(BLANK.values())}
    with (tmp_path / "with.csv").open(encoding="utf-8", newline="") as handle:
        assert tuple(next(csv.reader(handle))) == tables.COLUMNS["levels_models"]
