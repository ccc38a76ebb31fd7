"""Every command of the README and the docs, run on a finished study."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.trees import PROJECT

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
