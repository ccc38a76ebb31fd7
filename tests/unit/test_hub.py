"""Pinning and fetching from a hub, against a server on loopback that speaks the hub's HTTP."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strataprobe.checkpoints import fetch, hub, open_weights, pin, twins
from strataprobe.errors import CheckpointError
from tests.hub_server import HubServer, add_revision

REPO = "lab/tiny"
CONFIG = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 8}
SECRET = "hf_notarealtokenbutsecret"


def checkpoint(folder: Path, weights: bytes = b"weights" * 4000, **files: bytes) -> Path:
    """A folder that looks like a checkpoint, with things beside it that nobody should fetch."""
    folder.mkdir(parents=True)
    contents = {
        "config.json": json.dumps(CONFIG).encode(),
        "tokenizer.json": b'{"version": "1.0"}',
        "tokenizer_config.json": b'{"add_bos_token": false}',
        "model.safetensors": weights,
        "README.md": b"# tiny",
        "modeling_tiny.py": b"raise SystemExit('ran code of a repository')",
        "pytorch_model.bin": b"pickled",
    }
    for name, content in (contents | files).items():
        (folder / name).write_bytes(content)
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.safetensors").write_bytes(b"other")
    return folder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, no login, and no waiting between tries."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(hub, "WAITS", (0.0, 0.0))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[HubServer]:
    root = tmp_path / "served"
    add_revision(root, REPO, "main", checkpoint(tmp_path / "main"))
    for step in (0, 1000, 2000):
        folder = checkpoint(tmp_path / f"step{step}", f"step {step}".encode() * 5000)
        add_revision(root, REPO, f"stage1-step{step}-tokens{step // 100}B", folder, kind="tags")
    with HubServer(root) as server:
        yield server


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_pinning_gives_commit_and_checksums_without_fetching_weights(
    served: HubServer, tmp_path: Path
) -> None:
    identity = pin(REPO, "main", model="tiny", revision="last", layers=2, endpoint=served.url)
    refs = json.loads((served.root / REPO / "refs.json").read_text())
    wanted = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    assert identity["commit"] == refs["branches"]["main"]
    assert identity["files"] == {name: sha256(tmp_path / "main" / name) for name in wanted}
    assert (identity["layers"], identity["hidden_size"], identity["source"]) == (2, 8, "hub")
    assert served.count("safetensors") == 0


def test_fetching_leaves_pickles_code_and_subfolders_alone(served: HubServer) -> None:
    commit = pin(REPO, "main", endpoint=served.url)["commit"]
    names = sorted(path.name for path in fetch(REPO, commit, endpoint=served.url).rglob("*"))
    assert names == ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    for unwanted in ("README", ".py", ".bin", "onnx"):
        assert served.count(unwanted) == 0


def test_a_moved_branch_does_not_change_what_a_pinned_revision_opens(
    served: HubServer, tmp_path: Path
) -> None:
    identity = pin(REPO, "main", endpoint=served.url)
    add_revision(served.root, REPO, "main", checkpoint(tmp_path / "moved", b"new weights"))
    directory = open_weights(identity, None, endpoint=served.url)
    assert (directory / "model.safetensors").read_bytes() == b"weights" * 4000
    assert pin(REPO, "main", endpoint=served.url)["commit"] != identity["commit"]


def test_a_moving_name_is_not_accepted_in_place_of_a_commit(served: HubServer) -> None:
    with pytest.raises(CheckpointError, match="'main' is not a commit sha"):
        fetch(REPO, "main", endpoint=served.url)


def test_weights_once_fetched_open_without_a_network(served: HubServer) -> None:
    identity = pin(REPO, "main", endpoint=served.url)
    open_weights(identity, None, endpoint=served.url)
    before = served.requests.total()
    open_weights(identity, None, endpoint=served.url)
    assert served.requests.total() == before


def test_a_wrong_ref_names_the_nearest_ones(served: HubServer) -> None:
    with pytest.raises(CheckpointError) as caught:
        pin(REPO, "stage1-step1000-tokens9B", endpoint=served.url)
    assert "no such branch, tag or commit" in str(caught.value)
    assert "of its 4 refs: stage1-step1000-tokens10B" in str(caught.value)


def test_a_missing_repository_is_named(served: HubServer) -> None:
    with pytest.raises(CheckpointError, match="lab/tinny at 'main': no such repository, or it is private"):
        pin("lab/tinny", "main", endpoint=served.url)


@pytest.mark.parametrize("token", [None, SECRET])
def test_a_gated_repository_says_what_to_do_and_no_token(
    served: HubServer, token: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    served.gated.add(REPO)
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(CheckpointError, match=r"access is gated\. Accept its terms") as caught:
        pin(REPO, "main", endpoint=served.url)
    cause: BaseException | None = caught.value
    while cause is not None:
        assert SECRET not in str(cause)
        cause = cause.__cause__
    assert SECRET not in caplog.text
    assert bool(served.authorized) == bool(token)


def test_a_login_is_used_and_never_sent_to_the_storage_server(
    served: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.gated.add(REPO)
    served.private.add(REPO)
    served.tokens.add(SECRET)
    monkeypatch.setenv("HF_TOKEN", SECRET)
    open_weights(pin(REPO, "main", endpoint=served.url), None, endpoint=served.url)
    assert served.count("GET /blob/") == 1
    assert served.authorized
    assert not [path for path in served.authorized if path.startswith("/blob/")]


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_hub_is_asked_again(served: HubServer, status: int) -> None:
    served.fail("/api/models/", status=status, headers={"Retry-After": "0"})
    assert pin(REPO, "main", endpoint=served.url)["layers"] == 2
    assert served.count("/revision/main") == 2


def test_a_hub_that_stays_busy_is_given_up_with_its_status(served: HubServer) -> None:
    served.fail("/api/models/", status=503, times=99)
    with pytest.raises(CheckpointError, match="the hub answered 503, however often"):
        pin(REPO, "main", endpoint=served.url)


def test_a_connection_cut_before_the_answer_is_made_anew(served: HubServer) -> None:
    served.fail("/api/models/", cut_after=0)
    assert pin(REPO, "main", endpoint=served.url)["layers"] == 2


def test_a_connection_cut_within_the_weights_gives_whole_weights(served: HubServer, tmp_path: Path) -> None:
    identity = pin(REPO, "main", endpoint=served.url)
    served.fail("/blob/", cut_after=10_000, method="GET")
    directory = open_weights(identity, None, endpoint=served.url)
    assert sha256(directory / "model.safetensors") == sha256(tmp_path / "main" / "model.safetensors")
    assert served.count("GET /blob/") == 2


def test_a_hub_that_is_not_there_is_said_to_be_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
    with HubServer(tmp_path) as gone:
        url = gone.url
    for question in (lambda: pin(REPO, "main", endpoint=url), lambda: fetch(REPO, "0" * 40, endpoint=url)):
        with pytest.raises(CheckpointError, match=r"the hub cannot be reached .* HF_ENDPOINT"):
            question()


def test_offline_mode_is_named_as_the_reason(served: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for question in (lambda: pin(REPO, "main", endpoint=served.url), lambda: fetch(REPO, "0" * 40)):
        with pytest.raises(CheckpointError, match="HF_HUB_OFFLINE is set"):
            question()
    assert served.requests.total() == 0


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounting needs root")
def test_a_full_cache_disk_is_named(
    served: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = tmp_path / "cache"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    # As where others fill the disk after it was looked at.
    monkeypatch.setattr("strataprobe.checkpoints.disk.free", lambda: 10**12)
    try:
        folder = checkpoint(tmp_path / "large", bytes(200_000))
        add_revision(served.root, REPO, "large", folder)
        identity = pin(REPO, "large", endpoint=served.url)
        with pytest.raises(CheckpointError, match="the disk that holds the hub's cache is full"):
            open_weights(identity, None, endpoint=served.url)
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_repository_with_pickled_weights_only_is_refused_with_the_reason(
    served: HubServer, tmp_path: Path
) -> None:
    folder = checkpoint(tmp_path / "pickled")
    (folder / "model.safetensors").unlink()
    (folder / "tokenizer.json").unlink()
    add_revision(served.root, REPO, "old", folder)
    with pytest.raises(CheckpointError) as caught:
        pin(REPO, "old", endpoint=served.url)
    assert "at 'old': 2 problems" in str(caught.value)
    assert "only pytorch_model.bin, which can run code when opened" in str(caught.value)
    assert "tokenizer.json: not there" in str(caught.value)


def test_a_model_of_another_depth_names_both_numbers(served: HubServer) -> None:
    with pytest.raises(CheckpointError, match=r"layers: the study says 16, config.json says 2"):
        pin(REPO, "main", layers=16, endpoint=served.url)


def test_sharded_weights_are_pinned_shard_by_shard(served: HubServer, tmp_path: Path) -> None:
    shards = {f"model-0000{n}-of-00002.safetensors": f"shard {n}".encode() for n in (1, 2)}
    index = {"weight_map": {f"layer{n}": name for n, name in enumerate(shards)}}
    folder = checkpoint(
        tmp_path / "sharded", **shards, **{"model.safetensors.index.json": json.dumps(index).encode()}
    )
    (folder / "model.safetensors").unlink()
    add_revision(served.root, REPO, "sharded", folder)
    identity = pin(REPO, "sharded", endpoint=served.url)
    for name, content in shards.items():
        assert identity["files"][name] == hashlib.sha256(content).hexdigest()
    assert open_weights(identity, None, endpoint=served.url).is_dir()


def test_byte_identical_revisions_under_two_names_are_twins(served: HubServer, tmp_path: Path) -> None:
    add_revision(served.root, REPO, "step3000", tmp_path / "step2000", kind="tags")
    refs = ("stage1-step1000-tokens10B", "stage1-step2000-tokens20B", "step3000")
    identities = [pin(REPO, ref, model="tiny", endpoint=served.url) for ref in refs]
    assert len({identity["commit"] for identity in identities}) == 3
    assert twins(identities) == [["tiny/stage1-step2000-tokens20B", "tiny/step3000"]]


@pytest.mark.parametrize("damage", [b"", b"weights" * 3999 + b"wEights"])
def test_a_damaged_cache_is_fetched_once_more(served: HubServer, damage: bytes) -> None:
    identity = pin(REPO, "main", endpoint=served.url)
    weights = open_weights(identity, None, endpoint=served.url) / "model.safetensors"
    weights.resolve().write_bytes(damage)
    assert open_weights(identity, None, endpoint=served.url) == weights.parent
    assert sha256(weights) == identity["files"]["model.safetensors"]


def test_weights_that_are_not_the_pinned_ones_are_refused_by_name(served: HubServer) -> None:
    identity = pin(REPO, "main", endpoint=served.url)
    (served.root / REPO / identity["commit"] / "model.safetensors").write_bytes(b"swapped" * 4000)
    with pytest.raises(CheckpointError) as caught:
        open_weights(identity, None, endpoint=served.url)
    assert "still not as pinned: 1 problem" in str(caught.value)
    assert f"expected {identity['files']['model.safetensors']}" in str(caught.value)


def test_environment_variables_of_the_hub_are_honoured(served: HubServer, tmp_path: Path) -> None:
    program = (
        "import sys; from strataprobe.checkpoints import open_weights, pin\n"
        f"print(open_weights(pin({REPO!r}, 'main'), None))"
    )
    library = Path(hub.__file__).parents[2]
    home = tmp_path / "home"
    environment = {
        **os.environ,
        "HF_ENDPOINT": served.url,
        "HF_HOME": str(home),
        "PYTHONPATH": str(library),
    }
    for name in ("HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_TOKEN"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(home)
    assert served.count("/revision/main") == 1
