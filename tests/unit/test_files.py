"""Files are complete or absent, whatever ends the job that writes them."""

import errno
import hashlib
import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strataprobe import files
from strataprobe.errors import StrataprobeError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
).filter(lambda value: "\\ud" not in json.dumps(value))


@pytest.fixture
def tiny_disk(tmp_path):
    """A folder on a file system of 1 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a 1 MB tmpfs cannot be mounted here (needs root)")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def dead_process():
    """The number of a process that is no longer there."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def stopped(target, kind, write):
    """A writer that fails on its way."""
    with files.atomic(target) as place:
        write(place)
        raise kind("stop")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_absent_until_its_block_ends(tmp_path):
    target = tmp_path / "deep" / "a.json"
    with files.atomic(target) as place:
        place.write_text("new")
        assert not target.exists()
        assert place.suffix == ".json"
    assert target.read_text() == "new"
    assert names(target.parent) == ["a.json"]


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, StrataprobeError])
def test_an_exception_leaves_the_old_file_and_nothing_else(tmp_path, kind):
    target = tmp_path / "a.json"
    target.write_text("old")
    with pytest.raises(kind):
        stopped(target, kind, lambda place: place.write_text("half"))
    assert target.read_text() == "old"
    assert names(tmp_path) == ["a.json"]


def test_a_directory_replaces_the_old_one_whole(tmp_path):
    target = tmp_path / "step0100"
    target.mkdir()
    (target / "old.txt").write_text("old")
    with files.atomic(target) as place:
        place.mkdir()
        (place / "new.txt").write_text("new")
        assert names(target) == ["old.txt"]
    assert names(target) == ["new.txt"]
    assert names(tmp_path) == ["step0100"]


def test_a_block_that_makes_nothing_does_not_cost_the_old_directory(tmp_path):
    target = tmp_path / "step0100"
    target.mkdir()
    (target / "old.txt").write_text("old")
    with pytest.raises(StrataprobeError, match="step0100"), files.atomic(target):
        pass
    assert names(target) == ["old.txt"]
    assert names(tmp_path) == ["step0100"]


def test_a_half_made_directory_goes_with_its_exception(tmp_path):
    def half(place):
        place.mkdir()
        (place / "half.txt").write_text("half")

    with pytest.raises(ValueError, match="stop"):
        stopped(tmp_path / "d", ValueError, half)
    assert names(tmp_path) == []


@pytest.mark.parametrize("directory", [False, True])
def test_only_what_a_dead_process_left_is_swept(tmp_path, directory):
    target = tmp_path / "a.h5"
    with files.atomic(target) as place:
        left = place.name
        place.write_text("x")
    own, dead = str(os.getpid()), str(dead_process())
    stale = tmp_path / left.replace(f"-{own}-", f"-{dead}-")
    alive = tmp_path / left.replace(f"-{own}-", f"-{os.getppid()}-")
    other = tmp_path / stale.name.replace(".a.", ".b.")
    for path in (stale, alive, other):
        path.mkdir() if directory else path.write_text("left")
    with files.atomic(target) as place:
        place.write_text("y")
    assert names(tmp_path) == sorted(["a.h5", alive.name, other.name])


def test_a_killed_writer_leaves_the_old_file_and_the_next_try_cleans_up(tmp_path):
    target = tmp_path / "a.json"
    target.write_text("old")
    code = (
        "import os, signal, sys; from strataprobe import files\n"
        "with files.atomic(sys.argv[1]) as place:\n"
        "    place.write_text('half'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    path = [p for p in sys.path if p.endswith("workflow_scripts")]
    subprocess.run([sys.executable, "-c", code, str(target)], env={"PYTHONPATH": path[0]}, check=False)
    assert target.read_text() == "old"
    assert len(names(tmp_path)) == 2
    files.write_json(target, {"new": 1})
    assert names(tmp_path) == ["a.json"]


def test_a_full_disk_is_one_error_that_names_the_file_and_keeps_the_old_one(tiny_disk):
    target = tiny_disk / "a.json"
    target.write_text("old")
    with pytest.raises(StrataprobeError, match=r"cannot write .*a\.json: No space left"):
        files.write_json(target, "x" * 2_000_000)
    assert target.read_text() == "old"
    assert names(tiny_disk) == ["a.json"]


def test_a_folder_that_is_a_file_is_named(tmp_path):
    (tmp_path / "folder").write_text("")
    with pytest.raises(StrataprobeError, match="folder"):
        files.write_json(tmp_path / "folder" / "a.json", 1)


def test_an_error_about_another_file_is_not_said_to_be_about_this_one(tmp_path):
    with pytest.raises(FileNotFoundError), files.atomic(tmp_path / "out" / "a.json"):
        raise FileNotFoundError(errno.ENOENT, "missing", str(tmp_path / "input.txt"))


@given(JSON)
def test_equal_objects_give_equal_json_that_reads_back(value):
    text = files.canonical_json(value)
    assert json.loads(text) == value
    assert files.canonical_json(json.loads(text)) == text


def test_the_order_of_keys_changes_neither_json_nor_its_checksum():
    one, two = {"a": 1, "b": [1.5, None]}, {"b": [1.5, None], "a": 1}
    assert files.canonical_json(one) == files.canonical_json(two)
    assert files.sha256_json(one) == files.sha256_json(two) != files.sha256_json({"a": 1})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [-float("inf")]])
def test_nan_never_reaches_a_json_file(tmp_path, value):
    with pytest.raises(ValueError, match="JSON"):
        files.write_json(tmp_path / "a.json", value)
    assert names(tmp_path) == []


def test_an_unreadable_json_file_is_named_with_the_place(tmp_path):
    (tmp_path / "a.json").write_text('{"a": 1,\n oops}')
    with pytest.raises(StrataprobeError, match=r"a\.json.*line 2"):
        files.read_json(tmp_path / "a.json")
    with pytest.raises(StrataprobeError, match=r"cannot read .*b\.json: No such file"):
        files.read_json(tmp_path / "b.json")


def test_checksums_are_those_of_sha256sum(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(os.urandom(3_000_001))
    said = subprocess.run(["sha256sum", str(path)], capture_output=True, text=True, check=True).stdout
    assert files.sha256_file(path) == said.split()[0]
    assert files.sha256_text("ü") == hashlib.sha256(b"\xc3\xbc").hexdigest()


def test_rows_stand_in_the_order_of_their_columns_with_numbers_in_full(tmp_path):
    rows = [{"b": 0.1 + 0.2, "a": "x, y"}, {"b": None, "a": ""}]
    files.write_rows(tmp_path / "deep" / "rows.csv", ("a", "b"), rows)
    assert (tmp_path / "deep" / "rows.csv").read_bytes() == b'a,b\n"x, y",0.30000000000000004\n,\n'
    with pytest.raises(ValueError, match="fields not in fieldnames"):
        files.write_rows(tmp_path / "rows.csv", ("a",), rows)
    assert not (tmp_path / "rows.csv").exists()
