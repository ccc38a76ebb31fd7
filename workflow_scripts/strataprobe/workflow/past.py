"""How long jobs took in the past, by rule, from the benchmark files that Snakemake leaves."""

import csv
import re
from collections import defaultdict
from pathlib import Path

from strataprobe.layout import Layout


def past_times(layout: Layout, folder: Path) -> dict[str, list[float]]:
    """Seconds of past jobs by rule: of this study's own, or of other studies' where it has none of a rule.

    A benchmark that was cut short (a full disk), or was written by something else, has no time and counts
    as no job.

    Args:
        layout: of the study.
        folder: what the layout's paths are relative to.
    """
    base = folder / Layout(base=layout.base).benchmarks
    own = folder / layout.benchmarks
    ours: defaultdict[str, list[float]] = defaultdict(list)
    others: defaultdict[str, list[float]] = defaultdict(list)
    for path in sorted(base.rglob("*.tsv")):
        study, rule = _whose(path.relative_to(base).parts)
        (ours if base / study == own else others)[rule] += _seconds(path)
    return {
        rule: ours[rule] or others[rule] for rule in sorted({*ours, *others}) if ours[rule] or others[rule]
    }


def _whose(parts: tuple[str, ...]) -> tuple[str, str]:
    """The study's folder ("" for the default study) and the rule of a benchmark file."""
    study, parts = ("/".join(parts[:2]), parts[2:]) if parts[0] == "studies" else ("", parts)
    return study, parts[0].removesuffix(".tsv")


def _seconds(path: Path) -> list[float]:
    """Column `s` of a benchmark file: one number, or one a repeat."""
    with path.open(newline="", encoding="utf-8", errors="replace") as handle:
        given = [row.get("s") or "" for row in csv.DictReader(handle, delimiter="\t")]
    return [float(text) for text in given if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text)]
