"""What a comparison found, how it is timed, and on what kind of machine."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from strataprobe.provenance import versions

INTRODUCTION = """# Benchmarks

Made by `make bench BENCH="--out docs/benchmarks.md"`; `make bench BENCH="probes exact"` runs those named.
The two sides of a comparison take turns in one run on one machine, with the same number of threads: the
ratios say something, the times by themselves only of that machine. Short ones are the best of several rounds.
The plain way of `whole` is `bench/baseline.py`, written anew from the fragility paper's description.
"""

PACKAGES = ("numpy", "scipy", "torch", "transformers", "h5py", "snakemake")


@dataclass(frozen=True)
class Outcome:
    """One comparison: its numbers by name, and whether what is required of it holds.

    `passed` is None where the comparison did not run; `note` then says why.
    """

    name: str
    question: str
    required: str
    passed: bool | None
    numbers: dict[str, str] = field(default_factory=dict)
    note: str = ""

    @property
    def verdict(self) -> str:
        return {True: "yes", False: "NO", None: "not run"}[self.passed]


def skipped(name: str, question: str, required: str, why: str) -> Outcome:
    return Outcome(name, question, required, None, note=why)


def best_of(repeats: int, contestants: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Least wall time (seconds) of each contestant over `repeats` rounds.

    Contestants take turns, and every other round runs in the opposite order, so that a slow minute of the
    machine or a warm cache favours none of them.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for repeat in range(repeats):
        order = list(contestants.items())
        for name, run in order if repeat % 2 == 0 else reversed(order):
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: min(values) for name, values in seconds.items()}


def machine_facts(threads: int) -> dict[str, str]:
    """Cores, threads and versions: what a time means something with. No names of hosts, users or folders."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": _processor(),
        "cores": str(cores),
        "threads used": str(threads),
        "memory": f"{memory:.0f} GiB",
        **versions(PACKAGES),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as handle:
            lines = [line for line in handle if line.startswith("model name")]
    except OSError:
        return "unknown"
    return lines[0].split(":", 1)[1].strip() if lines else "unknown"


def as_text(outcomes: Sequence[Outcome]) -> str:
    """The table for the terminal."""
    lines = []
    for outcome in outcomes:
        lines.append(f"{outcome.name}: {outcome.question}")
        lines += [f"  {name:<44} {value:>14}" for name, value in outcome.numbers.items()]
        lines.append(f"  required: {outcome.required}: {outcome.verdict}")
        if outcome.note:
            lines.append(f"  {outcome.note}")
    return "\n".join(lines)


def as_markdown(outcomes: Sequence[Outcome], facts: dict[str, str]) -> str:
    """The page kept in the docs."""
    lines = [INTRODUCTION, "| comparison | required | holds |", "|---|---|---|"]
    lines += [f"| {o.name} | {o.required} | {o.verdict} |" for o in outcomes]
    for outcome in outcomes:
        lines += ["", f"## {outcome.name}", "", outcome.question, ""]
        if outcome.numbers:
            lines += ["| | |", "|---|---:|"]
            lines += [f"| {name} | {value} |" for name, value in outcome.numbers.items()]
        if outcome.note:
            lines += ["", outcome.note]
    lines += ["", "## Measured with", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in facts.items()]
    return "\n".join(lines) + "\n"
