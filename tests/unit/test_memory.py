"""Memory: what is freed stays with the process; what a model needs is checked before it is loaded."""

import json
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import save_file

from strataprobe import lm as lm_room
from strataprobe.errors import ModelError
from strataprobe.lm import loading
from strataprobe.lm.estimate import DTYPES, Asked, batch_bytes, check_fits, needs
from strataprobe.lm.free import free_memory, group_memory
from strataprobe.lm.placement import Placement
from strataprobe.lm.stored import Size, Stored, read_sizes
from tests.tiny_models import FAMILIES, save_tiny_model

FAULTS = """
import resource, sys
import runpy
# By its path: importing the package would import torch.
memory = runpy.run_path("workflow_scripts/strataprobe/lm/memory.py")
if sys.argv[1] == "keep" and not memory["keep_freed_memory"]():
    print("impossible"); sys.exit()
import numpy as np
np.ones(5_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    np.ones(5_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(mode: str) -> str:
    """Page faults of five temporaries of 40 MB, after a first one."""
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", FAULTS, mode]
    environment = {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment, cwd=root
    ).stdout.strip()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_large_temporaries_are_not_paged_in_anew():
    kept = faults("keep")
    if kept == "impossible":
        pytest.skip("not glibc")
    # Huge pages would make both counts small; then there is nothing to save.
    plain = int(faults("plain"))
    assert int(kept) <= plain / 5 or plain < 1000


def test_without_glibc_it_says_so_and_goes_on(monkeypatch):
    from strataprobe.lm import memory

    monkeypatch.setattr(sys, "platform", "darwin")
    assert memory.keep_freed_memory() is False


GB = 10**9


def asked(dtype="float32", device="cpu", placement=None, batch_tokens=0, workers=1, visible=1):
    return Asked(dtype, device, Placement.of(placement), batch_tokens, workers, visible)


def free(**there):
    """Bytes by device, of the GPU 0 as `gpu`."""
    return lambda device: there["gpu" if device == 0 else device]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_sizes_from_headers_are_those_of_the_loaded_model(family, dtype, tmp_path):
    save_tiny_model(family, tmp_path, layers=3)
    lm = lm_room.load(tmp_path, dtype=dtype, device="cpu")
    stored = read_sizes(tmp_path, DTYPES[dtype])
    each = lm.model.parameters()  # a tied weight once
    assert stored.all.total == sum(weight.numel() * weight.element_size() for weight in each)
    blocks = [sum(w.numel() * w.element_size() for w in block.parameters()) for block in lm.blocks]
    assert [block.total for block in stored.blocks] == blocks
    # What has the dtype of the file is mapped; half precision is made anew.
    assert stored.all.converted == (0 if dtype == "float32" else stored.all.total)


def test_sizes_of_shards_and_experts_are_summed_by_block(tmp_path):
    (tmp_path / "config.json").write_text('{"hidden_size": 4}')
    shards = {
        "a": {f"model.layers.0.mlp.experts.{n}.w": torch.zeros(10, dtype=torch.bfloat16) for n in range(3)},
        "b": {
            "model.layers.0.mlp.experts.3.w": torch.zeros(10),
            "model.layers.1.mlp.w": torch.zeros(7, dtype=torch.int8),
            "head": torch.zeros(5),
        },
    }
    index = {}
    for name, tensors in shards.items():
        save_file(tensors, tmp_path / f"{name}.safetensors")
        index |= dict.fromkeys(tensors, f"{name}.safetensors")
    assert read_sizes(tmp_path, torch.float32) is None
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    stored = read_sizes(tmp_path, torch.float32)
    assert stored.blocks == (Size(160, 120), Size(7, 0))
    assert stored.rest == Size(20, 0)
    assert read_sizes(tmp_path, torch.bfloat16).blocks == (Size(80, 20), Size(7, 0))


STORED = Stored(Size(2 * GB, 2 * GB), (Size(GB, GB),) * 4 + (Size(3 * GB, 3 * GB),))


@pytest.mark.parametrize(
    ("device", "placement", "needed"),
    [
        ("cpu", None, {"cpu": 9}),
        ("cuda", None, {0: 9, "cpu": 9}),
        ("mps", None, {"mps": 9, "cpu": 9}),
        ("cpu", {"weights": "blockwise"}, {"cpu": 5}),
        ("cuda", {"weights": "blockwise"}, {0: 5}),
        ("cuda", {"weights": "spread", "gpus": 3}, {0: 5, 1: 0}),
        ("cpu", {"weights": "spread", "cpu_mb": 0}, {"cpu": 5}),
        ("cpu", {"weights": "spread", "cpu_mb": 10**6}, {"cpu": 9}),
    ],
)
def test_what_is_needed_is_what_lies_there_at_the_same_time(device, placement, needed):
    found = needs(STORED, 7, asked(device=device, placement=placement, visible=2))
    assert {name: need.weights / GB for name, need in found.items()} == needed
    assert all(need.batch == 7 for name, need in found.items() if name == device or isinstance(name, int))


def test_mapped_weights_do_not_count_on_a_cpu_and_do_on_a_gpu():
    mapped = Stored(Size(GB), (Size(GB),) * 3)
    assert needs(mapped, 0, asked())["cpu"].total == 0
    on_gpu = needs(mapped, 0, asked(device="cuda"))
    assert {name: need.total for name, need in on_gpu.items()} == {0: 4 * GB, "cpu": 0}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return save_tiny_model("llama", tmp_path_factory.mktemp("llama"), layers=8, hidden=64)


def test_a_model_that_does_not_fit_is_refused_with_settings_that_do(tiny):
    whole = needs(read_sizes(tiny, torch.float32), 0, asked(device="cuda"))[0].total
    with pytest.raises(ModelError) as refused:
        check_fits(tiny, asked(device="cuda"), free(gpu=whole - 1, cpu=GB))
    check_fits(tiny, asked(device="cuda"), free(gpu=whole, cpu=GB))
    text = str(refused.value)
    assert f"{tiny}: is not loaded, since it does not fit" in text
    assert re.search(r"cuda:0: \d+ MB are needed \(\d+ MB of weights in float32\), \d+ MB are free", text)
    offered = re.findall(r"^  (?=dtype|placement)(.*): needs (\d+) MB on cuda:0", text, re.M)
    assert [setting for setting, _ in offered] == [
        "dtype: bfloat16",
        "placement: {weights: spread}",
        "dtype: bfloat16 with placement: {weights: spread}",
        "placement: {weights: blockwise}",
        "dtype: bfloat16 with placement: {weights: blockwise}",
    ]
    for setting, _ in offered:  # each of them is loaded where it says so
        dtype = "bfloat16" if "bfloat16" in setting else "float32"
        weights = re.search(r"weights: (\w+)", setting)
        chosen = {"weights": weights[1]} if weights else None
        check_fits(tiny, asked(dtype, "cuda", chosen), free(gpu=whole - 1, cpu=GB))


def test_batches_count_and_smaller_ones_are_offered(tiny):
    one = batch_bytes(tiny, asked(batch_tokens=4096))
    assert batch_bytes(tiny, asked(batch_tokens=4096, workers=3)) == 3 * one
    assert batch_bytes(tiny, asked("bfloat16", batch_tokens=1024)) == one // 8
    with pytest.raises(ModelError) as refused:
        check_fits(tiny, asked(batch_tokens=4096), free(cpu=one // 2))
    text = str(refused.value)
    assert "for batches of 4096 tokens" in text
    assert "\n  capture.batch_tokens: 1024: needs" in text
    assert "memory_mb: " in text
    with pytest.raises(ModelError, match="memory_mb"):
        check_fits(tiny, asked(batch_tokens=4096), free(cpu=0))


def test_a_model_is_refused_before_anything_is_loaded(tiny, monkeypatch):
    monkeypatch.setattr(loading, "free_memory", lambda _device: 1000)
    monkeypatch.setattr(loading, "_read_model", lambda *_: pytest.fail("it was loaded"))
    with pytest.raises(ModelError, match="does not fit"):
        lm_room.load(tiny, dtype="bfloat16", device="cpu")


def test_mapped_weights_beyond_memory_are_loaded_with_a_warning(tiny, monkeypatch, caplog):
    monkeypatch.setattr(loading, "free_memory", lambda _device: 1000)
    lm_room.load(tiny, dtype="float32", device="cpu")
    assert "read them from the disk anew for each batch" in caplog.text
    caplog.clear()
    monkeypatch.undo()
    lm_room.load(tiny, dtype="float32", device="cpu")
    assert caplog.text == ""


def group(root, version, **folders):
    """A tree of control groups as a system shows it: folder -> (limit, used, file pages)."""
    names = {
        2: ("memory.max", "memory.current", "inactive_file"),
        1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    }[version]
    mount = root / "sys/fs/cgroup" / ("memory" if version == 1 else "")
    for folder, (limit, used, pages) in folders.items():
        place = mount / folder.replace("_", "/")
        place.mkdir(parents=True)
        (place / names[0]).write_text(f"{limit}\n")
        (place / names[1]).write_text(f"{used}\n")
        (place / "memory.stat").write_text(f"anon 5\n{names[2]} {pages}\n")
    own = root / "proc/self/cgroup"
    own.parent.mkdir(parents=True)
    own.write_text("0::/job/step\n" if version == 2 else "9:cpu:/else\n4:cpuset,memory:/job/step\n0::/\n")


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_left_is_the_least_of_all_limits_above_without_pages_of_files(version, tmp_path):
    group(tmp_path, version, job=(1000, 700, 200), job_step=(900, 100, 0))
    assert group_memory(tmp_path) == 1000 - 700 + 200


def test_without_a_limit_the_system_says_what_there_is(tmp_path):
    group(tmp_path, 2, job=("max", 700, 200))
    assert group_memory(tmp_path) is None
    assert group_memory(tmp_path / "nowhere") is None
    assert 0 < free_memory("cpu") <= psutil.virtual_memory().total


def test_a_limit_bounds_what_the_system_has(monkeypatch):
    from strataprobe.lm import free as room

    monkeypatch.setattr(room, "group_memory", lambda: 1234)
    assert room.free_memory("cpu") == 1234


def test_half_precision_is_kept_and_said_to_be_slow_where_a_cpu_has_no_unit_for_it(tiny, monkeypatch, caplog):
    for there, warned in (({"avx2": True}, True), ({"avx512_bf16": True}, False), ({"bf16": True}, False)):
        caplog.clear()
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda there=there: there)
        assert lm_room.load(tiny, dtype="bfloat16", device="cpu").model.dtype == torch.bfloat16
        assert ("no unit for bfloat16" in caplog.text) is warned
