"""Three levels on the same control items, from a checkpoint to figures, and what a change runs again."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.workflow.study import NOTHING, drawing, identifying, job, joining
from tests.workflow.trees import Tree, built_once, differing, errors, half_files

STEPS = ("step0000", "step0100")
FIGURES = (
    "levels", "recoverability_depth", "deployment_gap", "order_bias", "verb_out", "levels_training",
)  # fmt: skip
TABLES = ("levels", "levels_layers")
_NAMES = ("Ada", "Ben", "Cleo", "Dov", "Edda", "Finn", "Gil", "Hanna", "Ida", "Jon", "Kit", "Lea")
_ACTIONS = (
    ("carry", "carry the bread", "carried the bread"), ("open", "open the old gate", "opened the old gate"),
    ("paint", "paint the wall", "painted the wall"),
)  # fmt: skip
_VERBS = {"subject_control": ("promised", "vowed to"), "object_control": ("told", "called to")}
PROMPTS = {
    "en": {
        "qa": {"prompt": "{sentence}\nWho will {action}?", "continuation": " {c} will {action}."},
        "paraphrase": {"prompt": "{sentence}\nThat is:", "continuation": " {c} will {action}, it means."},
        "statement": {"prompt": "{sentence}", "continuation": " {c} {past}."},
        "forced_choice": {
            "prompt": "{sentence}\nA: {first} will {action}.\nB: {second} will {action}.\nSo:",
            "continuation": " {c} will {action}.",
        },
        "label_choice": {
            "prompt": "{sentence}\nA: {first}. B: {second}. Answer:",
            "labels": ["A", "B"],
            "continuation": " {label}",
        },
        "contrastive": {"prompt": "{sentence}\nThe one is", "continuation": " {c}."},
        "unconditional": {"qa": {"prompt": "Who will {action}?", "continuation": " {c} will {action}."}},
    }
}


def items() -> list[dict[str, str]]:
    """6 minimal pairs, two verbs a type."""
    rows = []
    for place in range(6):
        a, b = _NAMES[2 * place : 2 * place + 2]
        predicate, action, past = _ACTIONS[place % 3]
        for kind, verbs in _VERBS.items():
            letter, verb = kind[0], verbs[place % 2]
            rows.append(
                {
                    "id": f"en_{letter}_{place}", "item_group": f"{place}{letter}", "pair": str(place),
                    "language": "en", "control_type": kind, "verb": verb, "predicate": predicate,
                    "sentence": f"{a} {verb} {b} to {action} at noon.", "candidate_a": a, "candidate_b": b,
                    "gold": "a" if letter == "s" else "b", "action": action, "past": past,
                }
            )  # fmt: skip
    return rows


def config() -> dict[str, Any]:
    several = {"models": ["tiny"], "dataset": "who"}
    figures = {kind: {"kind": kind, **several} for kind in FIGURES[:-1]}
    return {
        "seeds": [42],
        "measures": ["levels"],
        "paper_tables": True,
        "datasets": {"who": {"path": "data/who.jsonl", "kind": "control", "prompts": "data/prompts.json"}},
        "models": {
            "tiny": {
                "source": {"local": {"directory": "weights/tiny/{revision}"}},
                "layers": 2,
                "revisions": list(STEPS),
            }
        },
        "capture": {"device": "cpu", "embed": True},
        "readout": {"flips": 50},
        "recoverability": {"seeds": [1, 2], "epochs": 10, "permutations": 20},
        "levels": {"bootstrap": 50},
        "figures": figures
        | {"levels_training": {"kind": "levels_training", "model": "tiny", "dataset": "who"}},
    }


def build(place: Path) -> None:
    from tests.tiny_models import save_tiny_model

    tree = Tree.new(place)
    write(tree)
    for seed, step in enumerate(STEPS):
        save_tiny_model("llama", tree / f"weights/tiny/{step}", seed=seed, max_positions=256)
    (tree / "config.yaml").write_text(yaml.safe_dump(config(), sort_keys=False))
    run = tree.run()
    (place.parent / "levels.json").write_text(json.dumps(sorted(run.done)))


def write(tree: Tree, rows: list[dict[str, str]] | None = None) -> None:
    (tree / "data").mkdir(exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows or items())
    (tree / "data/who.jsonl").write_text(lines)
    (tree / "data/prompts.json").write_text(json.dumps(PROMPTS))


@pytest.fixture(scope="session")
def whole(shared) -> Tree:
    """The finished study: nobody changes it."""
    return Tree(built_once(shared / "levels" / "study", build))


@pytest.fixture
def mine(whole, tmp_path) -> Tree:
    return whole.copy(tmp_path / "study")


def at(rule: str, steps=STEPS, **further: str) -> set[str]:
    return {job(rule, revision=step, **further) for step in steps}


CAPTURED = at("capture_tiny_who")
LEVELS = at("measure_levels_tiny")
RECOVERED = at("measure_recoverability_tiny", dataset="who")
TOGETHER = {
    job("tabulate_levels", model="tiny", dataset="who"), job("tabulate_levels_models"),
    job("tabulate_levels_paper"),
}  # fmt: skip
AFTER = TOGETHER | joining(TABLES) | drawing(FIGURES)


def test_a_study_of_control_items_runs_these_jobs_and_no_others(whole):
    done = set(json.loads((whole.path.parent / "levels.json").read_text()))
    assert done == identifying(STEPS) | CAPTURED | LEVELS | RECOVERED | AFTER
    assert half_files(whole) == []


def test_every_accuracy_can_be_traced_to_the_scores_of_its_items(whole):
    place = whole / "results/behavior/tiny/step0100/who"
    with (place / "items.csv").open(newline="", encoding="utf-8") as handle:
        rows = [row for row in csv.DictReader(handle) if row["variant"] == "qa"]
    score = {(row["item"], row["candidate"]): float(row["score"]) for row in rows}
    gold = {row["item"]: row["candidate"] for row in rows if row["gold"] == "1"}
    right = [score[item, g] > score[item, "b" if g == "a" else "a"] for item, g in gold.items()]
    assert len(right) == 12
    summary = json.loads((place / "summary.json").read_text())
    assert summary["measures"]["qa"]["accuracy"]["all"] == pytest.approx(sum(right) / 12)
    wanted = {"revision": "step0100", "level": "behavior", "measure": "qa", "split": "all"}
    table = csv.DictReader((whole / "results/tables/levels.csv").read_text().splitlines())
    (row,) = [one for one in table if wanted.items() <= one.items()]
    assert float(row["value"]) == pytest.approx(sum(right) / 12, abs=1e-5)


def test_a_finished_study_has_nothing_to_do(mine):
    assert mine.plan() == NOTHING


def test_other_prompts_ask_the_model_again_and_train_no_probe(mine):
    """Sentences are captured without prompts; only what reads the file of prompts runs again."""
    changed = json.loads(json.dumps(PROMPTS))
    changed["en"]["qa"]["prompt"] = "{sentence}\nQuestion: who will {action}?"
    (mine / "data/prompts.json").write_text(json.dumps(changed))
    planned = mine.plan()
    assert planned >= LEVELS | TOGETHER
    assert planned <= CAPTURED | LEVELS | RECOVERED | AFTER


def test_more_sign_flips_read_out_again_and_capture_nothing(mine):
    with mine.changed_config() as changed:
        changed["readout"]["flips"] = 60
    assert mine.plan() == LEVELS | AFTER


def test_another_bootstrap_redraws_and_measures_nothing(mine):
    with mine.changed_config() as changed:
        changed["levels"]["bootstrap"] = 60
    assert mine.plan() == AFTER


def test_a_mistyped_result_gets_the_nearest_one_that_is_made(whole):
    said = whole.run("--dry-run", "results/recoverabilty/tiny/step0100/who/summary.json", fails=True).output
    assert "did you mean 'results/recoverability/tiny/step0100/who/summary.json'?" in said


def test_a_deleted_summary_comes_back_the_same(mine, whole):
    wanted = "results/recoverability/tiny/step0000/who/summary.json"
    mine.remove(wanted)
    assert mine.run(wanted).done == at("measure_recoverability_tiny", ["step0000"], dataset="who")
    assert differing(mine.results(), whole.results()) == []


def test_items_that_cannot_be_asked_are_named_and_nothing_is_left_half(mine):
    rows = items()
    rows[0]["candidate_b"] = "Nobody"
    rows[3]["language"] = "eo"
    write(mine, rows)
    said = "\n".join(errors(mine.run(fails=True).output))
    assert "data/who.jsonl:1" in said
    assert "'Nobody'" in said
    assert "data/who.jsonl:4" in said
    assert "no prompts for language 'eo'" in said
    assert half_files(mine) == []
