"""Rows of controls say what was measured, by layer and over layers, on the own test pairs and elsewhere."""

import copy

import numpy as np
import pytest

from strataprobe import tables
from tests import structure_cases as cases
from tests.unit.test_tables_structure import one

OWN = {"tested_on": "", "group": "all"}


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return tables.controls_rows([cases.controls_summary(20, 43)])


def test_controls_rows_are_each_layers_controls_and_those_of_mean_and_largest(rows):
    summary = cases.controls_summary(20, 43)
    over = ("accuracy", "control_accuracy", "selectivity", "null_mean", "null_high", "p")
    for layer, found in enumerate(summary["layers"]):
        for quantity in (*over, "q", "codelength_bits", "compression"):
            row = one(rows, **OWN, over="layer", layer=layer, quantity=quantity)
            assert (row["value"], row["interval_low"]) == (found[quantity], None)
        chosen = one(rows, **OWN, over="layer", layer=layer, quantity="selectivity")["value"]
        assert chosen == pytest.approx(found["accuracy"] - found["control_accuracy"])
    for which in ("mean", "max"):
        own = [row for row in rows if row["over"] == which and row["tested_on"] == ""]
        assert {row["quantity"]: row["value"] for row in own} == {name: summary[which][name] for name in over}
        assert {row["layer"] for row in own} == {None}
    accuracies = [layer["accuracy"] for layer in summary["layers"]]
    for which, value in (("mean", np.mean(accuracies)), ("max", max(accuracies))):
        assert one(rows, **OWN, over=which, quantity="accuracy")["value"] == pytest.approx(value)


def test_controls_rows_of_unseen_words_are_by_layer_and_their_mean_with_intervals(rows):
    worded = tables.controls_rows([cases.worded_controls(20, 42)])
    split = [row for row in worded if row["tested_on"] == "lexeme_split"]
    assert {(row["quantity"], row["group"]) for row in split} == {("accuracy", "all")}
    for layer, value in enumerate((0.5, 0.75, 0.875)):
        row = one(split, over="layer", layer=layer)
        assert (row["value"], row["interval_low"], row["interval_high"]) == (value, value - 0.1, value + 0.1)
    row = one(split, over="mean")
    assert (row["layer"], row["value"]) == (None, 2.125 / 3)
    assert (row["interval_low"], row["interval_high"]) == (0.6, 0.8)
    refused = cases.controls_summary(20, 43)["lexeme_split"]["refused"]
    assert refused, "the words of the made-up set all recur, so that nothing can be left out"
    assert not [row for row in rows if row["tested_on"] == "lexeme_split"]


def test_controls_rows_of_other_sets_are_accuracy_and_what_is_lost_whole_and_by_group(rows):
    summary = cases.controls_summary(20, 43)["validity"]
    places = [("swapped", "all"), ("said_again", "all"), *(("swapped", group) for group in cases.GROUPS)]
    assert {(row["tested_on"], row["group"]) for row in rows} == {("", "all"), *places}
    for name, group in places:
        tried = summary[name] if group == "all" else summary[name]["groups"][group]
        own = [row for row in rows if (row["tested_on"], row["group"]) == (name, group)]
        for layer, found in [*enumerate(tried["layers"]), (None, tried["mean"])]:
            over = "mean" if layer is None else "layer"
            for quantity in ("accuracy", "difference"):
                row = one(own, over=over, layer=layer, quantity=quantity)
                assert row["value"] == found[quantity]
                assert [row["interval_low"], row["interval_high"]] == found[f"{quantity}_interval"]
            there = one(own, over=over, layer=layer, quantity="accuracy")["value"]
            lost = one(own, over=over, layer=layer, quantity="difference")["value"]
            here = one(rows, **OWN, over=over, layer=layer, quantity="accuracy")["value"]
            assert lost == pytest.approx(there - here)
        agreement = [row for row in own if row["quantity"] == "agreement"]
        assert len(agreement) == (4 if name == "said_again" else 0), "only paraphrases have counterparts"


def test_a_control_that_was_refused_is_empty_and_not_zero():
    summary = copy.deepcopy(cases.controls_summary(20, 42))
    for found in (*summary["layers"], summary["mean"], summary["max"]):
        found |= {"control_accuracy": None, "selectivity": None}
    rows = tables.controls_rows([summary])
    assert {row["value"] for row in rows if row["quantity"] == "selectivity"} == {None}
