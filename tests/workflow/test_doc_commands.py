"""Every command of the README and the docs, run on a finished study."""

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.trees import PROJECT, Tree

PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
# These would run the tests in themselves, or take longer than all tests together: make says what it would do.
ONLY_SAID = ("make test", "make bench")


def commands() -> list[str]:
    """The distinct lines of all bash blocks, in the order of their first mention."""
    blocks = [
        block for page in PAGES for block in re.findall(r"```bash\n(.*?)```", page.read_text(), re.DOTALL)
    ]
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return list(dict.fromkeys(line for line in lines if line and not line.startswith("#")))


@pytest.fixture
def environment(study) -> dict[str, str]:
    """The study's tree as a user has it: with Makefile and an installed environment."""
    for name in ("Makefile", "requirements.txt", "requirements-dev.txt"):
        shutil.copy2(PROJECT / name, study / name)
    place = study / ".venv"
    place.mkdir()
    for entry in Path(sys.prefix).iterdir():
        if not entry.name.startswith("."):
            (place / entry.name).symlink_to(entry)
    for stamp in (".python", ".installed", ".installed-dev"):
        (place / stamp).touch()
    # `make run` asks for the default study's first figure; the tiny study has its own.
    return {**os.environ, "PATH": f"{place / 'bin'}:{os.environ['PATH']}", "MAKEFLAGS": ""}


@pytest.mark.parametrize("command", commands())
def test_a_documented_command_does_what_it_says(command, study, environment) -> None:
    words = command.split()
    assert words[0] in ("make", "snakemake"), f"{command}: how is it to be tested?"
    before = study.results()
    if command in ONLY_SAID:
        words.insert(1, "-n")
    if words[0] == "make":
        words += ["CORES=2", "FIRST=results/figures/saturation.png"]
    done = subprocess.run(words, cwd=study.path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert study.results() == before, "on a finished study it changes nothing"


def test_the_readme_begins_with_the_two_commands() -> None:
    assert list(commands())[:2] == ["make run", "make test"]


def test_the_worked_example_of_predictions_made_elsewhere_gives_what_the_page_says(tmp_path) -> None:
    """The csv, the study and the command stand in docs/adding.md; so does the verdict."""
    page = (PROJECT / "docs/adding.md").read_text(encoding="utf-8")
    section = page.split("## Predictions made elsewhere")[1].split("\n## ")[0]
    table, study, command = (
        re.search(rf"```{kind}\n(.*?)```", section, re.DOTALL)[1] for kind in ("csv", "yaml", "text")
    )
    tree = Tree.new(tmp_path / "tree")
    for name, text in (("data/tongues.csv", table), ("studies/tongues.yaml", study)):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text(text, encoding="utf-8")
    words = command.split()
    assert words[0] == "snakemake"
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=tree.path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    root = tree / "results/studies/tongues"
    (row,) = csv.DictReader((root / "tables/routing_cells.csv").read_text().splitlines())
    assert (row["verdict"], row["coarse_accuracy"], row["p_top_min"]) == ("lucky default", "1", "1")
    assert f"{float(row['relabelling_p']):.3f}" in section
    assert {path.name for path in (root / "figures").glob("*.svg")} == {"plane.svg", "matrix.svg"}
