"""Rescue, lift and harm against loops over runs; intervals against scipy; the null against every exchange."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from strataprobe.bootstrap import Draws, estimate
from strataprobe.errors import StrataprobeError
from strataprobe.patching.donors import KINDS
from strataprobe.patching.effects import read_effects
from strataprobe.patching.observed import observations
from strataprobe.patching.over_models import over_models, pooled_at
from strataprobe.patching.peaks import null_of_largest, peak

SETTINGS = {"bootstrap": 200, "permutations": 50, "seed": 3}
TYPES = ("object_control", "subject_control")


def summary_of(right: str, turned, *, layers=(3, 4), kinds=None, groups=None, states="own_prompt", window=1):
    """A summary in which every item of a type gives to every other one.

    Args:
        right: one character an item; even places are of object control.
        turned: (layer, kind, target, donor) -> whether the patched run is right.
    """
    count = len(right)
    alike = [(t, d) for t in range(count) for d in range(count) if t != d and (t - d) % 2 == 0]
    pairs = {
        "correct": [one for one in alike if right[one[1]] == "1"],
        "wrong": [one for one in alike if right[one[1]] == "0"],
        "random": [(t, (t + 1) % count) for t in range(count)],
        "norm": alike[:count],
    }
    pairs |= kinds or {}
    return {
        "items": {
            "ids": [f"i{place}" for place in range(count)],
            "languages": ["en"] * count,
            "control_types": [TYPES[place % 2] for place in range(count)],
            "item_groups": list(groups or (f"g{place}" for place in range(count))),
            "pairs": [None] * count, "verbs": ["told"] * count, "gold": ["b"] * count,
        },
        "blocks": max(layers),
        "peak": {"layer": layers[0], "mode": "ab", "coding": "decorrelated", "scheme": "pair_out"},
        "runs": [
            {
                "task": "qa", "states": states, "correct": right, "ties": {"clean": 0, "patched": 0},
                "kinds": {
                    kind: {
                        "targets": [t for t, _ in pairs[kind]], "donors": [d for _, d in pairs[kind]],
                        "unequal": 1, "unequal_in": {"a": 1},
                    }
                    for kind in KINDS
                },
                "outcomes": [
                    {
                        "window": window, "layer": layer, "block": layer - 1, "depth": layer / max(layers),
                        "right": {
                            kind: "".join(str(int(turned(layer, kind, t, d))) for t, d in pairs[kind])
                            for kind in KINDS
                        },
                    }
                    for layer in layers
                ],
            }
        ],
    }  # fmt: skip


def drawn(seed: int, share: float = 0.4):
    """Outcomes at random, the same whenever they are asked for."""

    def turned(layer, kind, target, donor):
        return np.random.default_rng([seed, layer, KINDS.index(kind), target, donor]).random() < share

    return turned


RIGHT = "110010010011"


@pytest.fixture
def effects():
    (found,) = read_effects(summary_of(RIGHT, drawn(1)))
    return found


def draws_of(count: int, replicates: int = 0) -> Draws:
    return Draws.of([f"g{place}" for place in range(count)], replicates, 3)


def test_rates_are_those_of_a_loop_over_runs(effects):
    turned, none = drawn(1), draws_of(len(RIGHT))
    everyone = np.ones(len(RIGHT), bool)

    def share(kind, target, layer):
        donors = effects.donors[kind][effects.targets[kind] == target]
        return [float(turned(layer, kind, target, donor)) for donor in donors]

    wrong = [place for place, one in enumerate(RIGHT) if one == "0"]
    right = [place for place, one in enumerate(RIGHT) if one == "1"]
    for place, layer in enumerate((3, 4)):
        for kind in KINDS:
            each = [share(kind, target, layer) for target in wrong]
            mean = np.mean([np.mean(own) for own in each if own])
            assert effects.rescue(none, kind, everyone)[0, place] == pytest.approx(mean)
            pooled = np.mean(list(itertools.chain(*each)))
            assert effects.rescue_pooled(none, kind, everyone)[0, place] == pytest.approx(pooled)
            broken = np.mean([1 - np.mean(own) for own in (share(kind, t, layer) for t in right) if own])
            assert effects.broken(none, kind, everyone)[0, place] == pytest.approx(broken)
        lifts = [np.mean(share("correct", t, layer)) - np.mean(share("wrong", t, layer)) for t in wrong]
        assert effects.lift(none, everyone)[0, place] == pytest.approx(np.mean(lifts))


def test_within_targets_donors_of_unlike_targets_do_not_mix():
    """One target turns whatever is put in, and has many correct donors; the other never does, and has few."""
    kinds = {"correct": [(0, 4), (0, 6), (0, 8), (2, 4)], "wrong": [(0, 2), (2, 0), (2, 10)]}
    made = summary_of("000011111101", lambda _layer, _kind, target, _donor: target == 0, kinds=kinds)
    (found,) = read_effects(made)
    mask, none = np.ones(12, bool), draws_of(12)
    assert found.lift(none, mask)[0].tolist() == [0, 0]
    assert found.lift_pooled(none, mask)[0] == pytest.approx([3 / 4 - 1 / 3] * 2)


def test_rescue_is_of_wrong_targets_and_harm_of_right_ones():
    (found,) = read_effects(summary_of("0011", lambda *_: True, kinds={"correct": [(0, 2), (2, 0)]}))
    mask = np.ones(4, bool)
    assert found.rescue(draws_of(4), "correct", mask)[0].tolist() == [1, 1]
    assert found.broken(draws_of(4), "correct", mask)[0].tolist() == [0, 0]


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore::scipy.stats.DegenerateDataWarning")
def test_an_interval_is_that_of_scipy_where_every_target_is_a_cluster(effects):
    wrong = effects.both_kinds(np.ones(len(RIGHT), bool))
    draws = Draws.of([f"g{place}" for place in range(len(RIGHT))], 20_000, 3)
    got = estimate(effects.lift(draws, np.ones(len(RIGHT), bool))[:, 0])
    counts = {kind: np.maximum(effects.donor_counts(kind), 1) for kind in ("correct", "wrong")}
    each = effects.rights("correct")[0] / counts["correct"] - effects.rights("wrong")[0] / counts["wrong"]
    sample = np.where(wrong, each, np.nan)
    scipys = scipy.stats.bootstrap(
        (sample,), np.nanmean, n_resamples=20_000, method="percentile", vectorized=True,
        random_state=np.random.default_rng(0),
    ).bootstrap_distribution  # fmt: skip
    low, high = np.nanpercentile(scipys, [2.5, 97.5])
    assert got.low == pytest.approx(low, abs=0.03)
    assert got.high == pytest.approx(high, abs=0.03)


def test_targets_of_one_group_are_drawn_together():
    """Two groups of like targets: a replicate has only 0, 1 or both."""
    made = summary_of(
        "00000011", lambda _layer, kind, target, _donor: kind == "correct" and target < 3,
        groups=["x", "x", "x", "y", "y", "y", "z", "w"],
    )  # fmt: skip
    (found,) = read_effects(made)
    draws = Draws.of(made["items"]["item_groups"], 500, 3)
    values = found.lift(draws, np.ones(8, bool))[1:, 0]
    kept = values[np.isfinite(values)]
    ratios = {round(3 * x / (3 * x + 3 * y), 9) for x in range(9) for y in range(9) if x + y}
    assert {round(float(value), 9) for value in kept} <= ratios
    assert {0.0, 1.0} <= set(kept.tolist())


def test_the_peak_is_the_lowest_of_the_largest_and_nothing_where_none_is_above_0():
    lift = np.array([[0.1, 0.3, 0.3], [0.5, np.nan, 0.2], [np.nan] * 3, [-0.2, -0.1, 0.0]])
    layers, sizes = peak(lift, np.array([4, 6, 8]))
    assert layers[:2].tolist() == [6, 4]
    assert sizes[[0, 1, 3]].tolist() == [0.3, 0.5, 0]
    assert np.isnan(layers[2:]).all()
    assert np.isnan(sizes[2])


def test_the_null_is_that_of_every_exchange_of_right_and_wrong_donors():
    right = "00101011"  # one right donor of four in object control, three of four in subject control
    made = summary_of(right, drawn(8))
    (found,) = read_effects(made)
    groups, mask = made["items"]["control_types"], np.ones(8, bool)
    runs = {
        (t, d): [float(row[place]) for row in found.turned[kind]]
        for kind in ("correct", "wrong")
        for place, (t, d) in enumerate(zip(found.targets[kind], found.donors[kind], strict=True))
    }
    wrong = [place for place, one in enumerate(right) if one == "0"]

    def largest(labels):
        lifts = []
        for target in wrong:
            own = {
                value: [runs[t, d] for t, d in runs if t == target and labels[d] == value] for value in "01"
            }
            if all(own.values()):
                lifts.append(np.mean(own["1"], axis=0) - np.mean(own["0"], axis=0))
        return max(np.mean(lifts, axis=0)) if lifts else math.nan

    even, odd = right[::2], right[1::2]
    exact = [
        largest(dict(enumerate(itertools.chain(*zip(one, other, strict=True)))))
        for one in itertools.permutations(even)
        for other in itertools.permutations(odd)
    ]
    exact = [value for value in exact if value == value]
    sample = largest(dict(enumerate(right)))
    got = null_of_largest(found, groups, {"all": mask}, permutations=3000, seed=1)["all"]
    assert got["mean"] == pytest.approx(np.mean(exact), abs=0.02)
    assert got["p"] == pytest.approx(np.mean(np.array(exact) >= sample - 1e-9), abs=0.03)
    assert got["quantile_95"] == pytest.approx(np.quantile(exact, 0.95), abs=0.1)


def test_a_donor_that_turns_everything_is_no_evidence():
    """It is one donor of eight, however many targets it turns: no p below about one eighth."""
    right = "1000000000000000"
    made = summary_of(right, lambda _layer, _kind, _target, donor: donor == 0)
    (found,) = read_effects(made)
    mask = np.ones(16, bool)
    assert found.lift(draws_of(16), mask)[0].tolist() == [1, 1]
    got = null_of_largest(found, made["items"]["control_types"], {"all": mask}, permutations=800, seed=1)
    assert got["all"]["p"] == pytest.approx(1 / 8, abs=0.04)


def observed(made, settings=SETTINGS):
    return {
        (one.layer if not one.measure.startswith(("peak", "shift")) else None, one.measure, one.split): one
        for one in observations(made, settings)
    }


def test_a_model_without_a_wrong_answer_is_empty_and_not_0():
    found = observed(summary_of("1111", drawn(2)))
    for split in ("all", *TYPES):
        for measure in ("lift", "lift_pooled", "rescue:correct", "rescue:random"):
            one = found[3, measure, split]
            assert (one.estimate.value, one.estimate.low, one.n, one.pairs) == (None, None, 0, 0)
        assert found[None, "peak_layer:lift", split].estimate.value is None
        assert found[None, "p:lift", split].estimate.value is None
        assert found[None, "wrong_targets", split].estimate.value == 0
    assert found[3, "broken:correct", "all"].estimate.value is not None


def test_a_cell_without_wrong_donors_is_empty_and_not_0():
    """The one wrong item of a type has right donors alone."""
    found = observed(summary_of("01101010", drawn(2)))
    one = found[3, "lift", "object_control"]
    assert (one.estimate.value, one.n) == (None, 0)
    assert found[3, "rescue:wrong", "object_control"].n == 0
    assert found[3, "rescue:wrong", "object_control"].estimate.value is None
    correct = found[3, "rescue:correct", "object_control"]
    assert (correct.n, correct.pairs) == (1, 3)
    assert correct.estimate.value is not None


def test_counts_and_shift_are_said():
    made = summary_of(RIGHT, drawn(1))
    found = observed(made)
    lift = found[3, "lift", "all"]
    assert (lift.n, lift.clusters) == (RIGHT.count("0"), RIGHT.count("0"))
    assert lift.pairs == 5 * RIGHT.count("0")  # every other item of the type
    assert found[None, "unequal:correct", "all"].estimate.value == 1
    layer = found[None, "peak_layer:lift", "all"]
    shift = found[None, "shift:lift", "all"]
    assert shift.estimate.value == layer.estimate.value - 3
    assert layer.layer == layer.estimate.value
    assert found[3, "probe_peak", "all"].note == "pair_out:decorrelated ab"


def test_outcomes_of_another_number_of_pairs_are_refused():
    made = summary_of("0101", drawn(1))
    made["runs"][0]["outcomes"][1]["right"]["correct"] = "1"
    with pytest.raises(StrataprobeError, match=r"qa own_prompt, layer 4: 1 correct runs for 2 pairs"):
        read_effects(made)


def test_tuning_is_compared_draw_by_draw():
    """The same runs: no change, and an interval that knows it. And layers that lie two apart."""
    base = summary_of(RIGHT, drawn(1))
    found = {
        (one.name, one.model, one.split): one
        for one in over_models({"base": base, "tuned": base}, {"tuned": "base"}, SETTINGS)
    }
    same = found["change:shift:lift", "tuned", "all"].estimate
    assert (same.value, same.low, same.high) == (0, 0, 0)
    assert found["change:shift:lift", "tuned", "all"].other == "base"
    moved = summary_of(RIGHT, lambda layer, *rest: drawn(1)(layer - 2, *rest), layers=(5, 6))
    found = {
        (one.name, one.model, one.split): one
        for one in over_models({"base": base, "tuned": moved}, {"tuned": "base"}, SETTINGS)
    }
    assert found["change:peak_layer:lift", "tuned", "all"].estimate.value == 2
    assert found["change:shift:lift", "tuned", "all"].estimate.value == 0
    assert ("change:probe_peak", "tuned", "all") not in found
    other = summary_of("0101", drawn(1))
    with pytest.raises(StrataprobeError, match="tuned: its items are not those of base"):
        list(over_models({"base": base, "tuned": other}, {}, SETTINGS))


def test_pooled_lift_at_a_layer_is_of_bare_donors():
    bare = summary_of(RIGHT, drawn(1), states="bare")
    (one,) = pooled_at("m", bare, SETTINGS, [("all", 4), ("all", 9), ("de", 4)])
    (effects,) = read_effects(bare)
    expected = effects.lift_pooled(draws_of(len(RIGHT)), np.ones(len(RIGHT), bool))[0, 1]
    assert (one.layer, one.estimate.value) == (4, pytest.approx(expected))
    assert not list(pooled_at("m", summary_of(RIGHT, drawn(1)), SETTINGS, [("all", 4)]))
