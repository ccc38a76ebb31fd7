"""Rows of the lucky-defaults study and of many-class probes: cells, counts, words, leakage, sensitivity."""

from collections.abc import Mapping, Sequence
from typing import Any

from strataprobe.errors import StrataprobeError, listing
from strataprobe.tabular.columns import Row
from strataprobe.tabular.routing_columns import ROUTING_COLUMNS, ROUTING_KEY, ROUTING_TEXT

Summary = Mapping[str, Any]

LISTS = {
    "routing_cells": "cells",
    "routing_counts": "counts",
    "routing_words": "words",
    "routing_leakage": "leakage",
    "routing_sensitivity": "sensitivity",
    "many_class": "many_class",
}
"""Table -> the field of a summary that holds its rows."""


def routing_rows(table: str, summaries: Sequence[Summary]) -> list[Row]:
    """The rows of one table from summaries, each with whose they are: one summary a checkpoint and dataset.

    Args:
        table: of `LISTS`.
        summaries: each with model, revision, step and dataset, and rows without them in its lists.

    Returns:
        Rows with the columns of the table: yes and no as text, lists of words as one text, nothing as None
        (as "" in columns of text).

    Raises:
        StrataprobeError: a summary lacks a key field or the list, is there twice, or has rows with other
            fields than the table; all are listed.
    """
    columns = [name for name in ROUTING_COLUMNS[table] if name not in ROUTING_KEY]
    keys, faults = _keys(summaries)
    for place, summary in enumerate(summaries):
        faults += _faults(summary, place, LISTS[table], columns)
    if faults:
        raise StrataprobeError(listing(table, faults))
    return [
        {**key, **{name: _value(name, row[name]) for name in columns}}
        for key, summary in zip(keys, summaries, strict=True)
        for row in summary[LISTS[table]]
    ]


def _keys(summaries: Sequence[Summary]) -> tuple[list[Row], list[str]]:
    """The key columns of each summary, and what is missing or there twice."""
    keys: list[Row] = []
    faults = []
    for place, summary in enumerate(summaries):
        if missing := [name for name in ROUTING_KEY if name not in summary]:
            faults.append(f"summary {place}: it lacks {', '.join(missing)}")
        key = {name: summary.get(name) for name in ROUTING_KEY}
        if not missing and key in keys:
            said = ", ".join(f"{name} {value}" for name, value in key.items())
            faults.append(f"summary {place}: there twice ({said})")
        keys.append(key)
    return keys, faults


def _faults(summary: Summary, place: int, name: str, columns: Sequence[str]) -> list[str]:
    """What is wrong with a summary's rows; rows with the same fault are named together."""
    if not isinstance(summary.get(name), list):
        return [f"summary {place}: it has no list '{name}'"]
    found: dict[str, list[int]] = {}
    for number, row in enumerate(summary[name]):
        lacks = [column for column in columns if column not in row]
        strange = sorted(set(row) - set(columns))
        said = [f"lacks {', '.join(lacks)}"] if lacks else []
        said += [f"has {', '.join(strange)}, which the table has not"] if strange else []
        if said:
            found.setdefault(" and ".join(said), []).append(number)
    return [
        f"summary {place}, {name}[{numbers[0]}]{f' and {len(numbers) - 1} more' * (len(numbers) > 1)}: {said}"
        for said, numbers in found.items()
    ]


def _value(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return "" if value is None and name in ROUTING_TEXT else value
