"""Differences between the conditions of a LoRA experiment: their sizes, intervals, matching and verdicts."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import compare_curation
from strataprobe import cache, probes, tabular
from strataprobe.curation import differences, margins
from strataprobe.curation.margins import Margins, Place
from strataprobe.errors import CacheError, StrataprobeError
from strataprobe.fragility.controls import CONTROLS
from tests import synthetic

LEVELS = (0.1, 0.3, 1.0, 3.0, 10.0)


def made(signed, *, pairs=None, of=None, reach=1.0, before=None):
    """Margins with these y z, (layers, items); two neighbouring items are a pair."""
    signed = np.asarray(signed, float)
    pairs = np.arange(signed.shape[1]) // 2 if pairs is None else np.asarray(pairs)
    return Margins(
        ids=tuple(f"p{pair}:{place % 2}" for place, pair in enumerate(pairs)),
        pairs=pairs,
        dataset_pairs=of or int(pairs.max()) + 1,
        correct=signed > 0,
        signed={"raw": signed, "rms_before": signed if before is None else np.asarray(before, float)},
        reach={name: np.full(len(signed), reach) for name in CONTROLS},
    )


def drawn(seed, *, layers=2, pairs=30, mean=1.0):
    return np.random.default_rng(seed).normal(mean, 1.0, (layers, 2 * pairs))


def rows_of(cells, *, within=0.02, bootstrap=100, seed=5):
    resampled = differences.Resampled(cells, levels=LEVELS, threshold=0.6, bootstrap=bootstrap, seed=seed)
    named = {"experiment": "x", "dataset": "moral", "conventions": "default", "pooling": "mean_rest"}
    return differences.difference_rows(resampled, matched_within=within, **named)


def one(rows, **equal):
    found = [row for row in rows if all(row[name] == value for name, value in equal.items())]
    assert len(found) == 1, (equal, len(found))
    return found[0]


def noise(control):
    return {"quantity": "mean_critical_noise", "control": control, "statistic": "continuous"}


def experiment(runs, base=("nano", "step0100"), **more):
    return {
        "name": "nano-lora",
        "base": {"model": base[0], "revision": base[1]},
        "noise_levels": {"raw": list(LEVELS), "rms": [*LEVELS, 100.0]},
        "runs": [
            {"model": f"nano-lora-{name}-s{seed}", "condition": name, "seed": seed, "revisions": revisions}
            for name, seed, revisions in runs
        ],
        **more,
    }


def test_identical_conditions_differ_by_exactly_nothing():
    cells = {Place("base", "", 0, seed): made(drawn(seed)) for seed in (1, 2)}
    for name in ("a", "b"):
        for run in ("1", "2", "3"):
            cells |= {Place(name, run, 50, seed): made(drawn(seed)) for seed in (1, 2)}
    rows = rows_of(cells)
    pairs = {(row["condition_a"], row["condition_b"]) for row in rows}
    assert pairs == {("a", "b"), ("a", "base"), ("b", "base")}
    for row in rows:
        if row["quantity"] == "undercutting":
            assert (row["verdict"], row["difference"]) == ("no separation", None)
        else:
            assert (row["difference"], row["interval_low"], row["interval_high"], row["run_sd"]) == (0,) * 4
            assert row["verdict"] == "not apart"
            assert (row["runs"], row["seeds"], row["pairs"], row["layers"]) == (3, 2, 30, 2)


def test_runs_are_paired_and_their_spread_is_that_of_paired_differences():
    # Items right of ten, a run each: b has two fewer in run 1, one fewer in run 2, though runs differ by far.
    right = {("a", "1"): 9, ("b", "1"): 7, ("a", "2"): 5, ("b", "2"): 4}
    cells = {Place("base", "", 0, 1): made([[1.0] * 10])}
    for (name, run), count in right.items():
        cells[Place(name, run, 50, 1)] = made([[1.0] * count + [-1.0] * (10 - count)])
    row = one(rows_of(cells), condition_b="b", matched="none", quantity="mean_accuracy")
    assert (row["value_a"], row["value_b"]) == (pytest.approx(0.7), pytest.approx(0.55))
    assert row["difference"] == pytest.approx(0.15)
    assert row["run_sd"] == pytest.approx(np.std([0.2, 0.1], ddof=1))
    # What runs differ by in both conditions alike is no difference: unpaired runs would have an interval.
    for name, run in right:
        cells[Place(name, run, 50, 1)] = made([[1.0 if run == "1" else -1.0] * 10])
    rows = [row for row in rows_of(cells) if row["quantity"] == "mean_accuracy" and row["matched"] == "none"]
    bounds = [(row["interval_low"], row["interval_high"]) for row in rows]
    # Against the base, all right, run 1 is 0 apart and run 2 is 1, whatever pairs are drawn.
    assert bounds == [(0, 0), (-1, 0), (-1, 0)]


def test_only_runs_that_both_conditions_have_are_compared():
    cells = {Place("base", "", 0, 1): made(drawn(0))}
    for name, runs in (("a", "12"), ("b", "23"), ("c", "4")):
        cells |= {Place(name, run, 50, 1): made(drawn(int(run))) for run in runs}
    rows = rows_of(cells)
    row = one(rows, condition_a="a", condition_b="b", matched="none", quantity="mean_accuracy")
    assert (row["runs"], row["difference"]) == (1, 0)
    assert {row["condition_b"] for row in rows if row["condition_a"] == "a"} == {"b", "base"}


def test_layers_below_the_threshold_are_left_out_of_the_mean_of_the_layers_that_are_there():
    good, bad = drawn(1, layers=1), drawn(2, layers=1, mean=-1.0)
    both = {Place("a", "1", 50, 1): [good, bad], Place("base", "", 0, 1): [good, good]}
    rows = rows_of({place: made(np.vstack(layers)) for place, layers in both.items()})
    row = one(rows, matched="none", **noise("raw"))
    alone = brentq(lambda s: norm.cdf(good[0] / s).mean() - 0.6, 0.5, 50)
    assert row["value_a"] == pytest.approx(alone, rel=1e-6)
    assert row["difference"] == pytest.approx(0, abs=1e-12)
    grid = one(rows, matched="none", quantity="mean_critical_noise", statistic="grid_exact")
    assert grid["value_a"] == (10 + 0.1) / 2  # good: first level below is 10; bad: below at the first of all
    assert one(rows, matched="none", quantity="fragile_layers")["difference"] == 1.0
    rows = rows_of({Place("a", "1", 50, 1): made(good), Place("base", "", 0, 1): made(bad)})
    row = one(rows, matched="none", **noise("raw"))
    assert (row["value_b"], row["difference"], row["verdict"]) == (None, None, "")
    assert row["note"] == "no layer of base has a value"


def test_intervals_hold_the_truth_as_often_as_they_say():
    """Halves of a pair and conditions are alike: drawn by item it would be too rarely, unpaired too often."""
    rng = np.random.default_rng(7)
    # Gaussian margins: accuracy under noise s is Phi(mean / sqrt(1 + s^2)).
    mean, limit = np.array([1.0, 0.8]), norm.ppf(0.6)
    found = {"mean_accuracy": norm.cdf(mean), "mean_critical_noise": np.sqrt((mean / limit) ** 2 - 1)}
    truth = {name: values[0] - values[1] for name, values in found.items()}
    held, tries = dict.fromkeys(truth, 0), 100
    for number in range(tries):
        pair = rng.standard_normal(50).repeat(2) * np.sqrt(0.6)
        own = (rng.standard_normal((2, 50)).repeat(2, axis=1) * np.sqrt(0.38)) + pair
        a, b = mean[:, None] + own + rng.standard_normal((2, 100)) * np.sqrt(0.02)
        cells = {Place("base", "", 0, 1): made([b]), Place("a", "1", 50, 1): made([a])}
        rows = rows_of(cells, bootstrap=200, seed=number)
        for name, value in truth.items():
            row = next(row for row in rows if row["quantity"] == name)
            held[name] += row["interval_low"] <= value <= row["interval_high"]
    assert all(0.88 <= count / tries <= 0.985 for count in held.values()), held


def test_the_order_of_runs_and_files_does_not_matter():
    runs = [(name, run) for name in ("a", "b") for run in ("1", "2", "10")]
    cells = {
        Place(name, run, 50, seed): made(drawn(int(run) + (name == "b") + seed))
        for name, run in runs
        for seed in (1, 2)
    }
    base = {Place("base", "", 0, seed): made(drawn(90 + seed)) for seed in (1, 2)}
    other = dict(sorted(cells.items(), key=lambda own: (own[0].condition, own[0].seed, -int(own[0].run))))
    assert list(other) != list(cells)
    assert rows_of(base | cells) == rows_of(other | base)


def test_a_small_dataset_whose_test_pairs_are_missing_from_some_draws(recwarn):
    places = Place("base", "", 0, 1), Place("a", "1", 50, 1)
    cells = {place: made(drawn(1, pairs=2), pairs=[3, 3, 7, 7], of=9) for place in places}
    row = one(rows_of(cells), matched="none", quantity="mean_accuracy")
    assert row["interval_low"] is not None
    assert row["pairs"] == 2
    assert not recwarn.list


def test_conditions_are_compared_at_matched_layers_and_snapshots():
    def accuracies(*right):
        return made([[1.0] * count + [-1.0] * (10 - count) for count in right])

    cells = {
        Place("base", "", 0, 1): accuracies(5, 5),
        Place("a", "1", 20, 1): accuracies(6, 6),
        Place("a", "1", 40, 1): accuracies(8, 7),
        Place("b", "1", 20, 1): accuracies(7, 7),
        Place("b", "1", 40, 1): accuracies(8, 9),
        Place("b", "1", 60, 1): accuracies(10, 7),
    }
    rows, ways = rows_of(cells, within=0.06), ("none", "layers", "snapshots")
    got = {how: one(rows, matched=how, condition_b="b", quantity="peak_accuracy") for how in ways}
    assert [(own["step_a"], own["step_b"], own["layers"]) for own in got.values()] == [
        (40, 60, 2), (40, 60, 1), (40, 20, 2),
    ]  # fmt: skip
    # Layer 1 alone: 0.7 both. Of b's steps 0.70 is nearer to 0.75 than 0.85 or 0.85.
    assert [own["value_b"] for own in got.values()] == [1.0, 0.7, 0.7]
    against = [row for row in rows if row["condition_b"] == "base"]
    assert {row["matched"] for row in against} == {"none", "layers"}
    nothing = [row for row in against if row["matched"] == "layers" and row["condition_a"] == "a"]
    assert len(nothing) == 9
    for row in nothing:
        assert (row["layers"], row["value_a"], row["verdict"]) == (0, None, "")
        assert row["note"] == "no layer at which accuracies differ by at most 0.06"
    # 0.70 and 0.75 are not the same accuracy where 0.02 is the most that may lie between.
    apart = [row for row in rows_of(cells) if row["matched"] == "snapshots"]
    assert len(apart) == 9
    for row in apart:
        assert (row["step_b"], row["layers"], row["value_a"], row["verdict"]) == (20, 0, None, "")
        assert "differ by more than 0.02 at the nearest snapshot" in row["note"]


def test_margins_of_other_items_or_without_a_base_are_refused():
    cells = {Place("a", "1", 50, 1): made(drawn(1)), Place("b", "1", 50, 1): made(drawn(1, pairs=20))}
    cells[Place("b", "1", 50, 2)] = made(drawn(2, layers=3))
    cells[Place("a", "1", 50, 2)] = made(drawn(2))
    cells[Place("a", "2", 50, 1)] = made(drawn(1))
    with pytest.raises(StrataprobeError) as caught:
        rows_of(cells)
    said = str(caught.value)
    assert "4 problems" in said
    assert "margins of a, b; the base and a condition are needed" in said
    assert "b run 1, step 50, seed 1: its test items are not those of a run 1, step 50, seed 1" in said
    assert "2 layers, b run 1, step 50, seed 2 has 3" in said
    assert "a run 2, step 50: no probes of seed 2" in said


def test_files_that_are_not_those_of_the_experiment_are_refused(tmp_path):
    given = experiment([("a", 1, [["step0020", 20]])])
    with pytest.raises(StrataprobeError, match="3 files of probes; 2 checkpoints with 2 seeds need 4"):
        margins.checkpoints(given, [1, 2], ["p"] * 3, ["c"] * 4)
    with pytest.raises(
        StrataprobeError, match="nano-lora-a-s1 step0020: its seeds have several caches: c, d"
    ):
        margins.checkpoints(given, [1, 2], ["p"] * 4, ["c", "c", "c", "d"])
    synthetic.write_cache(tmp_path / "c.h5", provenance={"model": "nano", "revision": "step0100"})
    found = margins.checkpoints(given, [1], ["p", "p"], [tmp_path / "c.h5"] * 2)
    with pytest.raises(CacheError, match="the cache has 'nano', wanted is 'nano-lora-a-s1'"):
        margins.read(found[1])


def checkpoint_files(folder, model, revision, scale):
    """A cache whose states are scaled, and probes of two seeds whose planes lie where they lay."""
    states, labels = synthetic.make_states(layers=2, pairs=40, signal=1.2)
    place = folder / f"{model}-{revision}.h5"
    with synthetic.writing(
        place, states * scale, labels, provenance={"model": model, "revision": revision}
    ) as writer:
        for part in synthetic.make_windows(states * np.float32(scale)):
            writer.write(*part)
    weights = []
    with cache.open_activations(place) as acts:
        for seed in (42, 43):
            problem = probes.Problem.of(acts, seed=seed, pooling="mean_rest", test_fraction=0.25)
            plain = replace(problem, states=problem.states / np.float32(scale))
            trained = probes.measure(plain, seed=seed, settings=synthetic.PROBE)[0]
            scaled = np.array([scale, 1], np.float32)
            moved = replace(
                trained,
                weights=trained.weights / scaled[:, None, None],
                divisors=trained.divisors * scaled[::-1, None],
            )
            weights.append(folder / f"{model}-{revision}-{seed}.weights.h5")
            probes.save(weights[-1], moved, problem, synthetic.PROBE)
    return weights, [place] * 2


def test_a_condition_that_only_doubles_activations_is_undercut(tmp_path):
    given = experiment(
        [("plain", 1, [["step0020", 20]]), ("doubled", 1, [["step0020", 20]])],
        seeds=[42, 43], curation={"bootstrap": 100, "seed": 1, "matched_within": 0.02}, threshold=0.6,
        dataset="moral", conventions="default", pooling="mean_rest",
    )  # fmt: skip
    files = [
        checkpoint_files(tmp_path, model, revision, scale)
        for model, revision, scale in (
            ("nano", "step0100", 1.0),
            ("nano-lora-plain-s1", "step0020", 1.0),
            ("nano-lora-doubled-s1", "step0020", 2.0),
        )
    ]
    weights, caches = ([path for own in kind for path in own] for kind in zip(*files, strict=True))
    compare_curation.main(weights, caches, tmp_path / "out.csv", experiment=given)
    rows = tabular.read_rows(tmp_path / "out.csv")
    own = {"condition_a": "plain", "condition_b": "doubled", "matched": "none"}
    raw = one(rows, **own, **noise("raw"))
    assert raw["value_b"] == pytest.approx(2 * raw["value_a"], rel=1e-4)
    assert raw["difference"] == pytest.approx(-raw["value_a"], rel=1e-4)
    assert (raw["verdict"], raw["step_a"], raw["step_b"], raw["seeds"]) == ("apart", 20, 20, 2)
    assert raw["note"] == "one run: the interval is over pairs alone"
    for control in ("rms_before", "rms_after", "within_class"):
        row = one(rows, **own, **noise(control))
        assert (row["difference"], row["verdict"]) == (pytest.approx(0, abs=1e-9), "not apart")
        assert row["value_a"] > 0
    assert one(rows, **own, quantity="undercutting")["verdict"] == "undercut"
    assert (
        one(rows, **{**own, "condition_a": "doubled", "condition_b": "base"}, **noise("raw"))["difference"]
        > 0
    )


def test_nothing_heavy_is_imported_before_it_is_needed():
    heavy = ("torch", "pandas", "sklearn", "scipy.stats", "matplotlib")
    code = f"import sys, compare_curation, tabulate_curation; print([n for n in {heavy} if n in sys.modules])"
    path = str(compare_curation.__file__).rsplit("/", 1)[0]
    found = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
