"""Batched multinomial probes are scikit-learn's, on features that are hard to fit too."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from bench import routing
from strataprobe.errors import ProbeError
from strataprobe.probes.multinomial import predict, principal_axes, solve_multinomial

SOLVER = {"C": 1.0, "tolerance": 1e-9, "max_iterations": 100}


def planted(problems=2, items=60, hidden=20, classes=4, signal=2.0, seed=0):
    """(problems, items, hidden) float32 and (items,) labels: Gaussian classes around means of their own."""
    rng = np.random.default_rng(seed)
    labels = np.arange(items) % classes
    means = rng.standard_normal((problems, classes, hidden)) / np.sqrt(hidden)
    return (rng.standard_normal((problems, items, hidden)) + signal * means[:, labels]).astype(
        np.float32
    ), labels


def like_a_residual_stream(features, seed=0):
    """Two dimensions a hundred times wider, one of them far off zero; norms in the hundreds."""
    rng = np.random.default_rng(seed)
    scales = np.full(features.shape[2], 5.0)
    scales[[2, 7]] = 500.0
    return (features * scales + 2000 * (np.arange(features.shape[2]) == 7)).astype(np.float32) + rng.normal()


def with_giants(features, count=3):
    """The first items lie a hundred times further out than all others, in one direction."""
    features = features.copy()
    features[:, :count] += 2e4 * np.eye(features.shape[2], dtype=np.float32)[4]
    return features


def theirs(features, labels, C=1.0, **own):
    """scikit-learn's fit, by a solver that gets to the optimum on unscaled features too."""
    model = LogisticRegression(C=C, tol=1e-10, max_iter=10_000, solver="newton-cholesky", **own)
    return model.fit(features.astype(float), labels)


HARD = {
    "easy": lambda features: features,
    "residual stream": like_a_residual_stream,
    "giants": with_giants,
    "tiny": lambda features: features / 1000,
    "constant": lambda features: np.concatenate([features, np.full_like(features[:, :, :1], 300.0)], axis=2),
    "twins": lambda features: np.tile(features[:, :20], (1, features.shape[1] // 20, 1)),
}


@pytest.mark.parametrize("make", HARD.values(), ids=HARD)
@pytest.mark.parametrize("hidden", [12, 90])
def test_every_problem_is_scikit_learn_s(make, hidden):
    features, labels = planted(problems=3, hidden=hidden)
    features = make(features)
    others = make(planted(problems=3, items=200, hidden=hidden, seed=1)[0]).astype(float)
    coefficients, intercepts, converged = solve_multinomial(features, labels, classes=4, **SOLVER)
    assert converged.tolist() == [True] * 3
    found = predict(others, coefficients, intercepts)
    for number in range(3):
        model = theirs(features[number], labels)
        largest = np.abs(model.coef_).max()
        assert np.abs(coefficients[number] - model.coef_).max() < 1e-4 * largest
        assert intercepts[number].sum() == pytest.approx(0, abs=1e-9 * np.abs(intercepts[number]).max())
        logits = others[number] @ model.coef_.T + model.intercept_
        ours = others[number] @ coefficients[number].T + intercepts[number]
        assert np.abs((ours - ours.mean(axis=1, keepdims=True)) - logits).max() < 1e-3
        assert np.array_equal(found[number], model.predict(others[number]))


def test_the_optimum_is_that_of_scikit_learn_s_default_solver_too():
    """On easy features all its solvers come to one point; the test's own choice proves nothing by itself."""
    features, labels = planted(problems=1)
    coefficients, intercepts, _ = solve_multinomial(features, labels, classes=4, **SOLVER)
    model = LogisticRegression(tol=1e-10, max_iter=100_000).fit(features[0].astype(float), labels)
    assert np.abs(coefficients[0] - model.coef_).max() < 1e-4 * np.abs(model.coef_).max()
    assert np.abs(intercepts[0] - model.intercept_).max() < 1e-4


@pytest.mark.parametrize("C", [1e-3, 30.0])
def test_the_penalty_is_scikit_learn_s(C):
    features, labels = planted(signal=0.5)
    coefficients, _, converged = solve_multinomial(features, labels, classes=4, **{**SOLVER, "C": C})
    assert converged.all()
    for number in range(2):
        model = theirs(features[number], labels, C)
        assert np.abs(coefficients[number] - model.coef_).max() < 1e-4 * np.abs(model.coef_).max()


def test_two_classes_share_their_weights_evenly():
    """Softmax over both, where scikit-learn has one sigmoid: the same objective with half the penalty."""
    features, labels = planted(problems=1, classes=2, hidden=6)
    coefficients, intercepts, _ = solve_multinomial(features, labels, classes=2, **SOLVER)
    assert np.allclose(coefficients[0, 0], -coefficients[0, 1], atol=1e-8)
    model = theirs(features[0], labels, C=2.0)
    assert np.allclose(coefficients[0, 1] - coefficients[0, 0], model.coef_[0], atol=1e-5)
    assert intercepts[0, 1] - intercepts[0, 0] == pytest.approx(model.intercept_[0], abs=1e-5)


def test_a_mask_is_a_fit_of_the_items_that_it_leaves():
    features, labels = planted(problems=2, items=80, hidden=100)
    features = like_a_residual_stream(features)
    folds = np.arange(80) // 4 % 5
    used = np.stack([np.ones(80), *(folds != fold for fold in range(5))])
    weights = np.broadcast_to(used, (2, *used.shape))
    coefficients, intercepts, converged = solve_multinomial(
        features, labels, classes=4, weights=weights, **SOLVER
    )
    assert coefficients.shape == (2, 6, 4, 100)
    assert intercepts.shape == (2, 6, 4)
    assert converged.shape == (2, 6)
    assert converged.all()
    for fit, kept in enumerate(used > 0):
        alone = solve_multinomial(features[:, kept], labels[kept], classes=4, **SOLVER)
        assert np.abs(coefficients[:, fit] - alone[0]).max() < 1e-5 * np.abs(alone[0]).max()
        assert np.allclose(intercepts[:, fit], alone[1], rtol=1e-4, atol=1e-3)
    one = solve_multinomial(features, labels, classes=4, weights=weights[:, 3], **SOLVER)
    assert one[0].shape == (2, 4, 100)
    assert np.abs(one[0] - coefficients[:, 3]).max() < 1e-5 * np.abs(one[0]).max()


def test_each_problem_has_labels_of_its_own():
    features, labels = planted(problems=2)
    both = np.stack([labels, np.roll(labels, 1)])
    coefficients, _, _ = solve_multinomial(features, both, classes=4, **SOLVER)
    for number in range(2):
        alone = solve_multinomial(features[[number]], both[number], classes=4, **SOLVER)[0][0]
        assert np.abs(coefficients[number] - alone).max() < 1e-7


def test_a_class_without_items_is_left_out():
    """The others are then what a probe of them alone is, and nothing is ever sent to it."""
    features, labels = planted(classes=4)
    used = np.stack([labels != 2, labels != 0]).astype(float)
    coefficients, intercepts, converged = solve_multinomial(
        features, labels, classes=4, weights=np.broadcast_to(used, (2, *used.shape)), **SOLVER
    )
    assert converged.all()
    for fit, absent in enumerate((2, 0)):
        assert (coefficients[:, fit, absent] == 0).all()
        assert (intercepts[:, fit, absent] == -np.inf).all()
        kept = used[fit] > 0
        rest = [name for name in range(4) if name != absent]
        for number in range(2):
            model = theirs(features[number][kept], labels[kept])
            assert model.classes_.tolist() == rest
            assert (
                np.abs(coefficients[number, fit][rest] - model.coef_).max() < 1e-4 * np.abs(model.coef_).max()
            )
        assert absent not in predict(100 * features, coefficients[:, fit], intercepts[:, fit])


def test_nothing_lies_below_the_optimum():
    """Against a generic minimiser of the objective, started from ours: it finds nowhere to go."""
    features, labels = planted(problems=1, items=40, hidden=8, classes=3)
    features = with_giants(features)
    coefficients, intercepts, _ = solve_multinomial(features, labels, classes=3, **SOLVER)
    x = features[0].astype(float)

    def objective(flat):
        weights, bias = flat[:24].reshape(3, 8), flat[24:]
        logits = x @ weights.T + bias
        largest = logits.max(axis=1)
        total = largest + np.log(np.exp(logits - largest[:, None]).sum(axis=1))
        return (total - logits[np.arange(40), labels]).sum() + (weights**2).sum() / 2

    ours = np.concatenate([coefficients[0].ravel(), intercepts[0]])
    found = minimize(objective, ours, method="Powell", options={"maxiter": 3})
    assert objective(ours) <= found.fun + 1e-9


def test_order_of_items_company_and_workers_change_no_prediction():
    features, labels = planted(problems=5, items=90, hidden=40, classes=3)
    features = like_a_residual_stream(features)
    others = like_a_residual_stream(planted(problems=5, items=300, hidden=40, seed=4)[0])
    told = solve_multinomial(features, labels, classes=3, **SOLVER)
    order = np.random.default_rng(2).permutation(90)
    turned = solve_multinomial(features[:, order], labels[order], classes=3, **SOLVER)
    assert np.array_equal(predict(others, *told[:2]), predict(others, *turned[:2]))
    assert np.abs(told[0] - turned[0]).max() < 1e-6 * np.abs(told[0]).max()
    alone = solve_multinomial(features[3:4], labels, classes=3, **SOLVER)
    assert np.abs(told[0][3] - alone[0][0]).max() < 1e-6 * np.abs(told[0]).max()
    several = solve_multinomial(features, labels, classes=3, workers=3, **SOLVER)
    for one, other in zip(told, several, strict=True):
        assert np.array_equal(one, other)


def test_too_few_iterations_are_told_and_not_hidden():
    features, labels = planted(problems=2)
    hard = with_giants(features)
    hard[0] = 0.001 * features[0]
    _, _, converged = solve_multinomial(hard, labels, classes=4, C=1.0, tolerance=1e-9, max_iterations=3)
    assert converged.tolist() == [True, False]


@pytest.mark.parametrize(("items", "hidden"), [(7, 20), (20, 7), (9, 9)])
def test_principal_axes_keep_lengths_and_angles(items, hidden):
    centred = np.random.default_rng(0).standard_normal((2, items, hidden))
    centred -= centred.mean(axis=1, keepdims=True)
    axes, rotation = principal_axes(centred)
    assert axes.shape == (2, items, min(items, hidden))
    assert np.allclose(axes @ rotation.swapaxes(1, 2), centred, atol=1e-12)
    assert np.allclose(rotation.swapaxes(1, 2) @ rotation, np.eye(min(items, hidden)), atol=1e-12)
    products = axes.swapaxes(1, 2) @ axes
    assert np.allclose(products, products * np.eye(min(items, hidden)), atol=1e-10)


def test_bad_input_is_refused_with_everything_that_is_wrong():
    features, labels = planted(problems=3, classes=2)
    features[1, 4, 2] = np.nan
    features[2, :2, 0] = np.inf
    with pytest.raises(ProbeError) as error:
        solve_multinomial(features, labels + 1, classes=2, **SOLVER)
    assert "features of 3 items are not finite, in problems [1, 2]" in str(error.value)
    assert "labels are 1 to 2, for 2 classes" in str(error.value)
    features, labels = planted(problems=2, classes=2)
    used = np.ones((2, 2, 60))
    used[1, 0] = labels == 1
    with pytest.raises(ProbeError, match=r"there are fewer in fit 0 of problem 1$"):
        solve_multinomial(features, labels, classes=2, weights=used, **SOLVER)


def test_predictions_broadcast_over_probes_and_take_the_first_of_equals():
    features = np.random.default_rng(0).standard_normal((4, 10, 3)).astype(np.float32)
    coefficients = np.random.default_rng(1).standard_normal((5, 4, 6, 3))
    intercepts = np.random.default_rng(2).standard_normal((5, 4, 6))
    found = predict(features, coefficients, intercepts)
    assert found.shape == (5, 4, 10)
    logits = features[2].astype(float) @ coefficients[3, 2].T + intercepts[3, 2]
    assert np.array_equal(found[3, 2], logits.argmax(axis=1))
    assert predict(np.zeros((1, 1, 3)), np.zeros((1, 4, 3)), np.array([[0.0, 2, 2, 1]])).tolist() == [[1]]


def test_the_benchmark_compares_the_same_fits():
    found = routing.measure((1, 3, 6, 40), sample=2, repeats=1)
    assert found.numbers["predictions that differ from newton-cg's"] == "0 of 36"
    assert found.numbers["predictions that differ from lbfgs's"].endswith(" of 36")
    assert float(found.numbers["times as fast as newton-cg"]) > 0


def test_the_benchmark_notices_a_wrong_solver(monkeypatch):
    def wrong(states, labels, **settings):
        coefficients, intercepts, converged = solve_multinomial(states, labels, **settings)
        return np.roll(coefficients, 1, axis=-1), intercepts, converged

    monkeypatch.setattr(routing, "solve_multinomial", wrong)
    monkeypatch.setattr(routing, "LEAST", 0)
    assert not routing.measure((1, 3, 6, 40), sample=2, repeats=1).passed


def test_giants_among_confident_items_take_no_more_than_a_few_steps():
    """A class of items a hundred times further out than the rest, all items told apart almost surely.

    There single precision fails first; the optimum is where scikit-learn's gradient vanishes.
    """
    features, labels = planted(items=120, hidden=150, classes=6, signal=3.0)
    features = 20 * features
    features[:, np.flatnonzero(labels == 2)[:8]] += 2e4 * np.eye(150, dtype=np.float32)[4]
    coefficients, intercepts, converged = solve_multinomial(
        features, labels, classes=6, C=1.0, tolerance=1e-9, max_iterations=30
    )
    assert converged.all()
    for x, weights, bias in zip(features.astype(float), coefficients, intercepts, strict=True):
        residual = softmax(x @ weights.T + bias, axis=1) - np.eye(6)[labels]
        assert np.abs(residual.T @ x + weights).max() / 120 < 2e-9
        assert np.abs(residual.sum(axis=0)).max() / 120 < 2e-9
