"""What Snakemake itself costs: the dry run of a large study, and a call when nothing is to be done."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from bench.outcome import Outcome, skipped
from bench.setup import ROOT
from strataprobe.layout import Layout

DAG = "dag"
DAG_QUESTION = "Dry run of a study of 37 checkpoints, 4 datasets, 4 seeds and 16 layers, nothing made yet."
DAG_REQUIRED = "within 10 s"
NOOP = "noop"
NOOP_QUESTION = "Plain `snakemake --cores 2` on the finished default study."
NOOP_REQUIRED = "nothing to be done, within 10 s"
SECONDS = 10.0
DATASETS = ("one", "two", "three", "four")


def measure_dag(checkpoints: int = 37, seeds: int = 4, layers: int = 16) -> Outcome:
    """Time a dry run from an empty folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_study(folder, checkpoints, seeds, layers)
        elapsed, output = snakemake(
            folder, "--dry-run", "--quiet", "rules", "--configfile", str(folder / "study.yaml")
        )
    jobs = [line.split()[-1] for line in output.splitlines() if line.split()[:1] == ["total"]]
    numbers = {"dry run": f"{elapsed:.1f} s", "jobs": jobs[0] if jobs else "unknown"}
    return Outcome(DAG, DAG_QUESTION, DAG_REQUIRED, elapsed < SECONDS, numbers)


def measure_noop() -> Outcome:
    """Time a call on the finished study in the project's folder; skipped where it is not finished."""
    if not (ROOT / Layout().table("trajectory")).is_file():
        return skipped(
            NOOP, NOOP_QUESTION, NOOP_REQUIRED, "the default study is not there: `make run` makes it"
        )
    _, planned = snakemake(ROOT, "--dry-run")
    if "Nothing to be done" not in planned:
        return skipped(
            NOOP, NOOP_QUESTION, NOOP_REQUIRED, "the default study is not finished: `make run` does it"
        )
    elapsed, output = snakemake(ROOT, "--cores", "2")
    passed = elapsed < SECONDS and "Nothing to be done" in output
    return Outcome(NOOP, NOOP_QUESTION, NOOP_REQUIRED, passed, {"snakemake --cores 2": f"{elapsed:.1f} s"})


def snakemake(folder: Path, *arguments: str) -> tuple[float, str]:
    """Wall time and output of Snakemake with this project's Snakefile, run in a folder."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), *arguments]
    start = time.perf_counter()
    finished = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""}
    )
    elapsed = time.perf_counter() - start
    output = finished.stdout + finished.stderr
    if finished.returncode:
        raise RuntimeError(f"snakemake failed:\n{output[-2000:]}")
    return elapsed, output


def write_study(folder: Path, checkpoints: int, seeds: int, layers: int) -> None:
    """A synthetic study: a `local` trajectory of empty weight files, four small datasets, 12 figures."""
    for number in range(checkpoints):
        place = folder / "weights" / f"step{number:04d}"
        place.mkdir(parents=True)
        (place / "model.safetensors").touch()
        (place / "config.json").touch()
    for dataset in DATASETS:
        rows = [
            {
                "id": f"{dataset}{i}",
                "positive": f"The {i} bells rang.",
                "negative": f"The {i} bells hung.",
                "group": "g",
            }
            for i in range(10)
        ]
        (folder / f"{dataset}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
        )
    config = {
        "study": "synthetic",
        "seeds": list(range(42, 42 + seeds)),
        "datasets": {name: {"path": f"{name}.jsonl", "bundle": "core"} for name in DATASETS},
        "models": {
            "trajectory": {
                "source": {"local": {"directory": str(folder / "weights" / "{revision}")}},
                "layers": layers,
                "revisions": [f"step{number:04d}" for number in range(checkpoints)],
            }
        },
        "figures": {
            f"{kind}-{name}": {"kind": kind, "model": "trajectory", "dataset": name}
            for kind in ("saturation", "depth", "scale")
            for name in DATASETS
        },
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
