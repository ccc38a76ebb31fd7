"""Whole processes: the plain way against ours, from the command to the last result file."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.outcome import Outcome, skipped
from bench.setup import ROOT, SEEDS, Setup
from strataprobe import files

NAME = "whole"
QUESTION = (
    "Probing and fragility of every layer, from the start of the process to the last file: one text a pass, "
    "captured anew for each analysis, a probe a layer, sampled noise; against one sorted capture, all layers "
    "at once, and the closed form (with its controls, intervals and ceiling, which the plain way lacks)."
)
REQUIRED = "at least 8 times as fast at one seed, 30 times at four (fp32)"
LEAST = {1: 8.0, 4: 30.0}
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def measure(setup: Setup, seeds: Sequence[int] = SEEDS, counts: Sequence[int] = (1, 4)) -> Outcome:
    """Time both ways for each number of seeds; a first run of ours warms the disk for both."""
    if setup.missing:
        return skipped(NAME, QUESTION, REQUIRED, setup.missing)
    numbers, passed = {}, True
    with tempfile.TemporaryDirectory() as folder:
        seconds_of("ours", setup, seeds[:1], Path(folder) / "warm")
        for count in counts:
            out = Path(folder) / str(count)
            # The slow way runs between two runs of the fast one, whose better time counts.
            first = seconds_of("ours", setup, seeds[:count], out / "ours")
            plain = seconds_of("baseline", setup, seeds[:count], out / "baseline")
            ours = min(first, seconds_of("ours", setup, seeds[:count], out / "again"))
            numbers |= {
                f"{count} seed(s): the plain way": f"{plain:.1f} s",
                f"{count} seed(s): ours": f"{ours:.1f} s",
                f"{count} seed(s): times as fast": f"{plain / ours:.1f}",
            }
            passed &= plain / ours >= LEAST[count]
    return Outcome(NAME, QUESTION, REQUIRED, passed, numbers)


def seconds_of(way: str, setup: Setup, seeds: Sequence[int], out: Path) -> float:
    """Wall time of one process of `bench.{way}` for these seeds; its results lie under `out`."""
    out.mkdir(parents=True)
    job = {**asdict(setup), "seeds": list(seeds), "out": out}
    files.write_json(out / "job.json", {k: str(v) if isinstance(v, Path) else v for k, v in job.items()})
    paths = [str(ROOT), str(ROOT / "workflow_scripts")]
    environment = {**os.environ, **dict.fromkeys(_THREAD_VARIABLES, str(setup.threads))}
    environment |= {"PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    start = time.perf_counter()
    command = [sys.executable, "-m", f"bench.{way}", str(out / "job.json")]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    elapsed = time.perf_counter() - start
    if finished.returncode:
        raise RuntimeError(f"bench.{way} failed:\n{finished.stderr[-2000:]}")
    return elapsed
