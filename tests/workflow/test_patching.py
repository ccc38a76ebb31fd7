"""Activation patching from a checkpoint to figures, and what a change runs again."""

import csv
import json
from typing import Any

import pytest
import yaml

from tests.workflow import test_levels as levels
from tests.workflow.study import NOTHING, drawing, joining
from tests.workflow.trees import Tree, built_once, differing, half_files

FIGURES = ("patching_depth", "patching_cells")
PATCHED = levels.at("measure_patching_tiny", ["step0100"])
TABULATED = {
    levels.job("tabulate_patching", model="tiny", dataset="who"), levels.job("tabulate_patching_models"),
} | joining(["patching"])  # fmt: skip
AFTER = TABULATED | drawing(FIGURES)


def config() -> dict[str, Any]:
    made = levels.config()
    made["measures"] = ["levels", "patching"]
    made["models"]["tiny"]["at"] = {"patching": ["step0100"]}
    made["patching"] = {
        "tasks": ["qa"], "states": ["own_prompt", "bare"], "donors": 1, "random_donors": 1, "norm_matched": 1,
        "first_layer": 0, "windows": [1, 2], "bootstrap": 20, "permutations": 10,
    }  # fmt: skip
    shown = {"models": ["tiny"], "dataset": "who"}
    made["figures"] = {kind: {"kind": kind, **shown} for kind in FIGURES}
    return made


def build(place) -> None:
    from tests.tiny_models import save_tiny_model

    tree = Tree.new(place)
    levels.write(tree)
    for seed, step in enumerate(levels.STEPS):
        save_tiny_model("llama", tree / f"weights/tiny/{step}", seed=seed, max_positions=256)
    (tree / "config.yaml").write_text(yaml.safe_dump(config(), sort_keys=False))
    run = tree.run("interventions")
    (place.parent / "patching.json").write_text(json.dumps(sorted(run.done)))


@pytest.fixture(scope="session")
def whole(shared) -> Tree:
    """The finished study: nobody changes it."""
    return Tree(built_once(shared / "patching" / "study", build))


@pytest.fixture
def mine(whole, tmp_path) -> Tree:
    return whole.copy(tmp_path / "study")


def test_patching_asks_for_the_probes_of_its_own_checkpoint_alone(whole):
    """And for no readout, no behaviour, no other checkpoint."""
    done = set(json.loads((whole.path.parent / "patching.json").read_text()))
    before = {
        *levels.at("identify_local_tiny", ["step0100"]), *levels.at("capture_tiny_who", ["step0100"]),
        *levels.at("measure_recoverability_tiny", ["step0100"], dataset="who"),
    }  # fmt: skip
    assert done == before | PATCHED | AFTER
    assert half_files(whole) == []


def test_every_rate_can_be_traced_to_its_runs(whole):
    place = whole / "results/patching/tiny/step0100/who"
    with (place / "runs.csv").open(newline="", encoding="utf-8") as handle:
        runs = list(csv.DictReader(handle))
    table = list(csv.DictReader((whole / "results/tables/patching.csv").read_text().splitlines()))
    seen = 0
    for row in table:
        measure, _, kind = row["measure"].partition(":")
        if measure != "rescue_pooled" or row["split"] != "all" or not row["value"]:
            continue
        own = [
            float(run["patched_margin"]) > 0
            for run in runs
            if (run["states"], run["window"], run["layer"])
            == (row["states"], row["window"], row["hidden_state"])
            and run["kind"] == kind
            and float(run["clean_margin"]) <= 0
        ]
        assert len(own) == int(row["pairs"])
        assert float(row["value"]) == pytest.approx(sum(own) / len(own), abs=1e-5)
        seen += 1
    assert seen >= 6
    summary = json.loads((place / "summary.json").read_text())
    assert summary["provenance"]["activations"]["dataset"] == "who"
    assert {run["states"] for run in summary["runs"]} == {"own_prompt", "bare"}


def test_a_finished_study_has_nothing_to_do(mine):
    assert mine.plan("interventions") == NOTHING


def test_another_donor_more_patches_again_and_trains_no_probe(mine):
    with mine.changed_config() as changed:
        changed["patching"]["donors"] = 2
    assert mine.plan("interventions") == PATCHED | AFTER


def test_another_bootstrap_of_the_levels_patches_nothing(mine):
    with mine.changed_config() as changed:
        changed["levels"]["bootstrap"] = 60
    assert mine.plan("interventions") == NOTHING


def test_deleted_runs_come_back_the_same(mine, whole):
    runs = "results/patching/tiny/step0100/who/runs.csv"
    mine.remove(runs)
    assert mine.run(runs).done == PATCHED
    assert differing(mine.results(), whole.results()) == []


def test_a_mistyped_result_gets_the_nearest_one_that_is_made(whole):
    said = whole.run("--dry-run", "results/patchin/tiny/step0100/who/summary.json", fails=True).output
    assert "did you mean 'results/patching/tiny/step0100/who/summary.json'?" in said
