"""The levels paper's own study is complete, and asks for what the docs say it makes."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from strataprobe.config import Study
from tests.workflow.test_studies import Plan, plan_of  # noqa: F401  (a fixture)

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reproduce_levels.md").read_text(encoding="utf-8")
# Repository, blocks, and of which base model.
MODELS = {
    "qwen3-0.6b-base": ("Qwen/Qwen3-0.6B-Base", 28, None),
    "qwen3-0.6b": ("Qwen/Qwen3-0.6B", 28, "qwen3-0.6b-base"),
    "qwen3-1.7b-base": ("Qwen/Qwen3-1.7B-Base", 28, None),
    "qwen3-1.7b": ("Qwen/Qwen3-1.7B", 28, "qwen3-1.7b-base"),
    "qwen3-14b": ("Qwen/Qwen3-14B", 40, None),
    "llama-3.2-1b": ("meta-llama/Llama-3.2-1B", 16, None),
    "llama-3.2-1b-instruct": ("meta-llama/Llama-3.2-1B-Instruct", 16, "llama-3.2-1b"),
    "llama-3.2-3b": ("meta-llama/Llama-3.2-3B", 28, None),
    "llama-3.2-3b-instruct": ("meta-llama/Llama-3.2-3B-Instruct", 28, "llama-3.2-3b"),
    "gemma-4-e4b": ("google/gemma-4-E4B", 42, None),
    "gemma-4-e4b-it": ("google/gemma-4-E4B-it", 42, "gemma-4-e4b"),
}


def written() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "studies/control.yaml").read_text(encoding="utf-8"))


def documented() -> set[str]:
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))
    return set(re.findall(r"`((?:tables|figures)/[^`]+)`", rows))


def test_the_study_has_the_papers_eleven_models_and_which_was_tuned_from_which():
    study = Study.load(written(), base=ROOT)
    found = {name: (m.source["repo"], m.layers, m.base) for name, m in study.models.items()}
    assert found == MODELS
    assert study.settings("recoverability")["seeds"] == [1729, 2718, 3141]
    assert {model.family for model in study.models.values()} == {"qwen3", "llama-3.2", "gemma-4"}


def test_the_study_loads_each_model_once_for_behaviour_and_readout(plan_of):  # noqa: F811
    plan: Plan = plan_of("control")
    counts = {
        "pin": 11,
        "measure_levels": 11,
        "measure_tracing": 11,
        "capture": 33,
        "measure_recoverability": 22,
    }
    for kind, count in counts.items():
        of = {rule: n for rule, n in plan.jobs.items() if re.match(rf"{kind}_(qwen|llama|gemma)", rule)}
        assert sum(of.values()) == count, of
    assert plan.jobs["tabulate_levels"] == 22
    assert plan.jobs["tabulate_levels_models"] == plan.jobs["tabulate_levels_paper"] == 1
    drawn = {rule.removeprefix("draw_") for rule in plan.jobs if rule.startswith("draw_")}
    assert drawn == set(written()["figures"])


def test_what_the_docs_promise_is_what_the_study_makes(plan_of):  # noqa: F811
    root = "results/studies/control/"
    made = {path.removeprefix(root) for path in plan_of("control").paths if path.startswith(root)}
    assert documented() - made == set()
    figures = {f"figures/{name}.svg" for name in written()["figures"]}
    assert figures - documented() == set()


@pytest.mark.parametrize(
    "part", [*(f"Table {n}" for n in range(1, 10)), *(f"Figure {n}" for n in (*range(1, 7), 9))]
)
def test_the_docs_name_every_table_and_figure_of_the_paper(part):
    assert re.search(rf"^\| {part}\b", PAGE, re.MULTILINE)
