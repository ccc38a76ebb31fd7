"""Tables of the lucky-defaults study say what was measured, and are read back as they were written."""

import json

import numpy as np
import pytest

from strataprobe import concentration, tables
from strataprobe.errors import StrataprobeError
from strataprobe.tables.routing import LISTS, routing_rows
from strataprobe.tabular.routing_columns import ROUTING_COLUMNS, ROUTING_KEY
from tests import routing_cases as cases

NAMES = list(LISTS)


@pytest.fixture(scope="module")
def summary() -> dict:
    """As a job writes it and another reads it back."""
    return json.loads(json.dumps(cases.summary()))


@pytest.mark.parametrize("name", NAMES)
def test_rows_have_the_columns_of_their_table_and_are_read_back_the_same(name, summary, tmp_path):
    rows = routing_rows(name, [summary])
    assert [list(row) for row in rows[:1]] == [list(ROUTING_COLUMNS[name])]
    assert len(rows) == len(summary[LISTS[name]]) > 1
    tables.write_csv(tmp_path / "t.csv", rows, tables.COLUMNS[name])
    assert (tmp_path / "t.csv").read_text().splitlines()[0] == ",".join(ROUTING_COLUMNS[name])
    for row, back in zip(rows, tables.read_rows(tmp_path / "t.csv"), strict=True):
        for column, value in row.items():
            if isinstance(value, float):
                assert back[column] == pytest.approx(value, rel=1e-5)
            elif (name, column) == ("routing_sensitivity", "passed"):
                assert back[column] == str(value), "the gates' column of that name holds yes and no"
            else:
                assert back[column] == value, column
                assert type(back[column]) is type(value), column


@pytest.mark.parametrize("name", NAMES)
def test_no_row_is_there_twice(name, summary):
    which = {
        "routing_cells": ("scope", *cases.CELL),
        "routing_counts": ("scope", *cases.CELL, "item", "canonical", "predicted"),
        "routing_words": ("word",),
        "routing_leakage": ("notation", "anchor", "layer"),
        "routing_sensitivity": ("threshold",),
        "many_class": ("partition", "layer"),
    }[name]
    seen = [tuple(row[column] for column in which) for row in routing_rows(name, [summary])]
    assert len(set(seen)) == len(seen)


def test_each_row_says_whose_it_is_in_the_order_of_the_summaries():
    given = [
        cases.summary("a", revision=f"step{step}", step=step, passing=False, dataset="words")
        for step in (0, 500)
    ]
    rows = routing_rows("routing_sensitivity", given)
    assert [tuple(row[name] for name in ROUTING_KEY) for row in rows[:: len(cases.THRESHOLDS)]] == [
        ("a", "step0", 0, "words"), ("a", "step500", 500, "words"),
    ]  # fmt: skip


def test_yes_and_no_lists_and_nothing_are_text_where_the_column_is(summary):
    words = {row["word"]: row for row in routing_rows("routing_words", [summary])}
    assert (words["nand"]["canonical"], words["bliq"]["canonical"]) == ("yes", "no")
    assert words["bliq"]["pieces"] == "bl iq"
    assert words["nand"]["real_words"] == ""
    assert words["bliq"]["attracted"] is None
    without = {**summary, "words": [{**summary["words"][0], "target": None}]}
    assert routing_rows("routing_words", [without])[0]["target"] == ""


def test_all_faults_of_summaries_are_listed_at_once(summary):
    broken = [{name: value for name, value in row.items() if name != "hhi"} for row in summary["cells"][:3]]
    broken.append({**summary["cells"][3], "herfindahl": 0.5})
    given = [
        summary,
        summary,
        {**summary, "model": "b", "cells": broken},
        {"model": "c", "revision": "main", "cells": []},
        {**summary, "model": "d", "cells": None},
    ]
    with pytest.raises(StrataprobeError) as caught:
        routing_rows("routing_cells", given)
    said = str(caught.value).splitlines()
    assert said[0] == "routing_cells: 5 problems"
    assert [line.strip() for line in said[1:]] == [
        "summary 1: there twice (model made-up, revision main, step None, dataset operators)",
        "summary 3: it lacks step, dataset",
        "summary 2, cells[0] and 2 more: lacks hhi",
        "summary 2, cells[3]: has herfindahl, which the table has not",
        "summary 4: it has no list 'cells'",
    ]


def test_the_columns_are_those_that_the_library_of_the_diagnostic_gives():
    """What it says of a cell goes into the table whole; a renamed column would be lost silently."""
    assert set(concentration.COLUMNS) <= set(ROUTING_COLUMNS["routing_cells"])
    assert set(ROUTING_COLUMNS["many_class"]) - set(concentration.COLUMNS) == {
        *ROUTING_KEY, "partition", "layer", "depth", "classes", "items", "stimuli", "class_accuracy",
        "property_accuracy", "in_p_top_min", "in_p_top_mean",
    }  # fmt: skip


def test_the_made_up_study_agrees_with_the_library_of_the_diagnostic(summary):
    """Measures, verdicts, paths and threshold counts, each found by two separate pieces of code."""
    by_scope = {scope: [row for row in summary["cells"] if row["scope"] == scope] for scope in cases.SCOPES}
    verdicts, least = [], []
    for scope, rows in by_scope.items():
        count, words = cases.SCOPES[scope]
        classes, items = list(cases.CLASSES)[:count], list(cases.ITEMS)[:words]
        table = np.zeros((len(rows), words, count), dtype=int)
        place = {tuple(row[name] for name in cases.CELL): number for number, row in enumerate(rows)}
        for row in summary["counts"]:
            if row["scope"] == scope and not row["canonical"]:
                cell = place[tuple(row[name] for name in cases.CELL)]
                table[cell, items.index(row["item"]), classes.index(row["predicted"])] = row["count"]
        sides = [cases.SIDES.index(cases.CLASSES[name]) for name in classes]
        found = concentration.measure(table, sides, [cases.SIDES.index(cases.ITEMS[name]) for name in items])
        for name in ("coarse_accuracy", "p_top_min", "p_top_mean", "max_share", "hhi", "side_mass"):
            assert getattr(found, name) == pytest.approx([row[name] for row in rows]), (scope, name)
        accuracy = np.array([row["property_accuracy"] for row in rows])
        verdicts.append(concentration.verdicts(found, concentration.Thresholds(), accuracy))
        least.append(found.p_top_min)
        assert list(verdicts[-1]) == [row["verdict"] for row in rows]
    floors, given = np.stack(least, axis=1), np.stack(verdicts, axis=1)
    paths = concentration.paths(given, floors, concentration.Thresholds())
    assert list(paths) == [row["path"] for row in by_scope["5x5"]]
    assert set(paths) == set(concentration.PATHS), "every path is there"
    passed = given[:, 0] == concentration.PASS
    assert concentration.sensitivity(floors, passed, cases.THRESHOLDS) == summary["sensitivity"]
