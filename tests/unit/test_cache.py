"""A cache is complete, checked, byte-stable, and bound to what it was made from."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from strataprobe import cache
from strataprobe.errors import CacheError, StrataprobeError
from tests import synthetic

SCRIPTS = Path(__file__).parents[2] / "workflow_scripts"


def everything(path):
    with cache.open_activations(path) as acts:
        stacks = [acts.stack(position).tobytes() for position in acts.positions]
        lists = [acts.labels.tolist(), acts.pairs.tolist(), acts.token_counts.tolist()]
        return stacks, acts.ids, acts.groups, lists, acts.positions, acts.layers, acts.provenance


def test_what_was_written_is_read_back(tmp_path):
    states = synthetic.write_cache(tmp_path / "a.h5", layers=3, pairs=70, hidden=5)
    with cache.open_activations(tmp_path / "a.h5") as acts:
        assert np.array_equal(acts.stack("mean_rest"), states)
        assert np.array_equal(acts.stack("mean"), 2 * states)
        assert acts.stack("mean").dtype == np.float32
        assert acts.ids == synthetic.make_ids(140)
        assert acts.labels.tolist() == [1, -1] * 70
        assert acts.pairs.tolist() == [item // 2 for item in range(140)]
        assert acts.groups == [f"g{item // 2 % 2}" for item in range(140)]
        assert acts.token_counts.tolist() == list(range(3, 143))
        assert acts.provenance == synthetic.PROVENANCE
        assert acts.n_layers == 3


def test_every_layer_is_checked_once(tmp_path):
    """A property list shared by all layers held one more checksum for each, so the last took 31 to read."""
    synthetic.write_cache(tmp_path / "a.h5", layers=3, pairs=70, hidden=5)
    with h5py.File(tmp_path / "a.h5") as file:
        filters = {name: file[name].id.get_create_plist().get_nfilters() for name in file if name != "items"}
        assert filters == {"layer_00": 1, "layer_01": 1, "layer_02": 1}
        assert all(file[name].fletcher32 for name in filters)


def test_names_keep_umlauts_and_other_scripts(tmp_path):
    states, labels = synthetic.make_states(layers=1, pairs=1)
    ids, groups = ["größer:positive", "更大:negative"], ["fürsorge", ""]
    with cache.create(
        tmp_path / "a.h5", ids=ids, labels=labels, groups=groups, pairs=np.zeros(2), layers=["layer_00"],
        positions=["mean", "mean_rest"], hidden_size=16, provenance={},
    ) as writer:  # fmt: skip
        writer.write(*next(synthetic.make_windows(states)))
    with cache.open_activations(tmp_path / "a.h5") as acts:
        assert acts.ids == ids
        assert acts.groups == groups


@pytest.mark.parametrize("window", [1, 7, 64, 100])
def test_streamed_windows_give_the_bytes_of_one_write(tmp_path, window):
    synthetic.write_cache(tmp_path / "one.h5", pairs=70)
    synthetic.write_cache(tmp_path / "many.h5", pairs=70, window=window)
    assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "many.h5").read_bytes()


def test_the_same_states_give_the_same_bytes_in_another_process_and_folder(tmp_path):
    synthetic.write_cache(tmp_path / "a.h5")
    code = "import sys; from tests import synthetic; synthetic.write_cache(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "elsewhere" / "b.h5")],
        env={"PYTHONPATH": f"{SCRIPTS}:{SCRIPTS.parent}", "PYTHONHASHSEED": "7"},
        check=True,
    )
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "elsewhere" / "b.h5").read_bytes()


def test_a_damaged_byte_of_a_layer_is_found_and_the_layer_named(tmp_path):
    path = tmp_path / "a.h5"
    states = synthetic.write_cache(path)
    raw = bytearray(path.read_bytes())
    place = raw.index(states[2, 5].tobytes())
    raw[place + 3] ^= 1
    path.write_bytes(raw)
    with cache.open_activations(path) as acts, pytest.raises(CacheError, match=r"a\.h5: layer_02 is damaged"):
        acts.stack("mean_rest")


def test_any_damaged_byte_is_one_clear_error_or_harmless(tmp_path):
    path = tmp_path / "a.h5"
    synthetic.write_cache(path, layers=2, pairs=3, hidden=4)
    good, raw = everything(path), path.read_bytes()
    messages = []
    for place in range(0, len(raw), 17):
        damaged = bytearray(raw)
        damaged[place] ^= 0x55
        path.write_bytes(damaged)
        try:
            assert everything(path) == good, f"byte {place} went unnoticed"
        except CacheError as error:
            messages.append(str(error))
    assert len(messages) > 150
    assert all(message.startswith(str(path)) for message in messages)


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.999])
def test_a_truncated_file_is_named(tmp_path, share):
    path = tmp_path / "a.h5"
    synthetic.write_cache(path)
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * share)])
    with pytest.raises(CacheError, match=r"a\.h5 is damaged"), cache.open_activations(path):
        pass


def test_a_stale_cache_says_all_that_differs(tmp_path):
    synthetic.write_cache(tmp_path / "a.h5")
    expect = {**synthetic.PROVENANCE, "weights_sha256": "c" * 64, "dtype": "bfloat16"}
    with pytest.raises(CacheError) as caught, cache.open_activations(tmp_path / "a.h5", expect):
        pass
    message = str(caught.value)
    assert "2 problems" in message
    assert f"weights_sha256: the cache has '{'a' * 64}', wanted is '{'c' * 64}'" in message
    assert "dtype: the cache has None, wanted is 'bfloat16'" in message
    assert "dataset_sha256" not in message
    with cache.open_activations(tmp_path / "a.h5", {"dataset_sha256": "b" * 64}) as acts:
        assert acts.n_layers == 4


def test_altered_provenance_is_noticed(tmp_path):
    synthetic.write_cache(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file.attrs["provenance"] = file.attrs["provenance"].replace("a" * 64, "c" * 64)
    with pytest.raises(CacheError, match="provenance was altered"), cache.open_activations(tmp_path / "a.h5"):
        pass


def test_a_file_that_is_no_cache_is_refused_by_name(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = 1
    for name in ("other.h5", "missing.h5"):
        with pytest.raises(CacheError, match=name), cache.open_activations(tmp_path / name):
            pass


def test_a_read_only_folder_is_no_hindrance(tmp_path):
    if os.getuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("setpriv is not here, and root may write anywhere")
    folder = tmp_path / "readonly"
    synthetic.write_cache(folder / "a.h5")
    for place in (tmp_path, *tmp_path.parents[:3]):
        if os.getuid() == 0:
            place.chmod(place.stat().st_mode | 0o055)  # so that nobody gets there at all
    (folder / "a.h5").chmod(0o444)
    folder.chmod(0o555)
    code = (
        "import os, sys; from strataprobe import cache\n"
        "assert not os.access(os.path.dirname(sys.argv[1]), os.W_OK)\n"
        "with cache.open_activations(sys.argv[1]) as acts: print(acts.stack('mean').shape)"
    )
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.getuid() == 0 else []
    done = subprocess.run(
        [*nobody, sys.executable, "-c", code, str(folder / "a.h5")],
        env={"PYTHONPATH": str(SCRIPTS), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    folder.chmod(0o755)
    assert done.stdout == "(4, 80, 16)\n", done.stderr
    assert [path.name for path in folder.iterdir()] == ["a.h5"]


def write(path, change, items=40):
    """Write a cache whose windows are changed on the way: `change` returns a window's layers, or None."""
    states, labels = synthetic.make_states(pairs=items // 2)
    with synthetic.writing(path, states, labels) as writer:
        for start, layers, counts in synthetic.make_windows(states, 10):
            written = change(start, layers)
            if written is not None:
                writer.write(start, written, counts)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda start, layers: layers if start < 30 else None, "30 of 40 items were captured"),
        (lambda start, layers: layers if start != 10 else None, "window starts at item 20"),
        (lambda _, layers: {**layers, "layer_02": layers["layer_02"] * np.float32(np.nan)},
         "layer_02 holds a value that is not finite; capture it in float32"),
        (lambda _, layers: {**layers, "layer_02": layers["layer_02"] / np.float32(0)}, "layer_02 holds a"),
        (lambda _, layers: {k: v for k, v in layers.items() if k != "layer_01"}, "expected ..*layer_01"),
        (lambda _, layers: {name: values[:1] for name, values in layers.items()}, "layer_00 is "),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_what_is_incomplete_or_not_finite_leaves_no_file(tmp_path, change, said):
    with pytest.raises(CacheError, match=said):
        write(tmp_path / "a.h5", change)
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_capture_is_not_said_to_be_about_the_file(tmp_path):
    def out_of_memory(*window):
        raise RuntimeError("CUDA out of memory")

    with pytest.raises(RuntimeError, match="CUDA out of memory"):
        write(tmp_path / "a.h5", out_of_memory)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_error_that_names_the_cache(tmp_path):
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a 1 MB tmpfs cannot be mounted here (needs root)")
    try:
        with pytest.raises(StrataprobeError, match=r"cannot write .*a\.h5: No space left on device$"):
            write(
                tmp_path / "a.h5",
                lambda *window: pytest.fail("captured before the disk was found full"),
                4000,
            )
        assert list(tmp_path.iterdir()) == []
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_what_is_not_stored_is_named_with_what_is(tmp_path):
    synthetic.write_cache(tmp_path / "a.h5")
    with cache.open_activations(tmp_path / "a.h5") as acts:
        with pytest.raises(CacheError, match=r"'last' is not stored; there are \['mean', 'mean_rest'\]"):
            acts.stack("last")
        with pytest.raises(CacheError, match="embed: true"):
            acts.embed("mean")
    with pytest.raises(CacheError), cache.open_activations(tmp_path / "b.h5"):
        pass
