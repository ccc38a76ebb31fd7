"""`snakemake resolve`: from a pattern in the config to a list in git, and from it to identities by commit."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.hub_server import HubServer, add_revision, add_trajectory
from tests.workflow.study import capturing, job, measuring, pairs, study_config, write_pairs
from tests.workflow.trees import Run, Tree, built_once, errors, half_files

REPO = "lab/tiny"
STEPS = [f"stage1-step{step}-tokens{step // 500}B" for step in range(0, 8000, 1000)]
OTHERS = ["stage2-ingredient1-step1000", "step-by-step", "main"]
RANGE = {"pattern": "stage1-step{step}-tokens{tokens}B", "from": 0, "to": 6000, "every": 3000}
CHOSEN = [STEPS[0], STEPS[3], STEPS[6]]
LIST = "resources/revisions/tiny.tsv"


class Place:
    """A study and what the hub serves, side by side in one folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = Tree(path / "study")
        self.served = path / "served"

    def run(self, server: HubServer, *arguments: str, **how: Any) -> Run:
        variables = {
            "HF_ENDPOINT": server.url,
            "HF_HOME": str(self.path / "hub"),
            "HF_HUB_CACHE": str(self.path / "hub" / "hub"),
            "HF_HUB_OFFLINE": "0",
        }
        return self.tree.run(*arguments, variables=variables, **how)

    def revisions(self, given: Any) -> None:
        with self.tree.changed_config() as config:
            config["models"]["tiny"]["revisions"] = given

    @property
    def commits(self) -> dict[str, str]:
        return json.loads((self.served / REPO / "refs.json").read_text())["branches"]

    @property
    def rows(self) -> dict[str, dict[str, str]]:
        """The list as any other tool would read it: by ref."""
        _, columns, *lines = (self.tree / LIST).read_text().splitlines()
        rows = [dict(zip(columns.split("\t"), line.split("\t"), strict=True)) for line in lines]
        return {row["ref"]: row for row in rows}


def build(path: Path) -> None:
    """A hub with many revisions of a tiny model, and a study of some, for which nothing was asked yet."""
    from tests.tiny_models import save_tiny_model

    place = Place(path)
    tree = Tree.new(place.tree.path)
    files = save_tiny_model("llama", path / "made", max_positions=64)
    add_trajectory(place.served, REPO, [*STEPS, *OTHERS], files)
    write_pairs(tree / "data/care.jsonl", pairs("care"))
    config = study_config()
    config |= {"seeds": [42], "datasets": {"care": {"path": "data/care.jsonl"}}, "figures": {}}
    config["models"]["tiny"] |= {"source": {"hub": {"repo": REPO}}, "revisions": RANGE}
    (tree / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


@pytest.fixture(scope="session")
def unasked(shared) -> Place:
    """Nobody changes it."""
    return Place(built_once(shared / "resolve" / "place", build))


@pytest.fixture
def place(unasked, tmp_path) -> Place:
    shutil.copytree(unasked.path, tmp_path / "place", symlinks=True)
    return Place(tmp_path / "place")


def pinning(revisions: list[str]) -> set[str]:
    return {job("pin_tiny", revision=revision) for revision in revisions}


def of_revisions(revisions: list[str]) -> set[str]:
    measured = measuring(revisions=revisions, datasets=["care"], seeds=[42])
    released = {job("release_weights_tiny", revision=revision) for revision in revisions}
    return pinning(revisions) | capturing(revisions, ["care"]) | measured | released


def planned(place: Place, server: HubServer) -> set[str]:
    jobs = place.run(server, "--dry-run").done
    assert "resolve" not in {name.split("_")[0] for name in jobs}, "a run asks for what is listed already"
    return {name for name in jobs if " revision=" in name}


def test_before_the_hub_was_asked_nothing_else_is_planned_and_the_hub_is_not_asked_for_it(place):
    said = (
        f"models.tiny.revisions: {LIST} is missing, the list of {REPO} that they are chosen from; "
        "it is made once by: snakemake --cores 1 resolve"
    )
    with HubServer(place.served) as server:
        for targets in ([], ["results/checkpoints/tiny/main.json"], ["resolve", "fragility"]):
            refused = place.run(server, "--dry-run", *targets, fails=True)
            assert said in refused.output, targets
            assert "Traceback" not in refused.output
        assert place.run(server, "--dry-run", "resolve").done == {"resolve"}
    assert server.requests.total() == 0
    assert not (place.tree / LIST).exists()


def test_from_a_pattern_to_a_list_and_from_the_list_to_activations(place):
    with HubServer(place.served) as server:
        asked = place.run(server, "resolve")
        assert asked.done == {"resolve"}
        # Of this repository: the hub's client may ask for things of its own.
        assert {name: times for name, times in server.requests.items() if REPO in name} == {
            f"GET /api/models/{REPO}/refs": 1,
            **{f"GET /api/models/{REPO}/revision/{ref}": 1 for ref in CHOSEN},
        }
        assert f"tiny ({REPO}): 3 of 11 refs" in asked.output
        assert "at 20 MB/s (downloads.megabytes_per_second" in asked.output
        assert "no known scheme, so ordered by name: step-by-step" in asked.output
        assert (place.tree / "logs/resolve.log").read_text().count("3 of 11 refs") == 1
        # The list is all of the repository in order, as git is to keep it.
        rows = place.rows
        assert list(rows) == [*STEPS, *OTHERS]
        assert {ref: row["commit"] for ref, row in rows.items()} == place.commits
        fetched = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
                   "tokenizer_config.json")  # fmt: skip
        sizes = [(place.path / "made" / name).stat().st_size for name in fetched]
        assert {ref: row["bytes"] for ref, row in rows.items() if row["bytes"]} == dict.fromkeys(
            CHOSEN, str(sum(sizes))
        )
        # From here on the plan needs no hub, also where the choice is another one.
        server.requests.clear()
        assert planned(place, server) == of_revisions(CHOSEN)
        place.revisions({"every": 4, "matching": "stage1-*"})
        assert planned(place, server) == of_revisions([STEPS[0], STEPS[4]])
        assert server.requests.total() == 0
        captured = place.run(server, f"results/activations/tiny/{STEPS[4]}/care.h5")
        assert captured.done == pinning([STEPS[4]]) | capturing([STEPS[4]], ["care"])
        identity = json.loads((place.tree / f"results/checkpoints/tiny/{STEPS[4]}.json").read_text())
        assert (identity["commit"], identity["ref"], identity["step"]) == (
            rows[STEPS[4]]["commit"], STEPS[4], 4000,
        )  # fmt: skip
        # Asked again, it asks again, whatever is there, and makes the same list of a hub that did not change.
        before = (place.tree / LIST).read_text().splitlines()
        place.revisions(RANGE)
        assert place.run(server, "resolve_tiny").done == {"resolve_tiny"}
        assert (place.tree / LIST).read_text().splitlines() == before


def test_what_is_missing_is_named_with_the_nearest_and_no_answer_costs_no_list(place):
    place.revisions({**RANGE, "to": 9000})
    said = (
        f"models.tiny.revisions: {REPO} has no ref like '{RANGE['pattern']}' of step 9000; "
        f"nearest: {STEPS[7]}"
    )
    with HubServer(place.served) as server:
        (message,) = errors(place.run(server, "resolve", fails=True).output)
        assert message == f"revisions that the hub does not have as asked: 1 problem\n  {said}"
        listed = (place.tree / LIST).read_text()
        assert said in place.run(server, "--dry-run", fails=True).output
        server.fail("/refs", status=403)
        (message,) = errors(place.run(server, "resolve", fails=True).output)
        assert f"models.tiny: hub repository {REPO}: access refused (403)" in message
    assert (place.tree / LIST).read_text() == listed
    assert half_files(place.tree) == []


def test_a_ref_that_moved_after_it_was_listed_is_refused_with_both_commits_until_it_is_listed_anew(place):
    place.revisions([{"name": "last", "ref": "main", "step": 9}, STEPS[0]])
    identities = [f"results/checkpoints/tiny/{name}.json" for name in ("last", STEPS[0])]
    with HubServer(place.served) as server:
        place.run(server, "resolve")
        listed = place.rows["main"]
        moved = add_revision(place.served, REPO, "main", place.path / "made")
        refused = place.run(server, *identities, fails=True)
        assert refused.done == pinning(["last", STEPS[0]])
        (message,) = errors(refused.output)
        assert f"{REPO} at 'main': it was {listed['commit']} when its revisions were listed" in message
        assert f"and is {moved} now. To follow it: snakemake --cores 1 resolve" in message
        assert not (place.tree / identities[0]).exists()
        place.run(server, "resolve")
        assert place.rows["main"]["commit"] == moved != listed["commit"]
        assert place.run(server, *identities).done == pinning(["last"])
    assert json.loads((place.tree / identities[0]).read_text())["commit"] == moved
