"""Directions, erasers and tests of flips, against formulas and other people's code."""

import numpy as np
import pytest
from scipy import stats
from sklearn.covariance import ledoit_wolf
from sklearn.linear_model import LogisticRegression

from strataprobe.datasets.answers import OBJECT, SUBJECT
from strataprobe.recoverability.folds import Folds
from strataprobe.steering import directions, erasure
from strataprobe.steering.flips import Answers, against_random, mcnemar, spread
from strataprobe.steering.probing import refitted

TRAINING = {"learning_rate": 0.01, "epochs": 100}
EVERY = np.ones((24, 2), bool)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def two_classes(rng, items=24, positions=2, hidden=40, apart=1.5):
    """States whose first coordinate tells the classes apart, and long ones in another direction."""
    labels = np.where(np.arange(items) % 2, 1, -1)
    states = rng.standard_normal((items, positions, hidden)).astype(np.float32)
    states[..., 0] += apart * labels[:, None]
    states[..., 1] *= 30
    return states, labels


def made(types, clean, first=None, groups=None, replicates=2000):
    items = {"control_types": types, "item_groups": groups or [str(i) for i in range(len(types))]}
    first = np.ones(len(types), bool) if first is None else np.array(first)
    return Answers.of(items, first, np.array(clean, float), replicates=replicates, seed=3)


# flips


@pytest.mark.parametrize("gained", range(8))
@pytest.mark.parametrize("lost", range(8))
def test_mcnemar_is_the_exact_binomial_test(gained, lost):
    found = mcnemar(gained, lost)
    wanted = stats.binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert found["p"] == pytest.approx(wanted)
    assert (found["gained"], found["lost"]) == (gained, lost)


def test_q1_is_wrong_subject_control_and_q2_right_object_control():
    found = made([SUBJECT, SUBJECT, OBJECT, OBJECT], [-1, 1, -1, 1])
    assert found.sets["q1"].tolist() == [True, False, False, False]
    assert found.sets["q2"].tolist() == [False, False, False, True]
    changed = found.changed(np.array([2.0, 1.0, -1.0, -0.5]))
    assert changed["sets"]["q1"]["flips"] == 1
    assert changed["sets"]["q2"]["flips"] == 1
    assert changed["mcnemar"]["all"] == mcnemar(1, 1)
    assert changed["mcnemar"][SUBJECT] == mcnemar(1, 0)
    assert changed["margin_shift"]["all"]["value"] == pytest.approx((3 + 0 + 0 - 1.5) / 4)


def test_a_tie_counts_as_wrong():
    assert made([SUBJECT], [0.0]).sets["q1"].all()


def test_an_empty_set_is_empty_and_not_none_of_many():
    """A model that answers every subject-control item right has no Q1: nothing could flip."""
    found = made([SUBJECT, OBJECT], [1, 1]).changed(np.array([1.0, -1.0]))
    assert found["sets"]["q1"] == {"n": 0, "clusters": 0, "value": None, "interval": [None, None], "flips": 0}
    assert found["sets"]["q2"]["value"] == 1.0


def test_the_interval_is_a_percentile_bootstrap(rng):
    values = rng.standard_normal(30)
    found = made([SUBJECT] * 30, [1] * 30, replicates=9000).mean(values, np.ones(30, bool))
    wanted = stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=9000, rng=np.random.default_rng(0)
    ).confidence_interval
    assert found["value"] == pytest.approx(values.mean())
    assert found["interval"] == pytest.approx([wanted.low, wanted.high], abs=0.03)


def test_clusters_are_drawn_whole():
    """Two items that are always alike, in one group each: as wide as with half as many items."""
    values = np.repeat([0.0, 1.0, 1.0, 0.0, 1.0, 1.0], 2)
    groups = [str(i // 2) for i in range(12)]
    whole = made([SUBJECT] * 12, [1] * 12, groups=groups).mean(values, np.ones(12, bool))
    single = made([SUBJECT] * 6, [1] * 6).mean(values[::2], np.ones(6, bool))
    assert whole["clusters"] == 6
    assert whole["interval"] == pytest.approx(single["interval"])


def test_place_bias_is_told_from_the_push():
    first = np.array([True, True, False, False])
    own = made([SUBJECT] * 4, [1] * 4, first=first)
    assert own.first_named(np.ones(4), 0.0)["gold_first"]["value"] == 1.0
    followed = np.array([1.0, 1, 1, 1])  # at alpha > 0 every answer follows the push to gold
    assert own.first_named(followed, 2.0)["towards"]["value"] == 1.0
    assert own.first_named(followed, 2.0)["away"]["value"] == 0.0
    placed = np.array([1.0, 1, -1, -1])  # the first-named one, wherever the push goes
    for alpha in (2.0, -2.0):
        found = own.first_named(placed, alpha)
        assert (found["towards"]["value"], found["away"]["value"]) == (1.0, 1.0)
    assert own.first_named(placed, 0.0)["towards"] is None


def test_against_random_counts_the_own_direction_in():
    assert against_random(3.0, np.array([1.0, 2.0, 3.0])) == 2 / 4
    assert against_random(9.0, np.array([1.0, 2.0, 3.0])) == 1 / 4
    assert against_random(None, np.array([1.0])) is None
    assert against_random(1.0, np.array([np.nan])) is None
    assert spread(np.array([np.nan]))["mean"] is None


# directions


def test_sigma_is_the_mean_sd_over_dimensions(rng):
    states, labels = two_classes(rng)
    fitted = directions.fit(states, labels, EVERY, layer=2, seed=5, training=TRAINING)
    for position in range(2):
        by_hand = [np.std(states[:, position, d].astype(float), ddof=1) for d in range(states.shape[2])]
        assert fitted.sigma[position] == pytest.approx(np.mean(by_hand))


def test_directions_are_of_unit_length_and_point_to_role_a(rng):
    states, labels = two_classes(rng)
    for signs in (labels, -labels):
        fitted = directions.fit(states, signs, EVERY, layer=2, seed=5, training=TRAINING)
        for units in fitted.units.values():
            assert np.linalg.norm(units, axis=-1) == pytest.approx([1, 1])
            told = (states * units).sum(axis=(1, 2))
            assert told[signs > 0].mean() > told[signs < 0].mean()
    means = states[labels > 0].mean(axis=0) - states[labels < 0].mean(axis=0)
    wanted = means / np.linalg.norm(means, axis=-1, keepdims=True)
    own = directions.fit(states, labels, EVERY, layer=2, seed=5, training=TRAINING).units["means"]
    assert own == pytest.approx(wanted, abs=1e-5)


def test_states_that_say_nothing_give_no_direction(rng):
    """A candidate named before the verb has the same state in both members of a pair."""
    states, labels = two_classes(rng)
    states[:, 0] = np.repeat(states[::2, 0], 2, axis=0)
    fitted = directions.fit(states, labels, EVERY, layer=2, seed=5, training=TRAINING)
    assert not fitted.units["means"][0].any()
    assert fitted.units["means"][1].any()
    assert directions.cosines(fitted)[0] is None


def test_a_sink_at_the_first_token_sets_no_scale(rng):
    states, labels = two_classes(rng)
    heeded = EVERY.copy()
    heeded[:6, 0] = False
    clean = directions.fit(states[6:], labels[6:], EVERY[6:], layer=2, seed=5, training=TRAINING)
    states[:6, 0, 3] += 20_000
    fitted = directions.fit(states, labels, heeded, layer=2, seed=5, training=TRAINING)
    assert fitted.sigma[0] == pytest.approx(clean.sigma[0])
    assert fitted.units["means"][0] == pytest.approx(clean.units["means"][0])
    assert directions.fit(states, labels, EVERY, layer=2, seed=5, training=TRAINING).sigma[0] > 100
    none = directions.fit(states, labels, ~EVERY, layer=2, seed=5, training=TRAINING)
    assert none.sigma[0] > 100  # nothing else is left to go by


def test_a_random_direction_is_the_same_in_any_number():
    few = directions.random_units(2, 3, 16, seed=1, layer=4)
    many = directions.random_units(5, 3, 16, seed=1, layer=4)
    assert np.array_equal(few, many[:2])
    assert np.linalg.norm(many, axis=-1) == pytest.approx(np.ones((5, 3)))
    assert not np.array_equal(many, directions.random_units(5, 3, 16, seed=1, layer=5))
    assert directions.random_units(0, 3, 16, seed=1, layer=4).shape == (0, 3, 16)


# erasure


@pytest.mark.parametrize(("items", "hidden"), [(24, 40), (60, 10)])
def test_the_eraser_is_leace_with_a_shrunk_covariance(rng, items, hidden):
    """Against the closed form, with scikit-learn's covariance at the full width."""
    states, labels = two_classes(rng, items=items, hidden=hidden)
    x = states[:, 0].astype(float)
    found = erasure.fit(x, labels)
    covariance, _ = ledoit_wolf(x)
    across = (x - x.mean(axis=0)).T @ (labels > 0).astype(float)
    weights = np.linalg.solve(covariance, across)
    taken = ((x - x.mean(axis=0)) @ weights / (across @ weights))[:, None] * across
    assert found(x) == pytest.approx(x - taken, abs=2e-3)
    assert found.rank == 1


def test_no_linear_probe_is_better_than_a_constant_afterwards(rng):
    states, labels = two_classes(rng)
    x = states[:, 0]
    erased = erasure.fit(x, labels)(x)
    assert erased[labels > 0].mean(axis=0) == pytest.approx(erased[labels < 0].mean(axis=0), abs=1e-4)
    for features, least in ((x, 0.0), (erased, np.log(2) - 1e-6)):
        solved = LogisticRegression(C=100.0, max_iter=10_000).fit(features, labels)
        loss = -solved.predict_log_proba(features)[np.arange(len(labels)), (labels > 0).astype(int)].mean()
        assert least <= loss < (0.1 if least == 0 else np.log(2) + 1e-3)


def test_equal_states_have_nothing_to_erase():
    labels = np.array([1, -1, 1, -1])
    eraser = erasure.fit(np.ones((4, 8), np.float32), labels)
    assert eraser.rank == 0
    assert np.array_equal(eraser(np.full((2, 8), 5.0)), np.full((2, 8), 5.0, np.float32))


def test_what_is_not_heeded_stays_as_it_is(rng):
    states, labels = two_classes(rng)
    heeded = EVERY.copy()
    heeded[:4, 1] = False
    erased = erasure.erase(erasure.fit_all(states, labels, heeded), states, heeded)
    assert np.array_equal(erased[:4, 1], states[:4, 1])
    assert not np.isclose(erased[4:, 1], states[4:, 1]).all()


def test_labels_are_dealt_anew_by_number():
    labels = np.repeat([1, -1], 10)
    one = erasure.dealt_anew(labels, 0, seed=2)
    assert one.sum() == labels.sum()
    assert np.array_equal(one, erasure.dealt_anew(labels, 0, seed=2))
    assert not np.array_equal(one, erasure.dealt_anew(labels, 1, seed=2))


def test_a_probe_finds_nothing_after_the_erasure_and_as_much_after_another_one(rng):
    states, labels = two_classes(rng, items=60, apart=8.0)
    states[..., 1] /= 30
    folds = Folds("pair_out", np.arange(60) // 2, tuple(map(str, range(30))))
    how = {"layer": 1, "seed": 3, "training": TRAINING}
    before = refitted(states, labels, folds, **how)
    erased = refitted(states, labels, folds, **how, concept=labels)
    other = refitted(states, labels, folds, **how, concept=erasure.dealt_anew(labels, 0, seed=1))
    assert before > 0.9
    assert 0.25 < erased < 0.75
    assert other > 0.85
