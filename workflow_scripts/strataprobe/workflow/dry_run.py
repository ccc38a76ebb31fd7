"""The jobs that Snakemake would run for a study, and how long they take on so many cores."""

import heapq
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from strataprobe.errors import StrataprobeError

_PLUGINS = Path(__file__).resolve().parents[3] / "rules/plugins"
_PLACE = "STRATAPROBE_PLAN"


@dataclass(frozen=True)
class Job:
    """A job to run: paths it reads and writes, threads, and those of its resources that are whole numbers."""

    rule: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    threads: int
    resources: Mapping[str, int]

    @property
    def gpus(self) -> int:
        return self.resources.get("gpu", 0)

    @property
    def downloads(self) -> bool:
        """Whether it may fetch weights."""
        return self.resources.get("downloads", 0) > 0


def planned(study: str | Path, cores: int) -> list[Job]:
    """The jobs of a dry run in the working directory; it runs nothing and asks no hub.

    Collections, which only name what is wanted, are left out.

    Args:
        study: the study's config file.
        cores: as many as the run would have; a job's threads are at most these.

    Raises:
        StrataprobeError: Snakemake refuses to plan it, with what Snakemake says.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "jobs"
        command = [
            *(sys.executable, "-m", "snakemake", "--dry-run", "--cores", str(cores)),
            *(
                "--configfile",
                str(study),
                "--logger",
                "plan",
                "--quiet",
                "host",
                "progress",
                "rules",
                "reason",
            ),
        ]
        path = os.pathsep.join(filter(None, [str(_PLUGINS), os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": path, _PLACE: str(place)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = "\n".join(f"  {line}" for line in (done.stdout + done.stderr).splitlines() if line.strip())
            raise StrataprobeError(f"{study}: Snakemake cannot plan it:\n{said}")
        lines = place.read_text(encoding="utf-8").splitlines() if place.exists() else []
    jobs = [
        Job(**{**job, "inputs": tuple(job["inputs"]), "outputs": tuple(job["outputs"])})
        for job in map(json.loads, lines)
    ]
    return [job for job in jobs if job.outputs]


def elapsed(jobs: Sequence[Job], seconds: Sequence[float], cores: int) -> float:
    """Seconds until the last job ends, where each starts as soon as its inputs and enough cores are there.

    What could start first does, in the order of the list. A job that asks for more cores than there are
    takes all.

    Args:
        jobs: what is read without being made by any of them is there already.
        seconds: of each job.
        cores: at least 1.
    """
    makers = {path: number for number, job in enumerate(jobs) for path in job.outputs}
    awaited = [{makers[path] for path in job.inputs if path in makers} for job in jobs]
    readers = defaultdict(list)
    for number, others in enumerate(awaited):
        for other in others:
            readers[other].append(number)
    threads = [min(max(1, job.threads), cores) for job in jobs]
    ready = deque(number for number, others in enumerate(awaited) if not others)
    running: list[tuple[float, int]] = []
    now, free = 0.0, cores
    while ready or running:
        large = []
        while ready and free:
            number = ready.popleft()
            if threads[number] > free:
                large.append(number)
                continue
            free -= threads[number]
            heapq.heappush(running, (now + seconds[number], number))
        ready.extendleft(reversed(large))
        now, ended = heapq.heappop(running)
        free += threads[ended]
        for reader in readers[ended]:
            awaited[reader].discard(ended)
            if not awaited[reader]:
                ready.append(reader)
    return now
