"""What holds the house together: pinned environments, the shipped set's gates, no foreign code run."""

import ast
import re
import sys
from pathlib import Path

import pytest
import yaml

from strataprobe.datasets.gates import check
from strataprobe.datasets.pairs import read_pairs
from strataprobe.workflow.imports import script_files

ROOT = Path(__file__).parents[2]
PINNED = dict(
    line.split("==")
    for line in (ROOT / "requirements.txt").read_text().splitlines()
    if line and not line.startswith("#")
)
LIBRARY = sorted((ROOT / "workflow_scripts").rglob("*.py"))


@pytest.mark.parametrize("path", sorted((ROOT / "envs").glob("*.yaml")), ids=lambda path: path.stem)
def test_conda_environments_pin_what_requirements_pin(path) -> None:
    listed = yaml.safe_load(path.read_text())["dependencies"][-1]["pip"]
    assert listed
    assert dict(entry.split("==") for entry in listed).items() <= PINNED.items()


# Packages that come with another that an environment names, and modules whose package has another name.
COMES_WITH = {"pydantic_core": "pydantic", "threadpoolctl": "scikit-learn"}
PACKAGE = {"concept_erasure": "concept-erasure", "sklearn": "scikit-learn", "yaml": "PyYAML"}


def scripts_by_environment() -> list[tuple[str, str]]:
    """(environment, script) of every rule; a rule of many kinds counts with each kind's script."""
    found = set()
    for rules in (ROOT / "rules").glob("*.smk"):
        for rule in re.split(r"\n\s*rule\b", rules.read_text()):
            environment = re.search(r"envs/(\w+)\.yaml", rule)
            script = re.search(r"workflow_scripts/([\w{}.]+)\.py", rule)
            if environment and script:
                glob = re.sub(r"\{.*?\}", "*", script[1]) + ".py"
                own = (ROOT / "workflow_scripts").glob(glob)
                found |= {(environment[1], path.stem) for path in own}
    return sorted(found)


def imported(path: Path) -> set[str]:
    """Top-level names of the modules that a file imports from elsewhere."""
    nodes = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {
        node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level
    }
    top = {name.split(".")[0] for name in names}
    return {name for name in top if name not in sys.stdlib_module_names and name != "strataprobe"}


@pytest.mark.parametrize(("environment", "script"), scripts_by_environment())
def test_an_environment_has_all_that_its_scripts_import(environment, script) -> None:
    """Under --sdm conda nothing else is there."""
    text = (ROOT / f"envs/{environment}.yaml").read_text()
    there = {entry.split("==")[0] for entry in yaml.safe_load(text)["dependencies"][-1]["pip"]}
    needed = set().union(*map(imported, script_files(ROOT / f"workflow_scripts/{script}.py")))
    assert {PACKAGE.get(name, COMES_WITH.get(name, name)) for name in needed} - there == set()


def test_every_requirement_is_pinned() -> None:
    assert len(PINNED) > 50
    assert all(re.fullmatch(r"[\w.]+", version) for version in PINNED.values())
    assert PINNED["torch"] == "2.13.0"


def test_the_shipped_moral_set_passes_every_gate() -> None:
    dataset = read_pairs(ROOT / "resources/datasets/moral.jsonl", "moral")
    gates = check(dataset, profile="moral", keywords=ROOT / "resources/datasets/moral_keywords.txt")
    assert len(dataset.pairs) == 240
    assert {group: dataset.groups.count(group) for group in set(dataset.groups)} == {
        f"{one}_{other}": 40
        for one, other in (
            ("care", "harm"),
            ("fairness", "cheating"),
            ("loyalty", "betrayal"),
            ("authority", "subversion"),
            ("sanctity", "degradation"),
            ("liberty", "oppression"),
        )
    }
    assert len(gates) >= 8
    assert [str(gate) for gate in gates if not gate.passed] == []


def test_nothing_unpickles_or_runs_code_that_a_checkpoint_brings() -> None:
    """torch.load, pickle and trust_remote_code=True would run what a downloaded file says."""
    banned = re.compile(
        r"torch\.load\(|import pickle|pickle\.(load|dump)"
        r"|trust_remote_code\s*=\s*True|weights_only\s*=\s*False"
    )
    found = [path.name for path in LIBRARY if banned.search(path.read_text())]
    assert len(LIBRARY) > 40
    assert found == []


def test_the_library_knows_nothing_of_snakemake() -> None:
    said = [
        str(path.relative_to(ROOT))
        for path in LIBRARY
        if path.parent.name != "workflow_scripts"
        and re.search(r"^\s*(import|from) snakemake", path.read_text(), re.M)
    ]
    assert said == []
