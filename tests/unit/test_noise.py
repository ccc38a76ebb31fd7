"""Accuracy under noise: the closed form against drawing the noise, and the draws against themselves."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strataprobe.fragility.noise import (
    exact_accuracy,
    item_noise,
    sampled_accuracy,
    sampled_grid_distribution,
)
from tests import synthetic

DRAWS = 100_000


def test_exact_accuracy_agrees_with_a_simulation_of_noisy_activations(rng):
    """Noise is added to the activations themselves, with a covariance that is not the identity."""
    items, hidden = 12, 6
    states, weight, bias = rng.standard_normal((items, hidden)), rng.standard_normal(hidden), 0.3
    labels = np.tile([1, -1], items // 2)
    shape = rng.standard_normal((hidden, hidden))
    covariance = shape @ shape.T
    noise = rng.standard_normal((DRAWS, hidden)) @ np.linalg.cholesky(covariance).T
    margins = labels * (states @ weight + bias) / np.sqrt(weight @ covariance @ weight)
    sigma = np.array([0.1, 0.5, 2.0, 10.0])
    exact = exact_accuracy(margins[None], sigma)[0]
    for level, value in zip(sigma, exact, strict=True):
        right = (((states[:, None] + level * noise) @ weight + bias) > 0) == (labels > 0)[:, None]
        # The draws are shared by all items, so the error is that of the mean over draws.
        error = right.mean(axis=0).std() / np.sqrt(DRAWS)
        assert value == pytest.approx(right.mean(), abs=4 * error + 1e-9)


def test_exact_accuracy_without_noise_is_accuracy_and_with_endless_noise_is_chance():
    margins = np.array([[1.0, 2.0, -1.0, 3.0]])
    assert exact_accuracy(margins, np.array([1e-9, 1e9]))[0] == pytest.approx([0.75, 0.5])


def test_levels_may_differ_by_layer():
    margins = np.array([[1.0, -2.0], [1.0, -2.0]])
    both = exact_accuracy(margins, np.array([[0.5, 1.0], [2.0, 4.0]]))
    assert both[1] == pytest.approx(exact_accuracy(margins[:1] / 4, np.array([0.5, 1.0]))[0])


@pytest.fixture
def case(rng):
    """Logits, classes, projections, names and levels of three probes on 60 items."""
    projections = rng.standard_normal((3, 20)).astype(np.float32)
    positive = rng.random(60) < 0.5
    signs = np.where(positive, 1, -1)
    logits = (signs * rng.normal(3, 3, (3, 60))).astype(np.float32)
    return logits, positive, projections, synthetic.make_ids(60), [0.1, 0.3, 1.0, 3.0]


def test_sampled_accuracy_is_the_exact_one_within_its_binomial_error(case):
    logits, positive, projections, ids, sigma = case
    sampled = sampled_accuracy(logits, positive, projections, ids, sigma, draws=400, seed=1)
    margins = np.where(positive, 1, -1) * logits / np.linalg.norm(projections, axis=1)[:, None]
    exact = exact_accuracy(margins, np.array(sigma))
    error = np.sqrt(np.maximum(exact * (1 - exact), 1e-4) / (60 * 400))
    assert (np.abs(sampled - exact) < 4.5 * error).all()


def test_sampling_does_not_depend_on_the_order_of_items(case, rng):
    logits, positive, projections, ids, sigma = case
    order = rng.permutation(60)
    straight = sampled_accuracy(logits, positive, projections, ids, sigma, draws=5, seed=1)
    shuffled = sampled_accuracy(
        logits[:, order], positive[order], projections, [ids[i] for i in order], sigma, draws=5, seed=1
    )
    assert np.array_equal(straight, shuffled)


def test_sampling_does_not_depend_on_the_order_or_number_of_levels(case):
    logits, positive, projections, ids, sigma = case
    whole = sampled_accuracy(logits, positive, projections, ids, sigma, draws=5, seed=1)
    turned = sampled_accuracy(logits, positive, projections, ids, sigma[::-1], draws=5, seed=1)
    single = sampled_accuracy(logits, positive, projections, ids, [1.0], draws=5, seed=1)
    assert np.array_equal(whole, turned[:, ::-1])
    assert np.array_equal(whole[:, 2:3], single)


def test_sampling_does_not_depend_on_how_items_and_probes_are_batched(case):
    logits, positive, projections, ids, sigma = case
    whole = sampled_accuracy(logits, positive, projections, ids, sigma, draws=5, seed=1)
    parts = [
        sampled_accuracy(logits[:, i], positive[i], projections, ids[i], sigma, draws=5, seed=1)
        for i in (slice(0, 20), slice(20, 60))
    ]
    assert (parts[0] * 20 + parts[1] * 40) / 60 == pytest.approx(whole, abs=1e-12)
    alone = sampled_accuracy(logits[1:2], positive, projections[1:2], ids, sigma, draws=5, seed=1)
    assert np.array_equal(alone[0], whole[1])


def test_sampling_is_the_drawn_noise_added_to_activations(rng):
    """Given the noise, the accuracy is counted as the paper does: noise on states, probe on noisy states."""
    hidden, items = 8, 30
    states = rng.standard_normal((items, hidden)).astype(np.float32)
    weight, bias = rng.standard_normal((1, hidden)).astype(np.float32), np.float32(0.2)
    positive, ids = rng.random(items) < 0.5, synthetic.make_ids(items)
    logits = (states @ weight.T + bias).T
    found = sampled_accuracy(logits, positive, weight, ids, [0.7], draws=3, seed=9)
    noisy = states[:, None] + np.float32(0.7) * np.stack(
        [item_noise(9, name, 0.7, 3, hidden) for name in ids]
    )
    expected = (((noisy @ weight[0] + bias) > 0) == positive[:, None]).mean()
    assert found[0, 0] == pytest.approx(expected, abs=1e-12)


def test_noise_is_standard_normal_and_new_for_each_seed_item_and_level():
    base = item_noise(1, "a", 1.0, 4, 5000)
    assert base.mean() == pytest.approx(0, abs=4 / np.sqrt(20_000))
    assert base.std() == pytest.approx(1, abs=4 / np.sqrt(40_000))
    assert np.array_equal(base, item_noise(1, "a", 1, 4, 5000))
    for other in (
        item_noise(2, "a", 1.0, 4, 5000),
        item_noise(1, "b", 1.0, 4, 5000),
        item_noise(1, "a", 3.0, 4, 5000),
    ):
        assert abs(np.corrcoef(base.ravel(), other.ravel())[0, 1]) < 0.03
    assert abs(np.corrcoef(base)[0, 1]) < 0.06


def by_enumeration(probabilities, threshold, draws):
    """P(first level below the threshold), by going through every outcome of every level."""
    survive, result = 1.0, []
    for row in probabilities:
        trials = np.repeat(row, draws)
        below = 0.0
        for outcome in itertools.product([0, 1], repeat=len(trials)):
            if sum(outcome) / len(trials) < threshold:
                below += np.prod(np.where(outcome, trials, 1 - trials))
        result.append(survive * below)
        survive *= 1 - below
    return [*result, survive]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.floats(0, 1), min_size=5, max_size=5), min_size=1, max_size=3),
    st.sampled_from([0.55, 0.6, 0.8]),
)
def test_the_distribution_of_a_sampled_grid_value_is_that_of_enumeration(probabilities, threshold):
    found = sampled_grid_distribution(np.array(probabilities), threshold, draws=1)
    assert found == pytest.approx(by_enumeration(probabilities, threshold, 1), abs=1e-12)
    assert found.sum() == pytest.approx(1)


def test_the_distribution_with_several_draws_is_that_of_enumeration():
    probabilities = [[0.9, 0.7, 0.65, 0.3], [0.6, 0.5, 0.55, 0.5]]
    found = sampled_grid_distribution(np.array(probabilities), 0.6, draws=3)
    assert found == pytest.approx(by_enumeration(probabilities, 0.6, 3), abs=1e-12)


def test_the_distribution_is_where_sampling_falls(rng):
    probabilities = np.clip(np.linspace(0.95, 0.5, 5)[:, None] + rng.normal(0, 0.1, (5, 40)), 0, 1)
    trials = 20_000
    right = (rng.random((trials, 5, 40)) < probabilities).mean(axis=2) < 0.6
    first = np.where(right.any(axis=1), right.argmax(axis=1), 5)
    counted = np.bincount(first, minlength=6) / trials
    found = sampled_grid_distribution(probabilities, 0.6, draws=1)
    assert found == pytest.approx(counted, abs=4 * 0.5 / np.sqrt(trials))
    # The expected sampled value is not the exact grid value: that one is a single level.
    assert found.max() < 0.95


@pytest.fixture
def rng():
    return np.random.default_rng(11)
