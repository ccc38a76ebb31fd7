"""What a study would cost, before anybody commits to it: `python -m strataprobe.workflow.planning STUDY`.

Nothing is run and nothing is fetched to say so.
"""

import argparse
import os
import shutil
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from strataprobe.checkpoints.disk import size
from strataprobe.config import Study
from strataprobe.config.listed import lists
from strataprobe.config.raw import nearest_file
from strataprobe.errors import ConfigError, StrataprobeError, numbered
from strataprobe.layout import Layout
from strataprobe.workflow.dry_run import Job, elapsed, planned
from strataprobe.workflow.past import past_times
from strataprobe.workflow.space import Size, Space, space

NOT_KNOWN = "not known"
PROFILE = "profiles/default/config.yaml"

SOURCES = """\
Jobs are those that Snakemake would run now; all else is an estimate. Times: medians over past jobs of the
same rule, by the benchmarks under {benchmarks} (this study's, or else other studies'), not scaled to
other data or machines; what a rule without past jobs takes is not known, and in no sum. To fetch: sizes by
resources/revisions/, less what the hub's cache holds. On disk: activation caches by layers x items x
positions x hidden size, weights made here by their parameters, and of the hub's weights as many revisions as
the profile fetches at once and one more, since each is dropped after its last job; each less what is there.
Probes, curves, tables and figures are small beside these, and not counted."""


@dataclass(frozen=True)
class RuleCost:
    """The jobs of one rule and what they took in the past.

    Attributes:
        jobs: how many would run.
        past: how many have run before.
        each: median seconds of those, or None where there are none.
        core_seconds: of all its jobs: seconds times the cores that each holds.
        gpus: that they hold together.
        gpu_seconds: likewise of the GPUs.
    """

    rule: str
    jobs: int
    past: int
    each: float | None
    core_seconds: float
    gpus: int
    gpu_seconds: float

    @property
    def seconds(self) -> float | None:
        return None if self.each is None else self.jobs * self.each


@dataclass(frozen=True)
class Plan:
    """What a study would cost.

    `elapsed` is seconds on so many `cores`, of the jobs whose time is known; `at_once` is how many jobs may
    fetch weights at the same time.
    """

    study: str
    cores: int
    rules: list[RuleCost]
    elapsed: float
    space: Space
    benchmarks: str
    free: int
    at_once: int = 1

    @property
    def jobs(self) -> int:
        return sum(rule.jobs for rule in self.rules)

    @property
    def unknown(self) -> list[RuleCost]:
        return [rule for rule in self.rules if rule.each is None]

    @property
    def held(self) -> int:
        """Bytes of the hub's weights that lie in its cache at the same time, at the most."""
        return min(self.space.fetched.bytes, (self.at_once + 1) * self.space.largest)


def plan(study: str, cores: int) -> Plan:
    """Plan what a study lacks, in the working directory.

    Args:
        study: its config file.
        cores: that it would run on.

    Raises:
        ConfigError: the file is not there, or lists all its faults.
        StrataprobeError: a dataset has faults, or Snakemake refuses to plan.
    """
    here = Path.cwd()
    raw = read_study(study)
    checked = Study.load(raw, where=study, base=here)
    jobs = planned(study, cores)
    past = past_times(checked.layout, here)
    each = {rule: statistics.median(seconds) for rule, seconds in past.items()}
    return Plan(
        study=study,
        cores=cores,
        rules=costs(jobs, past),
        elapsed=elapsed(jobs, [each.get(job.rule, 0.0) for job in jobs], cores),
        space=space(checked, jobs, lists(raw, here, []), here),
        benchmarks=Layout().benchmarks,
        free=shutil.disk_usage(here).free,
        at_once=downloads_at_once(here / PROFILE),
    )


def downloads_at_once(profile: Path) -> int:
    """How many jobs a profile lets fetch weights at the same time; 1 where it does not say."""
    read = yaml.safe_load(profile.read_text(encoding="utf-8")) if profile.is_file() else None
    return int(((read or {}).get("resources") or {}).get("downloads", 1))


def read_study(path: str) -> Mapping:
    """What a study's config file holds.

    Raises:
        ConfigError: it is not there, is no YAML, or holds no study.
    """
    try:
        with Path(path).open("rb") as handle:
            raw = yaml.safe_load(handle)
    except OSError as error:
        near = nearest_file(Path(), path) if isinstance(error, FileNotFoundError) else ""
        here = ", ".join(sorted(str(found) for found in Path("studies").glob("*.yaml")))
        instead = near or (f"; studies here: {here}" if here else "")
        raise ConfigError(f"{path}: cannot be read ({error.strerror}){instead}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is not YAML: {error}") from error
    if not isinstance(raw, Mapping):
        raise ConfigError(f"{path}: holds no study; keys such as models, datasets and figures would be right")
    return raw


def costs(jobs: Sequence[Job], past: Mapping[str, Sequence[float]]) -> list[RuleCost]:
    """What each rule's jobs would take: the longest in all first, those not known last."""
    found = []
    for rule, count in Counter(job.rule for job in jobs).items():
        times = past.get(rule, ())
        each = statistics.median(times) if times else None
        of_rule = [job for job in jobs if job.rule == rule]
        core_seconds = sum((each or 0.0) * job.threads for job in of_rule)
        gpu_seconds = sum((each or 0.0) * job.gpus for job in of_rule)
        gpus = sum(job.gpus for job in of_rule)
        found.append(RuleCost(rule, count, len(times), each, core_seconds, gpus, gpu_seconds))
    return sorted(found, key=lambda cost: (cost.each is None, -(cost.seconds or 0.0), cost.rule))


def report(plan: Plan) -> str:
    """The plan as text: a table of the rules, then time, downloads and disk, and what the numbers rest on."""
    if not plan.rules:
        return f"{plan.study}: nothing to do, everything it asks for is there"
    sections = [
        f"{plan.study}: {numbered(plan.jobs, 'job')} to run. Nothing was run or fetched to say so.",
        _table(plan),
        "\n".join(f"{name:<9} {text}" for name, text in (*_times(plan), *_fetching(plan), *_disk(plan))),
        SOURCES.format(benchmarks=plan.benchmarks),
    ]
    return "\n\n".join(sections)


def _table(plan: Plan) -> str:
    rows = [("rule", "jobs", "a job", "in all", "past jobs")]
    for cost in plan.rules:
        each, seconds = (spoken(value) for value in (cost.each, cost.seconds))
        rows.append((cost.rule, str(cost.jobs), each, seconds, str(cost.past)))
    known = sum(cost.seconds or 0.0 for cost in plan.rules)
    rows.append(("all rules", str(plan.jobs), "", _at_least(spoken(known), plan.unknown), ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    """Cells of a row below each other: the first to the left, numbers to the right."""
    numbers = (f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
    return "  ".join([f"{row[0]:<{widths[0]}}", *numbers]).rstrip()


def _times(plan: Plan) -> Iterator[tuple[str, str]]:
    cores, gpus = (
        sum(getattr(cost, kind) for cost in plan.rules) / 3600 for kind in ("core_seconds", "gpu_seconds")
    )
    on_gpu = [cost for cost in plan.rules if cost.gpus]
    yield "time", _at_least(f"{spoken(plan.elapsed)} on {numbered(plan.cores, 'core')}", plan.unknown)
    yield "CPU", _at_least(f"{cores:.2f} core-hours", plan.unknown)
    if on_gpu:
        yield "GPU", _at_least(f"{gpus:.2f} hours", [cost for cost in on_gpu if cost.each is None])
    else:
        yield "GPU", "no job reserves one"
    if plan.unknown:
        jobs = numbered(sum(cost.jobs for cost in plan.unknown), "job")
        rules = numbered(len(plan.unknown), "rule")
        yield "", f"{NOT_KNOWN}, and in none of these: {jobs} of {rules} never run here"


def _fetching(plan: Plan) -> Iterator[tuple[str, str]]:
    lines = _described(plan.space.fetched, "revision") or ["nothing"]
    yield from zip(("to fetch", *[""] * len(lines)), lines, strict=False)


def _disk(plan: Plan) -> Iterator[tuple[str, str]]:
    found = plan.space
    parts = (found.caches, found.weights, found.fetched)
    known = found.caches.bytes + found.weights.bytes + plan.held
    unknown = [part for part in parts if part.unknown]
    total = _at_least(f"{size(known)} more", unknown) if known or not unknown else NOT_KNOWN
    yield "on disk", f"{total} at its peak; {size(plan.free)} are free"
    for name, part in (("activation caches", found.caches), ("weights made here", found.weights)):
        for line in _described(part, "file"):
            yield "", f"{name}: {line}"
    if found.fetched.bytes:
        most = f"{size(plan.held)} at a time, {plan.at_once} fetched at once"
        yield "", f"weights of the hub: {most}; {size(found.fetched.bytes)} in all"


def _at_least(text: str, unknown: Sequence) -> str:
    return f"at least {text}" if unknown else text


def _described(found: Size, noun: str) -> list[str]:
    """A size in words, then a line for each reason why some of it is not known."""
    known = found.things - sum(found.unknown.values())
    lines = [f"{size(found.bytes)} ({numbered(known, noun)})"] if known else []
    return lines + [
        f"{NOT_KNOWN}: {numbered(count, noun)} of {whose}" for whose, count in sorted(found.unknown.items())
    ]


def spoken(seconds: float | None) -> str:
    """A time in its largest fitting unit: 4.2 s, 3.6 min, 1.2 h."""
    if seconds is None:
        return NOT_KNOWN
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def core_count(text: str) -> int:
    """A number of cores, or `all` for those that this process may use."""
    if text == "all":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1, nor all")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make plan", description=__doc__.splitlines()[0])
    parser.add_argument("study", help="the study's config file, such as config.yaml")
    parser.add_argument("--cores", type=core_count, default="all", help="cores of the run: a number, or all")
    given = parser.parse_args(arguments)
    try:
        print(report(plan(given.study, given.cores)))
    except StrataprobeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
