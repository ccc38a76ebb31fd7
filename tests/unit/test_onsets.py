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


def kept(pairs, accuracy) -> dict[str, list]:
    return {"pairs": list(pairs), "accuracy": list(accuracy)}


def test_replicates_of_a_curve_are_what_drawing_pairs_by_hand_gives() -> None:
    accuracy = {"a": [kept((3, 7, 9), (0.0, 0.5, 1.0)), kept((3, 7, 9), (1.0, 1.0, 0.0))]}
    found = onsets.curve_replicates(accuracy, 50, seed=4)["a"]
    for row, counts in zip(found, cluster_counts(3, 50, seed=4), strict=True):
        drawn = np.repeat([0, 1, 2], counts)  # three pairs, some of them several times
        for column, one in enumerate(accuracy["a"]):
            assert row[column] == pytest.approx(np.mean([one["accuracy"][place] for place in drawn]))


def test_the_spread_of_replicates_is_the_standard_error_of_a_mean_over_pairs() -> None:
    values = np.random.default_rng(2).random(60)
    drawn = onsets.curve_replicates({42: [kept(range(60), values)]}, 4000, seed=1)[42]
    assert drawn.mean() == pytest.approx(values.mean(), abs=0.005)
    assert drawn.std() == pytest.approx(values.std() / math.sqrt(60), rel=0.05)


def test_one_draw_stands_behind_every_checkpoint_and_every_seed() -> None:
    """Else what two seeds share would count twice, and a difference of checkpoints would look unsure."""
    values = np.random.default_rng(3).random(20)
    first, other = kept(range(20), values), kept(range(100, 120), values)
    found = onsets.curve_replicates({42: [first, first], 43: [first, first], 44: [other, other]}, 500, seed=1)
    np.testing.assert_array_equal(found[42][:, 0], found[42][:, 1])
    np.testing.assert_array_equal(found[42], found[43])
    assert abs(np.corrcoef(found[42][:, 0], found[44][:, 0])[0, 1]) < 0.2, "other pairs, other draws"


def test_a_replicate_that_draws_none_of_a_seeds_pairs_has_no_value_and_is_left_out() -> None:
    accuracy = {42: [kept([0], [0.25])] * 2, 43: [kept(range(1, 10), [0.5] * 9)] * 2}
    found = onsets.curve_replicates(accuracy, 2000, seed=1)
    # One pair of ten is not drawn in ten draws with probability 0.9 ** 10.
    assert np.isnan(found[42][:, 0]).mean() == pytest.approx(0.9**10, abs=0.04)
    assert not np.isnan(found[43]).any()
    assert onsets.interval_of([(0, 0.25), (1, 0.25)], found[42], 0.2)["plateau"] == [0.25, 0.25]


def test_intervals_of_one_curve_are_percentiles_of_its_replicates() -> None:
    curve = [(0, 0.5), (10, 0.72), (20, 0.68), (30, 0.9)]
    late = np.linspace(0.8, 1.0, 101)
    drawn = np.column_stack([np.full(101, 0.5), np.linspace(0.65, 0.75, 101), np.full(101, 0.6), late])
    found = onsets.interval_of(curve, drawn, 0.7)
    # Half of the replicates are at 0.7 or above by step 10, the others not before step 30.
    assert found["onset_step"] == [10, 30]
    assert found["sustained_step"] == [30, 30], "all are below at step 20"
    assert found["onset_accuracy"] == pytest.approx([0.6525, 0.7475]), "at the curve's own onset, step 10"
    assert found["plateau"] == pytest.approx([0.805, 0.995])


def test_what_a_curve_does_not_have_has_no_interval() -> None:
    assert onsets.interval_of([(0, 0.5)], None) == {}
    assert onsets.interval_of([], np.empty((5, 0))) == {}
    found = onsets.interval_of([(0, 0.5), (1, 0.6)], np.tile([0.5, 0.6], (9, 1)), 0.7)
    assert found == {
        "onset_step": [None, None],
        "sustained_step": [None, None],
        "plateau": pytest.approx([0.6, 0.6]),
    }


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
