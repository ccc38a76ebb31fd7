"""Statistics of probes by layer and replicate: those of fragility itself, and of the pairs that are drawn."""

from dataclasses import replace

import numpy as np
import pytest

from strataprobe import cache, fragility, probes
from strataprobe.curation import replicates
from strataprobe.curation.margins import Margins
from strataprobe.fragility.controls import CONTROLS
from strataprobe.statistics import cluster_counts
from strataprobe.tables.curation import fragile_layers
from tests import synthetic


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Probes of one cache, one layer turned around and one silent, and what fragility says of them."""
    path = tmp_path_factory.mktemp("probe") / "a.h5"
    synthetic.write_cache(path, layers=6, pairs=80, hidden=12, signal=1.2)
    with cache.open_activations(path) as acts:
        problem = probes.Problem.of(acts, seed=3, pooling="mean_rest", test_fraction=0.25)
        trained = probes.measure(problem, seed=3, settings=synthetic.PROBE)[0]
        weights = trained.weights.copy()
        weights[:, 1] *= -1
        weights[:, 2] = 0
        trained = replace(trained, weights=weights, biases=np.where(weights[..., 0] == 0, 0, trained.biases))
        settings = {**synthetic.FRAGILITY, "noise_levels": [0.1, 0.3, 1.0, 3.0, 10.0, 15.0]}
        summary = fragility.measure(trained, problem, acts, seed=3, settings=settings)[1]
    return Margins.of(trained, problem), summary, settings["noise_levels"]


def test_row_zero_is_what_fragility_says_of_the_same_probe(measured):
    own, summary, levels = measured
    found = replicates.by_layer(own, np.ones((1, own.dataset_pairs)), levels, 0.6)
    layers = summary["layer_scores"]
    states = [layer["controls"]["raw"]["grid_exact"]["state"] for layer in layers]
    assert set(states) == {"value", "censored", "below_threshold", "undefined"}
    assert found.accuracy[0].tolist() == [layer["baseline_accuracy"] for layer in layers]
    for control in CONTROLS:
        values = [layer["controls"][control]["continuous"]["value"] for layer in layers]
        expected = [np.nan if value is None else value for value in values]
        assert found.noise[control][0] == pytest.approx(expected, rel=1e-9, nan_ok=True)
    by_name = dict(zip(replicates.QUANTITIES, replicates.over_layers(found, np.arange(6))[:, 0], strict=True))
    means = summary["means"]["raw"]
    grid = replicates.Quantity("mean_critical_noise", "raw", "grid_exact", "capped")
    assert by_name[grid] == pytest.approx(means["grid_exact"]["all"]["capped"])
    dropped = replicates.Quantity("mean_critical_noise", "raw", "continuous", "dropped")
    assert by_name[dropped] == pytest.approx(means["continuous"]["all"]["dropped"])
    exact = [layer["controls"]["raw"]["grid_exact"] for layer in layers]
    # One at 10, one below the threshold; not the silent one, the one at 15 itself, nor the censored ones.
    assert [layer["value"] for layer in exact] == [10.0, 0.1, None, 15.0, None, None]
    assert fragile_layers([(layer["value"], layer["state"]) for layer in exact], levels[-1]) == 2
    assert by_name[replicates.Quantity("fragile_layers", "raw", "grid_exact")] == 2


def test_a_replicate_is_the_statistic_of_the_pairs_that_it_draws(measured):
    own, _, levels = measured
    weights = cluster_counts(own.dataset_pairs, 3, 1).astype(float)
    found = replicates.by_layer(own, weights, levels, 0.6)
    for row, counts in enumerate(weights.astype(int)):
        chosen = np.repeat(np.arange(len(own.pairs)), counts[own.pairs])
        part = {name: signed[:, chosen] for name, signed in own.signed.items()}
        repeated = replace(own, pairs=own.pairs[chosen], correct=own.correct[:, chosen], signed=part)
        alone = replicates.by_layer(repeated, np.ones((1, own.dataset_pairs)), levels, 0.6)
        assert found.accuracy[row] == pytest.approx(alone.accuracy[0])
        assert found.noise["rms_after"][row] == pytest.approx(alone.noise["rms_after"][0], nan_ok=True)
        assert found.grid[row] == pytest.approx(alone.grid[0], nan_ok=True)
        assert found.fragile[row].tolist() == alone.fragile[0].tolist()


def test_noise_may_lift_a_layer_above_the_threshold_but_it_stays_fragile_and_none_reaches_a_silent_one():
    """Half the items just wrong: 0.5 without noise, 0.75 with some; beside it a probe that none moves."""
    signed = np.array([[100.0] * 5 + [-1e-6] * 5, [1.0] * 10])
    own = Margins(
        ids=tuple(map(str, range(10))),
        pairs=np.arange(10) // 2,
        dataset_pairs=5,
        correct=signed > 0,
        signed={"raw": signed, "rms_before": signed},
        reach={control: np.array([1.0, 0.0]) for control in CONTROLS},
    )
    found = replicates.by_layer(own, np.ones((1, 5)), [0.1, 1.0, 10.0], 0.6)
    assert found.accuracy.tolist() == [[0.5, 1.0]]
    assert found.grid[0] == pytest.approx([10.0, np.nan], nan_ok=True)
    assert found.fragile.tolist() == [[1.0, 0.0]]
    assert all(np.isnan(noise).all() for noise in found.noise.values())
