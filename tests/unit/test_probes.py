"""The batched numpy probes are the paper's torch probes, and the summary is the reference's."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from strataprobe import cache, probes
from strataprobe.errors import DatasetError, ProbeError
from strataprobe.probes.scores import _bootstrap_accuracy, summarise
from strataprobe.probes.training import initial_weights, root_mean_square
from tests import synthetic

REFERENCE = Path(__file__).parents[2] / ".." / "shared" / "reference" / "deepsteer" / "olmo2-1b-early"


def torch_probe(states, labels, weight, bias, settings, dtype="float32"):
    """One layer's probe as the paper trains it: nn.Linear, BCEWithLogitsLoss, Adam, full batch."""
    import torch

    torch.set_num_threads(1)
    layer = torch.nn.Linear(states.shape[1], 1, dtype=getattr(torch, dtype))
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight)[None])
        layer.bias.copy_(torch.tensor([bias]))
    x, y = (torch.from_numpy(values.astype(dtype)) for values in (states, labels > 0))
    loss_of = torch.nn.BCEWithLogitsLoss()
    adam = torch.optim.Adam(layer.parameters(), lr=settings["learning_rate"])
    for _ in range(settings["epochs"]):
        adam.zero_grad()
        loss_of(layer(x).squeeze(-1), y).backward()
        adam.step()
    with torch.no_grad():
        loss = loss_of(layer(x).squeeze(-1), y).item()
    return layer.weight[0].detach().numpy(), layer.bias.item(), loss


@pytest.mark.parametrize("signal", [0.0, 1.0, 5.0])
def test_all_layers_at_once_are_a_torch_loop_over_layers(signal):
    states, labels = synthetic.make_states(layers=6, pairs=60, hidden=48, signal=signal)
    train, test = states[:, :96], states[:, 96:]
    trained = probes.train(train, labels[:96], seed=5, settings=synthetic.PROBE)
    start, offset = initial_weights(6, 48, 5)
    rms = np.sqrt((train.astype(float) ** 2).mean(axis=(1, 2)))
    for place, divisors in enumerate((np.ones(6), rms)):
        logits = trained.logits(("raw", "rms_before")[place], test)
        for layer in range(6):
            divisor = np.float32(divisors[layer])
            weight, bias, loss = torch_probe(
                train[layer] / divisor, labels[:96], start[layer], offset[layer], synthetic.PROBE
            )
            assert np.abs(trained.weights[place, layer] - weight).max() < 1e-4
            assert abs(trained.biases[place, layer] - bias) < 1e-4
            assert trained.train_loss[place, layer] == pytest.approx(loss, abs=1e-4, rel=1e-4)
            theirs = (test[layer] / divisor) @ weight + bias
            assert np.array_equal(logits[layer] > 0, theirs > 0)
            assert np.abs(logits[layer] - theirs).max() < 1e-3 * max(1, np.abs(theirs).max())


def test_a_layer_that_is_all_but_solved_keeps_the_exact_gradient():
    # Residuals of 1e-8 are divided by their own size in Adam: float32 torch itself is 1e-4 off here.
    states, labels = synthetic.make_states(layers=6, pairs=48, hidden=48, signal=20.0)
    trained = probes.train(states, labels, seed=5, settings=synthetic.PROBE)
    start, offset = initial_weights(6, 48, 5)
    for layer in range(6):
        weight, bias, _ = torch_probe(
            states[layer], labels, start[layer], offset[layer], synthetic.PROBE, "float64"
        )
        assert np.abs(trained.weights[0, layer] - weight).max() < 2e-5
        assert abs(trained.biases[0, layer] - bias) < 1e-4


def test_initial_weights_are_distributed_as_torch_s():
    import torch

    torch.manual_seed(1)
    theirs = np.concatenate([torch.nn.Linear(64, 1).weight.detach().numpy().ravel() for _ in range(300)])
    weights, biases = initial_weights(300, 64, 7)
    assert stats.ks_2samp(weights.ravel(), theirs).pvalue > 0.001
    assert stats.kstest(biases, stats.uniform(-1 / 8, 1 / 4).cdf).pvalue > 0.001
    assert np.abs(np.corrcoef(weights)[np.triu_indices(300, 1)]).mean() < 0.15


def test_a_layer_s_probe_does_not_depend_on_how_many_layers_there_are():
    states, labels = synthetic.make_states(layers=5)
    whole = probes.train(states, labels, seed=3, settings=synthetic.PROBE)
    part = probes.train(states[:2], labels, seed=3, settings=synthetic.PROBE)
    assert np.array_equal(whole.weights[:, :2], part.weights)
    assert np.array_equal(whole.biases[:, :2], part.biases)


def test_the_seed_decides_and_nothing_else():
    states, labels = synthetic.make_states()
    first, again, other = (probes.train(states, labels, seed=s, settings=synthetic.PROBE) for s in (3, 3, 4))
    assert first.weights.tobytes() == again.weights.tobytes()
    assert not np.array_equal(first.weights, other.weights)


def test_logistic_is_scikit_learn_s_on_features_scaled_by_the_training_items():
    states, labels = synthetic.make_states(layers=3, pairs=60, hidden=24)
    states[:, :, 3] = 5.0  # a coordinate that says nothing must not divide by zero
    train, test = states[:, :96].astype(float), states[:, 96:].astype(float)
    trained = probes.train(
        states[:, :96], labels[:96], seed=0, settings={**synthetic.PROBE, "solver": "logistic"}
    )
    for variant in ("raw", "rms_before"):
        logits = trained.logits(variant, states[:, 96:])
        for layer in range(3):
            theirs = make_pipeline(StandardScaler(), LogisticRegression(max_iter=10_000, tol=1e-8))
            theirs.fit(train[layer], labels[:96])
            expected = theirs.decision_function(test[layer])
            assert np.abs(logits[layer] - expected).max() < 5e-3
            assert np.array_equal(logits[layer] > 0, theirs.predict(test[layer]) > 0)


def test_rms_is_over_items_and_coordinates():
    states = np.array([[[3.0, 4.0], [0.0, 5.0]]], np.float32)
    assert root_mean_square(states) == pytest.approx([np.sqrt(50 / 4)])


def test_probe_logits_are_those_of_the_divided_activations():
    states, labels = synthetic.make_states(layers=2)
    trained = probes.train(states, labels, seed=0, settings=synthetic.PROBE)
    divided = states / trained.divisors[1][:, None, None]
    expected = np.einsum("lnd,ld->ln", divided, trained.weights[1]) + trained.biases[1][:, None]
    assert np.allclose(trained.logits("rms_before", states), expected, atol=1e-4)


def test_random_labels_give_accuracy_near_one_half():
    accuracies = []
    for seed in range(20):
        problem = synthetic.make_problem(layers=4, pairs=60, test_pairs=20, signal=0.0, seed=seed)
        accuracies.append(probes.measure(problem, seed=seed, settings=synthetic.PROBE)[2]["mean_accuracy"])
    # 20 seeds x 40 items, layers independent: sd of the mean is below 0.5 / sqrt(800).
    assert np.mean(accuracies) == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(800))


def test_a_separable_class_is_found_and_every_score_says_so():
    problem = synthetic.make_problem(layers=3, signal=9.0)
    _, layers, summary = probes.measure(problem, seed=0, settings=synthetic.PROBE)
    assert [layer["accuracy"] for layer in layers] == [1.0] * 3
    assert [layer["auc"] for layer in layers] == [1.0] * 3
    assert summary["mean_accuracy_interval"] == [1.0, 1.0]
    assert summary["onset_layer"] == 0


def test_the_accuracy_of_each_test_pair_is_the_share_of_its_halves_and_layers_that_are_right():
    posed = synthetic.make_problem(layers=4, pairs=40, test_pairs=10, signal=0.6)
    trained, layers, summary = probes.measure(posed, seed=0, settings=synthetic.PROBE)
    kept = summary["test_pair_accuracy"]
    assert kept["pairs"] == list(range(30, 40)), "places in the dataset, not in the test set"
    for pair, accuracy in zip(kept["pairs"], kept["accuracy"], strict=True):
        right = [
            (logit > 0) == (posed.labels[item] > 0)
            for layer in trained.logits("raw", posed.states[:, [2 * pair, 2 * pair + 1]])
            for item, logit in zip((2 * pair, 2 * pair + 1), layer, strict=True)
        ]
        assert len(right) == 2 * 4
        assert accuracy == pytest.approx(np.mean(right))
    assert 0.5 < np.mean(kept["accuracy"]) < 1
    assert np.mean(kept["accuracy"]) == pytest.approx(summary["mean_accuracy"])
    assert np.mean(kept["accuracy"]) == pytest.approx(np.mean([layer["accuracy"] for layer in layers]))


def test_log_loss_is_the_loss_in_bits():
    _, layers, _ = probes.measure(synthetic.make_problem(), seed=0, settings=synthetic.PROBE)
    for layer in layers:
        assert layer["log_loss"] * np.log(2) == pytest.approx(layer["loss"])


def test_a_logit_of_exactly_zero_is_the_negative_class():
    scores = probes.score(np.zeros((1, 5)), np.array([1, 1, 1, -1, -1]))
    assert scores["accuracy"] == pytest.approx([0.4])


def test_bootstraps_draw_pairs_whole():
    # Each pair has one right and one wrong half: whichever pairs are drawn, accuracy is exactly one half.
    correct = np.tile([True, False], (3, 20))
    replicates = _bootstrap_accuracy(correct, np.arange(40) // 2, 100, 1)
    assert np.array_equal(replicates, np.full((100, 3), 0.5))
    # With halves alike, a replicate is a mean over 20 pairs, of sd sqrt(p q / 20).
    alike = np.repeat(np.arange(20) < 10, 2)[None]
    spread = _bootstrap_accuracy(alike, np.arange(40) // 2, 4000, 1).std()
    assert spread == pytest.approx(np.sqrt(0.25 / 20), rel=0.05)


@pytest.mark.parametrize(
    ("accuracy", "onset", "depth", "breadth", "peak"),
    [
        ([0.5, 0.59, 0.6, 0.9], 2, 0.5, 0.5, 3),
        ([0.5, 0.5, 0.5, 0.5], None, 1.0, 0.0, 0),
        ([0.7, 0.9, 0.9, 0.5], 0, 0.0, 0.75, 1),
    ],
)
def test_onset_depth_breadth_and_peak_of_small_profiles(accuracy, onset, depth, breadth, peak):
    found = summarise(np.array(accuracy), 0.6)
    assert found["onset_layer"] == onset
    assert (found["moral_encoding_depth"], found["moral_encoding_breadth"]) == (depth, breadth)
    assert (found["peak_layer"], found["peak_accuracy"]) == (peak, max(accuracy))
    assert found["mean_accuracy"] == pytest.approx(sum(accuracy) / 4)


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference's result files are not here")
def test_the_summary_of_the_reference_s_layers_is_the_reference_s_summary():
    files = sorted(REFERENCE.glob("*/layer_wise_moral_probe.json"))
    assert len(files) == 37
    for file in files:
        theirs = json.loads(file.read_text())
        accuracy = np.array([layer["accuracy"] for layer in theirs["layer_scores"]])
        found = summarise(accuracy, theirs["metadata"]["onset_threshold"])
        for key in (
            "onset_layer", "peak_layer", "peak_accuracy", "moral_encoding_depth", "moral_encoding_breadth",
        ):  # fmt: skip
            assert found[key] == theirs[key], (file, key)


def test_faults_of_the_training_set_are_named():
    states, labels = synthetic.make_states()
    with pytest.raises(ProbeError, match="both classes"):
        probes.train(states, np.ones_like(labels), seed=0, settings=synthetic.PROBE)
    states[[1, 3]] = 0
    with pytest.raises(ProbeError, match=r"layers \[1, 3\]: all activations are zero"):
        probes.train(states, labels, seed=0, settings=synthetic.PROBE)


def test_a_problem_is_split_by_pair_and_by_group(tmp_path):
    states = synthetic.write_cache(tmp_path / "a.h5")
    with cache.open_activations(tmp_path / "a.h5") as acts:
        problem = probes.Problem.of(acts, seed=1, pooling="mean_rest", test_fraction=0.25)
        with pytest.raises(DatasetError, match="too few pairs"):
            probes.Problem.of(acts, seed=1, pooling="mean", test_fraction=0.001)
    assert sorted([*problem.train, *problem.test]) == list(range(80))
    assert not set(problem.pairs[problem.train]) & set(problem.pairs[problem.test])
    assert len(problem.test) == 20
    assert sorted(problem.pairs[problem.test] % 2) == [0] * 10 + [1] * 10
    assert np.array_equal(problem.test_states, states[:, problem.test])


def test_saved_probes_come_back_with_their_split_and_settings(tmp_path):
    synthetic.write_cache(tmp_path / "a.h5")
    with cache.open_activations(tmp_path / "a.h5") as acts:
        problem = probes.Problem.of(acts, seed=1, pooling="mean_rest", test_fraction=0.25)
        trained = probes.measure(problem, seed=1, settings=synthetic.PROBE)[0]
        for name in ("w.h5", "again.h5"):
            probes.save(tmp_path / name, trained, problem, synthetic.PROBE)
        back, split, settings = probes.load(tmp_path / "w.h5", acts)
    assert (tmp_path / "w.h5").read_bytes() == (tmp_path / "again.h5").read_bytes()
    for name in ("weights", "biases", "divisors", "train_loss"):
        assert np.array_equal(getattr(back, name), getattr(trained, name))
    assert np.array_equal(split.test, problem.test)
    assert np.array_equal(split.states, problem.states)
    assert settings == synthetic.PROBE


def test_probes_of_another_cache_or_with_a_damaged_byte_are_refused(tmp_path):
    synthetic.write_cache(tmp_path / "a.h5")
    synthetic.write_cache(tmp_path / "b.h5", provenance={"weights_sha256": "c" * 64})
    with cache.open_activations(tmp_path / "a.h5") as acts:
        problem = probes.Problem.of(acts, seed=1, pooling="mean_rest", test_fraction=0.25)
        trained = probes.measure(problem, seed=1, settings=synthetic.PROBE)[0]
        probes.save(tmp_path / "w.h5", trained, problem, synthetic.PROBE)
    with (
        cache.open_activations(tmp_path / "b.h5") as other,
        pytest.raises(ProbeError, match="another activation"),
    ):
        probes.load(tmp_path / "w.h5", other)
    raw = bytearray((tmp_path / "w.h5").read_bytes())
    raw[raw.index(trained.weights[1, 2].tobytes())] ^= 1
    (tmp_path / "w.h5").write_bytes(raw)
    with (
        cache.open_activations(tmp_path / "a.h5") as acts,
        pytest.raises(ProbeError, match=r"w\.h5 is damaged"),
    ):
        probes.load(tmp_path / "w.h5", acts)
