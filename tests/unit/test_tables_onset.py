"""Rows of onsets: on each seed's curve and on the mean curve, with intervals over the test pairs."""

import copy

import numpy as np
import pytest

import tabulate_onsets
from strataprobe import files, onsets, tables
from strataprobe.errors import StrataprobeError
from tests import structure_cases as cases
from tests.unit.test_tables_structure import THRESHOLD, one, probe_summaries

BOUNDED = ("onset_step", "sustained_step", "onset_accuracy", "plateau")


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return tables.onset_rows(probe_summaries(), THRESHOLD, replicates=400, seed=1)


def bounds(rows: list[dict], seed, quantity: str) -> tuple[float | None, float | None]:
    row = one(rows, seed=seed, quantity=quantity)
    return row["interval_low"], row["interval_high"]


def test_onset_rows_are_found_on_each_seeds_curve_and_on_the_mean_curve(rows):
    curves = {
        seed: [cases.probe_summary(step, seed)["mean_accuracy"] for step in cases.STEPS]
        for seed in cases.SEEDS
    }
    curves["mean"] = np.mean(list(curves.values()), axis=0).tolist()
    for seed, curve in curves.items():
        first = next(step for step, value in zip(cases.STEPS, curve, strict=True) if value >= THRESHOLD)
        assert one(rows, seed=seed, quantity="onset_step")["value"] == first
        assert one(rows, seed=seed, quantity="plateau")["value"] == pytest.approx(curve[-1])
        at = one(rows, seed=seed, quantity="onset_accuracy")["value"]
        assert at == pytest.approx(curve[cases.STEPS.index(first)])
        shape = onsets.transition(list(zip(cases.STEPS, curve, strict=True)), curve[-1])
        row = one(rows, seed=seed, quantity="transition_steps")
        assert (row["value"], row["state"]) == (shape["steps"], shape["kind"])
    assert {row["step"] for row in rows} == {cases.STEPS[-1]}
    assert {row["revision"] for row in rows} == {f"step{cases.STEPS[-1]}"}


def test_an_onset_that_is_not_reached_is_a_row_without_a_value():
    rows = tables.onset_rows(probe_summaries(), 1.01, replicates=50)
    for quantity in ("onset_step", "onset_accuracy"):
        for seed in (*cases.SEEDS, "mean"):
            assert one(rows, seed=seed, quantity=quantity)["value"] is None
            assert bounds(rows, seed, quantity) == (None, None)


def test_the_mean_curve_has_only_the_checkpoints_that_every_seed_has():
    """Else its onset could come from one seed alone."""
    whole = probe_summaries()
    kept = [summary for summary in whole if (summary["step"], summary["seed"]) != (20, 43)]
    assert one(tables.onset_rows(whole, 0.75), seed="mean", quantity="onset_step")["value"] == 20
    assert one(tables.onset_rows(kept, 0.75), seed="mean", quantity="onset_step")["value"] == 40
    assert one(tables.onset_rows(kept, 0.75), seed=42, quantity="onset_step")["value"] == 20


@pytest.mark.parametrize("step", [20, None])
def test_one_checkpoint_or_none_with_a_step_has_no_onset(step, tmp_path):
    summaries = [{**cases.probe_summary(20, seed), "step": step} for seed in cases.SEEDS]
    assert tables.onset_rows(summaries, THRESHOLD) == []
    for seed, summary in zip(cases.SEEDS, summaries, strict=True):
        files.write_json(tmp_path / f"{seed}.json", summary)
    tabulate_onsets.main(
        [tmp_path / f"{seed}.json" for seed in cases.SEEDS],
        tmp_path / "t.csv",
        settings={"threshold": THRESHOLD, "bootstrap": 50, "seed": 42},
    )
    assert (tmp_path / "t.csv").read_text() == ",".join(tables.COLUMNS["onsets"]) + "\n"


def test_curves_of_two_datasets_are_not_mixed():
    other = [cases.probe_summary(step, 42, "other", 0.0) for step in cases.STEPS]
    rows = tables.onset_rows([*probe_summaries(seeds=[42]), *other], THRESHOLD)
    assert one(rows, dataset="moral", seed="mean", quantity="onset_step")["value"] is not None
    assert one(rows, dataset="other", seed="mean", quantity="onset_step")["value"] is None


def test_two_revisions_of_one_step_are_refused_not_overwritten():
    again = {**cases.probe_summary(40, 42), "revision": "main"}
    with pytest.raises(StrataprobeError, match="two values at step 40"):
        tables.onset_rows([*probe_summaries(), again], THRESHOLD, replicates=50)


# Intervals


def test_intervals_hold_the_value_and_only_the_length_of_the_rise_has_none(rows):
    for seed in (*cases.SEEDS, "mean"):
        for quantity in BOUNDED:
            low, high = bounds(rows, seed, quantity)
            assert low <= one(rows, seed=seed, quantity=quantity)["value"] <= high
        assert set(bounds(rows, seed, "onset_step")) <= set(cases.STEPS)
        assert bounds(rows, seed, "transition_steps") == (None, None)
    low, high = bounds(rows, 42, "onset_accuracy")
    assert low < high


def test_the_interval_of_one_seed_is_as_wide_as_a_mean_over_its_pairs_is_unsure():
    """Against the normal interval of a mean, which this project did not draw."""
    rng, step = np.random.default_rng(6), cases.STEPS[-1]
    summaries = [copy.deepcopy(cases.probe_summary(at, 42)) for at in cases.STEPS]
    values = rng.random(400)
    for summary in summaries:
        summary["test_pair_accuracy"] = {"pairs": list(range(400)), "accuracy": values.tolist()}
    rows = tables.onset_rows(summaries, THRESHOLD, replicates=4000, seed=1)
    low, high = bounds(rows, 42, "plateau")
    error = 1.96 * values.std() / 20
    assert one(rows, seed=42, quantity="plateau")["step"] == step
    assert (low, high) == pytest.approx((values.mean() - error, values.mean() + error), abs=0.1 * error)


def with_pairs(shift: int) -> list[dict]:
    """Two seeds with equal accuracies on 40 pairs; of the second seed, each pair's place is shifted."""
    values, summaries = np.random.default_rng(7).random(40).tolist(), copy.deepcopy(probe_summaries())
    for summary in summaries:
        start = shift if summary["seed"] == cases.SEEDS[1] else 0
        summary["test_pair_accuracy"] = {"pairs": list(range(start, start + 40)), "accuracy": values}
    return summaries


def test_seeds_and_checkpoints_share_one_draw_so_that_common_pairs_do_not_count_twice():
    rows = tables.onset_rows(with_pairs(0), 0.2, replicates=1000, seed=1)
    same = [bounds(rows, seed, quantity) for seed in (42, 43, "mean") for quantity in BOUNDED[2:]]
    assert len(set(same)) == 1, "equal pairs at both checkpoints, under both seeds and in the mean"
    rows = tables.onset_rows(with_pairs(40), 0.2, replicates=1000, seed=1)
    (low, high), (one_low, one_high) = (bounds(rows, seed, "plateau") for seed in ("mean", 42))
    assert high - low == pytest.approx((one_high - one_low) / np.sqrt(2), rel=0.15), "80 pairs, not 40"


def test_the_seed_of_the_bootstrap_decides_the_intervals_and_nothing_else():
    first, again, other = (
        tables.onset_rows(probe_summaries(), THRESHOLD, replicates=60, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    blank = {"interval_low": None, "interval_high": None}
    assert [row | blank for row in first] == [row | blank for row in other]


def test_a_seed_that_lacks_a_checkpoint_leaves_the_others_their_intervals():
    whole = probe_summaries()
    last = cases.STEPS[-1]
    kept = [summary for summary in whole if (summary["step"], summary["seed"]) != (last, 43)]
    rows = tables.onset_rows(kept, THRESHOLD, replicates=200, seed=1)
    before = tables.onset_rows(whole, THRESHOLD, replicates=200, seed=1)
    assert bounds(rows, 42, "plateau") == bounds(before, 42, "plateau")
    # The mean curve ends where every seed has a checkpoint, and so do its replicates.
    shorter = [summary for summary in whole if summary["step"] != last]
    ends = tables.onset_rows(shorter, THRESHOLD, replicates=200, seed=1)
    assert bounds(rows, "mean", "plateau") == bounds(ends, "mean", "plateau")
    assert bounds(rows, "mean", "plateau") != bounds(before, "mean", "plateau")


def test_seeds_that_share_no_checkpoint_have_their_own_intervals_and_no_mean_curve():
    kept = [s for s in probe_summaries() if (s["seed"] == 42) == (s["step"] < 20)]
    rows = tables.onset_rows(kept, THRESHOLD, replicates=50)
    assert one(rows, seed="mean", quantity="plateau")["value"] is None
    assert bounds(rows, "mean", "plateau") == (None, None)
    assert None not in bounds(rows, 43, "plateau")


@pytest.mark.parametrize("gone", [[42], [42, 43]])
def test_a_seed_without_any_accuracy_is_no_error(gone):
    summaries = [{**s, "mean_accuracy": None} if s["seed"] in gone else s for s in probe_summaries()]
    rows = tables.onset_rows(summaries, THRESHOLD, replicates=50)
    assert one(rows, seed=42, quantity="plateau")["value"] is None
    assert bounds(rows, 42, "plateau") == (None, None)


@pytest.mark.parametrize("lacking", [0, 3])
def test_without_the_accuracy_of_pairs_in_every_summary_there_is_no_interval(lacking):
    """Published files keep none, and intervals of some seeds beside none of others would mislead."""
    summaries = copy.deepcopy(probe_summaries())
    del summaries[lacking]["test_pair_accuracy"]
    rows = tables.onset_rows(summaries, THRESHOLD, replicates=50)
    assert rows == tables.onset_rows(probe_summaries(), THRESHOLD, replicates=0)
    assert {row["interval_low"] for row in rows} == {row["interval_high"] for row in rows} == {None}


def test_the_script_writes_the_intervals_of_the_study_s_bootstrap(tmp_path, rows):
    for place, summary in enumerate(probe_summaries()):
        files.write_json(tmp_path / f"{place}.json", summary)
    paths = [tmp_path / f"{place}.json" for place in range(len(probe_summaries()))]
    settings = {"threshold": THRESHOLD, "bootstrap": 400, "seed": 1}
    tabulate_onsets.main(paths, tmp_path / "t.csv", settings=settings)
    read = tables.read_rows(tmp_path / "t.csv")
    assert len(read) == len(rows)
    for row in rows:
        found = one(read, seed=str(row["seed"]), quantity=row["quantity"])
        for name in ("value", "interval_low", "interval_high"):
            assert found[name] == (None if row[name] is None else pytest.approx(row[name], rel=1e-5))
