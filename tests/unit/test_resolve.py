"""What a repository has, asked of a hub on loopback: refs, commits, sizes, what is missing, the estimate."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import resolve as script
from strataprobe import revisions
from strataprobe.checkpoints import fetch, hub, pin
from strataprobe.checkpoints.resolve import duration, report, resolve, size
from strataprobe.errors import CheckpointError
from tests.hub_server import HubServer, add_revision, add_trajectory

REPO = "lab/tiny"
STEPS = [f"stage1-step{step}-tokens{step // 500}B" for step in range(0, 20_000, 1000)]
CONFIG = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 8}
# What a study fetches, and what it does not.
WANTED = {
    "config.json": json.dumps(CONFIG).encode(),
    "tokenizer.json": b'{"version": "1.0"}',
    "tokenizer_config.json": b"{}",
    "model.safetensors": b"weights" * 1000,
}
UNWANTED = {
    "README.md": b"# tiny" * 99,
    "pytorch_model.bin": b"pickled" * 99,
    "trainer_state.json": b"{}" * 99,
}
SIZE = sum(map(len, WANTED.values()))


def checkpoint(folder: Path, **files: bytes) -> Path:
    for name, content in (WANTED | UNWANTED | files).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, no login, no waiting between tries, and a working directory for the lists."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(hub, "WAITS", (0.0, 0.0))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[HubServer]:
    root = tmp_path / "served"
    files = checkpoint(tmp_path / "files", **{"onnx/model.safetensors": b"other" * 999})
    add_trajectory(root, REPO, STEPS, files)
    add_trajectory(root, REPO, ["v1.0", "stage2-ingredient1-step7"], files, kind="tags")
    add_revision(root, REPO, "main", files)
    with HubServer(root) as server:
        yield server


def commits(served: HubServer) -> dict[str, str]:
    refs = json.loads((served.root / REPO / "refs.json").read_text())
    return {**refs["tags"], **refs["branches"]}


def test_every_ref_is_listed_in_order_with_its_commit_and_only_those_asked_for_with_their_size(served):
    found = resolve("tiny", REPO, {"every": 5, "matching": "stage1-*"}, endpoint=served.url)
    assert found.faults == []
    assert [row.ref for row in found.table.rows] == [*STEPS, "stage2-ingredient1-step7", "v1.0", "main"]
    assert {row.ref: row.commit for row in found.table.rows} == commits(served)
    sizes = {row.ref: row.bytes for row in found.table.rows if row.bytes is not None}
    assert sizes == dict.fromkeys(STEPS[::5], SIZE)


def test_the_hub_is_asked_for_refs_once_and_once_for_each_revision_and_no_file_is_fetched(served):
    resolve("tiny", REPO, {"every": 5, "matching": "stage1-*"}, endpoint=served.url)
    assert {name: times for name, times in served.requests.items() if REPO in name} == {
        f"GET /api/models/{REPO}/refs": 1,
        **{f"GET /api/models/{REPO}/revision/{ref}": 1 for ref in STEPS[::5]},
    }


def test_a_range_finds_the_tokens_and_names_the_steps_that_are_missing(served):
    asked = {"pattern": "stage1-step{step}-tokens{tokens}B", "from": 18_000, "to": 21_000, "every": 1000}
    found = resolve("tiny", REPO, asked, endpoint=served.url)
    assert list(found.files) == STEPS[-2:]
    (fault,) = found.faults
    assert f"{REPO} has no ref like 'stage1-step{{step}}-tokens{{tokens}}B' of steps 20000, 21000; " in fault
    assert fault.endswith(f"nearest: {STEPS[-1]}")
    assert len(found.table.rows) == len(STEPS) + 3, "what is there is listed all the same"


def test_of_listed_revisions_each_missing_one_is_named_with_the_nearest(served):
    asked = [STEPS[1], "main", "stage1-step1O00-tokens2B", "mian", "main"]
    found = resolve("tiny", REPO, asked, endpoint=served.url)
    assert [row.ref for row in found.table.rows if row.bytes] == [STEPS[1], "main"]
    first, second = found.faults
    assert f"{REPO} has no ref 'stage1-step1O00-tokens2B'; nearest of its 23 refs: " in first
    assert STEPS[1] in first
    assert second.endswith("has no ref 'mian'; nearest of its 23 refs: main")


def test_sizes_of_an_earlier_list_are_kept_where_the_commit_is_the_same(served, tmp_path):
    earlier = resolve("tiny", REPO, ["main", *STEPS[:2]], endpoint=served.url).table
    add_revision(served.root, REPO, "main", checkpoint(tmp_path / "moved", **{"config.json": b"{}"}))
    again = resolve("tiny", REPO, [STEPS[5]], known=earlier, endpoint=served.url).table
    assert [row.ref for row in again.rows if row.bytes] == [*STEPS[:2], STEPS[5]]
    other = revisions.Table("lab/other", earlier.rows)
    alone = resolve("tiny", REPO, [STEPS[5]], known=other, endpoint=served.url).table
    assert [row.ref for row in alone.rows if row.bytes] == [STEPS[5]]


def test_a_commit_is_a_revision_too_and_one_that_is_not_there_is_a_fault(served):
    commit = commits(served)[STEPS[3]]
    found = resolve("tiny", REPO, [commit, "0" * 40], endpoint=served.url)
    assert found.table.by_ref[commit].commit == commit
    assert found.table.by_ref[commit].bytes == SIZE
    assert "0" * 40 not in found.table.by_ref
    (fault,) = found.faults
    assert f"{REPO} at '{'0' * 40}': there is no such branch, tag or commit" in fault


def test_a_revision_without_safetensors_is_told_before_anything_is_fetched(served, tmp_path):
    folder = checkpoint(tmp_path / "pickled")
    (folder / "model.safetensors").unlink()
    add_revision(served.root, REPO, "old", folder)
    (fault,) = resolve("tiny", REPO, ["old", "main"], endpoint=served.url).faults
    assert fault.startswith("models.tiny.revisions: old: weights: only pytorch_model.bin, which can run code")


def test_shards_are_counted_all_without_reading_their_index(served, tmp_path):
    shards = {f"model-0000{n}-of-00002.safetensors": b"shard" * (100 * n) for n in (1, 2)}
    folder = checkpoint(tmp_path / "sharded", **shards, **{"model.safetensors.index.json": b"{}"})
    (folder / "model.safetensors").unlink()
    add_revision(served.root, REPO, "sharded", folder)
    found = resolve("tiny", REPO, ["sharded"], endpoint=served.url)
    assert found.table.by_ref["sharded"].bytes == SIZE - 7000 + 500 + 1000 + 2
    assert served.count("index.json") == 0


def test_byte_identical_revisions_are_told_apart_from_others(served, tmp_path):
    for ref in ("step30", "step40"):
        add_revision(served.root, REPO, ref, checkpoint(tmp_path / ref, **{"tokenizer.json": ref.encode()}))
    found = resolve("tiny", REPO, ["step40", STEPS[0], "step30", STEPS[1]], endpoint=served.url)
    assert found.twins == [["step30", "step40"]]
    assert "  the same weights, byte for byte: step30, step40\n" in report([found], 20)


def test_a_busy_hub_is_asked_again_and_a_missing_repository_named(served):
    served.fail("/refs", status=429, headers={"Retry-After": "0"})
    served.fail(f"/revision/{STEPS[0]}", cut_after=0)
    assert list(resolve("tiny", REPO, [STEPS[0]], endpoint=served.url).files) == [STEPS[0]]
    with pytest.raises(CheckpointError, match=r"hub repository lab/tinny: no such repository, or it is priv"):
        resolve("tiny", "lab/tinny", ["main"], endpoint=served.url)


def test_a_hub_that_breaks_off_half_way_is_an_error_and_not_a_missing_revision(served):
    served.fail(f"/revision/{STEPS[1]}", status=503, times=9)
    with pytest.raises(CheckpointError, match="the hub answered 503"):
        resolve("tiny", REPO, STEPS[:4], endpoint=served.url)
    assert served.count(f"/revision/{STEPS[2]}") == 0


# the estimate


def test_the_estimate_counts_what_is_shared_once_and_what_is_cached_not_at_all(served, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda place: type("Usage", (), {"free": 10_000})())
    monkeypatch.setattr("strataprobe.checkpoints.disk.SPARE_BYTES", 0)
    found = resolve("tiny", REPO, STEPS[:4], endpoint=served.url)
    small = SIZE - 7000
    said = report([found], 0.001)
    assert f"tiny ({REPO}): 4 of 23 refs, {size(4 * 7000 + small)}; all are listed in resources/rev" in said
    assert f"to fetch  {size(4 * 7000 + small)}; 0 bytes are in the hub's cache already" in said
    assert f"{size(4 * 7000 + small)} where all are kept, {size(SIZE)} for the largest" in said
    assert "The disk cannot hold all of it at once" in said
    assert "less than a minute at 0.001 MB/s" in said
    fetch(REPO, found.table.by_ref[STEPS[2]].commit, endpoint=served.url)
    again = resolve("tiny", REPO, STEPS[:4], endpoint=served.url)
    said = report([again], 0.00007)
    assert f"to fetch  {size(3 * 7000)}; {size(7000 + small)} are in the hub's cache already" in said
    assert "time      5 min at 7e-05 MB/s" in said
    assert f"on disk   {size(4 * 7000 + small)} where all are kept" in said
    twice = report([again, again], 1)
    assert f"to fetch  {size(3 * 7000)};" in twice, "two models of one repository fetch it once"
    assert "all models: 8 revisions" in twice


def test_names_of_no_scheme_are_said_to_be_ordered_by_name(served):
    said = report([resolve("tiny", REPO, ["main"], endpoint=served.url)], 20)
    assert "  no known scheme, so ordered by name: v1.0\n" in said


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (5_940_000_000, "5.9 GB")]
)
def test_sizes_are_in_the_largest_unit(count, said):
    assert size(count) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "less than a minute"), (31, "1 min"), (3599, "1 h 0 min"), (12_180, "3 h 23 min")],
)
def test_durations_are_in_hours_and_minutes(seconds, said):
    assert duration(seconds) == said


# the script, and pinning by the list


def run(served: HubServer, monkeypatch: pytest.MonkeyPatch, *models: dict) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", served.url)
    monkeypatch.setattr(
        "strataprobe.checkpoints.resolve.resolve",
        lambda *given, **known: resolve(*given, **known, endpoint=served.url),
    )
    script.main(models, 20.0, logging.getLogger("strataprobe"))


def test_one_model_s_fault_leaves_the_lists_of_the_others_and_its_own_is_as_it_was(served, monkeypatch):
    place = Path(revisions.place("gone"))
    place.parent.mkdir(parents=True)
    place.write_text("as it was")
    with pytest.raises(CheckpointError) as caught:
        run(
            served,
            monkeypatch,
            {"model": "gone", "repo": "lab/gone", "revisions": {"every": 2, "matching": None}},
            {"model": "tiny", "repo": REPO, "revisions": ["main", "mian"]},
        )
    title, gone, missing = str(caught.value).split("\n")
    assert title == "revisions that the hub does not have as asked: 2 problems"
    assert gone.startswith("  models.gone: hub repository lab/gone: no such repository")
    assert missing.startswith(f"  models.tiny.revisions: {REPO} has no ref 'mian'")
    assert place.read_text() == "as it was"
    table = revisions.read(revisions.place("tiny"), "list", [])
    assert (table.repo, len(table.rows)) == (REPO, 23)


def test_a_study_without_a_model_of_the_hub_has_nothing_to_resolve(served, monkeypatch, caplog):
    with caplog.at_level(logging.INFO, "strataprobe"):
        run(served, monkeypatch)
    assert caplog.messages == ["there is no model whose revisions the hub lists"]


def test_a_ref_is_pinned_where_it_is_as_listed_and_refused_where_it_moved(served, tmp_path):
    before = resolve("tiny", REPO, ["main"], endpoint=served.url).table.by_ref["main"].commit
    assert pin(REPO, "main", commit=before, endpoint=served.url)["commit"] == before
    moved = add_revision(served.root, REPO, "main", checkpoint(tmp_path / "new", **{"config.json": b"{}"}))
    with pytest.raises(CheckpointError) as caught:
        pin(REPO, "main", commit=before, endpoint=served.url)
    said = str(caught.value)
    assert f"{REPO} at 'main': it was {before} when its revisions were listed, and is {moved} now." in said
    assert pin(REPO, before, commit=before, endpoint=served.url)["ref"] == before
