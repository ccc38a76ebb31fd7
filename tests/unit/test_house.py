"""What holds the house together: pinned environments, the shipped set's gates, no foreign code run."""

import re
from pathlib import Path

import pytest
import yaml

from strataprobe.datasets.gates import check
from strataprobe.datasets.pairs import read_pairs

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
