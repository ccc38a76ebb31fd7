"""Onsets, the shape of a rise and the decision rule, on numbers small enough to check by hand."""

import math

import numpy as np
import pytest

from strataprobe import onsets
from strataprobe.errors import StrataprobeError
from strataprobe.statistics import cluster_counts


def test_step_0_is_a_step_and_order_does_not_matter() -> None:
    assert onsets.onset_step([(2000, 0.8), (0, 0.7), (1000, 0.9)]) == (0, 0)


def test_the_first_crossing_and_the_lasting_one_are_told_apart() -> None:
    curve = [(0, 0.5), (1, 0.71), (2, 0.69), (3, 0.70), (4, 0.9)]
    assert onsets.onset_step(curve) == (1, 3)
    assert onsets.onset_step([*curve, (5, 0.6)]) == (1, None)
    assert onsets.onset_step([(0, 0.5)]) == (None, None)


def test_points_without_a_value_are_left_out_and_a_step_given_twice_is_refused() -> None:
    assert onsets.clean([(1, None), (0, float("nan")), (2, 0.5)]) == [(2, 0.5)]
    with pytest.raises(StrataprobeError, match="two values at step 1000"):
        onsets.clean([(1000, 0.5), (1000, 0.6)])


def test_the_seed_mean_curve_has_only_the_steps_that_every_seed_has() -> None:
    curves = [[(0, 0.5), (1, 0.7), (2, 0.9)], [(0, 0.3), (2, 0.7)]]
    assert onsets.mean_curve(curves) == [(0, 0.4), (2, pytest.approx(0.8))]
    assert onsets.mean_curve([]) == []


def test_a_plateau_is_the_last_checkpoint_or_the_mean_of_the_last_few() -> None:
    curve = [(0, 0.5), (1, 0.8), (2, 0.9)]
    assert onsets.plateau(curve) == 0.9
    assert onsets.plateau(curve, 2) == pytest.approx(0.85)
    assert onsets.plateau(curve, 9) == pytest.approx(2.2 / 3)
    assert onsets.plateau([]) is None
    with pytest.raises(ValueError, match="at least one"):
        onsets.plateau(curve, 0)


def test_a_rise_within_one_interval_is_sharp_and_a_longer_one_gradual() -> None:
    jump = [(0, 0.5), (1000, 0.55), (2000, 0.95), (3000, 0.96)]
    found = onsets.transition(jump, 0.96)
    assert (found["start"], found["end"], found["steps"], found["kind"]) == (2000, 2000, 0, "sharp")
    assert found["resolution"] == 1000
    # Gain 0.3: it starts at 0.5 + 0.18 = 0.68, and is over at 0.9 x 0.8 = 0.72.
    slow = [(0, 0.5), (1000, 0.6), (2000, 0.69), (3000, 0.71), (5000, 0.73), (9000, 0.8)]
    found = onsets.transition(slow, onsets.plateau(slow))
    assert (found["start"], found["end"], found["steps"], found["kind"]) == (2000, 5000, 3000, "gradual")


def test_a_curve_that_does_not_rise_is_neither_sharp_nor_gradual() -> None:
    for curve in ([], [(0, 0.5)], [(0, 0.6), (1, 0.5)], [(0, 0.5), (1, 0.5)]):
        assert onsets.transition(curve, onsets.plateau(curve))["kind"] is None
    # Over before the first checkpoint: its length was not seen.
    assert onsets.transition([(500, 0.9), (1000, 0.9)], 0.9, chance=0.5)["kind"] is None
    # A plateau given from elsewhere that the curve never comes near.
    assert onsets.transition([(0, 0.5), (1, 0.8)], 0.95)["end"] is None


def test_bootstrap_intervals_hold_the_onset_and_narrow_with_more_pairs() -> None:
    steps, chances = [0, 1000, 2000, 3000, 4000], np.array([0.5, 0.6, 0.69, 0.75, 0.9])
    rng = np.random.default_rng(1)
    widths = []
    for pairs in (20, 2000):
        right = (rng.random((len(steps), pairs)) < chances[:, None]).astype(float)
        counts = cluster_counts(pairs, 400, seed=42)
        found = onsets.onset_intervals(steps, counts @ right.T / pairs)
        low, high = found["first"]
        assert low <= 3000 <= high
        assert {low, high} <= set(steps)
        widths.append(high - low)
    assert widths[1] < widths[0]


def test_replicates_without_an_onset_are_counted_and_several_seeds_are_averaged_first() -> None:
    steps = [0, 10, 20]
    never = np.full((10, 3), 0.5)
    assert onsets.onset_intervals(steps, never) == {
        "first": [None, None],
        "sustained": [None, None],
        "without": 1.0,
    }
    seeds = np.stack([never, np.full((10, 3), 0.9)])  # their mean is 0.7, an onset at once
    found = onsets.onset_intervals(steps, seeds)
    assert (found["first"], found["sustained"], found["without"]) == ([0, 0], [0, 0], 0.0)
    late = np.tile([0.8, 0.6, 0.8], (4, 1))
    found = onsets.onset_intervals(steps, late)
    assert (found["first"], found["sustained"]) == ([0, 0], [20, 20])


def test_intervals_refuse_replicates_that_do_not_fit_the_steps() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        onsets.onset_intervals([0, 1], np.zeros((5, 3)))
    with pytest.raises(ValueError, match="do not rise"):
        onsets.onset_intervals([1, 0], np.zeros((5, 2)))


def test_onsets_of_seeds_and_of_their_mean_are_different_things() -> None:
    early, late = [(0, 0.5), (1, 0.74), (2, 0.8)], [(0, 0.5), (1, 0.64), (2, 0.78)]
    found = onsets.onsets({42: early, 43: late})
    assert [one["onset"] for one in found["seeds"]] == [1, 2]
    mean = found["mean"]
    assert (mean["onset"], mean["n"], mean["last_step"]) == (2, 2, 2)
    assert mean["onset_accuracy"] == pytest.approx(0.79)
    assert mean["onset_sd"] == pytest.approx(abs(0.8 - 0.78) / math.sqrt(2))
    assert mean["plateau_sd"] == mean["onset_sd"]
    assert onsets.onsets({42: early})["mean"]["onset_sd"] is None
    assert "intervals" not in mean
    bounded = onsets.onsets({42: early}, replicates=([0, 1, 2], np.tile([0.5, 0.8, 0.9], (9, 1))))
    assert bounded["mean"]["intervals"]["first"] == [1, 1]


def test_the_decision_rule_wants_both_a_fall_and_little_spread() -> None:
    found = onsets.decision_rule([4.0, 6.0], [2.0, 3.0])
    assert (found["mean_a"], found["mean_b"], found["gap"]) == (5.0, 2.5, 2.5)
    assert found["sd_a"] == pytest.approx(math.sqrt(2))  # ddof 1
    assert found["largest_sd"] == found["sd_a"]
    assert found["real"]
    assert found["falls"]
    wide = onsets.decision_rule([1.0, 9.0], [2.0, 3.0])
    assert (wide["falls"], wide["above_spread"], wide["real"]) == (True, False, False)
    small = onsets.decision_rule([3.0, 3.1], [2.5, 2.6])
    assert (small["falls"], small["above_spread"], small["real"]) == (False, True, False)
    assert onsets.decision_rule([3.0, 3.1], [2.5, 2.6], least_drop=0.25)["real"]
    assert not onsets.decision_rule([2.0, 3.0], [4.0, 6.0])["real"]


def test_the_decision_rule_names_every_checkpoint_with_too_few_seeds() -> None:
    with pytest.raises(StrataprobeError) as caught:
        onsets.decision_rule([4.0, None], [float("nan")])
    assert "2 problems" in str(caught.value)
    assert "first step: 1 of 2 seeds" in str(caught.value)
    assert "second step: 0 of 1 seeds" in str(caught.value)
