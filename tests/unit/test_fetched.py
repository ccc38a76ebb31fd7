"""What is fetched from a hub is noted and can be dropped again, it and nothing else; and it has room."""

import shutil
import threading
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strataprobe.checkpoints import disk, fetched, hub, open_tokenizer, open_weights, pin
from strataprobe.errors import CheckpointError
from tests.hub_server import HubServer, add_revision
from tests.unit.test_hub import REPO, checkpoint

WEIGHTS = b"weights" * 4000
NAME = "tiny/main"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, no login, no waiting, and a disk with room."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(hub, "WAITS", (0.0, 0.0))
    monkeypatch.setattr(disk, "PATIENCE_S", 0.0)
    monkeypatch.setattr(disk, "POLL_S", 0.01)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[HubServer]:
    root = tmp_path / "served"
    add_revision(root, REPO, "main", checkpoint(tmp_path / "main", WEIGHTS))
    add_revision(root, REPO, "twin", checkpoint(tmp_path / "twin", WEIGHTS))
    add_revision(root, REPO, "late", checkpoint(tmp_path / "late", b"late" * 9000))
    with HubServer(root) as server:
        yield server


def opened(server: HubServer, ref: str = "main", name: str = NAME, **how: Any) -> dict[str, Any]:
    """Fetch a ref as a study's checkpoint of that name does; returns its identity."""
    model, revision = name.split("/")
    identity = pin(REPO, ref, model=model, revision=revision, endpoint=server.url)
    open_weights(identity, None, endpoint=server.url, **how)
    return identity


def users_own(server: HubServer, commit: str, *names: str) -> None:
    """What a user fetches without this workflow."""
    from huggingface_hub import snapshot_download

    snapshot_download(REPO, revision=commit, allow_patterns=list(names), endpoint=server.url)


def there(commit: str) -> set[str]:
    """Files of a commit that the cache holds, their contents too."""
    return {path.name for path in fetched.snapshot(REPO, commit).glob("*") if path.is_file()}


def contents(tmp_path: Path) -> list[int]:
    """Sizes of all contents in the cache."""
    return sorted(path.stat().st_size for path in tmp_path.glob("cache/*/blobs/*"))


PINNED = {"config.json", "tokenizer.json", "tokenizer_config.json"}


def test_what_was_fetched_is_dropped_with_its_content(served: HubServer, tmp_path: Path) -> None:
    commit = opened(served)["commit"]
    assert there(commit) == PINNED | {"model.safetensors"}
    assert fetched.held() == len(WEIGHTS)
    assert fetched.release(REPO, commit, NAME) == (len(WEIGHTS), False)
    assert there(commit) == PINNED
    assert len(WEIGHTS) not in contents(tmp_path)
    assert fetched.held() == 0
    assert not list(tmp_path.glob(f"cache/*/{fetched.NOTES}"))
    assert fetched.release(REPO, commit, NAME) == (0, False), "released twice"


def test_what_the_user_had_stays(served: HubServer, tmp_path: Path) -> None:
    commit = pin(REPO, "main", endpoint=served.url)["commit"]
    users_own(served, commit, "*.safetensors", "README.md")
    before = contents(tmp_path)
    opened(served)
    assert fetched.held() == 0
    assert fetched.release(REPO, commit, NAME) == (0, False)
    assert there(commit) == PINNED | {"model.safetensors", "README.md"}
    assert contents(tmp_path) == before


def test_of_a_revision_that_the_user_had_in_part_only_the_rest_is_dropped(
    served: HubServer, tmp_path: Path
) -> None:
    names = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    index = b'{"weight_map": {"a": "%s", "b": "%s"}}' % tuple(name.encode() for name in names)
    shards = {names[0]: b"one" * 3000, names[1]: b"two" * 5000, "model.safetensors.index.json": index}
    folder = checkpoint(tmp_path / "sharded", **shards)
    (folder / "model.safetensors").unlink()
    add_revision(served.root, REPO, "sharded", folder)
    commit = pin(REPO, "sharded", endpoint=served.url)["commit"]
    users_own(served, commit, names[0])
    opened(served, "sharded")
    assert fetched.release(REPO, commit, NAME) == (15000, False)
    assert names[0] in there(commit)
    assert names[1] not in there(commit)


def test_a_content_stays_as_long_as_another_commit_has_it(served: HubServer, tmp_path: Path) -> None:
    """Byte-identical revisions share one content in the cache."""
    main, twin = opened(served)["commit"], opened(served, "twin", "tiny/twin")["commit"]
    assert fetched.held() == len(WEIGHTS)
    assert fetched.release(REPO, main, NAME) == (0, False)
    assert "model.safetensors" in there(twin)
    assert fetched.release(REPO, twin, "tiny/twin") == (len(WEIGHTS), False)
    assert len(WEIGHTS) not in contents(tmp_path)


def test_a_user_s_own_twin_keeps_the_content(served: HubServer, tmp_path: Path) -> None:
    twin = pin(REPO, "twin", endpoint=served.url)["commit"]
    users_own(served, twin, "*.safetensors")
    main = opened(served)["commit"]
    assert fetched.release(REPO, main, NAME) == (0, False)
    assert "model.safetensors" not in there(main)
    assert "model.safetensors" in there(twin)
    assert (fetched.snapshot(REPO, twin) / "model.safetensors").read_bytes() == WEIGHTS


def test_a_study_in_another_folder_keeps_what_it_still_needs(
    served: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = opened(served)["commit"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    opened(served)
    monkeypatch.chdir(tmp_path)
    assert fetched.release(REPO, commit, NAME) == (0, True)
    assert "model.safetensors" in there(commit)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert fetched.release(REPO, commit, NAME) == (len(WEIGHTS), False)


def test_two_names_of_one_commit_are_both_waited_for(served: HubServer) -> None:
    commit = opened(served)["commit"]
    opened(served, name="tiny/step3000")
    assert fetched.release(REPO, commit, NAME) == (0, True)
    assert fetched.release(REPO, commit, "tiny/step3000") == (len(WEIGHTS), False)


def test_after_a_release_it_is_fetched_again_and_whole(served: HubServer) -> None:
    identity = opened(served)
    fetched.release(REPO, identity["commit"], NAME)
    path = open_weights(identity, None, endpoint=served.url)
    assert (path / "model.safetensors").read_bytes() == WEIGHTS
    assert served.count("GET /blob/") == 2
    assert fetched.held() == len(WEIGHTS)


def test_what_a_failed_job_fetched_is_known_too(served: HubServer, tmp_path: Path) -> None:
    names = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    index = b'{"weight_map": {"a": "%s", "b": "%s"}}' % tuple(name.encode() for name in names)
    folder = checkpoint(
        tmp_path / "sharded",
        **{names[0]: b"one" * 3000, names[1]: b"two" * 5000, "model.safetensors.index.json": index},
    )
    (folder / "model.safetensors").unlink()
    add_revision(served.root, REPO, "sharded", folder)
    served.fail(names[1], status=403, times=99, method="GET")
    with pytest.raises(CheckpointError, match="access refused"):
        opened(served, "sharded")
    commit = pin(REPO, "sharded", endpoint=served.url)["commit"]
    assert names[0] in there(commit)
    assert fetched.release(REPO, commit, NAME) == (9000, False)
    assert not there(commit) & set(names)


def test_a_tokenizer_opens_without_the_weights(served: HubServer) -> None:
    identity = pin(REPO, "main", model="tiny", revision="main", endpoint=served.url)
    folder = open_tokenizer(identity, None, endpoint=served.url)
    assert (folder / "tokenizer.json").is_file()
    assert served.count("safetensors") == 0


# room

Usage = namedtuple("Usage", "total used free")


def test_more_than_the_study_allows_is_not_fetched(served: HubServer) -> None:
    opened(served)
    with pytest.raises(CheckpointError) as caught:
        opened(served, "late", "tiny/late", disk_gigabytes=50e-6)
    assert "no room for 36.0 kB: fetched weights take 28.0 kB in" in str(caught.value)
    assert "downloads.disk_gigabytes allows 5e-05" in str(caught.value)
    assert "--resources downloads=1" in str(caught.value)
    assert served.count("GET /blob/") == 1
    opened(served, "late", "tiny/late", disk_gigabytes=65e-6)


def test_a_job_waits_while_another_revision_is_about_to_be_dropped(
    served: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "PATIENCE_S", 30.0)
    commit = opened(served)["commit"]
    dropped = threading.Timer(0.3, fetched.release, (REPO, commit, NAME))
    dropped.start()
    late = opened(served, "late", "tiny/late", disk_gigabytes=50e-6)
    dropped.join()
    assert "model.safetensors" in there(late["commit"])
    assert "model.safetensors" not in there(commit)


def test_a_disk_without_room_is_named_before_anything_is_fetched(
    served: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9, 0, disk.SPARE_BYTES + 27_999))
    with pytest.raises(CheckpointError) as caught:
        opened(served)
    assert f"500.0 MB are free in {tmp_path / 'cache'}" in str(caught.value)
    assert "move the cache (HF_HOME)" in str(caught.value)
    assert served.count("GET /blob/") == 0
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9, 0, disk.SPARE_BYTES + 28_000))
    opened(served)


def test_a_disk_that_fills_meanwhile_is_noticed_and_what_came_is_kept(
    served: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    index = b'{"weight_map": {"a": "%s", "b": "%s"}}' % tuple(name.encode() for name in names)
    folder = checkpoint(
        tmp_path / "sharded",
        **{names[0]: b"one" * 3000, names[1]: b"two" * 5000, "model.safetensors.index.json": index},
    )
    (folder / "model.safetensors").unlink()
    add_revision(served.root, REPO, "sharded", folder)
    monkeypatch.setattr(hub, "_AT_ONCE", 1)

    def filling(_: Path) -> Usage:
        came = served.count("GET /blob/")
        return Usage(10**9, 0, disk.SPARE_BYTES + (100_000 if came == 0 else 14_999))

    monkeypatch.setattr(shutil, "disk_usage", filling)
    with pytest.raises(CheckpointError, match=rf"{names[1]}: no room for 15.0 kB"):
        opened(served, "sharded")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9, 0, 10**9))
    opened(served, "sharded")
    assert served.count(f"GET /blob/{REPO}") == 2, "the first shard was fetched twice"
