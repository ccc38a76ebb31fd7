"""Where the time of a run went, by rule, from Snakemake's benchmark files."""

import csv
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path


def time_per_rule(folder: Path, since: float = 0.0) -> list[tuple[str, int, float]]:
    """(rule, jobs, seconds in all) of the benchmark files under `folder`, slowest rule first.

    Args:
        folder: holds one folder a rule, with one .tsv a job (column `s`, seconds).
        since: POSIX time; files written before it belong to an earlier run.
    """
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    for path in sorted(folder.rglob("*.tsv")):
        if path.stat().st_mtime < since:
            continue
        with path.open(newline="") as handle:
            seconds[_rule(folder, path)].extend(
                float(row["s"]) for row in csv.DictReader(handle, delimiter="\t")
            )
    # A benchmark that was cut short (a full disk) has no row: its job counts as not timed.
    table = [(rule, len(values), sum(values)) for rule, values in seconds.items() if values]
    return sorted(table, key=lambda row: (-row[2], row[0]))


def _rule(folder: Path, path: Path) -> str:
    first = path.relative_to(folder).parts[0]
    return first.removesuffix(".tsv")


def report(rows: Iterable[tuple[str, int, float]], elapsed: float) -> str:
    """The table as text, with the run's own duration in the last line."""
    rows = list(rows)
    if not rows:
        return ""
    width = max(len(rule) for rule, _, _ in rows)
    lines = [f"{'rule':<{width}}  jobs  seconds  a job"]
    lines += [
        f"{rule:<{width}}  {jobs:>4}  {total:>7.1f}  {total / jobs:>5.2f}" for rule, jobs, total in rows
    ]
    jobs, total = sum(row[1] for row in rows), sum(row[2] for row in rows)
    lines.append(f"{'all jobs':<{width}}  {jobs:>4}  {total:>7.1f}")
    lines.append(f"{'the run':<{width}}        {elapsed:>7.1f}")
    return "\n".join(lines)
