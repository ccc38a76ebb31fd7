"""What a hub can do to a study: busy hours, cut lines, refusals; and what the hub of these tests counts."""

import hashlib
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from strataprobe.checkpoints import fetch, hub, open_weights, pin
from strataprobe.errors import CheckpointError
from tests.hub_server import HubServer, add_revision, add_trajectory

REPO = "lab/tiny"
# Pythia's: step 0, powers of two, then every thousand.
STEPS = [f"step{step}" for step in (0, *(2**power for power in range(10)), *range(1000, 143_001, 1000))]
FILES = {
    "config.json": json.dumps({"num_hidden_layers": 2, "hidden_size": 8}).encode(),
    "tokenizer.json": b'{"version": "1.0"}',
    "model.safetensors": b"weights" * 4000,
}


def checkpoint(folder: Path, weights: bytes = FILES["model.safetensors"]) -> Path:
    folder.mkdir()
    for name, content in (FILES | {"model.safetensors": weights}).items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, no login, and no waiting between tries but what the hub asks for."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(hub, "WAITS", (0.0, 0.0))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[HubServer]:
    root = tmp_path / "served"
    add_revision(root, REPO, "main", checkpoint(tmp_path / "main"))
    with HubServer(root) as server:
        yield server


def test_all_of_154_refs_are_listed_each_with_size_and_checksum_and_nothing_is_fetched(
    served: HubServer, tmp_path: Path
) -> None:
    commits = add_trajectory(served.root, REPO, STEPS, tmp_path / "main")
    assert len(set(commits.values())) == len(STEPS) == 154
    main = pin(REPO, "main", endpoint=served.url)["commit"]
    assert hub.refs(REPO, endpoint=served.url) == {**commits, "main": main}
    for ref in (STEPS[0], STEPS[-1]):
        info = hub.describe(REPO, ref, endpoint=served.url)
        weights = next(entry for entry in info.siblings if entry.rfilename == "model.safetensors")
        content = (served.root / REPO / commits[ref] / "model.safetensors").read_bytes()
        assert (info.sha, weights.size) == (commits[ref], len(content))
        assert weights.lfs.sha256 == hashlib.sha256(content).hexdigest()
    assert served.bytes_sent("safetensors") == 0


def test_a_hub_that_says_when_to_ask_again_is_not_asked_before(served: HubServer) -> None:
    served.fail("/revision/main", status=429, headers={"Retry-After": "1"})
    begun = time.monotonic()
    assert hub.describe(REPO, "main", endpoint=served.url).sha
    assert time.monotonic() - begun >= 1
    assert served.count("/revision/main") == 2


def test_a_hub_that_does_not_say_when_is_asked_again_after_our_own_wait(
    served: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "WAITS", (0.3, 0.4))
    served.fail("/revision/main", status=429, times=2)
    begun = time.monotonic()
    assert hub.describe(REPO, "main", endpoint=served.url).sha
    assert time.monotonic() - begun >= 0.7
    assert served.count("/revision/main") == 3


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "0"}])
def test_too_many_transfers_are_taken_up_again(served: HubServer, headers: dict[str, str]) -> None:
    identity = pin(REPO, "main", endpoint=served.url)
    served.fail("/blob/", status=429, method="GET", headers=headers)
    weights = open_weights(identity, None, endpoint=served.url) / "model.safetensors"
    assert weights.read_bytes() == FILES["model.safetensors"]
    assert served.count("GET /blob/") == 2


def test_a_transfer_cut_late_goes_on_from_there_and_does_not_begin_anew(
    served: HubServer, tmp_path: Path
) -> None:
    # The client writes its file in pieces of 10 MiB: what of the third one had come is asked for again.
    content = hashlib.sha256(b"weights").digest() * (25 * 2**15)
    add_revision(served.root, REPO, "large", checkpoint(tmp_path / "large", content))
    identity = pin(REPO, "large", endpoint=served.url)
    cut = 21 * 2**20
    served.fail("/blob/", cut_after=cut, method="GET")
    weights = open_weights(identity, None, endpoint=served.url) / "model.safetensors"
    assert weights.read_bytes() == content
    assert served.count("GET /blob/") == 2
    assert served.bytes_sent("model.safetensors") == cut + len(content) - 20 * 2**20 < 1.1 * len(content)


def test_a_refusal_is_not_asked_again_and_says_whose_it_is(served: HubServer) -> None:
    served.fail("/revision/main", status=403, times=9)
    with pytest.raises(CheckpointError, match=r"lab/tiny at 'main': access refused \(403\)\. The token"):
        pin(REPO, "main", endpoint=served.url)
    assert served.count("/revision/main") == 1


def test_a_listed_file_that_is_not_served_is_said_to_be_the_repositorys_fault(served: HubServer) -> None:
    identity = pin(REPO, "main", endpoint=served.url)
    served.fail("safetensors", status=404, times=9, headers={"X-Error-Code": "EntryNotFound"})
    with pytest.raises(CheckpointError, match=r"a file it lists is not served \(404\)"):
        open_weights(identity, None, endpoint=served.url)


@pytest.mark.parametrize("at_once", [1, 2])
def test_the_hub_of_these_tests_sees_how_many_revisions_are_fetched_at_once(
    served: HubServer, tmp_path: Path, at_once: int
) -> None:
    """Otherwise no test of a bound on them would show anything."""
    commits = list(add_trajectory(served.root, REPO, STEPS[:2], tmp_path / "main").values())
    served.hold, served.together = (0.1, 2) if at_once == 1 else (20.0, 2)
    with ThreadPoolExecutor(at_once) as threads:
        list(threads.map(lambda commit: fetch(REPO, commit, endpoint=served.url), commits))
    assert served.peak == at_once
    size = len(FILES["model.safetensors"])
    assert served.bytes_sent("safetensors") == 2 * size
    assert {name: served.sent[name] for name in served.sent if "safetensors" in name} == {
        f"{REPO}/{commit}/model.safetensors": size for commit in commits
    }
