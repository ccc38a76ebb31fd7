"""A base from the hub is held until all that is fine-tuned from it is measured, and fetched once."""

import json
from pathlib import Path

import pytest
import yaml

from tests.hub_server import HubServer, add_trajectory
from tests.workflow import tuned
from tests.workflow.study import job, pairs, write_pairs
from tests.workflow.test_hub_study import Place
from tests.workflow.test_release import REPO, fetched, weights
from tests.workflow.trees import Tree

MODEL = "tiny-lora-fables-s1"
REVISIONS = ["step0", "step100", "step200"]
BASE = "step0"


def config() -> dict:
    config = tuned.tuned_config()
    config["models"]["tiny"] |= {"source": {"hub": {"repo": REPO}}, "revisions": REVISIONS}
    lora = config["models"]["tuned"]["source"]["lora"]
    lora |= {"revision": BASE, "conditions": {"fables": ["fables"]}, "seeds": [1]}
    return config | {"figures": {}, "seeds": [42]}


@pytest.fixture
def place(tmp_path) -> Place:
    place = Place(tmp_path / "place")
    tree = Tree.new(place.tree.path)
    write_pairs(tree / "data/size.jsonl", pairs("size"))
    tuned.write_corpora(tree)
    (tree / "config.yaml").write_text(yaml.safe_dump(config(), sort_keys=False))
    return place


def test_a_base_is_fetched_once_and_dropped_when_its_fine_tuned_copies_are_measured(place, tmp_path):
    """With room for one revision and a half, which is enough only where the base's copies go first."""
    from tests.tiny_models import save_tiny_model

    made = save_tiny_model("llama", tmp_path / "made", seed=0, max_positions=64)
    commits = add_trajectory(place.served, REPO, REVISIONS, made)
    with place.tree.changed_config() as config:
        size = sum(path.stat().st_size for path in made.iterdir())
        config["downloads"] = {"disk_gigabytes": 1.5 * size / 1e9}
    with HubServer(place.served) as server:
        # Pinned before, so that any of them may be the first to be fetched.
        pinned = [f"results/checkpoints/tiny/{revision}.json" for revision in REVISIONS]
        place.run(server, *pinned)
        done = place.run(server, "released", "--resources", "downloads=1").jobs
        assert fetched(server.requests, commits) == dict.fromkeys(REVISIONS, 1)
    released = done.index(job("release_weights_tiny", revision=BASE))
    before = {job(f"train_lora_{MODEL}"), job(f"capture_{MODEL}_size")}
    assert before <= set(done[:released]), "dropped while a fine-tuned copy still needed it"
    assert weights(place) == []
    identity = json.loads(Path(place.tree / f"results/checkpoints/{MODEL}/step0010.json").read_text())
    assert identity["base"]["commit"] == commits[BASE]
    assert identity["base"]["directory"] is None
