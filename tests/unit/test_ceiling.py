"""The probe-free ceiling: against the formula written out with scikit-learn's covariance."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.covariance import ledoit_wolf

from strataprobe.fragility.ceiling import Ceiling, spectral_measure
from tests import synthetic

SIGMA = np.array([0.01, 0.1, 0.5, 1.0, 3.0, 10.0])


def direct(states, labels, sigma):
    """Phi(0.5 sqrt(d' (Sw + s^2 I)^-1 d)) with the (d, d) matrix."""
    states = states.astype(float)
    difference = states[labels == 1].mean(axis=0) - states[labels == -1].mean(axis=0)
    centred = states.copy()
    for label in (-1, 1):
        centred[labels == label] -= states[labels == label].mean(axis=0)
    covariance, _ = ledoit_wolf(centred, assume_centered=True)
    noisy = covariance + sigma**2 * np.eye(len(covariance))
    return norm.cdf(0.5 * np.sqrt(difference @ np.linalg.solve(noisy, difference)))


@pytest.mark.parametrize(("pairs", "hidden"), [(20, 100), (20, 39), (20, 40), (20, 41), (200, 15)])
def test_the_ceiling_is_the_formula_with_more_or_fewer_items_than_coordinates(pairs, hidden):
    states, labels = synthetic.make_states(layers=2, pairs=pairs, hidden=hidden)
    found = Ceiling(states, labels).accuracy(SIGMA)
    for layer in range(2):
        expected = [direct(states[layer], labels, sigma) for sigma in SIGMA]
        assert found[layer] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("size", [1, 2, 3, 60])
@pytest.mark.parametrize("sign", [-1, 0, 1])
def test_the_components_of_a_vector_are_those_along_the_eigenvectors(size, sign):
    rng = np.random.default_rng(size)
    half = rng.normal(size=(size, size))
    matrix, vector = half @ half.T, rng.normal(size=size)
    vector[0] = sign * abs(vector[0])
    values, squares = spectral_measure(matrix, vector)
    expected, vectors = np.linalg.eigh(matrix)
    np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(squares, (vectors.T @ vector) ** 2, rtol=1e-6, atol=1e-12)


def test_equal_eigenvalues_and_a_vector_of_zeros_have_their_components_too():
    matrix, vector = np.diag([2.0, 2.0, 5.0, 0.0]), np.array([0.3, -1.2, 0.7, 2.0])
    values, squares = spectral_measure(matrix, vector)
    for shift in (0.1, 3.0):
        direct = vector @ np.linalg.solve(matrix + shift * np.eye(4), vector)
        assert (squares / (values + shift)).sum() == pytest.approx(direct, rel=1e-12)
    assert spectral_measure(matrix, np.zeros(4))[1].tolist() == [0.0] * 4


@pytest.mark.parametrize("hidden", [8, 200])
def test_more_noise_never_helps(hidden):
    states, labels = synthetic.make_states(hidden=hidden)
    accuracy = Ceiling(states, labels).accuracy(np.geomspace(1e-3, 1e4, 200))
    assert (np.diff(accuracy, axis=1) <= 1e-12).all()
    assert accuracy[:, -1] == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("hidden", [8, 200])
def test_its_critical_noise_is_where_the_formula_meets_the_threshold(hidden):
    states, labels = synthetic.make_states(layers=3, hidden=hidden, signal=1.5)
    for layer, critical in enumerate(Ceiling(states, labels).critical_noise(0.6)):
        expected = brentq(lambda s, k=layer: direct(states[k], labels, s) - 0.6, 1e-6, 1e4)
        assert critical.state == "value"
        assert critical.value == pytest.approx(expected, rel=1e-6)


def test_classes_with_one_mean_are_below_the_threshold():
    states, labels = synthetic.make_states(layers=1)
    states[:, 1::2] = states[:, ::2]
    critical = Ceiling(states, labels).critical_noise(0.6)[0]
    assert (critical.value, critical.state) == (None, "below_threshold")


def test_classes_without_variance_have_the_distance_s_own_noise():
    """Two points at distance D: the best rule is right with probability Phi(D / 2s)."""
    labels = np.tile([1, -1], 10)
    states = np.where(labels[None, :, None] > 0, [3.0, 0.0, 0.0], [0.0, 4.0, 0.0]).astype(np.float32)
    ceiling = Ceiling(states, labels)
    assert ceiling.accuracy(SIGMA)[0] == pytest.approx(norm.cdf(2.5 / SIGMA))
    assert ceiling.critical_noise(0.6)[0].value == pytest.approx(2.5 / norm.ppf(0.6))


def test_rounding_in_a_direction_without_variance_is_not_perfect_separation():
    """Many items, no shrinkage, one class mean: what rounding leaves of d is not divided by zero."""
    rng = np.random.default_rng(1)
    labels = np.tile([1, -1], 20_000)
    states = np.zeros((1, 40_000, 2), np.float32)
    states[0, :, 0] = rng.standard_normal(40_000) * 1e3 + labels * 200
    found = Ceiling(states, labels).accuracy(np.array([1e-3]))[0, 0]
    assert found == pytest.approx(norm.cdf(0.2), abs=0.01)


def test_no_linear_rule_beats_it_on_gaussian_classes():
    """The known optimum: unit normals, means 2 apart, noise s: Phi(1 / sqrt(1 + s^2))."""
    rng = np.random.default_rng(3)
    labels = np.tile([1, -1], 20_000)
    states = rng.standard_normal((1, 40_000, 3))
    states[0, :, 1] += labels
    found = Ceiling(states.astype(np.float32), labels).accuracy(SIGMA)[0]
    assert found == pytest.approx(norm.cdf(1 / np.sqrt(1 + SIGMA**2)), abs=0.01)


def test_a_layer_s_ceiling_does_not_depend_on_the_other_layers():
    states, labels = synthetic.make_states(layers=4)
    assert np.array_equal(
        Ceiling(states, labels).accuracy(SIGMA)[:2], Ceiling(states[:2], labels).accuracy(SIGMA)
    )
