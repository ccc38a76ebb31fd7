"""A results folder that cannot be written, or is full: a clear error, and nothing lost."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

from tests.workflow.study import capturing, drawing, measuring
from tests.workflow.trees import PLUGINS, Tree, differing, errors, half_files

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@pytest.fixture
def open_place():
    """A folder that any user can reach; those of pytest are for their owner only."""
    with tempfile.TemporaryDirectory(prefix="strataprobe-") as place:
        Path(place).chmod(0o755)
        yield Path(place)


def nobody() -> tuple[list[str], dict[str, str]]:
    """How to start Python as nobody, and the variables to do so with.

    Jobs start Python through a shell. Where the environment's own interpreter lies in a folder that nobody
    can enter, the system's one of the same version runs the same packages.
    """
    if os.geteuid() != 0:
        pytest.skip("needs root, to become nobody")
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv, to become nobody")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = os.pathsep.join([str(PLUGINS), sysconfig.get_path("purelib")])
    for python, path in ((sys.executable, str(PLUGINS)), (f"/usr/bin/{version}", packages)):
        command = [*NOBODY, "sh", "-c", f"{python} -c 'import matplotlib, snakemake, yaml'"]
        variables = {**os.environ, "PYTHONPATH": path}
        if subprocess.run(command, env=variables, capture_output=True, check=False).returncode == 0:
            return [*NOBODY, python], {"PYTHONPATH": path}
    return pytest.skip(f"needs an environment that nobody can read: {sys.executable}")


def test_an_unwritable_results_folder_is_named_and_stays_as_it_is(finished, open_place):
    prefix, variables = nobody()
    how = {"prefix": prefix, "variables": variables}
    study = finished.copy(open_place / "study")
    study.remove("results/figures/depth.*")
    (open_place / "caches").mkdir()
    there = study.results()
    subprocess.run(["chown", "-R", "65534:65534", str(open_place)], check=True)
    subprocess.run(["chown", "-R", "0:0", str(study / "results")], check=True)
    subprocess.run(["chmod", "-R", "u=rwX,go=rX", str(study / "results")], check=True)

    run = study.run("results/figures/depth.svg", fails=True, **how)
    (error,) = errors(run.output)
    assert error == "cannot write results/figures/depth.svg: Permission denied"
    new_seed = "results/probes/tiny/step0000/size/seed44"
    new = study.run(f"{new_seed}/layer00.json", fails=True, **how)
    assert f"Failed to create output directory {new_seed}" in new.output
    assert "Traceback" not in run.output + new.output
    assert study.results() == there

    subprocess.run(["chown", "-R", "65534:65534", str(study / "results")], check=True)
    assert study.run("results/figures/depth.svg", **how).done == drawing(["depth"])
    assert differing(study.results(), finished.results()) == []


@pytest.fixture
def full_study(study):
    """The study with its results on a disk of 1 MB that has no room left."""
    if shutil.which("mount") is None:
        pytest.skip("needs mount")
    results = study / "results"
    kept = study / "kept"
    results.rename(kept)
    results.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(results)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        for part in ("checkpoints", "activations", "probes", "fragility"):
            _copy_size(kept, results, part)
        yield study
    finally:
        subprocess.run(["umount", "-l", str(results)], check=True)


def _copy_size(kept: Path, results: Path, part: str) -> None:
    """The files of the dataset `size` at step0000 and step0200, their times kept."""
    for path in sorted((kept / part).rglob("*")):
        parts = path.relative_to(kept / part).parts
        wanted = part == "checkpoints" or path.name == "size.h5" or "size" in parts
        if path.is_file() and wanted and "step0100" not in path.as_posix():
            target = results / part / Path(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)


def fill(folder: Path) -> Path:
    """Take all room there is."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as handle:
        try:
            while True:
                handle.write(bytes(4096))
        except OSError:
            pass
    return filler


def test_a_full_disk_is_named_and_the_same_command_finishes_once_there_is_room(full_study, finished):
    study: Tree = full_study
    cache = "results/activations/tiny/step0000/size.h5"
    curve = "results/fragility/tiny/step0200/size/seed42/summary.json"
    study.remove(cache, curve)
    before = study.results()
    for wanted in (cache, curve):
        filler = fill(study / "results")
        run = study.run(wanted, fails=True)
        assert len(errors(run.output)) == 1
        assert f"cannot write {wanted.rpartition('/')[0]}/" in errors(run.output)[0]
        assert "No space left on device" in errors(run.output)[0]
        assert "Traceback" not in run.output
        assert half_files(study) == []
    now = study.results()
    gone = "fragility/tiny/step0200/size/seed42/"
    assert [name for name in differing(now, before) if not name.startswith(("filler", gone))] == []

    filler.unlink()
    expected = capturing(["step0000"], ["size"])
    expected |= measuring(["measure_fragility"], ["step0200"], ["size"], [42])
    assert study.run(cache, curve).done == expected
    made = finished.results()
    assert [name for name, sha in study.results().items() if made[name] != sha] == []
    assert (study / cache).exists()
    assert (study / curve).exists()
