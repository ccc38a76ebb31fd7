"""Causal tracing in a small study: its jobs, its files, and what a change reruns."""

import csv
import json

import pytest
import yaml

from tests.tiny_models import save_tiny_model
from tests.workflow.study import job, pairs, study_config, write_pairs
from tests.workflow.trees import Tree, built_once, differing, errors

REVISIONS = ("step0000", "step0100", "step0200")
TRACED = ("step0000", "step0200")
QUESTION = {"text": " Is this right?", "expected": " No", "other": " Yes"}
TABLE = job("tabulate_tracing", model="tiny", dataset="care")


def tracing_config() -> dict:
    config = study_config()
    config["datasets"] = {"care": {"path": "data/care.jsonl"}}
    config["measures"] = ["probes", "tracing"]
    config["models"]["tiny"]["at"] = {"tracing": list(TRACED)}
    config["tracing"] = {
        "questions": {"care": QUESTION}, "items": 3, "choice": "groups", "draws": 2, "bootstrap": 20,
    }  # fmt: skip
    config["figures"] = {
        "depth": {"kind": "tracing_depth", "model": "tiny", "dataset": "care"},
        "blocks": {"kind": "tracing_layers", "model": "tiny", "dataset": "care"},
    }
    return config


@pytest.fixture(scope="module")
def traced(shared) -> Tree:
    return Tree(built_once(shared / "traced" / "study", _build))


def _build(place) -> None:
    tree = Tree.new(place)
    rows = pairs("care")
    for row in rows[:10]:
        row["contrast"] = ["rescued", "noticed"]
    write_pairs(tree / "data/care.jsonl", rows)
    for seed, revision in enumerate(REVISIONS):
        save_tiny_model("llama", tree / f"weights/tiny/{revision}", seed=seed)
    (tree / "config.yaml").write_text(yaml.safe_dump(tracing_config(), sort_keys=False))
    run = tree.run("interventions")
    (place / "jobs.json").write_text(json.dumps(sorted(run.done)))


@pytest.fixture
def study(traced, tmp_path) -> Tree:
    return traced.copy(tmp_path / "study")


def measuring(revisions=TRACED) -> set[str]:
    return {job("measure_tracing_tiny", revision=revision) for revision in revisions}


def test_it_is_taken_at_the_checkpoints_named_and_probes_of_them_alone(traced):
    done = set(json.loads((traced / "jobs.json").read_text()))
    assert {name for name in done if name.startswith("measure_tracing")} == measuring()
    assert TABLE in done
    assert {name for name in done if name.startswith("train_probes")} == {
        job("train_probes_tiny", dataset="care", revision=revision, seed=seed)
        for revision in TRACED
        for seed in (42, 43)
    }
    assert {"draw_depth", "draw_blocks", job("join_table", table="tracing")} <= done


def test_summary_rows_table_and_figures_agree(traced):
    with (traced / "results/tables/tracing.csv").open() as handle:
        rows = list(csv.DictReader(handle))
    assert {row["revision"] for row in rows} == set(TRACED)
    for revision in TRACED:
        place = traced / f"results/tracing/tiny/{revision}/care"
        summary = json.loads((place / "summary.json").read_text())
        assert summary["provenance"]["settings"]["tracing"]["questions"] == {"care": QUESTION}
        assert summary["pairs"]["ids"] == ["help00", "help01", "harm00"]
        assert summary["whole_sentences"] == 2  # both sentences of the pair without contrast words
        with (place / "runs.csv").open() as handle:
            runs = list(csv.DictReader(handle))
        assert len(runs) == 3 * 2 * (1 + 2 * 2 * 2 + 2 * (1 + 2))
        probe = [row for row in rows if row["revision"] == revision and row["design"] == "probe"]
        accuracies = []
        for seed in (42, 43):
            path = f"results/probes/tiny/{revision}/care/seed{seed}/summary.json"
            scores = json.loads((traced / path).read_text())["layer_scores"]
            accuracies.append([one["accuracy"] for one in scores])
        mean = [sum(values) for values in zip(*accuracies, strict=True)]
        assert [int(row["value"]) for row in probe] == [mean.index(max(mean))]
    for name in ("depth", "blocks"):
        for kind in ("svg", "png"):
            assert (traced / f"results/figures/{name}.{kind}").stat().st_size > 5000


def test_nothing_is_left_to_do_and_what_is_lost_comes_back_the_same(study):
    assert study.plan("interventions") == set()
    before = study.results()
    study.remove("results/tracing/tiny/step0200")
    done = study.run("results/tracing/tiny/step0200/care/summary.json").done
    assert done == measuring(["step0200"])
    assert differing(before, study.results()) == []


def test_another_question_is_asked_anew_and_trains_no_probe(study):
    with study.changed_config() as config:
        config["tracing"]["questions"]["care"]["text"] = " Was that right?"
    plan = study.plan("interventions")
    assert measuring() | {TABLE} <= plan
    assert not any(name.startswith(("train_probes", "capture")) for name in plan)


def test_a_dataset_without_a_question_is_refused_before_anything_runs(study):
    with study.changed_config() as config:
        config["tracing"]["questions"] = {"cares": QUESTION}
    output = study.run("interventions", fails=True).output
    assert "tracing.questions: 'cares' is not a dataset of this study; did you mean 'care'?" in output
    assert "tracing.questions.care: is missing" in output
    assert errors(output) == []
