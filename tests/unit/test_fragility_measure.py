"""The whole measure: its parts agree with each other and with what is computed here from scratch."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, spearmanr

from strataprobe import cache, files, fragility, probes
from strataprobe.fragility.measure import _bootstrap_counts
from tests import synthetic

CONTROLS = ("raw", "rms_before", "rms_after", "within_class")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("measure") / "a.h5"
    synthetic.write_cache(path, layers=6, pairs=60, hidden=12, signal=1.2)
    return path


def measured(path, layers=None, weights=None, **settings):
    with cache.open_activations(path) as acts:
        problem = probes.Problem.of(acts, seed=3, pooling="mean_rest", test_fraction=0.25)
        trained = probes.measure(problem, seed=3, settings=synthetic.PROBE)[0]
        if weights is not None:
            trained = replace(trained, weights=weights(trained.weights.copy()))
        return trained, problem, *fragility.measure(
            trained, problem, acts, seed=3, settings={**synthetic.FRAGILITY, **settings}
        )  # fmt: skip


@pytest.fixture(scope="module")
def result(path):
    return measured(path)


def test_accuracies_are_the_probe_s_own_with_the_noise_written_out(result):
    trained, problem, layers, _ = result
    labels = problem.labels[problem.test]
    for layer, record in enumerate(layers):
        test = problem.states[layer, problem.test].astype(float)
        weight = trained.weights[0, layer].astype(float)
        signed = labels * (test @ weight + trained.biases[0, layer])
        assert record["baseline_accuracy"] == pytest.approx((signed > 0).mean())
        raw = record["controls"]["raw"]
        expected = [norm.cdf(signed / (s * np.linalg.norm(weight))).mean() for s in raw["noise_levels"]]
        assert raw["exact_accuracy"] == pytest.approx(expected, rel=1e-4)
        assert raw["sampled_accuracy"] == pytest.approx(expected, abs=5 * 0.5 / np.sqrt(30 * 10))
        assert record["accuracy_by_noise"] == dict(
            zip(["0.1", "0.3", "1.0", "3.0", "10.0"], raw["sampled_accuracy"], strict=True)
        )
        assert record["critical_noise"] == raw["grid_sampled"]["value"]


def test_at_its_critical_noise_every_control_is_at_the_threshold(result):
    for record in result[2]:
        for name in CONTROLS:
            row = record["controls"][name]
            if row["continuous"]["state"] != "value":
                continue
            curve = row["curve"]
            at = np.interp(np.log(row["continuous"]["value"]), np.log(curve["sigma"]), curve["accuracy"])
            assert at == pytest.approx(0.6, abs=0.01)
            low, high = row["continuous"]["interval"]
            assert low <= row["continuous"]["value"] <= high


def test_raw_critical_noise_is_activation_rms_times_rms_after(result):
    for record in result[2]:
        raw, after = (record["controls"][name]["continuous"] for name in ("raw", "rms_after"))
        size = record["geometry"]["activation_rms"]
        assert raw["value"] == pytest.approx(size * after["value"], rel=1e-12)
        assert raw["interval"] == pytest.approx([size * bound for bound in after["interval"]], rel=1e-12)


def test_margins_in_the_geometry_are_distances_to_the_probe_s_plane(result):
    trained, problem, layers, _ = result
    labels = problem.labels[problem.test]
    for layer, record in enumerate(layers):
        weight, bias = trained.weights[0, layer].astype(float), trained.biases[0, layer]
        states = problem.states[layer, problem.test].astype(float)
        # The foot of the perpendicular: moving a state by its margin along w puts it on the plane.
        margin = labels * (states @ weight + bias) / np.linalg.norm(weight)
        foot = states - (labels * margin)[:, None] * weight / np.linalg.norm(weight)
        assert np.abs(foot @ weight + bias).max() < 1e-5
        shape = record["geometry"]
        assert (shape["margin_mean"], shape["margin_sd"]) == pytest.approx(
            (margin.mean(), margin.std()), rel=1e-4
        )
        assert shape["weight_norm"] == pytest.approx(np.linalg.norm(weight))


def test_means_are_those_of_the_layers_shown(result):
    _, _, layers, summary = result
    assert [layer["band"] for layer in layers] == ["early"] * 2 + ["mid"] * 2 + ["late"] * 2
    for name in CONTROLS:
        values = [layer["controls"][name]["continuous"]["value"] for layer in layers]
        assert None not in values
        assert summary["means"][name]["continuous"]["all"]["dropped"] == pytest.approx(np.mean(values))
        assert summary["means"][name]["continuous"]["late"]["capped"] == pytest.approx(np.mean(values[4:]))
        low, high = summary["mean_intervals"][name]
        assert low < np.mean(values) < high
    grid = [layer["critical_noise"] for layer in layers]
    capped = [10.0 if value is None else value for value in grid]
    assert summary["means"]["raw"]["grid_sampled"]["all"]["capped"] == pytest.approx(np.mean(capped))


def test_what_it_adds_is_scipy_s_rank_correlation(result):
    _, _, layers, summary = result
    for unit in ("raw", "rms_after"):
        noise = [layer["controls"][unit]["continuous"]["value"] for layer in layers]
        for score in ("auc", "d_prime", "log_loss"):
            expected = spearmanr(noise, [layer[score] for layer in layers]).statistic
            found = summary["what_it_adds"]["spearman"][unit][score]
            assert found is None if np.isnan(expected) else found == pytest.approx(expected)


def test_bootstraps_count_both_halves_of_a_pair_together(result):
    problem = result[1]
    counts = _bootstrap_counts(problem, 50, 1)
    pairs = problem.pairs[problem.test]
    assert (counts.sum(axis=1) == len(pairs)).all()
    for pair in set(pairs.tolist()):
        first, second = np.flatnonzero(pairs == pair)
        assert np.array_equal(counts[:, first], counts[:, second])


def test_an_unreachable_probe_is_undefined_and_out_of_every_mean(path):
    def silent(weights):
        weights[0, 2] = 0
        return weights

    with np.errstate(all="ignore"):
        _, _, layers, summary = measured(path, weights=silent)
    for name in ("raw", "rms_after", "within_class"):
        row = layers[2]["controls"][name]
        for statistic in ("grid_sampled", "grid_exact", "continuous"):
            assert (row[statistic]["value"], row[statistic]["state"]) == (None, "undefined")
        means = summary["means"][name]["continuous"]["all"]
        assert (means["layers"], means["counted"]) == (6, 5)
    assert layers[2]["controls"]["rms_before"]["continuous"]["state"] == "value"
    files.canonical_json([layers, summary])


def test_a_probe_turned_around_is_below_the_threshold(path):
    _, _, layers, summary = measured(path, weights=lambda weights: -weights)
    for record in layers:
        assert record["baseline_accuracy"] < 0.6
        assert record["critical_noise_state"] == "below_threshold"
        assert record["controls"]["raw"]["continuous"]["value"] is None
    assert summary["means"]["raw"]["continuous"]["all"]["dropped"] is None
    assert summary["means"]["raw"]["continuous"]["all"]["capped"] == 0
    files.canonical_json([layers, summary])


def test_another_grid_changes_the_grid_and_not_the_continuous_value(path, result):
    _, _, layers, _ = measured(path, noise_levels=[0.2, 1.0, 5.0])
    for record, before in zip(layers, result[2], strict=True):
        now, then = record["controls"]["raw"], before["controls"]["raw"]
        assert now["continuous"] == then["continuous"]
        assert now["noise_levels"] == [0.2, 1.0, 5.0]
        # Level 1.0 has the same draws in both.
        assert now["sampled_accuracy"][1] == then["sampled_accuracy"][2]


def test_layers_do_not_depend_on_how_many_there_are(path, tmp_path, result):
    with cache.open_activations(path) as acts:
        states, labels = acts.stack("mean_rest")[:2], acts.labels
    with synthetic.writing(tmp_path / "b.h5", states, labels) as writer:
        writer.write(*next(synthetic.make_windows(states)))
    _, _, layers, _ = measured(tmp_path / "b.h5")
    for record, before in zip(layers, result[2], strict=False):
        for name in CONTROLS:
            assert record["controls"][name] == before["controls"][name]


def test_the_same_input_gives_the_same_bytes_as_json(path, result):
    again = measured(path)
    text = files.canonical_json([result[2], result[3]])
    assert text == files.canonical_json([again[2], again[3]])
    assert "replicates" not in text
    assert json.loads(text)[1]["noise_levels"] == [0.1, 0.3, 1.0, 3.0, 10.0]
    assert "curve" in result[2][0]["controls"]["raw"]
    assert "curve" not in result[3]["layer_scores"][0]["controls"]["raw"]
