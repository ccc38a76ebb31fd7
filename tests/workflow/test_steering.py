"""Steering in a small study of control items: its jobs, its files, and what a change runs again."""

import csv
import json

import pytest
import yaml

from tests.workflow import test_levels as levels
from tests.workflow.study import NOTHING, job
from tests.workflow.trees import Tree, built_once, differing

STEP = "step0100"
TABLE = job("tabulate_steering", model="tiny", dataset="who")
MEASURED = {job("measure_steering_tiny", revision=STEP)}
AFTER = {TABLE, job("join_table", table="steering"), "draw_pushed"}


def config() -> dict:
    found = levels.config()
    found["measures"] = ["levels", "steering"]
    found["paper_tables"] = False
    found["models"]["tiny"]["at"] = {"steering": [STEP], "levels": [STEP]}
    found["steering"] = {
        "tasks": ["qa"], "alphas": [-5, 0, 5], "random": 2, "random_alphas": [5], "erasures": 1,
        "bootstrap": 20,
    }  # fmt: skip
    found["figures"] = {"pushed": {"kind": "steering", "models": ["tiny"], "dataset": "who"}}
    return found


def build(place) -> None:
    from tests.tiny_models import save_tiny_model

    tree = Tree.new(place)
    levels.write(tree)
    save_tiny_model("llama", tree / f"weights/tiny/{STEP}", max_positions=256)
    save_tiny_model("llama", tree / "weights/tiny/step0000", seed=1, max_positions=256)
    (tree / "config.yaml").write_text(yaml.safe_dump(config(), sort_keys=False))
    run = tree.run("interventions", f"results/behavior/tiny/{STEP}/who/summary.json")
    (place.parent / "steering.json").write_text(json.dumps(sorted(run.done)))


@pytest.fixture(scope="module")
def whole(shared) -> Tree:
    return Tree(built_once(shared / "steering" / "study", build))


@pytest.fixture
def mine(whole, tmp_path) -> Tree:
    return whole.copy(tmp_path / "study")


def test_it_is_taken_at_the_checkpoint_named_behind_its_probes(whole):
    done = set(json.loads((whole.path.parent / "steering.json").read_text()))
    recovered = job("measure_recoverability_tiny", revision=STEP, dataset="who")
    assert MEASURED | AFTER | {recovered} <= done
    assert {name for name in done if name.startswith("measure_steering")} == MEASURED


def test_summary_rows_and_table_agree(whole):
    place = whole / f"results/steering/tiny/{STEP}/who"
    summary = json.loads((place / "summary.json").read_text())
    with (place / "runs.csv").open(newline="", encoding="utf-8") as handle:
        runs = list(csv.DictReader(handle))
    assert len(runs) == 12 * (1 + 2 * 3 + 2 + 2)
    clean = "".join(row["correct"] for row in runs if row["method"] == "none")
    task = summary["tasks"]["qa"]
    assert task["clean"]["correct"] == clean
    at_0 = [cell["correct"] for cell in task["cells"] if cell["alpha"] == 0]
    assert at_0 == [clean, clean]
    behaviour = json.loads((whole / f"results/behavior/tiny/{STEP}/who/summary.json").read_text())
    assert behaviour["variants"]["qa"]["correct"] == clean
    recovered = json.loads((whole / f"results/recoverability/tiny/{STEP}/who/summary.json").read_text())
    pick = recovered["codings"]["decorrelated"]["pair_out"]["pick"]["global"]
    assert summary["probe"]["layer"] == pick["layer"] == task["erasure"]["layer"]
    with (whole / "results/tables/steering.csv").open(newline="", encoding="utf-8") as handle:
        table = list(csv.DictReader(handle))
    (accuracy,) = [
        row for row in table if (row["method"], row["measure"], row["split"]) == ("none", "accuracy", "all")
    ]
    assert float(accuracy["value"]) == pytest.approx(clean.count("1") / 12, abs=1e-5)
    assert (whole / "results/figures/pushed.svg").stat().st_size > 5000
    assert (whole / "results/figures/pushed.png").stat().st_size > 5000


def test_a_finished_study_has_nothing_to_do_and_what_is_lost_comes_back_the_same(mine, whole):
    assert mine.plan("interventions") == NOTHING
    mine.remove(f"results/steering/tiny/{STEP}/who")
    assert mine.run(f"results/steering/tiny/{STEP}/who/summary.json").done == MEASURED
    assert differing(mine.results(), whole.results()) == []


def test_other_strengths_steer_again_and_probe_nothing(mine):
    with mine.changed_config() as changed:
        changed["steering"]["alphas"] = [-2, 0, 2]
        changed["steering"]["random_alphas"] = [2]
    assert mine.plan("interventions") == MEASURED | AFTER


def test_strengths_that_cannot_be_compared_are_refused(mine):
    with mine.changed_config() as changed:
        changed["steering"]["alphas"] = [-2, 2]
        changed["steering"]["random_alphas"] = [3]
    said = mine.run("--dry-run", fails=True).output
    assert "without 0 nothing shows that hooks alone change no answer" in said
