"""Rows of transfer, groups, controls, gates and floors say what those measures returned."""

import copy
import math

import numpy as np
import pytest

from strataprobe import tables
from strataprobe.datasets import gates
from strataprobe.datasets.pairs import Pair, PairsDataset
from strataprobe.errors import StrataprobeError
from tests import structure_cases as cases

THRESHOLD = 0.70


def one(rows: list[dict], **equal) -> dict:
    chosen = [row for row in rows if all(row[name] == value for name, value in equal.items())]
    assert len(chosen) == 1, (equal, chosen)
    return chosen[0]


def probe_summaries(seeds=cases.SEEDS, steps=cases.STEPS) -> list[dict]:
    return [cases.probe_summary(step, seed) for seed in seeds for step in steps]


def report_of(sentences: int = 6) -> dict:
    """A set that breaks one gate (two sentences too short) and keeps the others."""
    pairs = [
        Pair(
            id=f"p{n}",
            group="a",
            positive=f"The {n} {'quite old ' * (n > 1)}boats were cruel.",
            negative=f"The {n} {'quite old ' * (n > 1)}boats were small.",
            contrast=["cruel", "small"],
        )
        for n in range(sentences)
    ]
    dataset = PairsDataset(name="mine", path="mine.jsonl", pairs=tuple(pairs), sha256="0" * 64)
    return gates.report(gates.check(dataset, profile="syntax"), dataset, profile="syntax")


@pytest.fixture(scope="module")
def made() -> dict[str, list[dict]]:
    steps, seeds = cases.STEPS, cases.SEEDS
    each = [(step, seed) for step in steps for seed in seeds]
    return {
        "transfer": tables.transfer_rows([cases.transfer_summary(step) for step in steps]),
        "foundations": tables.foundations_rows([cases.foundations_summary(*of) for of in each]),
        "onsets": tables.onset_rows(probe_summaries(), THRESHOLD, replicates=50),
        "controls": tables.controls_rows([cases.controls_summary(20, seed) for seed in seeds]),
        "gates": tables.gate_rows([report_of()]),
        "floors": tables.floor_rows([cases.floor_file()]),
    }


@pytest.mark.parametrize("name", ["transfer", "foundations", "onsets", "controls", "gates", "floors"])
def test_rows_have_the_columns_of_their_table_and_are_read_back_the_same(name, made, tmp_path):
    rows = made[name]
    assert {frozenset(row) for row in rows} == {frozenset(tables.COLUMNS[name])}
    tables.write_csv(tmp_path / "t.csv", rows, tables.COLUMNS[name])
    frame = tables.read_table(tmp_path / "t.csv")
    assert len(frame) == len(rows)
    for row, cells in zip(rows, frame.to_dict("records"), strict=True):
        for column, value in row.items():
            if isinstance(value, float):
                assert cells[column] == pytest.approx(value, rel=1e-5)
            elif value is None:
                assert cells[column] == "" or np.isnan(cells[column])
            else:
                assert str(cells[column]) in (str(value), f"{value}.0")


@pytest.mark.parametrize("name", ["transfer", "foundations", "onsets", "controls", "gates", "floors"])
def test_no_row_is_there_twice(name, made):
    numbers = {"value", "interval_low", "interval_high", "accuracy", "floor", "floor_low", "floor_high"}
    numbers |= {"floor_at_chance", "decided_pairs", "features", "layer"}
    which = [column for column in tables.COLUMNS[name] if column not in numbers]
    if name == "controls":
        which.append("layer")
    seen = [tuple(row[column] for column in which) for row in made[name]]
    assert len(set(seen)) == len(seen)


def test_transfer_rows_are_both_conventions_of_every_group_left_out(made):
    summary, rows = cases.transfer_summary(20), made["transfer"]
    for selection in ("default", "published"):
        found = summary["transfer"][selection]
        whole = one(rows, step=20, quantity="transfer", selection=selection, group="all")
        assert (whole["value"], whole["layer"], whole["seed"]) == (found["mean"], None, None)
        assert [whole["interval_low"], whole["interval_high"]] == found["interval"]
        for group in cases.GROUPS:
            row = one(rows, step=20, quantity="transfer", selection=selection, group=group)
            assert (row["value"], row["layer"]) == (
                found["groups"][group]["accuracy"],
                found["groups"][group]["layer"],
            )
            assert [row["interval_low"], row["interval_high"]] == found["groups"][group]["interval"]


def test_the_lift_of_a_group_is_its_accuracy_above_its_own_floor(made):
    summary, floors = cases.transfer_summary(20), cases.floor_file()["groups"]
    lifts = []
    for group in cases.GROUPS:
        inside = summary["within_group"][group]
        row = one(made["transfer"], step=20, quantity="lift", selection="published", group=group)
        assert row["value"] == pytest.approx(inside["best"] - floors[group]["unigrams"]["floor"])
        assert row["layer"] == inside["layer"] == int(np.argmax(inside["by_layer"]))
        row = one(made["transfer"], step=20, quantity="lift", selection="default", group=group)
        assert row["layer"] == summary["in_distribution"]["best_layer"]
        at = inside["by_layer"][row["layer"]]
        lifts.append(at - floors[group]["unigrams"]["floor"])
        assert row["value"] == pytest.approx(lifts[-1])
    mean = one(made["transfer"], step=20, quantity="lift", selection="default", group="all")
    assert mean["value"] == pytest.approx(np.mean(lifts))


def test_the_floor_of_transfer_is_the_bag_of_words_on_the_same_groups(made):
    floor = cases.floor_file()["transfer"]["unigrams"]
    for step in cases.STEPS:
        row = one(made["transfer"], step=step, quantity="transfer_floor", group="all")
        assert row["value"] == floor["mean_accuracy"]
    row = one(made["transfer"], step=20, quantity="transfer_floor", group="third")
    assert row["value"] == floor["groups"]["third"]["accuracy"]


def test_in_distribution_says_both_how_the_layer_is_chosen_and_what_that_gives(made):
    inside = cases.transfer_summary(20)["in_distribution"]
    row = one(made["transfer"], step=20, quantity="in_distribution", selection="published")
    assert (row["value"], row["layer"]) == (inside["accuracy"], inside["best_layer"])
    row = one(made["transfer"], step=20, quantity="in_distribution", selection="default")
    assert (row["value"], row["layer"]) == (inside["selected"]["accuracy"], None)


def test_two_folds_leave_no_layer_to_choose_inside_and_no_row_for_it():
    rows = tables.transfer_rows([cases.transfer_summary(20, folds=2)])
    assert [row["selection"] for row in rows if row["quantity"] == "in_distribution"] == ["published"]


def test_foundations_rows_are_each_groups_peak_and_the_peak_of_permuted_labels(made):
    summary = cases.foundations_summary(20, 43)
    for group in cases.GROUPS:
        of = {"step": 20, "seed": 43, "group": group}
        layers = [s for s in summary["foundation_layer_scores"] if s["foundation"] == group]
        peak = one(made["foundations"], **of, quantity="peak_accuracy")
        assert peak["value"] == max(score["accuracy"] for score in layers)
        assert layers[peak["layer"]]["accuracy"] == peak["value"]
        first = next((s["layer"] for s in layers if s["accuracy"] >= cases.PROBE["onset_threshold"]), None)
        assert one(made["foundations"], **of, quantity="onset_layer")["value"] == first
        chance = summary["chance_peak"][group]["permutation"]
        assert one(made["foundations"], **of, quantity="chance_peak")["value"] == chance["mean"]
        high = one(made["foundations"], **of, quantity="chance_peak_high")
        assert (high["value"], high["test_items"]) == (chance["quantile_95"], 8)


def test_without_permutations_chance_has_no_row():
    rows = tables.foundations_rows([cases.foundations_summary(20, 42, 0)])
    assert {row["quantity"] for row in rows} == {"peak_accuracy", "onset_layer"}


def test_the_validation_gate_is_the_best_layer_above_the_floor_of_the_whole_set(made):
    floor = cases.floor_file()["whole"]["unigrams"]["floor"]
    for step in cases.STEPS:
        accuracy = one(made["transfer"], step=step, quantity="in_distribution", selection="published")
        lift = accuracy["value"] - floor
        wanted = {"floor": floor, "margin": 0.1, "lift": lift, "passed": float(lift >= 0.1)}
        for name, value in wanted.items():
            row = one(made["transfer"], step=step, quantity=f"gate_{name}")
            assert row["value"] == pytest.approx(value)
            assert (row["selection"], row["group"], row["layer"]) == ("", "all", None)
    passed = [row["value"] for row in made["transfer"] if row["quantity"] == "gate_passed"]
    assert {*passed} == {0.0, 1.0}, "both must occur, or the test sees nothing"


def test_gate_rows_are_every_gate_with_what_breaks_it():
    report = report_of()
    rows = tables.gate_rows([report])
    assert [row["gate"] for row in rows] == [gate["name"] for gate in report["gates"]]
    short = one(rows, gate="words_at_least")
    assert (short["value"], short["threshold"], short["passed"]) == (5, 6, "no")
    # Four sentences of five words: "The 0 boats were cruel." and its like.
    assert short["worst"] == "; ".join(f"p{n}:{side}: 5" for n in (0, 1) for side in ("negative", "positive"))
    assert one(rows, gate="repeated_sentences_at_most")["passed"] == "yes"


def test_floor_rows_are_every_scheme_kind_and_group(made):
    found, rows = cases.floor_file(), made["floors"]
    groups = ("all", *cases.GROUPS)
    kinds = ("unigrams", "characters", "length")
    assert {(r["scheme"], r["kind"], r["group"]) for r in rows} == {
        *(("folds", kind, group) for kind in kinds for group in groups),
        *(("seed42", kind, "all") for kind in kinds),
        *(("transfer", kind, group) for kind in kinds[:2] for group in groups),
    }
    row, score = one(rows, scheme="folds", kind="unigrams", group="all"), found["whole"]["unigrams"]
    assert row["floor"] == score["floor"] == max(row["accuracy"], 1 - row["accuracy"])
    assert [row["floor_low"], row["floor_high"]] == score["floor_interval"]
    assert (row["pairs"], row["below_chance"], row["likely_cause"]) == (36, "no", "")
    assert (row["decided_pairs"], row["floor_at_chance"]) == (
        score["decided_pairs"],
        score["floor_at_chance"],
    )
    for row in rows:
        if row["group"] != "all" or row["scheme"] == "folds":
            assert 0 <= row["decided_pairs"] <= row["pairs"]
            assert row["floor_at_chance"] == pytest.approx(by_coins(row["decided_pairs"], row["pairs"]))
    mean = one(rows, scheme="transfer", kind="unigrams", group="all")
    each = [one(rows, scheme="transfer", kind="unigrams", group=group) for group in cases.GROUPS]
    assert mean["accuracy"] == pytest.approx(np.mean([row["accuracy"] for row in each]))
    assert (mean["pairs"], mean["interval_low"], mean["below_chance"]) == (None, None, "")
    assert (mean["decided_pairs"], mean["floor_at_chance"]) == (None, None)


def by_coins(decided: int, pairs: int) -> float:
    """The larger of accuracy and its complement, expected where a coin decides each of some pairs."""
    chances = [math.comb(decided, right) / 2**decided for right in range(decided + 1)]
    right = [(heads + (pairs - decided) / 2) / pairs for heads in range(decided + 1)]
    return sum(chance * max(share, 1 - share) for chance, share in zip(chances, right, strict=True))


def test_a_dataset_of_one_group_has_no_transfer_rows():
    rows = tables.floor_rows([{**cases.floor_file(), "transfer": None}])
    assert {row["scheme"] for row in rows} == {"folds", "seed42"}


@pytest.mark.parametrize("name", ["transfer", "foundations", "onset", "controls"])
def test_a_summary_given_twice_or_without_a_key_field_is_refused_by_all(name):
    rows = {
        "transfer": (tables.transfer_rows, cases.transfer_summary(20)),
        "foundations": (tables.foundations_rows, cases.foundations_summary(20, 42)),
        "onset": (lambda given: tables.onset_rows(given, THRESHOLD), cases.probe_summary(20, 42)),
        "controls": (tables.controls_rows, cases.controls_summary(20, 42)),
    }
    make, summary = rows[name]
    lacking = copy.deepcopy(summary)
    del lacking["metadata"]["conventions"], lacking["dataset"]
    with pytest.raises(StrataprobeError) as caught:
        make([summary, summary, lacking])
    said = str(caught.value)
    assert "2 problems" in said
    assert "summary 1: there twice" in said
    assert "summary 2: missing dataset, conventions" in said
