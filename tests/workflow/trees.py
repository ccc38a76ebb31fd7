"""Copies of the project with a study in them, in which Snakemake really runs."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from strataprobe.files import sha256_file
from tests.workflow.study import job

PROJECT = Path(__file__).resolve().parents[2]
PLUGINS = Path(__file__).resolve().parent / "plugins"
PARTS = ("Snakefile", "rules", "workflow_scripts", "profiles", "report", "envs", "resources")
COLLECTIONS = (
    "all",
    "datasets",
    "fragility",
    "structure",
    "levels",
    "lucky_defaults",
    "interventions",
    "curation",
    "released",
)


@dataclass(frozen=True)
class Run:
    """What one call of Snakemake did: its exit code, all it said, and the jobs it started."""

    code: int
    output: str
    jobs: list[str]

    @property
    def done(self) -> set[str]:
        """The jobs, without the collections that only name what is wanted; none of them ran twice."""
        assert len(self.jobs) == len(set(self.jobs)), self.jobs
        return {name for name in self.jobs if name not in COLLECTIONS}


class Tree:
    """A copy of the project with a study in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def new(cls, path: Path) -> "Tree":
        path.mkdir(parents=True)
        for part in PARTS:
            source, target = PROJECT / part, path / part
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, target)
        return cls(path)

    def copy(self, path: Path) -> "Tree":
        """As it is, times of the files too."""
        subprocess.run(["cp", "-a", str(self.path), str(path)], check=True)
        return Tree(path)

    def __truediv__(self, relative: str) -> Path:
        return self.path / relative

    @property
    def config(self) -> dict[str, Any]:
        return yaml.safe_load((self / "config.yaml").read_text())

    @contextmanager
    def changed_config(self, name: str = "config.yaml") -> Iterator[dict[str, Any]]:
        config = self.config
        yield config
        (self / name).parent.mkdir(exist_ok=True)
        (self / name).write_text(yaml.safe_dump(config, sort_keys=False))

    def edit(self, relative: str, old: str, new: str) -> None:
        """Replace the one occurrence of a text in a file."""
        text = (self / relative).read_text()
        assert text.count(old) == 1, f"{relative}: {old!r} stands there {text.count(old)} times"
        (self / relative).write_text(text.replace(old, new))

    def remove(self, *relatives: str) -> None:
        """Remove what these patterns name under the tree; each must name something."""
        for relative in relatives:
            found = sorted(self.path.glob(relative))
            assert found, f"{relative}: nothing to remove"
            for path in found:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def results(self, *patterns: str) -> dict[str, str]:
        """SHA-256 by path of everything under results/, or of what the patterns name there.

        Benchmarks are left out: they hold times.
        """
        root = self / "results"
        paths = {path for pattern in patterns or ("**/*",) for path in root.glob(pattern)}
        return {
            str(path.relative_to(root)): sha256_file(path)
            for path in sorted(paths)
            if path.is_file() and path.relative_to(root).parts[0] != "benchmarks"
        }

    def start(
        self,
        *arguments: str,
        log: Path,
        cores: int = 2,
        prefix: Sequence[str] = (sys.executable,),
        variables: Mapping[str, str] | None = None,
    ) -> subprocess.Popen:
        """Snakemake in a process group of its own, with further environment variables."""
        snakemake = ["-m", "snakemake", "--logger", "jobs", "--cores", str(cores)]
        log.unlink(missing_ok=True)
        with log.open("w") as handle:
            return subprocess.Popen(
                [*prefix, *snakemake, *arguments],
                cwd=self.path,
                env={**self.environment(log), **(variables or {})},
                stdout=handle,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def environment(self, log: Path) -> dict[str, str]:
        """Of a run: caches beside the tree, and a fresh place for the jobs it starts."""
        caches = str(self.path.parent / "caches")
        jobs = log.with_suffix(".jobs")
        jobs.unlink(missing_ok=True)
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("SNAKEMAKE")},
            "HF_HUB_OFFLINE": "1",
            "HOME": caches,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(PLUGINS),
            "STRATAPROBE_TEST_JOBS": str(jobs),
            "XDG_CACHE_HOME": caches,
        }

    def run(self, *arguments: str, fails: bool = False, **how: Any) -> Run:
        """Run Snakemake to its end; the exit code must be the expected one."""
        log = self.path.parent / "run.log"
        process = self.start(*arguments, log=log, **how)
        try:
            process.wait(timeout=600)
        finally:
            if process.poll() is None:
                kill_group(process)
        run = Run(process.returncode, log.read_text(errors="replace"), started(log))
        assert (run.code != 0) == fails, run.output[-6000:]
        return run

    def plan(self, *arguments: str) -> set[str]:
        """The jobs a run would start."""
        return self.run("--dry-run", *arguments).done


def errors(text: str) -> list[str]:
    """The messages meant for the user, as jobs print them and their logs keep them."""
    return re.findall(r"^error: (.+(?:\n  .+)*)", text, flags=re.MULTILINE)


def started(log: Path) -> list[str]:
    """Names of the jobs that the run with this log started."""
    place = log.with_suffix(".jobs")
    records = map(json.loads, place.read_text().splitlines()) if place.exists() else ()
    return [job(record["rule"], **record["wildcards"]) for record in records]


def half_files(tree: Tree) -> list[str]:
    """Temporary places that something left under results/."""
    return sorted(str(path) for path in (tree / "results").rglob(".*"))


def differing(left: dict[str, str], right: dict[str, str]) -> list[str]:
    """Names of the files that differ between two results, or are in one of them only."""
    return sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))


def built_once(place: Path, build: Callable[[Path], None]) -> Path:
    """`place`, built by the first worker of the session that asks for it; a failed build stays failed."""
    place.parent.mkdir(parents=True, exist_ok=True)
    state = place.with_suffix(".state")
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not state.exists():
            try:
                build(place)
                state.write_text("")
            except BaseException as error:
                state.write_text(str(error) or repr(error))
                raise
        assert state.read_text() == "", f"building {place.name} failed: {state.read_text()}"
    return place


def wait_for(condition: Callable[[], Any], process: subprocess.Popen, log: Path, seconds: float = 400) -> Any:
    """What the condition returns once it is true, while the process still runs."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert process.poll() is None, f"ended before it was reached:\n{log.read_text()[-6000:]}"
        assert time.monotonic() < end, f"not reached:\n{log.read_text()[-6000:]}"
        time.sleep(0.02)
    return found


def kill_group(process: subprocess.Popen) -> None:
    """`kill -9` of Snakemake and of all it started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
