"""Closed-form ridge: explicit refits, explicit selection, and a null that is as biased as what it judges."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from strataprobe.recoverability import null, ridge
from strataprobe.recoverability.closed_form import closed_form
from strataprobe.recoverability.codings import MODES, coded, features
from strataprobe.recoverability.folds import all_folds
from tests import control_items

KINDS = ("subject_control", "object_control")
SCHEMES = ("item_out", "pair_out", "group_out", "verb_out", "balanced")


@pytest.fixture(scope="module")
def problem():
    items = control_items.make(pairs=3)
    states = control_items.make_states(items, layers=2, hidden=9, signal=0.7, twins=1.0, verbs=0.5)
    return items, states, coded(items, "decorrelated"), all_folds(items)[0]


def explicit(states, mode, coding):
    """(layers, items, features) in float64, and the penalty of `residual_matrices` at ridge 0.2."""
    told = features(states, mode, coding.swapped).astype(float)
    spread = ((told - told.mean(axis=1, keepdims=True)) ** 2).sum(axis=2).mean(axis=1)
    return told, 0.2 * spread


def residuals(states, coding):
    return ridge.residual_matrices(ridge.gram_matrices(states, coding.swapped), 0.2)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_held_out_predictions_are_those_of_refits(problem, scheme):
    """Against scikit-learn's Ridge, and against the normal equations by hand."""
    _, states, coding, schemes = problem
    folds, labels = schemes[scheme], coding.labels.astype(float)
    found = ridge.held_out_predictions(residuals(states, coding), labels[:, None], folds)[..., 0]
    for column, mode in enumerate(MODES):
        told, alpha = explicit(states, mode, coding)
        for layer in range(2):
            for used in folds.used:
                model = Ridge(alpha=alpha[layer], solver="svd").fit(told[layer, used], labels[used])
                theirs = model.predict(told[layer, ~used])
                assert found[layer, column, ~used] == pytest.approx(theirs, abs=1e-8)
                design = np.column_stack([told[layer, used], np.ones(used.sum())])
                penalty = alpha[layer] * np.diag([*np.ones(told.shape[2]), 0.0])
                solved = np.linalg.solve(design.T @ design + penalty, design.T @ labels[used])
                by_hand = told[layer, ~used] @ solved[:-1] + solved[-1]
                assert found[layer, column, ~used] == pytest.approx(by_hand, abs=1e-8)


@pytest.mark.parametrize("scheme", ["item_out", "pair_out", "verb_out"])
def test_nested_selection_is_that_of_refits_within_refits(problem, scheme):
    _, states, coding, schemes = problem
    folds, labels = schemes[scheme], coding.labels.astype(float)
    found = ridge.nested_selection(residuals(states, coding), coding.labels, folds)
    parts = [explicit(states, mode, coding) for mode in MODES]

    def predict(layer, column, used, asked):
        told, alpha = parts[column]
        model = Ridge(alpha=alpha[layer], solver="svd").fit(told[layer, used], labels[used])
        return model.predict(told[layer, asked])

    for fold in range(len(folds.names)):
        rest = folds.held != fold
        score = np.zeros((2, len(MODES)))
        for layer in range(2):
            for column in range(len(MODES)):
                for inner in range(len(folds.names)):
                    asked = folds.held == inner
                    if inner != fold:
                        said = predict(layer, column, rest & ~asked, asked)
                        score[layer, column] += ((said >= 0) == (labels[asked] > 0)).sum()
        layer, column = np.unravel_index(np.argmax(score), score.shape)
        assert (found.layers[fold], found.modes[fold]) == (layer, column)
        said = predict(layer, column, rest, ~rest)
        assert np.array_equal(found.correct[~rest], (said >= 0) == (labels[~rest] > 0))


def test_a_penalty_is_in_units_of_the_features_own_spread(problem):
    _, states, coding, schemes = problem
    labels = coding.labels[:, None].astype(float)
    large = {position: 1000 * values + 5 for position, values in states.items()}
    one, other = (
        ridge.held_out_predictions(residuals(given, coding), labels, schemes["pair_out"])
        for given in (states, large)
    )
    assert one == pytest.approx(other, abs=1e-6)


def test_features_that_are_all_alike_predict_the_other_items_mean():
    items = control_items.make(pairs=3)
    states = {position: np.ones((1, len(items), 4), np.float32) for position in "abv"}
    coding, folds = coded(items, "paper"), all_folds(items)[0]["item_out"]
    labels = coding.labels[:, None].astype(float)
    found = ridge.held_out_predictions(residuals(states, coding), labels, folds)[0, 0, :, 0]
    assert found == pytest.approx(-coding.labels / (len(items) - 1))


def test_null_counts_are_those_of_one_labelling_after_another(problem):
    items, states, coding, schemes = problem
    of = residuals(states, coding)
    labels = null.exchange_in_pairs(items, coding.labels, 12, 3)
    best, mean = ridge.null_counts(of, labels, schemes["pair_out"])
    counts = []
    for one in labels:
        signs = one[:, None].astype(float)
        said = ridge.held_out_predictions(of, signs, schemes["pair_out"])[..., 0]
        counts.append(((said >= 0) == (one > 0)).sum(axis=-1))
    assert np.array_equal(best, np.max(counts, axis=(1, 2)))
    assert mean == pytest.approx(np.mean(counts, axis=0))


def test_exchange_in_pairs_keeps_pairs_and_their_two_labels():
    items = control_items.make(pairs=4)
    labels = coded(items, "decorrelated").labels
    drawn = null.exchange_in_pairs(items, labels, 400, 5)
    assert np.array_equal(drawn[:7], null.exchange_in_pairs(items, labels, 7, 5))
    assert not np.array_equal(drawn[:7], null.exchange_in_pairs(items, labels, 7, 6))
    pair = np.array([f"{item.language}{item.pair}" for item in items])
    for one in set(pair):
        assert (drawn[:, pair == one].sum(axis=1) == 0).all()
    # 400 fair coins an item, and no two pairs on one coin: five sd.
    assert np.abs(drawn.mean(axis=0)).max() < 5 / 20
    first = drawn[:, [np.flatnonzero(pair == one)[0] for one in sorted(set(pair))]]
    apart = np.abs(np.corrcoef(first.T) - np.eye(first.shape[1])).max()
    assert apart < 5 / 20


def test_items_without_a_pair_are_exchanged_within_their_language():
    items = [
        control_items.item("en", kind, None, f"v{i}", f"e{kind[0]}{i}") for kind in KINDS for i in range(3)
    ]
    items += [control_items.item("de", "subject_control", None, f"w{i}", f"d{i}") for i in range(2)]
    labels = coded(items, "paper").labels
    drawn = null.exchange_in_pairs(items, labels, 200, 1)
    assert (drawn[:, 6:] == 1).all()
    assert (drawn[:, :6].sum(axis=1) == 0).all()
    assert len(np.unique(drawn, axis=0)) == 20  # all ways to place three of six


def test_exchange_of_verbs_keeps_a_verb_s_items_and_twins_together():
    items = control_items.make(pairs=6, verbs=3)
    labels, folds = coded(items, "paper").labels, all_folds(items)[0]["balanced"]
    drawn = null.exchange_verbs(folds, labels, 500, 2)
    assert np.array_equal(drawn[:9], null.exchange_verbs(folds, labels, 9, 2))
    assert len(np.unique(drawn, axis=0)) == 2**6  # two languages of three pairs of verbs
    for verb in {item.verb for item in items}:
        own = drawn[:, [item.verb == verb for item in items]]
        assert (own == own[:, :1]).all()


def nulls_of(seeds, **how):
    """(observed mean over layers and modes, null's mean, p) of random states, item-out and pair-out."""
    items = control_items.make(pairs=6, verbs=3)
    schemes = all_folds(items)[0]
    chosen = {name: schemes[name] for name in ("item_out", "pair_out")}
    masks = {"all": np.ones(len(items), bool)}
    places = [{"layer": 0}, {"layer": 1}]
    settings = {"modes": list(MODES), "ridge": 0.1, "permutations": 39, "seeds": [1]}
    rows = []
    for seed in range(seeds):
        states = control_items.make_states(items, layers=2, hidden=12, seed=seed, **how)
        found = closed_form(states, coded(items, "paper"), chosen, items, masks, places, settings)
        rows.append(
            [
                (
                    np.mean(list(found["ridge"][name].values())),
                    np.mean(list(found["null"][name]["single"].values())),
                    found["null"][name]["p"],
                    found["nested"][name]["accuracy"]["all"],
                    found["null"][name]["observed"],
                )
                for name in chosen
            ]
        )
    return np.array(rows).transpose(1, 2, 0)


def test_random_labels_are_at_the_null_which_is_below_chance_where_twins_stay_in_training():
    """Twins of opposite labels pull leave-one-out below 0.5; the null of the same scheme is as low."""
    (item, item_null, item_p, item_nested, item_best), (pair, pair_null, pair_p, pair_nested, _) = nulls_of(
        60, twins=1.5
    )
    assert item.mean() < 0.3
    error = item.std() / np.sqrt(60)
    assert item.mean() == pytest.approx(item_null.mean(), abs=4 * error)
    assert pair.mean() == pytest.approx(0.5, abs=4 * pair.std() / np.sqrt(60))
    assert pair_null.mean() == pytest.approx(0.5, abs=0.01)
    assert pair_nested.mean() == pytest.approx(0.5, abs=4 * pair_nested.std() / np.sqrt(60))
    assert item_nested.mean() < item_best.mean() - 0.05
    for p in (item_p, pair_p):
        for level in (0.05, 0.1, 0.25, 0.5):
            # Exact tests: never more often than their level.
            assert np.mean(p <= level) < level + 4 * np.sqrt(level * (1 - level) / len(p))
        assert np.mean(p) < 0.75


def test_what_is_encoded_beats_null_and_selection():
    _, (_, _, p, nested, best) = nulls_of(5, twins=1.0, signal=4.0)
    assert (p == 1 / 40).all()
    assert (nested > 0.9).all()
    assert (best >= nested).all()
