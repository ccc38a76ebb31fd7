"""Critical noise: the continuous one against a root finder, the grid's and the means against the papers."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from strataprobe.fragility import Critical, continuous_critical_noise, grid_critical_noise
from strataprobe.fragility.geometry import geometry
from strataprobe.fragility.means import bands, capped_and_dropped, extremes, means
from tests import synthetic

GRID = [0.1, 0.3, 1.0, 3.0, 10.0]
REFERENCE = Path(__file__).parents[2] / ".." / "shared" / "reference" / "deepsteer"
# Steps 36000 and 34000 of the reference's OLMo-2 1B run (null: never below 0.6 on the grid), and its means.
PUBLISHED = {
    36000: ([1, 1, 1, 1, 3, 3, 3, 3, 10, 10, 3, 10, 10, 10, 10, None], 5.267, 5.562),
    34000: ([1, 1, 3, 1, 3, 10, None, 10, 3, None, 10, None, None, 10, None, None], 5.20, 7.00),
}


def accuracy(margins, sigma):
    return norm.cdf(np.asarray(margins)[None, :] / np.atleast_1d(sigma)[:, None]).mean(axis=1)


def first_crossing(margins, threshold):
    """Independent of the code under test: 10,000 points, then Brent between the first two that cross."""
    size = np.abs(margins[margins != 0])
    scan = np.geomspace(size.min() / 20, size.max() * 10, 10_000)
    below = np.flatnonzero(accuracy(margins, scan) < threshold)[0]
    return brentq(lambda s: accuracy(margins, s)[0] - threshold, scan[below - 1], scan[below], rtol=1e-13)


def critical(margins, threshold=0.6):
    return continuous_critical_noise(np.asarray(margins, float), threshold)[0]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(3, 60), st.floats(0.55, 0.8), st.floats(-6, 6))
def test_continuous_critical_noise_is_the_first_root(seed, items, threshold, magnitude):
    margins = np.random.default_rng(seed).normal(1, 1, items) * 10**magnitude
    clean = (margins > 0).mean()
    found = critical(margins, threshold)
    if clean < threshold:
        assert np.isnan(found)
    elif clean > threshold + 1e-9:
        assert found == pytest.approx(first_crossing(margins, threshold), rel=1e-8)


def test_accuracy_that_dips_and_recovers_has_its_first_crossing():
    # Ten of 16 right, barely; six wrong by far less: accuracy first rises, dips, and rises again.
    margins = np.array([1.0] * 10 + [-30.0] * 5 + [100.0])
    scan = accuracy(margins, np.geomspace(0.01, 1000, 5000))
    assert (np.diff(scan) > 1e-6).any()
    assert (np.diff(scan) < -1e-6).any()
    found = critical(margins)
    assert found == pytest.approx(first_crossing(margins, 0.6), rel=1e-9)
    assert (accuracy(margins, np.geomspace(1e-3, found * 0.999, 1000)) >= 0.6).all()
    assert accuracy(margins, found * 1.001)[0] < 0.6


def test_three_crossings_give_the_first():
    margins = np.array([0.1] * 3 + [-1.0] * 3 + [300.0] * 6)
    values = accuracy(margins, np.geomspace(0.01, 5000, 4000)) - 0.7
    assert (np.diff(np.sign(values)) != 0).sum() >= 3
    assert critical(margins, 0.7) == pytest.approx(first_crossing(margins, 0.7), rel=1e-9)
    assert critical(margins, 0.7) < 1


def test_equal_margins_cross_where_one_does():
    assert critical([2.0] * 7) == pytest.approx(2.0 / norm.ppf(0.6), rel=1e-9)
    assert critical([2.0]) == pytest.approx(2.0 / norm.ppf(0.6), rel=1e-9)


@pytest.mark.parametrize(("right", "items"), [(3, 5), (6, 10), (12, 20), (60, 100), (69, 115), (576, 960)])
def test_a_threshold_met_exactly_is_met(right, items):
    """60 of 100 is not below 0.6; where the wrong ones lie nearer, accuracy rises before it falls."""
    margins = np.r_[np.full(right, 5.0), np.full(items - right, -0.5)]
    found = critical(margins)
    assert found > 1
    assert accuracy(margins, found * 0.99)[0] > 0.6 > accuracy(margins, found * 1.01)[0]
    assert grid_critical_noise(np.full(5, right / items), right / items, GRID, 0.6).state == "censored"


def test_a_threshold_met_exactly_and_lost_at_once_is_a_small_value_not_below():
    margins = np.r_[np.full(60, 0.5), np.full(40, -5.0)]
    assert 0 < critical(margins) < 0.5 / 5


def test_ties_at_zero_count_one_half():
    # Two ties and one that is right: two thirds as noise goes to 0.
    assert critical([0.0, 0.0, 1.0]) == pytest.approx(
        first_crossing(np.array([0.0, 0.0, 1.0]), 0.6), rel=1e-9
    )
    assert np.isnan(critical([0.0] * 4))
    assert np.isnan(critical([0.0, 0.0, 0.0, 0.0, 1.0, -1.0]))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.floats(-8, 8))
def test_margins_in_another_unit_give_critical_noise_in_that_unit(seed, magnitude):
    margins = np.random.default_rng(seed).normal(1, 1, 21)
    scaled = critical(margins * 10**magnitude)
    assert scaled == pytest.approx(critical(margins) * 10**magnitude, rel=1e-8, nan_ok=True)


def test_counts_are_items_written_out():
    rng = np.random.default_rng(4)
    margins = rng.normal(1, 1.5, 20)
    counts = rng.multinomial(20, np.ones(20) / 20, size=30)
    found = continuous_critical_noise(margins, 0.6, counts)
    expected = [critical(np.repeat(margins, row)) for row in counts]
    assert found == pytest.approx(expected, rel=1e-8, nan_ok=True)
    assert np.isnan(found).any() or (found > 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_gaussian_margins_have_the_closed_form(seed):
    """sigma* = sqrt(mu^2 / 0.2533^2 - v): a simulation of many margins against the formula."""
    rng = np.random.default_rng(seed)
    mean, sd = rng.uniform(0.5, 3), rng.uniform(0.2, 1.5)
    margins = rng.normal(mean, sd, 40_000)
    expected = np.sqrt((mean / 0.2533471) ** 2 - sd**2)
    assert critical(margins) == pytest.approx(expected, rel=4 * sd / mean / np.sqrt(40_000) + 1e-3)
    problem = synthetic.make_problem(layers=1)
    found = geometry(problem, margins[None], np.ones(1), np.ones(1), 0.6)[0]["gaussian_critical_noise"]
    assert found == pytest.approx(np.sqrt((margins.mean() / norm.ppf(0.6)) ** 2 - margins.var()))


def test_gaussian_critical_noise_is_none_where_there_is_none():
    problem = synthetic.make_problem(layers=2)
    margins = np.array([[1.0, -1.2, 0.5, -0.4], [0.1, 9.0, -9.0, 0.1]])  # negative mean; spread too wide
    found = geometry(problem, margins, np.ones(2), np.ones(2), 0.6)
    assert [row["gaussian_critical_noise"] for row in found] == [None, None]


@pytest.mark.parametrize(
    ("clean", "accuracies", "value", "state"),
    [
        (0.9, [0.9, 0.8, 0.7, 0.59, 0.5], 3.0, "value"),
        (0.9, [0.9, 0.59, 0.7, 0.5, 0.5], 0.3, "value"),
        (0.9, [0.9, 0.9, 0.8, 0.7, 0.6], None, "censored"),
        (0.5, [0.5, 0.5, 0.5, 0.5, 0.5], 0.1, "below_threshold"),
        (0.5, [0.7, 0.5, 0.5, 0.5, 0.5], 0.3, "below_threshold"),
    ],
)
def test_the_grid_value_is_the_first_level_below(clean, accuracies, value, state):
    assert grid_critical_noise(np.array(accuracies), clean, GRID, 0.6) == Critical(value, state)


def of(values):
    return [Critical(None if v is None else float(v), "censored" if v is None else "value") for v in values]


@pytest.mark.parametrize("step", PUBLISHED)
def test_capped_and_dropped_means_are_the_two_published_ones(step):
    values, dropped, capped = PUBLISHED[step]
    found = capped_and_dropped(of(values), 10.0)
    assert found["dropped"] == pytest.approx(dropped, abs=5e-4)
    assert found["capped"] == pytest.approx(capped, abs=6e-4)
    assert (found["layers"], found["counted"]) == (16, 16 - values.count(None))


@pytest.mark.parametrize(("fragile", "mean"), [(6, 7.375), (7, 6.9375), (10, 5.625)])
def test_section_4_3_s_means_follow_from_its_fragile_layers_and_a_cap_of_10(fragile, mean):
    """6, 7 and 10 of 16 layers collapse at 3.0, the others never: the paper's three means (DEFINITIONS)."""
    values = of([3.0] * fragile + [None] * (16 - fragile))
    assert capped_and_dropped(values, 10.0)["capped"] == mean
    assert sum(value.value is not None and value.value < 10 for value in values) == fragile


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference's result files are not here")
def test_the_reference_s_curves_give_the_reference_s_critical_noise_and_means():
    files = sorted(REFERENCE.glob("olmo*/*/moral_fragility_test.json"))
    assert len(files) == 42
    for file in files:
        theirs = json.loads(file.read_text())
        values = []
        for layer in theirs["layer_scores"]:
            curve = [layer["accuracy_by_noise"][str(level)] for level in theirs["noise_levels"]]
            value = grid_critical_noise(
                np.array(curve), layer["baseline_accuracy"], theirs["noise_levels"], 0.6
            )
            assert value.value == layer["critical_noise"]
            values.append(value)
        assert capped_and_dropped(values, 10.0)["dropped"] == pytest.approx(theirs["mean_critical_noise"])
        fragile, _ = extremes(values, 10.0)
        assert theirs["most_fragile_layer"] in fragile


def test_below_threshold_and_undefined_layers_in_the_means():
    grid = [Critical(0.1, "below_threshold"), Critical(None, "undefined"), Critical(3.0, "value")]
    found = capped_and_dropped(grid, 10.0)
    assert (found["capped"], found["dropped"], found["layers"], found["counted"]) == (1.55, 1.55, 3, 2)
    continuous = [Critical(None, "below_threshold"), Critical(None, "undefined"), Critical(3.0, "value")]
    found = capped_and_dropped(continuous, None)
    assert (found["capped"], found["dropped"]) == (1.5, 3.0)
    nothing = capped_and_dropped([Critical(None, "undefined")], 10.0)
    assert (nothing["capped"], nothing["dropped"]) == (None, None)


@pytest.mark.parametrize(
    ("layers", "sizes"),
    [(16, (5, 6, 5)), (30, (10, 10, 10)), (6, (2, 2, 2)), (32, (10, 12, 10)), (2, (0, 2, 0))],
)
def test_bands_are_outer_thirds_and_the_rest(layers, sizes):
    found = bands(layers)
    assert tuple(found.count(band) for band in ("early", "mid", "late")) == sizes
    assert found == sorted(found, key=["early", "mid", "late"].index)


def test_band_means_are_those_of_their_layers():
    found = means(of(PUBLISHED[36000][0]), 10.0)
    assert found["early"]["capped"] == pytest.approx((1 * 4 + 3) / 5)
    assert found["mid"]["capped"] == pytest.approx((3 * 3 + 10 * 2 + 3) / 6)
    assert (found["late"]["capped"], found["late"]["counted"]) == (10.0, 4)


def test_the_most_robust_layers_are_all_that_tie():
    values = [*of([0.3, 1, None, 10, None, 0.3]), Critical(None, "undefined")]
    assert extremes(values, 10.0) == ([0, 5], [2, 4])
    assert extremes([Critical(None, "undefined")], 10.0) == ([], [])
