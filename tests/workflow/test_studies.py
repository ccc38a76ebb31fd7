"""A study is one config, complete by itself, with results of its own; checkpoints are shared."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from strataprobe.config import Study
from strataprobe.config.curation import LoraTraining
from tests.workflow.study import capturing, drawing, job, measuring
from tests.workflow.trees import Tree, built_once, differing, half_files

FILE = "studies/second.yaml"


def second(study) -> None:
    """A study of one revision and one dataset, while the default one has more."""
    with study.changed_config(FILE) as config:
        config["study"] = "second"
        config["seeds"] = [42]
        config["datasets"] = {"size": config["datasets"]["size"]}
        config["models"]["tiny"]["revisions"] = ["step0000"]
        config["figures"] = {"profile": {"kind": "layer_profile", "model": "tiny", "dataset": "size"}}


def test_a_study_has_exactly_its_own_models_and_files_and_shares_checkpoints(study, finished):
    second(study)
    with study.changed_config() as config:
        config["models"]["another"] = config["models"]["tiny"]  # only the default study knows it
    wanted = ["results/studies/second/figures/profile.svg", "results/studies/second/tables/probing.csv"]
    run = study.run("--configfile", FILE, "--", *wanted)
    one = {"revisions": ["step0000"], "datasets": ["size"], "seeds": [42]}
    tables = {job(f"tabulate_{kind}", model="tiny", dataset="size") for kind in ("probes", "fragility")}
    assert run.done == (
        capturing(["step0000"], ["size"])
        | measuring(**one)
        | tables
        | {job("join_table", table="probing")}
        | drawing(["profile"])
    ), "not exactly this study's jobs, or a checkpoint identified twice"
    assert "another" not in study.run("--configfile", FILE, "--summary").output

    root = "studies/second/"
    changed = differing(study.results(), finished.results())
    assert [name for name in changed if not name.startswith(root)] == [], "not only this study's files"
    mine = {name.removeprefix(root): sha for name, sha in study.results(f"{root}**/*").items()}
    kinds = {name.split("/")[0] for name in mine}
    assert kinds == {"activations", "figures", "fragility", "probes", "tables"}
    theirs = finished.results()
    same = [name for name in mine if name.startswith(("activations", "probes", "fragility"))]
    assert len(same) == 1 + 4 + 3
    assert [name for name in same if mine[name] != theirs[name]] == []
    assert half_files(study) == []


def test_a_study_does_not_inherit_what_the_default_one_says(study):
    second(study)
    (study / "config.yaml").write_text("models: this file is broken, and nobody may read it\n")
    planned = study.plan("--configfile", FILE)
    assert planned >= capturing(["step0000"], ["size"]) | drawing(["profile"])
    assert [name for name in planned if "step0100" in name or "step0200" in name] == []


# the paper's own studies

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT.parent / "shared/reference/deepsteer"
golden = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference's files (deepsteer) are not here")
SEEDS = {"moral": 1, "sentiment": 1, "syntax": 1, "compositional": 4}
PER_REVISION = sum(SEEDS.values())
MODELS = {
    "olmo2-1b": {"olmo2-1b-early": ("allenai/OLMo-2-0425-1B-early-training", 16, 37),
                 "olmo2-1b": ("allenai/OLMo-2-0425-1B", 16, 1)},
    "olmo3-7b": {"olmo3-7b": ("allenai/Olmo-3-1025-7B", 32, 20)},
}  # fmt: skip
"""The models of each study: repository, blocks, revisions."""


def written(study: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / f"studies/{study}.yaml").read_text(encoding="utf-8"))


def jobs_of_models(study: str) -> dict[str, int]:
    """How many jobs of each rule that works on checkpoints, counted by hand."""
    counts = {}
    for model, (_, _, revisions) in MODELS[study].items():
        once = ("pin_{}", "measure_perplexity_{}", "capture_{}_core")
        once += ("measure_transfer_{}", "measure_foundations_{}", "release_weights_{}")
        each = ("train_probes_{}", "measure_fragility_{}")
        counts |= {rule.format(model): revisions for rule in once}
        counts |= {rule.format(model): revisions * PER_REVISION for rule in each}
    if study == "olmo2-1b":
        counts["measure_controls_olmo2-1b"] = 1
    else:
        counts["measure_tracing_olmo3-7b"] = 3
    return counts


@dataclass(frozen=True)
class Plan:
    """What a dry run of a study said: jobs by rule, and every path below results/ that it named."""

    jobs: Counter[str]
    paths: frozenset[str]


@pytest.fixture(scope="session")
def plan_of(shared) -> Callable[[str], Plan]:
    """The plan of one of the shipped studies, made once a session in a fresh copy of the project."""

    def plan(study: str) -> Plan:
        place = built_once(shared / "plans" / study / "tree", partial(_dry_run, study))
        jobs, paths = json.loads((place / "plan.json").read_text())
        return Plan(Counter(jobs), frozenset(paths))

    return plan


def _dry_run(study: str, place: Path) -> None:
    tree = Tree.new(place)
    shutil.copytree(ROOT / "studies", tree / "studies")
    (tree / "config.yaml").write_text("models: this file is broken, and nobody may read it\n")
    run = tree.run("--dry-run", "--configfile", f"studies/{study}.yaml")
    rules = Counter(name.split()[0] for name in run.jobs)
    paths = sorted(set(re.findall(r"results/[^\s,]+", run.output)))
    (tree / "plan.json").write_text(json.dumps([rules, paths]))


@pytest.mark.parametrize("study", MODELS)
def test_a_shipped_study_has_exactly_these_jobs_on_checkpoints(plan_of, study):
    planned = plan_of(study).jobs
    of_models = re.compile(
        r"(pin|capture|train_probes|measure_(?!floors)\w+?|release_weights)_olmo|pretrain|fetch|identify|read"
    )
    assert {rule: count for rule, count in planned.items() if of_models.match(rule)} == jobs_of_models(study)


@pytest.mark.parametrize("study", MODELS)
def test_a_shipped_study_has_the_tables_and_figures_it_names(plan_of, study):
    planned, config = plan_of(study).jobs, written(study)
    drawn = {rule.removeprefix("draw_") for rule in planned if rule.startswith("draw_")}
    assert drawn == set(config["figures"])
    assert planned["check_dataset"] == len(config["datasets"])
    assert planned["measure_floors"] == len(SEEDS)
    # A part a (model, dataset); transfer is measured on one dataset, foundations on one other.
    models = len(MODELS[study])
    assert {
        kind: planned[f"tabulate_{kind}"] for kind in ("probes", "fragility", "transfer", "foundations")
    } == {
        "probes": models * len(SEEDS),
        "fragility": models * len(SEEDS),
        "transfer": models,
        "foundations": models,
    }


@pytest.mark.parametrize("study", MODELS)
def test_a_shipped_study_keeps_to_its_own_models_and_its_own_results(plan_of, study):
    paths = plan_of(study).paths
    root = f"results/studies/{study}/"
    assert {path.split("/")[2] for path in paths if path.startswith("results/checkpoints/")} == set(
        MODELS[study]
    )
    own = (root, "results/checkpoints/", f"results/benchmarks/studies/{study}/")
    assert sorted(path for path in paths if not path.startswith(own)) == []
    kinds = ("activations", "probes", "fragility", "transfer", "foundations", "controls")
    for kind in kinds:
        models = {path.split("/")[4] for path in paths if path.startswith(f"{root}{kind}/")}
        assert models <= set(MODELS[study]), kind


@pytest.mark.parametrize("study", MODELS)
def test_a_shipped_study_is_the_papers(study):
    config = Study.load(written(study), base=ROOT)
    found = {
        name: (model.source["repo"], model.layers, len(model.revisions))
        for name, model in config.models.items()
    }
    assert found == MODELS[study]
    assert config.settings("probe")["pooling"] == "mean", "as published: all tokens"
    assert config.settings("fragility")["draws"] == 1
    for model in config.models.values():
        seeds = {dataset: config.seeds(model, dataset) for dataset in config.tasks(model)}
        assert seeds == {
            "moral": (42,),
            "sentiment": (42,),
            "syntax": (42,),
            "compositional": (42, 43, 44, 45),
        }
        assert list(config.bundles(model)) == ["core"], "one load of a checkpoint serves all datasets"


CONDITIONS = ("narrative", "declarative", "general")
BOOKS = ("aesop", "grimm", "andersen", "darwin")


def test_the_study_of_data_curation_has_exactly_these_jobs(plan_of):
    """Nine published runs and three of each variant; each is trained, captured and probed by itself."""
    planned = plan_of("curation").jobs
    runs = [f"{name}-s{seed}" for name in CONDITIONS for seed in (42, 43, 44)]
    runs += [f"{name}-{variant}-s42" for variant in ("sized", "own") for name in CONDITIONS]
    models = [f"olmo2-1b-early-lora-{run}" for run in runs]
    assert {rule for rule in planned if rule.startswith("train_lora")} == {f"train_lora_{m}" for m in models}
    assert all(planned[f"capture_{model}_core"] == 1 for model in models), "ten adapters in one job"
    assert all(planned[f"train_probes_{model}"] == 1 for model in models)
    assert {rule for rule in planned if rule.startswith("fetch")} == {f"fetch_corpus_{b}" for b in BOOKS}
    assert planned["pin_olmo2-1b-early"] == planned["release_weights_olmo2-1b-early"] == 1
    experiments = ("olmo2-1b-lora", "olmo2-1b-lora-sized", "olmo2-1b-lora-own")
    for kind in ("tabulate", "compare"):
        assert [planned[f"{kind}_curation_{name}_moral"] for name in experiments] == [1, 1, 1]
    assert {rule.removeprefix("draw_") for rule in planned if rule.startswith("draw_")} == set(
        written("curation")["figures"]
    )


def test_the_study_of_data_curation_is_the_papers():
    study = Study.load(written("curation"), base=ROOT)
    published = study.experiments["olmo2-1b-lora"]
    assert published.conditions == CONDITIONS
    for run in published.runs:
        model = study.models[run.model]
        assert model.source["training"] == LoraTraining().model_dump(mode="json"), "the published settings"
        assert [revision.step for revision in model.revisions] == list(range(100, 1001, 100))
        assert (model.source["base"], model.source["revision"]) == ("olmo2-1b-early", "step1000")
        assert study.seeds(model, "moral") == (42,)
    (base,) = study.models["olmo2-1b-early"].revisions
    assert base.ref == "stage1-step1000-tokens3B"
    assert study.settings("probe")["pooling"] == "mean", "as published: all tokens"


def test_every_checkpoint_of_a_trajectory_has_its_step():
    early = Study.load(written("olmo2-1b")).models["olmo2-1b-early"]
    assert list(early.steps.values()) == list(range(0, 37_000, 1000))
    large = Study.load(written("olmo3-7b")).models["olmo3-7b"]
    steps = list(large.steps.values())
    assert steps == sorted(steps)
    assert max(later - sooner for sooner, later in pairwise(steps)) < 120_000, "no gap in the trajectory"
    for model in (early, large):
        assert all(
            re.search(rf"^stage1-step{revision.step}(-|$)", revision.ref) for revision in model.revisions
        )


@golden
def test_the_revisions_are_those_that_the_authors_measured():
    early = Study.load(written("olmo2-1b")).models["olmo2-1b-early"]
    text = (REFERENCE / "compositional_per_checkpoint.json").read_text()
    assert {revision.ref for revision in early.revisions} == set(re.findall(r'"revision": "([^"]+)"', text))
    measured = {path.name for path in (REFERENCE / "olmo3-7b").iterdir()}
    large = Study.load(written("olmo3-7b")).models["olmo3-7b"]
    assert len(measured) == 5
    assert measured <= set(large.steps), "every step of which the paper prints a number"


# what docs/reproduce.md promises of them


def documented(study: str) -> set[str]:
    """Every target that the page's section on a study names, below the study's root."""
    page = (ROOT / "docs/reproduce.md").read_text(encoding="utf-8")
    found = re.search(rf"^## [\w. ]+: studies/{study}.yaml\n(.*?)^## ", page, re.MULTILINE | re.DOTALL)
    assert found, f"docs/reproduce.md has no section on {study}"
    return set(re.findall(r"`([\w./-]+\.(?:csv|svg|json))`", found[1])) - {
        "resources/datasets/compositional.jsonl"
    }


@pytest.mark.parametrize("study", [*MODELS, "curation"])
def test_every_target_that_the_docs_map_a_result_to_can_be_made(plan_of, study):
    targets = documented(study)
    assert len(targets) > 8
    paths = plan_of(study).paths
    assert sorted(target for target in targets if f"results/studies/{study}/{target}" not in paths) == []


@pytest.mark.parametrize("study", [*MODELS, "curation"])
def test_the_docs_name_every_figure_of_a_shipped_study(study):
    figures = {f"figures/{name}.svg" for name in written(study)["figures"]}
    assert figures - documented(study) - {"figures/gates.svg"} == set()


def test_the_docs_name_every_table_and_figure_of_the_paper():
    page = (ROOT / "docs/reproduce.md").read_text(encoding="utf-8")
    rows = "\n".join(line for line in page.splitlines() if line.startswith("|"))
    figures = [f"Figure {number}" for number in ("1", "2a", "2b", "3", "4", "5")]
    tables = [f"Table {number}" for number in "123"]
    tables += [f"Table of appendix {place}" for place in ("A", "B", "D.2")]
    for part in figures + tables:
        assert re.search(rf"^\| {part}\b", rows, re.MULTILINE), part


def test_the_study_that_the_docs_show_is_valid():
    page = (ROOT / "docs/reproduce.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert Study.load(yaml.safe_load(shown)).models["olmo2-1b-early"].kind == "published"


def test_the_docs_way_to_the_default_conventions_leads_to_another_root():
    page = (ROOT / "docs/reproduce.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"--config (study=\S+ conventions=\S+)", page)
    changed = written("olmo2-1b") | dict(part.split("=") for part in said.split())
    config = Study.load(changed, base=ROOT)
    assert config.settings("probe")["pooling"] == "mean_rest"
    assert config.layout.root not in (Study.load(written("olmo2-1b")).layout.root, "results")
