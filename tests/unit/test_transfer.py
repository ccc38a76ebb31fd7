"""Transfer, decodability and lift are those of scikit-learn's probes, and say what was put in."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from strataprobe import files, transfer
from strataprobe.errors import DatasetError, ProbeError
from strataprobe.transfer.sample import Sample
from tests import synthetic

SETTINGS = {
    "C": 1.0,
    "max_iterations": 1000,
    "folds": 5,
    "bootstrap": 200,
    "seed": 3,
    "singled_out": ["g1", "role_reversal"],
}


def theirs(states, labels, train, C=1.0):
    """One fit by scikit-learn, converged: the scaled weights, the intercept, logits of all items."""
    scaler = StandardScaler().fit(states[train].astype(float))
    model = LogisticRegression(C=C, max_iter=100_000, tol=1e-8)
    model.fit(scaler.transform(states[train].astype(float)), labels[train])
    logits = model.decision_function(scaler.transform(states.astype(float)))
    return model.coef_[0], model.intercept_[0], logits


def some_fits(items, count, seed=0):
    """Each fit trains on most of the pairs."""
    chosen = np.random.default_rng(seed).random((count, items // 2)) < 0.75
    return np.repeat(chosen, 2, axis=1)


def grouped(groups=4, pairs=20, layers=3, hidden=24, general=0.0, own=0.0, seed=0):
    """States with one direction that all groups share, and one direction of each group's own."""
    rng = np.random.default_rng(seed)
    items = 2 * groups * pairs
    labels = np.tile([1, -1], groups * pairs)
    names = np.repeat([f"g{g}" for g in range(groups)], 2 * pairs)
    states = rng.standard_normal((layers, items, hidden))
    axes = np.linalg.qr(rng.standard_normal((hidden, groups + 1)))[0].T
    states += general * labels[:, None] * axes[-1]
    for g in range(groups):
        states[:, names == f"g{g}"] += own * labels[names == f"g{g}", None] * axes[g]
    return states.astype(np.float32), labels, np.arange(items) // 2, names.tolist()


@pytest.mark.parametrize("signal", [0.0, 1.0, 9.0])
@pytest.mark.parametrize(("pairs", "hidden"), [(30, 12), (30, 59), (30, 60), (30, 150), (80, 60)])
def test_every_fit_is_scikit_learn_s(pairs, hidden, signal):
    states, labels = synthetic.make_states(layers=2, pairs=pairs, hidden=hidden, signal=signal)
    states[:, :, 3] = 5.0  # says nothing, and has no spread to divide by
    states[:, :, 5] = 1e4 + 100 * states[:, :, 5]
    train = some_fits(2 * pairs, 4)
    states[:, train[0], 7] = 2.0  # is constant for the first fit alone
    found = transfer.solve(states, labels, train)
    for layer in range(2):
        for fit in range(4):
            weights, bias, logits = theirs(states[layer], labels, train[fit])
            assert np.abs(found.weights[layer, fit] - weights).max() < 1e-4
            assert found.biases[layer, fit] == pytest.approx(bias, abs=1e-4)
            if fit:  # a coordinate of weight 0 has no unit, so another scaler's is as good
                assert np.abs(found.logits[layer, fit] - logits).max() < 1e-3
            assert np.array_equal(found.logits[layer, fit] > 0, logits > 0)


@pytest.mark.parametrize("C", [0.01, 100.0])
def test_the_penalty_is_scikit_learn_s(C):
    states, labels = synthetic.make_states(layers=2, pairs=60, hidden=20, signal=0.5)
    train = some_fits(120, 2)
    found = transfer.solve(states, labels, train, C=C)
    for layer in range(2):
        for fit in range(2):
            weights, bias, _ = theirs(states[layer], labels, train[fit], C)
            assert np.abs(found.weights[layer, fit] - weights).max() < 1e-4 * max(1, C)
            assert found.biases[layer, fit] == pytest.approx(bias, abs=1e-4 * max(1, C))


def test_classes_of_unequal_size_shift_the_intercept_as_scikit_learn_s():
    states, labels = synthetic.make_states(layers=1, pairs=40, hidden=8, signal=0.3)
    train = np.ones((1, 80), bool)
    train[0, 1:60:2] = False  # 40 positive, 10 negative
    found = transfer.solve(states, labels, train)
    weights, bias, _ = theirs(states[0], labels, train[0])
    assert np.abs(found.weights[0, 0] - weights).max() < 1e-4
    assert found.biases[0, 0] == pytest.approx(bias, abs=1e-4)
    assert bias > 1


def test_a_fit_does_not_depend_on_the_fits_and_layers_beside_it():
    states, labels = synthetic.make_states(layers=5, pairs=50, hidden=40)
    train = some_fits(100, 6)
    whole = transfer.solve(states, labels, train)
    part = transfer.solve(states[3:4], labels, train[2:3])
    assert np.abs(whole.weights[3, 2] - part.weights[0, 0]).max() < 2e-5
    again = transfer.solve(states, labels, train)
    assert whole.weights.tobytes() == again.weights.tobytes()


def test_faults_of_the_fits_are_named():
    states, labels = synthetic.make_states(layers=3, pairs=20)
    train = some_fits(40, 3)
    with pytest.raises(ProbeError, match="did not converge in 1 steps"):
        transfer.solve(states, labels, train, max_iterations=1)
    one_class = train.copy()
    one_class[1, 1::2] = False
    with pytest.raises(ProbeError, match=r"fits \[1\] have one class only"):
        transfer.solve(states, labels, one_class)
    states[1, [4, 5], 2] = np.nan
    states[2, 7, 2] = np.inf
    with pytest.raises(ProbeError, match=r"layer 1: 2 of 40 items, layer 2: 1 of 40 items"):
        transfer.solve(states, labels, train)


def test_every_accuracy_is_that_of_a_loop_over_scikit_learn():
    states, labels, pairs, names = grouped(groups=3, pairs=12, layers=2, hidden=15, general=0.8, own=0.5)
    found = transfer.measure(states, labels, pairs, names, settings=SETTINGS)
    group, fold = np.array(names), (pairs % 12) % 5

    def right(layer, train, test):
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=10_000, tol=1e-8))
        model.fit(states[layer][train].astype(float), labels[train])
        return (model.predict(states[layer][test].astype(float)) == labels[test]).sum()

    for layer in range(2):
        whole = sum(right(layer, fold != k, fold == k) for k in range(5))
        assert found["in_distribution"]["by_layer"][layer] == pytest.approx(whole / 72)
        for name in ("g0", "g1", "g2"):
            own, others = group == name, group != name
            held = right(layer, others, own)
            assert found["transfer"]["by_layer"][name][layer] == pytest.approx(held / 24)
            choice = sum(right(layer, others & (fold != k), others & (fold == k)) for k in range(5))
            assert found["transfer"]["choice_by_layer"][name][layer] == pytest.approx(choice / 48)
            within = sum(right(layer, own & (fold != k), own & (fold == k)) for k in range(5))
            assert found["within_group"][name]["by_layer"][layer] == pytest.approx(within / 24)
    hits, layers = 0, []
    for k in range(5):
        inner = [
            sum(right(la, (fold != k) & (fold != j), fold == j) for j in range(5) if j != k) for la in (0, 1)
        ]
        layers.append(int(np.argmax(inner)))
        hits += right(layers[-1], fold != k, fold == k)
    assert found["in_distribution"]["selected"]["layers"] == layers
    assert found["in_distribution"]["selected"]["accuracy"] == pytest.approx(hits / 72)


def test_what_is_picked_is_what_the_layers_say():
    states, labels, pairs, names = grouped(general=0.7)
    found = transfer.measure(states, labels, pairs, names, settings=SETTINGS)
    for convention, by in (("default", "choice_by_layer"), ("published", "by_layer")):
        part = found["transfer"][convention]
        for name, group in part["groups"].items():
            assert group["layer"] == int(np.argmax(found["transfer"][by][name]))
            assert group["accuracy"] == pytest.approx(found["transfer"]["by_layer"][name][group["layer"]])
            low, high = group["interval"]
            assert low <= group["accuracy"] <= high or convention == "published"
        assert part["mean"] == pytest.approx(np.mean([g["accuracy"] for g in part["groups"].values()]))
        assert part["singled_out"] == {"g1": part["groups"]["g1"]}
    assert found["transfer"]["published"]["mean"] >= found["transfer"]["default"]["mean"]
    whole = found["in_distribution"]
    assert whole["accuracy"] == whole["by_layer"][whole["best_layer"]] == max(whole["by_layer"])
    for group in found["within_group"].values():
        assert group["best"] == group["by_layer"][group["layer"]] == max(group["by_layer"])
        assert group["whole_set_layer"] == whole["best_layer"]
        assert group["at_whole_set_layer"] == group["by_layer"][whole["best_layer"]]
    assert found["pairs"] == {"g0": 20, "g1": 20, "g2": 20, "g3": 20}


def test_a_direction_that_groups_share_transfers_and_one_of_their_own_does_not():
    shared = transfer.measure(*grouped(pairs=40, general=2.5), settings=SETTINGS)
    own = transfer.measure(*grouped(pairs=40, own=2.5), settings=SETTINGS)
    assert shared["transfer"]["default"]["mean"] > 0.95
    # 320 held-out sentences: sd 0.028.
    assert own["transfer"]["default"]["mean"] == pytest.approx(0.5, abs=0.1)
    for found in (shared, own):
        assert all(group["at_whole_set_layer"] > 0.9 for group in found["within_group"].values())


def test_random_labels_give_chance_and_only_the_published_choice_is_above_it():
    found = [transfer.measure(*grouped(layers=6, seed=seed), settings=SETTINGS) for seed in range(12)]
    sd = 0.5 / np.sqrt(12 * 160)  # 12 times 4 x 20 pairs
    honest = [np.mean([f["transfer"]["default"]["mean"] for f in found])]
    honest.append(np.mean([f["in_distribution"]["selected"]["accuracy"] for f in found]))
    assert honest == pytest.approx([0.5, 0.5], abs=4 * sd)
    published = np.mean([f["transfer"]["published"]["mean"] for f in found])
    # The best of 6 layers on 40 sentences each, independent here: 1.27 sd of one above one half.
    assert published == pytest.approx(0.5 + 1.27 * 0.5 / np.sqrt(40), abs=4 * sd)


def test_the_default_layer_does_not_look_at_the_held_out_group():
    states, labels, pairs, names = grouped(general=0.7)
    before = transfer.measure(states, labels, pairs, names, settings=SETTINGS)
    held = np.array(names) == "g2"
    states[:, held] = np.random.default_rng(9).standard_normal(states[:, held].shape)
    states[0, held, 0] += 9 * labels[held]
    after = transfer.measure(states, labels, pairs, names, settings=SETTINGS)
    assert after["transfer"]["choice_by_layer"]["g2"] == before["transfer"]["choice_by_layer"]["g2"]
    layers = [found["transfer"]["default"]["groups"]["g2"]["layer"] for found in (before, after)]
    assert layers[0] == layers[1]


def test_equal_layers_give_the_earlier_one():
    states, labels, pairs, names = grouped(layers=1, general=0.7)
    found = transfer.measure(np.repeat(states, 3, axis=0), labels, pairs, names, settings=SETTINGS)
    assert found["in_distribution"]["best_layer"] == 0
    assert found["in_distribution"]["selected"]["layers"] == [0] * 5
    for convention in ("default", "published"):
        assert {g["layer"] for g in found["transfer"][convention]["groups"].values()} == {0}
    # With one layer nothing is chosen, and the conventions agree to the last replicate.
    assert found["transfer"]["default"] == found["transfer"]["published"]


def test_intervals_are_those_of_pairs_drawn_within_groups():
    states, labels, pairs, names = grouped(layers=1, pairs=30, general=0.7)
    found = transfer.measure(states, labels, pairs, names, settings={**SETTINGS, "bootstrap": 4000})
    group = np.array(names)
    variance = []
    for name in ("g0", "g1", "g2", "g3"):
        _, _, logits = theirs(states[0], labels, group != name)
        by_pair = ((logits > 0) == (labels > 0))[group == name].reshape(-1, 2).mean(axis=1)
        variance.append(by_pair.var() / 30)
        low, high = found["transfer"]["default"]["groups"][name]["interval"]
        assert high - low == pytest.approx(2 * 1.96 * np.sqrt(variance[-1]), rel=0.15)
    low, high = found["transfer"]["default"]["interval"]
    # Groups are drawn independently of each other: the variances of their mean add up.
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(np.sum(variance)) / 4, rel=0.08)


def test_groups_of_unequal_size_and_shuffled_items_work():
    states, labels, pairs, names = grouped(general=1.0)
    kept = np.flatnonzero((np.array(names) != "g3") | (pairs % 20 < 2))
    order = np.random.default_rng(1).permutation(kept)
    tidy, mixed = (
        transfer.measure(
            states[:, take], labels[take], pairs[take], [names[i] for i in take], settings=SETTINGS
        )
        for take in (kept, order)
    )
    assert tidy["pairs"]["g3"] == mixed["pairs"]["g3"] == 2
    assert tidy["transfer"]["by_layer"] == mixed["transfer"]["by_layer"]
    assert tidy["within_group"] == mixed["within_group"]


def test_with_two_folds_no_layer_can_be_chosen_inside_them():
    found = transfer.measure(*grouped(), settings={**SETTINGS, "folds": 2})
    assert found["in_distribution"]["selected"] is None
    assert files.canonical_json(found)


def test_results_can_be_written_as_json():
    found = transfer.measure(*grouped(), settings=SETTINGS)
    assert files.canonical_json(found)
    assert files.canonical_json(transfer.lift(found["within_group"], dict.fromkeys(found["pairs"], 0.6)))


def test_groups_that_cannot_be_left_out_are_named_all_at_once():
    states, labels, pairs, names = grouped()

    def refused(groups, match, kept=slice(None)):
        with pytest.raises(DatasetError, match=match):
            transfer.measure(
                states[:, kept], labels[kept], pairs[kept], np.array(groups)[kept].tolist(), settings=SETTINGS
            )

    refused([""] * 160, "160 of 160 items have no group")
    refused(["all"] * 160, r"only the group 'all'; at least 2 groups are needed")
    lonely = ["a", "a", "b", "b", *["c"] * 155, "d"]
    refused(lonely, r"4 problems\n.*'a' has 1 pair.*\n.*'b' has 1 pair.*\n.*'d' has 1 pair.*\n.*79 is in")
    refused(names, "pair 3 has only one of its halves", np.delete(np.arange(160), 6))


def test_lift_is_decodability_minus_the_floor():
    within = {
        "a": {"best": 0.9, "layer": 2, "whole_set_layer": 1, "at_whole_set_layer": 0.8},
        "b": {"best": 0.7, "layer": 0, "whole_set_layer": 1, "at_whole_set_layer": 0.5},
    }
    found = transfer.lift(within, {"a": 0.6, "b": 0.57, "unused": 0.5}, singled_out=["b", "elsewhere"])
    assert found["groups"]["a"]["best"] == {"accuracy": 0.9, "layer": 2, "lift": pytest.approx(0.3)}
    assert found["groups"]["b"]["whole_set_layer"] == {
        "accuracy": 0.5,
        "layer": 1,
        "lift": pytest.approx(-0.07),
    }
    assert found["mean"] == {"best": pytest.approx(0.215), "whole_set_layer": pytest.approx(0.065)}
    assert found["singled_out"] == {"b": found["groups"]["b"]}


def test_a_group_without_a_floor_has_no_lift_and_a_missing_or_impossible_one_is_refused():
    within = {
        name: {"best": 0.9, "layer": 2, "whole_set_layer": 1, "at_whole_set_layer": 0.8} for name in "ab"
    }
    found = transfer.lift(within, {"a": None, "b": 0.6})
    assert found["groups"]["a"]["best"]["lift"] is None
    assert found["mean"] == {"best": None, "whole_set_layer": None}
    with pytest.raises(ProbeError, match=r"2 problems\n  group 'b' has no floor\n  group 'a': floor 60 is"):
        transfer.lift(within, {"a": 60})


def test_a_layer_is_chosen_anew_in_every_replicate():
    # Two layers, right on different halves of the pairs: whichever half a replicate has more of, the layer
    # that is right there is taken, and at least one half is right. A fixed layer falls below it.
    _, labels, pairs, names = grouped(groups=2, layers=1)
    sample = Sample.of(labels, pairs, names, SETTINGS)
    everyone = np.ones(40, bool)
    first = np.where(np.arange(40) % 2, 2, 0)
    hits = np.stack([first, 2 - first])
    layer, found = sample.picked(hits, everyone, hits, everyone)
    assert layer[0] == 0  # equal in the sample itself
    assert (found / sample.total(everyone)).min() >= 0.5
    assert set(layer.tolist()) == {0, 1}
    _, fixed = sample.picked(hits[:1], everyone, hits[:1], everyone)
    assert (fixed / sample.total(everyone)).min() < 0.4
