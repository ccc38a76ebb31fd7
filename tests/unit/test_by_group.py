"""Group-specific probes are the paper's probe on one group, and their chance peak is honest."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from strataprobe import files, probes
from strataprobe.errors import DatasetError, ProbeError
from strataprobe.probes import by_group
from strataprobe.probes.scores import summarise
from tests import synthetic

REFERENCE = Path(__file__).parents[2] / ".." / "shared" / "reference" / "deepsteer" / "olmo2-1b-early"
SETTINGS = {**synthetic.PROBE, "permutations": 20}


def grouped_problem(groups=3, pairs=40, test_pairs=8, **how):
    """Groups one after another, the last pairs of each held out."""
    states, labels = synthetic.make_states(pairs=groups * pairs, **how)
    pair = np.arange(len(labels)) // 2
    held = pair % pairs >= pairs - test_pairs
    problem = probes.Problem(
        states, labels, pair, synthetic.make_ids(len(labels)), np.flatnonzero(~held), np.flatnonzero(held),
        "mean_rest", "0" * 64,
    )  # fmt: skip
    return problem, [f"g{p // pairs}" for p in pair]


def restricted(problem, items):
    """The problem of some items alone."""
    place = {item: i for i, item in enumerate(items)}
    return dataclasses.replace(
        problem,
        states=problem.states[:, items],
        labels=problem.labels[items],
        pairs=problem.pairs[items],
        ids=[problem.ids[item] for item in items],
        train=np.array([place[item] for item in problem.train if item in place]),
        test=np.array([place[item] for item in problem.test if item in place]),
    )


def test_a_group_s_probe_is_the_probe_of_a_dataset_of_that_group_alone():
    problem, groups = grouped_problem(signal=0.8)
    found = by_group.measure(problem, groups, seed=4, settings=SETTINGS)
    for name in ("g0", "g1", "g2"):
        items = [item for item, group in enumerate(groups) if group == name]
        _, layers, summary = probes.measure(restricted(problem, items), seed=4, settings=synthetic.PROBE)
        ours = [score for score in found["foundation_layer_scores"] if score["foundation"] == name]
        assert [score["n_pairs"] for score in ours] == [32] * 4
        for score, layer in zip(ours, layers, strict=True):
            assert (score["layer"], score["accuracy"]) == (layer["layer"], layer["accuracy"])
            assert score["loss"] == pytest.approx(layer["loss"])
        mine = found["per_foundation_summary"][name]
        assert mine["peak_accuracy"] == summary["peak_accuracy"]
        assert mine["depth"] == summary["moral_encoding_depth"]


def test_a_direction_of_one_group_is_found_in_that_group_alone():
    problem, groups = grouped_problem(signal=0.0, layers=3)
    own = np.array(groups) == "g1"
    problem.states[:, own, 0] += 4 * problem.labels[own]
    found = by_group.measure(problem, groups, seed=4, settings={**SETTINGS, "permutations": 40})
    peaks = {name: group["peak_accuracy"] for name, group in found["per_foundation_summary"].items()}
    values = {name: group["permutation"]["p_value"] for name, group in found["chance_peak"].items()}
    assert peaks["g1"] > 0.9
    assert values["g1"] == pytest.approx(1 / 41)
    assert max(peaks["g0"], peaks["g2"]) < 0.9
    assert min(values["g0"], values["g2"]) > 0.04


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference's result files are not here")
def test_the_result_has_the_reference_s_fields_and_its_summary_its_numbers():
    reference = sorted(REFERENCE.glob("*/foundation_specific_probe.json"))
    assert len(reference) == 37
    problem, groups = grouped_problem()
    ours = by_group.measure(problem, groups, seed=4, settings=SETTINGS)
    for file in reference:
        theirs = json.loads(file.read_text())
        assert set(theirs["foundation_layer_scores"][0]) == set(ours["foundation_layer_scores"][0])
        assert set(theirs["metadata"]) <= set(by_group.metadata(SETTINGS))
        for name, summary in theirs["per_foundation_summary"].items():
            layers = [s for s in theirs["foundation_layer_scores"] if s["foundation"] == name]
            assert {s["n_pairs"] for s in layers} == {32}
            over = summarise(np.array([s["accuracy"] for s in layers]), theirs["metadata"]["onset_threshold"])
            assert set(summary) == set(ours["per_foundation_summary"]["g0"])
            assert summary["depth"] == over["moral_encoding_depth"]
            assert summary["breadth"] == over["moral_encoding_breadth"]
            for key in ("onset_layer", "peak_layer", "peak_accuracy"):
                assert summary[key] == over[key]


@pytest.mark.parametrize(("items", "layers"), [(16, 1), (16, 16), (10, 6), (2, 5)])
def test_the_independent_peak_is_the_best_of_binomials(items, layers):
    found = by_group.independent_peak(items, layers)
    draws = np.random.default_rng(0).binomial(items, 0.5, (40_000, layers)).max(axis=1) / items
    assert found["mean"] == pytest.approx(draws.mean(), abs=4 * draws.std() / 200)
    below = stats.binom(items, 0.5).cdf(np.arange(items + 1)) ** layers
    assert found["quantile_95"] == np.flatnonzero(below >= 0.95)[0] / items


def test_the_chance_peak_of_sixteen_sentences_lies_where_the_definitions_say():
    # Nearly equal layers, as a model's neighbours are: between one layer's chance and independent layers'.
    problem, groups = grouped_problem(signal=0.0, layers=16, hidden=32)
    rng = np.random.default_rng(5)
    shared = rng.standard_normal(problem.states[0].shape)
    problem.states[:] = shared + 0.7 * rng.standard_normal(problem.states.shape)
    found = by_group.measure(problem, groups, seed=4, settings={**SETTINGS, "permutations": 60})
    independent = found["chance_peak"]["g0"]["independent"]["mean"]
    pooled = found["chance_peak_pooled"]
    assert pooled["permutations"] == 180
    assert found["chance_peak"]["g0"]["test_items"] == 16
    assert 0.71 < independent < 0.74
    assert 0.55 < pooled["mean"] < independent


def test_permuted_peaks_of_independent_layers_are_those_of_independent_guessers():
    problem, groups = grouped_problem(groups=1, signal=0.0, layers=8, hidden=32)
    found = by_group.measure(problem, groups, seed=4, settings={**SETTINGS, "permutations": 300})
    group = found["chance_peak"]["g0"]
    assert group["permutation"]["mean"] == pytest.approx(group["independent"]["mean"], abs=0.03)
    same = dataclasses.replace(problem, states=np.repeat(problem.states[:1], 8, axis=0))
    peaks = by_group.permuted_peaks(
        same, problem.train, problem.test, seed=1, start=1, settings={**SETTINGS, "permutations": 300}
    )
    assert peaks.mean() < group["permutation"]["mean"]


def test_peaks_are_those_of_the_probe_trained_on_one_label_set_after_another():
    problem, _ = grouped_problem(groups=1, signal=0.7)
    settings = {**SETTINGS, "permutations": 5}
    peaks = by_group.permuted_peaks(problem, problem.train, problem.test, seed=6, start=3, settings=settings)
    flips = np.where(np.random.Generator(np.random.Philox(key=6)).integers(2, size=(5, 40)), 1, -1)
    for peak, labels in zip(peaks, problem.labels * flips[:, problem.pairs], strict=True):
        trained = probes.train(problem.train_states, labels[problem.train], seed=3, settings=settings)
        right = (trained.logits("raw", problem.test_states) > 0) == (labels[problem.test] > 0)
        assert peak == right.mean(axis=1).max()


def test_flips_keep_pairs_whole_and_do_not_depend_on_how_many_there_are():
    problem, groups = grouped_problem(signal=3.0)
    few, many = (
        by_group.permuted_peaks(
            problem,
            problem.train,
            problem.test,
            seed=8,
            start=2,
            settings={**SETTINGS, "permutations": count},
        )
        for count in (6, 12)
    )
    assert np.array_equal(few, many[:6])
    first, second = (by_group.group_key(3, name) for name in ("g0", "g1"))
    assert first != second
    assert by_group.measure(problem, groups, seed=1, settings=SETTINGS) == by_group.measure(
        problem, groups, seed=1, settings=SETTINGS
    )


def test_the_other_solver_and_no_permutations_work_too():
    problem, groups = grouped_problem(signal=2.0, pairs=12, test_pairs=3)
    settings = {**SETTINGS, "solver": "logistic", "permutations": 2}
    found = by_group.measure(problem, groups, seed=1, settings=settings)
    assert found["chance_peak"]["g2"]["permutation"]["permutations"] == 2
    none = by_group.measure(problem, groups, seed=1, settings={**SETTINGS, "permutations": 0})
    assert none["chance_peak"]["g2"]["permutation"] is None
    assert none["chance_peak_pooled"] is None
    for result in (found, none):
        assert files.canonical_json(result)


def test_random_labels_give_peaks_as_often_as_the_permutations_say():
    values = []
    for seed in range(12):
        problem, groups = grouped_problem(signal=0.0, layers=3, seed=seed)
        found = by_group.measure(problem, groups, seed=seed, settings=SETTINGS)
        values += [group["permutation"]["p_value"] for group in found["chance_peak"].values()]
    # 36 groups; p values are at least uniform (ties push them up).
    assert np.mean(values) > 0.45
    assert np.mean(np.array(values) <= 0.1) < 0.25


def test_groups_that_cannot_be_probed_are_named():
    problem, groups = grouped_problem()
    with pytest.raises(DatasetError, match="80 of 240 items have no group, the first is item 80"):
        by_group.measure(problem, [g if g != "g1" else " " for g in groups], seed=0, settings=SETTINGS)
    with pytest.raises(DatasetError, match=r"group 'x' has 1 pair \(2 or more"):
        by_group.measure(problem, ["x", "x", *groups[2:]], seed=0, settings=SETTINGS)
    with pytest.raises(DatasetError, match=r"group 'x' has 2 training pairs and 0 test pairs"):
        by_group.measure(problem, [*["x"] * 4, *groups[4:]], seed=0, settings=SETTINGS)
    problem.states[2, 5, 1] = np.nan
    with pytest.raises(ProbeError, match=r"layers \[2\]: activations are not finite"):
        by_group.measure(problem, groups, seed=0, settings=SETTINGS)
