"""A trajectory from a hub holds few revisions at a time; a dataset added later fetches its weights again."""

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.hub_server import HubServer, add_trajectory
from tests.workflow.study import capturing, job, measuring, pairs, study_config, write_pairs
from tests.workflow.test_hub_study import Place, pinning
from tests.workflow.trees import Tree, built_once, errors

REPO = "lab/tiny"
NAMES = [f"step{step}" for step in (0, 100, 200, 300)]
BUNDLES = ["care", "size"]


def releasing(names: list[str]) -> set[str]:
    return {job("release_weights_tiny", revision=name) for name in names}


def config() -> dict:
    config = study_config()
    config["seeds"] = [42]
    config["datasets"] = {name: {"path": f"data/{name}.jsonl"} for name in BUNDLES}
    config["models"]["tiny"] |= {"source": {"hub": {"repo": REPO}}, "revisions": NAMES}
    config["figures"] = {}
    return config


@contextmanager
def watched(place: Place) -> Iterator[list[int]]:
    """How many weights lie in the hub's cache, looked at all the time while the block runs."""
    seen, done = [0], threading.Event()

    def look() -> None:
        while not done.wait(0.01):
            seen.append(len(weights(place)))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()


def weights(place: Place) -> list[Path]:
    """Contents in the cache that are as large as weights, whole or on the way."""
    return [path for path in place.cache.glob("hub/*/blobs/*") if size_of(path) > 50_000]


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def build(path: Path) -> None:
    """The study, watched, with one revision that the user had fetched before. Notes what was seen."""
    from huggingface_hub import snapshot_download

    from tests.tiny_models import save_tiny_model

    place = Place(path)
    tree = Tree.new(place.tree.path)
    for dataset in (*BUNDLES, "truth"):
        write_pairs(tree / f"data/{dataset}.jsonl", pairs(dataset))
    (tree / "config.yaml").write_text(yaml.safe_dump(config(), sort_keys=False))
    commits = add_trajectory(place.served, REPO, NAMES, save_tiny_model("llama", path / "made", seed=0))
    with HubServer(place.served) as server:
        own = commits["step200"]
        snapshot_download(REPO, revision=own, endpoint=server.url, cache_dir=place.cache / "hub")
        server.requests.clear()
        with watched(place) as seen:
            run = place.run(server, "released", "--resources", "downloads=1")
        noted = {"run": vars(run), "most": max(seen), "requests": server.requests, "commits": commits}
    (path / "noted.json").write_text(json.dumps(noted))


@pytest.fixture(scope="session")
def whole(shared) -> Place:
    return Place(built_once(shared / "release" / "place", build))


@pytest.fixture(scope="session")
def noted(whole) -> dict:
    return json.loads((whole.path / "noted.json").read_text())


@pytest.fixture
def place(whole, tmp_path) -> Place:
    shutil.copytree(whole.path, tmp_path / "place", symlinks=True)
    return Place(tmp_path / "place")


def fetched(requests: dict[str, int], commits: dict[str, str]) -> dict[str, int]:
    """How often the weights of each revision were asked for."""
    weights = {name: f"GET /blob/{REPO}/{commit}/model.safetensors" for name, commit in commits.items()}
    return {name: requests.get(path, 0) for name, path in weights.items()}


def test_few_revisions_are_held_at_a_time(noted):
    """One is fetched at once, one may be about to be dropped, and the user had one."""
    assert noted["most"] <= 1 + 1 + 1
    assert noted["most"] >= 2, "weights were never seen, so nothing was measured"
    assert set(noted["run"]["jobs"]) - {"released"} == (
        pinning(NAMES) | capturing(NAMES, BUNDLES) | releasing(NAMES)
    )


def test_each_is_fetched_once_and_what_the_user_had_not_at_all(noted):
    assert fetched(noted["requests"], noted["commits"]) == dict.fromkeys(NAMES, 1) | {"step200": 0}


def test_at_the_end_only_what_the_user_had_is_there(whole, noted):
    (left,) = weights(whole)
    own = whole.cache / f"hub/models--lab--tiny/snapshots/{noted['commits']['step200']}/model.safetensors"
    assert own.resolve() == left
    note = json.loads((whole.tree / "results/released/tiny/step0.json").read_text())
    assert note == {"commit": noted["commits"]["step0"], "model": "tiny", "repo": REPO, "revision": "step0"}


def test_a_revision_is_done_before_the_next_begins(noted):
    """Which is first depends on which is pinned first; from then on none comes between its jobs."""
    jobs = [name.rsplit("=", 1)[1] for name in noted["run"]["jobs"] if name.startswith("capture_")]
    assert jobs[:: len(BUNDLES)] == jobs[1 :: len(BUNDLES)], jobs
    assert sorted(jobs[:: len(BUNDLES)]) == NAMES


def test_a_dataset_added_later_fetches_again_only_what_it_needs(place, noted):
    before = place.tree.results()
    with place.tree.changed_config() as config:
        config["datasets"]["truth"] = {"path": "data/truth.jsonl"}
        config["models"]["tiny"]["revisions"] = NAMES[:3]
    with HubServer(place.served) as server:
        run = place.run(server, "released", "--resources", "downloads=1")
    assert run.done == capturing(NAMES[:3], ["truth"]) | releasing(NAMES[:3])
    assert fetched(server.requests, noted["commits"]) == {
        "step0": 1,
        "step100": 1,
        "step200": 0,
        "step300": 0,
    }
    now = place.tree.results()
    assert [name for name, sha in before.items() if now[name] != sha] == []
    assert len(weights(place)) == 1


def test_what_needs_no_weights_fetches_none(place):
    with HubServer(place.served) as server:
        done = place.run(server, "results/fragility/tiny/step0/care/seed42/summary.json").done
    assert server.requests == {}
    assert done == measuring(revisions=["step0"], datasets=["care"], seeds=[42])


def test_a_revision_that_fails_keeps_the_others_from_nothing(place, noted):
    """What is fetched of the others is dropped; with gaps drawn, of the failed one too."""
    failed = noted["commits"]["step100"]
    place.tree.remove("results/activations", "results/released")
    with HubServer(place.served) as server:
        server.fail(f"/blob/{REPO}/{failed}/", status=403, times=99)
        run = place.run(server, "released", "--resources", "downloads=1", fails=True)
        assert run.done == capturing(NAMES, BUNDLES) | releasing([n for n in NAMES if n != "step100"])
        assert all("access refused (403)" in message for message in errors(run.output))
        assert len(weights(place)) == 1
        drawn = place.run(server, "released", "--config", "gaps=draw")
    assert drawn.done == releasing(["step100"])


def test_a_plan_says_how_much_lies_there_at_a_time(place):
    """And a study whose jobs could fetch more at once than it allows is refused before it begins."""
    with HubServer(place.served) as server:
        place.run(server, "resolve")
        with place.tree.changed_config() as config:
            config["downloads"] = {"disk_gigabytes": 3e-4}
        refused = place.run(server, "released", fails=True)
        assert "downloads.disk_gigabytes: 2 jobs at once may fetch" in refused.output
        place.run(server, "released", "--dry-run", "--resources", "downloads=1")
