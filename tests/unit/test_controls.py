"""Scale controls: what activation size moves, what it cannot, and noise shaped like the classes."""

from dataclasses import replace

import numpy as np
import pytest

from strataprobe import probes
from strataprobe.fragility.controls import controls
from strataprobe.fragility.critical import continuous_critical_noise
from strataprobe.fragility.geometry import first_token_share, geometry
from tests import synthetic

CHANGES = 7.5


@pytest.fixture(scope="module")
def problem():
    return synthetic.make_problem(layers=3, pairs=60, hidden=10, signal=1.5)


@pytest.fixture(scope="module")
def trained(problem):
    labels = problem.labels[problem.train]
    return probes.train(problem.train_states, labels, seed=0, settings=synthetic.PROBE)


def scaled(problem, factor):
    return replace(problem, states=problem.states * np.float32(factor))


def for_scaled(trained, factor):
    """The probe that says of scaled activations what the given one says of the originals."""
    weights, divisors = trained.weights.copy(), trained.divisors.copy()
    weights[0] /= factor  # raw: acts on activations as they are
    divisors[1] *= factor  # rms_before: acts on activations divided by their RMS
    return replace(trained, weights=weights, divisors=divisors)


def critical(trained, problem):
    """Control -> (layers,) continuous critical noise, from each control's reach."""
    labels = problem.labels[problem.test]
    result = {}
    for name, form in controls(trained, problem).items():
        signed = labels * trained.logits(form.variant, problem.test_states).astype(float)
        rows = signed / form.reach[:, None]
        result[name] = np.array([continuous_critical_noise(row, 0.6)[0] for row in rows])
    return result


def test_of_a_fixed_probe_only_raw_noise_grows_with_the_activations(problem, trained):
    before = critical(trained, problem)
    after = critical(for_scaled(trained, CHANGES), scaled(problem, CHANGES))
    assert after["raw"] == pytest.approx(CHANGES * before["raw"], rel=1e-4)
    for name in ("rms_before", "rms_after", "within_class"):
        assert after[name] == pytest.approx(before[name], rel=1e-4)


def test_adam_is_not_scale_equivariant_but_rms_before_is(problem, trained):
    """Why `rms_before` trains anew: dividing activations is not dividing the noise afterwards."""
    labels = problem.labels[problem.train]
    large = scaled(problem, CHANGES)
    again = probes.train(large.train_states, labels, seed=0, settings=synthetic.PROBE)
    before, after = critical(trained, problem), critical(again, large)
    assert after["rms_before"] == pytest.approx(before["rms_before"], rel=1e-3)
    assert np.abs(after["rms_after"] / before["rms_after"] - 1).max() > 0.01


def test_raw_noise_is_rms_times_noise_in_rms_units(problem, trained):
    found = critical(trained, problem)
    train = problem.states[:, problem.train].astype(float)
    rms = np.sqrt((train**2).mean(axis=(1, 2)))
    assert found["raw"] == pytest.approx(rms * found["rms_after"], rel=1e-12)
    shapes = geometry(problem, np.ones((3, 4)), np.ones(3), np.ones(3), 0.6)
    assert [row["activation_rms"] for row in shapes] == pytest.approx(rms)


def test_the_rms_is_of_training_items_only(problem, trained):
    states = problem.states.copy()
    states[:, problem.test] *= 1000
    spoiled = replace(problem, states=states)
    for name, form in controls(trained, spoiled).items():
        assert np.array_equal(form.reach, controls(trained, problem)[name].reach)


def within_class_covariance(states, labels):
    """(d, d), pooled over the two classes, each about its own mean (divided by the items)."""
    total = np.zeros((states.shape[1], states.shape[1]))
    for label in (-1, 1):
        members = states[labels == label].astype(float)
        total += np.cov(members.T, bias=True) * len(members)
    return total / len(labels)


def test_within_class_reach_is_that_of_the_explicit_covariance(problem, trained):
    """S trace-normalised to d times sigma in units of sqrt(tr S / d) is S itself at sigma 1."""
    form = controls(trained, problem)["within_class"]
    labels = problem.labels[problem.train]
    for layer in range(3):
        covariance = within_class_covariance(problem.states[layer][problem.train], labels)
        hidden = len(covariance)
        normalised = covariance * hidden / np.trace(covariance)
        unit = np.sqrt(np.trace(covariance) / hidden)
        weight = trained.weights[0, layer].astype(float)
        assert form.reach[layer] == pytest.approx(unit * np.sqrt(weight @ normalised @ weight), rel=1e-6)


def test_within_class_noise_is_that_of_a_cholesky_simulation(problem, trained):
    form = controls(trained, problem)["within_class"]
    rng, labels, draws, sigma = np.random.default_rng(2), problem.labels[problem.test], 20_000, 2.0
    logits = trained.logits("raw", problem.test_states)
    for layer in range(3):
        covariance = within_class_covariance(
            problem.states[layer][problem.train], problem.labels[problem.train]
        )
        noise = rng.standard_normal((draws, 10)) @ np.linalg.cholesky(covariance).T
        noisy = logits[layer][:, None] + sigma * (noise @ trained.weights[0, layer])[None]
        right = (noisy > 0) == (labels > 0)[:, None]
        exact = continuous_accuracy(labels * logits[layer] / form.reach[layer], sigma)
        assert exact == pytest.approx(right.mean(), abs=4 * right.mean(axis=0).std() / np.sqrt(draws))


def continuous_accuracy(margins, sigma):
    from scipy.stats import norm

    return norm.cdf(margins / sigma).mean()


def test_projections_have_the_reach_as_their_length(problem, trained):
    for form in controls(trained, problem).values():
        assert np.linalg.norm(form.projections, axis=1) == pytest.approx(form.reach)


def test_a_probe_that_noise_cannot_reach_has_reach_zero(problem, trained):
    states = problem.states.copy()
    # Layer 1: within each class all training states are equal, of a size that rounding shows in.
    labels = problem.labels[problem.train]
    states[1, problem.train] = np.where(labels > 0, 1234.567, -987.654)[:, None] * states[1, :1]
    weights = trained.weights.copy()
    weights[0, 2] = 0
    forms = controls(replace(trained, weights=weights), replace(problem, states=states))
    assert (forms["within_class"].reach == 0).tolist() == [False, True, True]
    assert (forms["raw"].reach == 0).tolist() == [False, False, True]


def test_the_first_token_s_share_is_the_one_tokens_were_made_with(tmp_path):
    """Pool real token states: the share of the first one is its part of the mean's squared norm."""
    rng = np.random.default_rng(0)
    lengths, hidden = [3, 5, 9, 4], 6
    tokens = [rng.standard_normal((length, hidden)) + 1 for length in lengths]
    for states in tokens:
        states[0] *= 20  # a sink
    mean = np.array([states.mean(axis=0) for states in tokens])
    rest = np.array([states[1:].mean(axis=0) for states in tokens])
    expected = np.mean(
        [(states[0] / len(states)) @ m / (m @ m) for states, m in zip(tokens, mean, strict=True)]
    )
    layers = {"layer_00": np.stack([mean, rest], axis=1).astype(np.float32)}
    with synthetic.writing(tmp_path / "a.h5", rest[None], np.array([1, -1, 1, -1])) as writer:
        writer.write(0, layers, np.array(lengths))
    with probes_cache(tmp_path / "a.h5") as acts:
        assert first_token_share(acts) == pytest.approx([expected], rel=1e-5)
    assert expected > 0.8


def probes_cache(path):
    from strataprobe import cache

    return cache.open_activations(path)
