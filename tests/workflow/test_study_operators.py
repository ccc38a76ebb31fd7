"""The lucky-defaults paper's own study is complete, and asks for what the docs say it makes."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from strataprobe.config import Study
from strataprobe.datasets.vocabulary import read_vocabulary
from tests.workflow.test_studies import Plan, plan_of  # noqa: F401  (a fixture)

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reproduce_lucky.md").read_text(encoding="utf-8")
# Repository, blocks, and the layers of the paper, which counts the embedding as 0.
MODELS = {
    "olmo2-7b": ("allenai/OLMo-2-1124-7B", 32, (4, 7, 10, 16, 24)),
    "gemma2-9b": ("google/gemma-2-9b", 42, (2, 4, 8, 16, 17)),
    "pythia-6.9b-deduped": ("EleutherAI/pythia-6.9b-deduped", 32, (4, 7, 10, 16, 24)),
}
SCOPES = {"5x5": (5, 5), "5x16": (5, 16), "10x16": (10, 16), "15x16": (15, 16)}
TABLES = ("cells", "counts", "words", "leakage", "sensitivity")


def written() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "studies/operators.yaml").read_text(encoding="utf-8"))


def documented() -> set[str]:
    """Paths in the rows of the page's tables; a row may name one of the default study and says so."""
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and "default study" not in line]
    return set(re.findall(r"`((?:tables|figures|routing)/[^`]+)`", "\n".join(rows)))


@pytest.fixture(scope="module")
def study() -> Study:
    return Study.load(written(), base=ROOT)


def test_the_study_has_the_papers_three_models_at_its_layers(study):
    found = {
        name: (m.source["repo"], m.layers, tuple(block + 1 for block in m.vocabulary_layers))
        for name, m in study.models.items()
    }
    assert found == MODELS


def test_the_probes_and_the_gate_are_those_of_the_pre_registration(study):
    assert study.settings("routing")["C"] == 1.0
    gate = study.settings("concentration")
    names = ("property_accuracy", "coarse_accuracy", "hhi", "max_share", "side_mass", "lucky")
    assert [gate[name] for name in names] == [0.65, 0.65, 0.70, 0.85, [0.20, 0.80], 0.95]
    assert sorted(gate["sensitivity"]) == [0.60, 0.70, 0.80, 0.85, 0.90, 0.95, 0.99]


def test_the_words_scopes_and_directions_are_those_of_the_paper(study):
    (dataset,) = study.config.datasets.values()
    design = read_vocabulary(ROOT / dataset.path, "operators", design=ROOT / dataset.design).design
    assert {name: (len(own.classes), len(own.items)) for name, own in design.scopes.items()} == SCOPES
    assert (len(design.classes), len(design.invented)) == (15, 16)
    assert set(design.directions) == {("mention", "call"), ("call", "mention")}
    # 2 anchors of a mention by 4 of a call, both ways, at 5 layers: the 80 cells of a model.
    cells = sum(len(design.anchors[train]) * len(design.anchors[test]) for train, test in design.directions)
    assert cells * 5 == 80


def test_the_study_loads_each_model_once_and_trains_it_once(plan_of):  # noqa: F811
    plan: Plan = plan_of("operators")
    per_model = ("pin", "capture_vocabulary", "measure_routing", "release_weights")
    wanted = {f"{rule}_{model}": 1 for rule in per_model for model in MODELS}
    of_models = {rule: n for rule, n in plan.jobs.items() if rule.endswith(tuple(MODELS))}
    assert of_models == wanted
    assert plan.jobs["tabulate_routing"] == 3
    assert plan.jobs["join_table"] == len(TABLES)
    assert plan.jobs["tabulate_lucky_paper"] == 1
    drawn = {rule.removeprefix("draw_") for rule in plan.jobs if rule.startswith("draw_")}
    assert drawn == set(written()["figures"])


def test_nothing_else_is_asked_of_the_models(plan_of):  # noqa: F811
    kinds = {rule.split("_")[0] for rule in plan_of("operators").jobs}
    assert kinds <= {
        "all", "datasets", "fragility", "structure", "levels", "lucky", "interventions", "released", "pin",
        "capture", "measure", "tabulate", "join", "draw", "release",
    }  # fmt: skip


def test_every_figure_shows_models_and_words_of_the_study(study):
    shown = {spec.kind for spec in study.config.figures.values()}
    assert shown == {"routing_matrix", "routing_paths", "routing_plane", "routing_sensitivity"}
    matrices = [spec.model for spec in study.config.figures.values() if spec.kind == "routing_matrix"]
    assert sorted(matrices) == sorted(MODELS)
    together = [spec.models for spec in study.config.figures.values() if spec.models]
    assert all(models == list(MODELS) for models in together)


def test_what_the_docs_promise_is_what_the_study_makes(plan_of, study):  # noqa: F811
    root = "results/studies/operators/"
    # A plan names what other jobs read; nothing reads every prediction.
    kept = {study.layout.predictions(model, "main", "operators") for model in MODELS}
    made = {path.removeprefix(root) for path in plan_of("operators").paths | kept if path.startswith(root)}
    assert len(documented()) > 10
    assert documented() - made == set()


def test_the_docs_name_every_figure_and_table_that_the_study_makes():
    figures = {f"figures/{name}.svg" for name in written()["figures"]}
    assert figures - documented() == set()
    tables = {f"tables/paper/lucky_table{number}.csv" for number in range(1, 5)}
    tables |= {f"tables/routing_{name}.csv" for name in ("cells", "words", "leakage")}
    assert tables - documented() == set()


@pytest.mark.parametrize("number", range(1, 5))
def test_the_docs_name_every_table_of_the_paper(number):
    assert re.search(rf"^\| Table {number}\b", PAGE, re.MULTILINE)


def test_the_docs_say_each_models_repository_and_both_numbers_of_its_layers():
    for name, (repository, _, layers) in MODELS.items():
        (line,) = [one for one in PAGE.splitlines() if one.startswith(f"| `{name}`")]
        published, ours = (", ".join(map(str, one)) for one in (layers, [layer - 1 for layer in layers]))
        assert [part.strip() for part in line.strip("|").split("|")][1:] == [repository, published, ours]
