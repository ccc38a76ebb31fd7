"""A whole study of a model from a hub, from pinning to a figure, against the hub on loopback.

The hub gives the model to one login only, so a token is in use throughout.
"""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.hub_server import SIGNATURE, HubServer, add_revision, add_trajectory
from tests.workflow.study import (
    NOTHING,
    capturing,
    checking,
    drawing,
    job,
    joining,
    measuring,
    pairs,
    study_config,
    tabulating,
    write_pairs,
)
from tests.workflow.trees import COLLECTIONS, Run, Tree, built_once, differing, errors, half_files

REPO = "lab/tiny"
TOKEN = "hf_notarealtokenbutsecret"
# What the hub calls each revision: the branch that moves, and a tag that is there only later.
REFS = {"last": "main", "late": "stage1/step300-tokens3B"}
FIRST, LATE = ["last"], ["late"]
TABLED = tabulating(["care"]) | joining() | drawing(["saturation"])


class Place:
    """A study, what the hub serves, and the hub's cache, side by side in one folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = Tree(path / "study")
        self.served = path / "served"
        self.cache = path / "hub"

    def add(self, revision: str, seed: int) -> str:
        """Put weights on the hub under the revision's ref, and return their commit."""
        from tests.tiny_models import save_tiny_model

        files = save_tiny_model("llama", self.path / f"made/{seed}", seed=seed)
        kind = "branches" if REFS[revision] == "main" else "tags"
        return add_revision(self.served, REPO, REFS[revision], files, kind=kind)

    @contextmanager
    def hub(self) -> Iterator[HubServer]:
        with HubServer(self.served) as server:
            server.private.add(REPO)
            server.tokens.add(TOKEN)
            yield server

    def run(self, server: HubServer, *arguments: str, **how: Any) -> Run:
        """Run Snakemake with this hub, there or gone, and look that it gave no access away."""
        variables = {
            "HF_ENDPOINT": server.url,
            "HF_HOME": str(self.cache),
            "HF_HUB_CACHE": str(self.cache / "hub"),
            "HF_HUB_OFFLINE": "0",
            "HF_TOKEN": TOKEN,
        }
        run = self.tree.run(*arguments, variables=variables, **how)
        said = {"what was said": run.output.encode()}
        said |= {str(path): path.read_bytes() for path in self.tree.path.rglob("*") if path.is_file()}
        for secret in (TOKEN, SIGNATURE):
            assert [name for name, text in said.items() if secret.encode() in text] == []
        return run

    def identity(self, revision: str) -> dict[str, Any]:
        return json.loads((self.tree / f"results/checkpoints/tiny/{revision}.json").read_text())


def pinning(revisions: list[str]) -> set[str]:
    return {job("pin_tiny", revision=revision) for revision in revisions}


def releasing(revisions: list[str]) -> set[str]:
    return {job("release_weights_tiny", revision=revision) for revision in revisions}


def chain(revisions: list[str]) -> set[str]:
    """All jobs of revisions up to their curves."""
    measured = measuring(revisions=revisions, datasets=["care"], seeds=[42])
    return pinning(revisions) | capturing(revisions, ["care"]) | measured


def hub_config() -> dict[str, Any]:
    config = study_config()
    config["seeds"] = [42]
    config["datasets"] = {"care": {"path": "data/care.jsonl"}}
    config["models"]["tiny"]["source"] = {"hub": {"repo": REPO}}
    config["models"]["tiny"]["revisions"] = [
        {"name": name, "ref": ref, "step": step} for step, (name, ref) in enumerate(REFS.items())
    ]
    config["figures"] = {"saturation": config["figures"]["saturation"]}
    return config


def build(path: Path) -> None:
    """Two runs of the study: one ref is put on the hub only after the first. Notes what each run did."""
    place = Place(path)
    tree = Tree.new(place.tree.path)
    for dataset in ("care", "size"):
        write_pairs(tree / f"data/{dataset}.jsonl", pairs(dataset))
    (tree / "config.yaml").write_text(yaml.safe_dump(hub_config(), sort_keys=False))
    commits = {"last": place.add("last", seed=0)}
    with place.hub() as server:
        planned = place.run(server, "--dry-run")
        asked_by_plan = server.requests.total()
        first = place.run(server, fails=True)
        left = [*half_files(tree), *map(str, tree.path.glob("results/*/tiny/late*"))]
        results = tree.results()
        commits["late"] = place.add("late", seed=1)
        second = place.run(server)
        noted = {
            "planned": planned.jobs,
            "asked by plan": asked_by_plan,
            "commits": commits,
            "first": vars(first),
            "left by first": left,
            "results of first": results,
            "second": vars(second),
            "requests": server.requests,
        }
    (path / "noted.json").write_text(json.dumps(noted))


@pytest.fixture(scope="session")
def whole(shared) -> Place:
    """The finished study: nobody changes it."""
    return Place(built_once(shared / "hub_study" / "place", build))


@pytest.fixture(scope="session")
def noted(whole) -> dict[str, Any]:
    return json.loads((whole.path / "noted.json").read_text())


@pytest.fixture
def place(whole, tmp_path) -> Place:
    """A copy of all of it, to do anything with."""
    shutil.copytree(whole.path, tmp_path / "place", symlinks=True)
    return Place(tmp_path / "place")


def test_building_the_dag_does_not_ask_the_hub(noted):
    wanted = chain(FIRST + LATE) | TABLED | checking(["care"]) | releasing(FIRST + LATE)
    assert set(noted["planned"]) - set(COLLECTIONS) == wanted
    assert noted["asked by plan"] == 0


def test_a_ref_that_is_not_there_is_named_and_the_others_finish(noted):
    first = Run(**noted["first"])
    assert first.done == chain(FIRST) | pinning(LATE) | checking(["care"]) | releasing(FIRST)
    (message,) = errors(first.output)
    assert f"{REPO} at '{REFS['late']}': there is no such branch, tag or commit" in message
    assert "It has 1 refs, among them: main" in message
    assert "Traceback" not in first.output
    assert noted["left by first"] == []


def test_a_ref_that_came_later_runs_exactly_its_chain(noted, whole):
    assert Run(**noted["second"]).done == chain(LATE) | TABLED | releasing(LATE)
    now = whole.tree.results()
    assert [name for name, sha in noted["results of first"].items() if now[name] != sha] == []


def test_from_identity_to_figure_everything_is_there_by_commit(noted, whole):
    for revision, commit in noted["commits"].items():
        identity = whole.identity(revision)
        assert (identity["commit"], identity["ref"], identity["repo"]) == (commit, REFS[revision], REPO)
        assert re.fullmatch(r"[0-9a-f]{40}", commit)
    assert len({whole.identity(revision)["weights_sha256"] for revision in REFS}) == len(REFS)
    found = whole.tree.results()
    wanted = [f"activations/tiny/{revision}/care.h5" for revision in REFS]
    wanted += [f"{kind}/tiny/{revision}/care/seed42/{file}" for kind in ("probes", "fragility")
               for revision in REFS for file in ("layer00.json", "layer01.json", "summary.json")]  # fmt: skip
    wanted += [f"tables/{name}.csv" for name in ("probing", "fragility", "trajectory", "scale")]
    wanted += ["figures/saturation.svg", "figures/saturation.png"]
    assert [name for name in wanted if name not in found] == []


def test_no_result_says_where_the_cache_lies(whole):
    """A result is the same bytes on every machine."""
    path = str(whole.path).encode()
    results = [file for file in (whole.tree / "results").rglob("*") if file.is_file()]
    assert [str(file) for file in results if path in file.read_bytes()] == []


def test_names_are_asked_for_once_and_weights_fetched_once_by_commit(noted):
    requests = noted["requests"]
    by_name = {name: times for name, times in requests.items() if any(ref in name for ref in REFS.values())}
    asked = {f"GET /api/models/{REPO}/revision/{ref}": 1 for ref in REFS.values()}
    assert by_name == {**asked, f"GET /api/models/{REPO}/revision/{REFS['late']}": 2}
    weights = {name: times for name, times in requests.items() if name.startswith("GET /blob/")}
    assert weights == {
        f"GET /blob/{REPO}/{commit}/model.safetensors": 1 for commit in noted["commits"].values()
    }


def test_a_finished_study_needs_no_hub_and_does_not_see_that_a_branch_moved(place, whole):
    place.add("last", seed=9)
    with place.hub() as server:
        assert place.run(server).done == NOTHING
    assert server.requests.total() == 0
    assert place.run(server).done == NOTHING, "the hub is gone, and that was noticed"
    assert differing(place.tree.results(), whole.tree.results()) == []


def test_a_moved_branch_is_followed_when_its_identity_is_made_anew(place, noted):
    identity = "results/checkpoints/tiny/last.json"
    with place.hub() as server:
        moved = place.add("last", seed=9)
        assert place.run(server, "--force", identity).done == pinning(["last"])
    assert place.identity("last")["commit"] == moved != noted["commits"]["last"]
    assert place.tree.plan() == chain(["last"]) - pinning(["last"]) | TABLED | releasing(["last"])


def test_a_dataset_added_before_the_weights_are_released_is_captured_without_the_hub(place):
    care = "results/activations/tiny/last/care.h5"
    place.tree.remove(care)
    with place.hub() as server:
        # It alone is asked for, so the weights that it fetches again stay.
        assert place.run(server, care).done == capturing(["last"], ["care"])
    with place.tree.changed_config() as config:
        config["datasets"]["size"] = {"path": "data/size.jsonl"}
    with place.hub() as server:
        captured = place.run(server, "results/activations/tiny/last/size.h5")
    assert captured.done == capturing(["last"], ["size"])
    assert server.requests == {}, "the weights are there, and still the hub was asked"


def test_weights_lost_from_the_cache_are_fetched_by_commit_though_the_branch_moved(place, whole, noted):
    cache = "results/activations/tiny/last/care.h5"
    place.tree.remove(cache)
    shutil.rmtree(place.cache)
    place.add("last", seed=9)
    with place.hub() as server:
        server.fail("/blob/", status=403, times=99)
        refused = place.run(server, cache, fails=True)
    (message,) = errors(refused.output)
    assert f"{REPO} at '{noted['commits']['last']}': access refused (403)" in message
    assert half_files(place.tree) == []
    with place.hub() as server:
        assert place.run(server, cache).done == capturing(["last"], ["care"])
    assert server.count(f"GET /blob/{REPO}/{noted['commits']['last']}/model.safetensors") == 1
    assert server.count("main") == 0
    assert differing(place.tree.results(), whole.tree.results()) == []


@pytest.mark.parametrize("at_once", [1, 2])
def test_so_many_revisions_are_fetched_at_once_as_the_profile_says_and_a_cut_line_changes_nothing(
    place, whole, noted, at_once
):
    caches = [f"results/activations/tiny/{revision}/care.h5" for revision in REFS]
    place.tree.remove(*caches)
    shutil.rmtree(place.cache)
    size = {
        commit: (place.served / REPO / commit / "model.safetensors").stat().st_size
        for commit in noted["commits"].values()
    }
    with place.hub() as server:
        # Where one is to wait for the other, long enough to see it come all the same.
        server.hold, server.together = (3.0 if at_once == 1 else 60.0), 2
        server.fail("/blob/", cut_after=size[noted["commits"]["last"]] // 2, method="GET")
        run = place.run(server, *caches, "--resources", f"downloads={at_once}", cores=8)
    assert run.done == capturing(list(REFS), ["care"])
    assert server.peak == at_once
    for commit, whole_file in size.items():
        # The one that was cut is asked for twice.
        assert whole_file <= server.bytes_sent(f"{commit}/model.safetensors") < 2 * whole_file
    assert differing(place.tree.results(), whole.tree.results()) == []


def test_154_revisions_are_listed_once_and_planned_without_the_hub(whole, tmp_path):
    """All of Pythia's: step 0, powers of two, then every thousand."""
    steps = [0, *(2**power for power in range(10)), *range(1000, 143_001, 1000)]
    place = Place(tmp_path / "place")
    tree = Tree.new(place.tree.path)
    shutil.copytree(whole.tree / "data", tree / "data")
    config = hub_config()
    config["models"]["tiny"]["revisions"] = {"every": 1, "matching": "step*"}
    (tree / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    files = next(path for path in (whole.path / "made").iterdir() if path.is_dir())
    commits = add_trajectory(place.served, REPO, [f"step{step}" for step in steps], files)
    with place.hub() as server:
        assert place.run(server, "resolve").done == {"resolve"}
        asked = server.requests.total()
        planned = place.run(server, "--dry-run", "--quiet", "rules").done
    listed = (tree / "resources/revisions/tiny.tsv").read_text()
    assert [ref for ref, commit in commits.items() if f"\t{ref}\t{commit}\t" not in listed] == []
    of_revisions = {name for name in planned if " revision=" in name}
    assert of_revisions - releasing(list(commits)) == chain(list(commits))
    assert server.requests.total() == asked
    assert server.bytes_sent("") == 0
