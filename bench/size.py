"""Snakemake at size: a hub model with 37 and 154 revisions, planned, worked through, and looked at again.

Jobs cost nothing here (`plugins/snakemake_executor_plugin_instant`): what is left is the main process. All
ways of working through a size: `python -m bench.size 37`, minutes each; with 154, a quarter of an hour.
"""

import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from bench import watched
from bench.outcome import Outcome
from bench.setup import ROOT
from strataprobe import revisions

NAME = "size"
QUESTION = (
    "A hub model of 16 layers at 37 and at 154 revisions (Pythia's), 6 datasets, 4 seeds: what Snakemake's "
    "main process takes to plan it, to work through all jobs when these cost nothing (their own part, making "
    "empty files, is left out), and to see that all is done."
)
REQUIRED = "154 revisions planned within 2 minutes and 1 GiB; nothing left to do after a run"
PLAN_SECONDS, MOST_MIB = 120.0, 1024.0

MODEL, REPO = "pythia", "EleutherAI/pythia-1b"
LAYERS, SEEDS = 16, (42, 43, 44, 45)
DATASETS = ("one", "two", "three", "four", "five", "six")
# Pythia's: step 0, powers of two, then every thousand.
STEPS = (0, *(2**power for power in range(10)), *range(1000, 143_001, 1000))
CHOICES: dict[int, dict[str, Any]] = {
    37: {"pattern": "step{step}", "from": 0, "to": 36_000, "every": 1000},
    154: {"every": 1, "matching": "step*"},
}
# Without `released`: those jobs are local, on a cluster too, and so would really run.
TARGETS = ("datasets", "fragility")
PLAN = ("--dry-run", "--quiet", "rules")
LAPTOP = ("--cores", "2", "--executor", "instant", "--quiet")
CLUSTER = ("--workflow-profile", str(ROOT / "profiles/slurm"), "--executor", "instant-cluster", "--quiet")
GREEDY = ("--scheduler", "greedy")
SAMPLED = (*GREEDY, "--scheduler-subsample", "100")
WAYS = {
    "2 cores, scheduler ilp": LAPTOP,
    "2 cores, scheduler greedy": (*LAPTOP, *GREEDY),
    "2 cores, greedy, subsample 100": (*LAPTOP, *SAMPLED),
    "cluster, scheduler ilp": CLUSTER,
    "cluster, scheduler greedy": (*CLUSTER, *GREEDY),
    "cluster, greedy, no groups": (*CLUSTER, *GREEDY, "--group-components", "probes_{revision}=1"),
}
# What the call without arguments works through; the rest is for an unhurried hour.
BRIEFLY = {
    37: {name: WAYS[name] for name in ("2 cores, scheduler greedy", "cluster, scheduler greedy")},
    154: {},
}


def measure(sizes: Mapping[int, Mapping[str, Sequence[str]]] = BRIEFLY) -> Outcome:
    """Each size: its plan, and a run from nothing in each way, with a look afterwards that all is done."""
    numbers: dict[str, str] = {}
    plans, finished = {}, True
    for count, ways in sizes.items():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_study(folder, CHOICES[count])
            plans[count] = snakemake(folder, *PLAN)
            jobs = jobs_of(plans[count].output)
            found = {"jobs": f"{jobs:,}", "plan": plans[count].text}
            for way, arguments in ways.items():
                found[way] = work_through(folder, jobs, arguments)
            if ways:
                looked = snakemake(folder, *PLAN)
                finished &= "Nothing to be done" in looked.output
                found["nothing to do"] = looked.text
        numbers |= {f"{count} revisions: {line}": value for line, value in found.items()}
    largest = plans[max(plans)]
    passed = finished and largest.seconds < PLAN_SECONDS and largest.peak_mib < MOST_MIB
    return Outcome(NAME, QUESTION, REQUIRED, passed, numbers)


def work_through(folder: Path, jobs: int, arguments: Sequence[str]) -> str:
    """A run from nothing; its time without what the jobs themselves took, by the job too."""
    for made in ("results", "logs", ".snakemake"):
        shutil.rmtree(folder / made, ignore_errors=True)
    run = snakemake(folder, *arguments)
    seconds = run.seconds - float((folder / "spent").read_text())
    return f"{seconds:.0f} s ({1000 * seconds / jobs:.0f} ms a job), {run.peak_mib:.0f} MiB"


def jobs_of(plan: str) -> int:
    """The number of jobs that a dry run counts."""
    # It counts them before and after.
    first = next(line for line in plan.splitlines() if line.split()[:1] == ["total"])
    return int(first.split()[-1])


def snakemake(folder: Path, *arguments: str) -> watched.Spent:
    """Snakemake with this project's Snakefile on the study in a folder."""
    snakefile, config = str(ROOT / "Snakefile"), str(folder / "study.yaml")
    command = [sys.executable, "-m", "snakemake", *TARGETS, "--snakefile", snakefile, "--configfile", config]
    variables = {
        "PYTHONPATH": str(Path(__file__).parent / "plugins"),
        "STRATAPROBE_BENCH_SPENT": str(folder / "spent"),
    }
    return watched.run([*command, *arguments], folder=folder, variables=variables)


def write_study(
    folder: Path, choice: Mapping[str, Any], layers: int = LAYERS, seeds: Sequence[int] = SEEDS
) -> None:
    """A study of some of a hub model's revisions, the list of all of them, and six small datasets."""
    refs = {f"step{step}": hashlib.sha1(str(step).encode()).hexdigest() for step in STEPS}
    refs["main"] = refs["step143000"]
    place = folder / revisions.place(MODEL)
    place.parent.mkdir(parents=True)
    revisions.write(place, revisions.listed(REPO, refs, {}))
    for dataset in DATASETS:
        lines = [json.dumps(row) + "\n" for row in _pairs(dataset)]
        (folder / f"{dataset}.jsonl").write_text("".join(lines), encoding="utf-8")
    model = {"source": {"hub": {"repo": REPO}}, "layers": layers, "revisions": dict(choice)}
    config = {
        "study": "size",
        "seeds": list(seeds),
        "datasets": {name: {"path": f"{name}.jsonl", "bundle": "core"} for name in DATASETS},
        "models": {MODEL: model},
        "figures": {
            f"{kind}-{name}": {"kind": kind, "model": MODEL, "dataset": name}
            for kind in ("saturation", "depth", "scale")
            for name in DATASETS
        },
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")


def _pairs(dataset: str) -> Iterator[dict[str, str]]:
    for i in range(10):
        sides = {"positive": f"The {i} bells rang.", "negative": f"The {i} bells hung."}
        yield {"id": f"{dataset}{i}", **sides, "group": "g"}


if __name__ == "__main__":
    from bench.outcome import as_text

    print(as_text([measure({int(count): WAYS for count in sys.argv[1:]})]))
