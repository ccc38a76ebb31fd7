"""The profiles by themselves, and what each rule says for them."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
RULES = sorted((ROOT / "rules").glob("*.smk"))


def profile(name: str) -> dict:
    return yaml.safe_load((ROOT / f"profiles/{name}/config.yaml").read_text())


def bodies() -> list[tuple[str, str]]:
    """(name, text) of every rule that a scheduler gets; a rule's name may stand on the line after `name:`."""
    found = []
    for path in RULES:
        for text in re.split(r"^ *rule(?= \w+:|:)", path.read_text(), flags=re.MULTILINE)[1:]:
            name = re.match(r"(?: (\w+))?:(?:\s+name:\s+(\S+))?", text)
            if "localrule: True" not in text:
                found.append((f"{path.stem}: {name[1] or name[2]}", text))
    return found


def test_there_are_rules_to_look_at():
    assert len(bodies()) > 20


@pytest.mark.parametrize(("name", "text"), bodies(), ids=[name for name, _ in bodies()])
def test_a_rule_says_what_it_needs_and_asks_for_more_at_the_next_attempt(name, text):
    needs = re.search(r"resources:\n((?: +\w+=.+\n)+)", text)
    assert needs, name
    said = dict(line.strip().rstrip(",").split("=", 1) for line in needs[1].splitlines())
    assert {"mem_mb", "runtime"} <= said.keys()
    functions = "\n".join(path.read_text() for path in RULES)
    for need in ("mem_mb", "runtime"):
        function = re.sub(r"partial\((\w+), model\)", r"\1", said[need])
        assert re.search(rf"^def {function}\(.*\battempt\):$", functions, re.MULTILINE), said[need]


@pytest.mark.parametrize("name", ["default", "slurm"])
def test_a_profile_names_no_rule(name):
    """What it said of a rule that has another name since would be ignored without a word."""
    assert not {"set-threads", "set-resources", "set-resource-scopes", "groups"} & profile(name).keys()


def test_a_cluster_reruns_what_a_laptop_reruns():
    assert profile("slurm")["rerun-triggers"] == profile("default")["rerun-triggers"]
    assert profile("slurm")["keep-going"] is profile("default")["keep-going"] is True
