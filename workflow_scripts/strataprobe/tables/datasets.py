"""Rows of datasets by themselves: gates and lexical floors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from strataprobe.tabular.columns import ALL, Row


def gate_rows(reports: Sequence[Mapping[str, Any]]) -> list[Row]:
    """One row a gate of each dataset's report; `worst` names the items nearest to the threshold or beyond."""
    return [
        {
            "dataset": report["dataset"],
            "profile": report["profile"],
            "gate": gate["name"],
            "threshold": float(gate["threshold"]),
            "value": float(gate["value"]),
            "passed": "yes" if gate["passed"] else "no",
            "worst": "; ".join(gate["worst"]),
        }
        for report in reports
        for gate in report["gates"]
    ]


def floor_rows(measured: Sequence[Mapping[str, Any]]) -> list[Row]:
    """One row a dataset, scheme, kind and group.

    `scheme`: "folds" (pair-disjoint, the floor proper), "seed42" (the probe's own split of that seed) or
    "transfer" (trained on all groups but this one). `group` "all" is the whole dataset, in "transfer" the
    mean over groups.
    """
    rows = []
    for found in measured:
        for scheme, kind, group, score in _scores(found):
            low, high = score.get("interval") or (None, None)
            floor_low, floor_high = score.get("floor_interval") or (None, None)
            rows.append(
                {
                    "dataset": found["dataset"],
                    "scheme": scheme,
                    "kind": kind,
                    "group": group,
                    "pairs": score.get("pairs"),
                    "decided_pairs": score.get("decided_pairs"),
                    "features": score.get("features"),
                    "accuracy": score["accuracy"],
                    "interval_low": low,
                    "interval_high": high,
                    "floor": score["floor"],
                    "floor_low": floor_low,
                    "floor_high": floor_high,
                    "floor_at_chance": score.get("floor_at_chance"),
                    "below_chance": {True: "yes", False: "no"}.get(score.get("below_chance"), ""),
                    "likely_cause": score.get("likely_cause") or "",
                }
            )
    return rows


def _scores(found: Mapping[str, Any]) -> Iterable[tuple[str, str, str, Mapping[str, Any]]]:
    for kind, score in found["whole"].items():
        yield "folds", kind, ALL, score
    for group, kinds in found["groups"].items():
        for kind, score in kinds.items():
            yield "folds", kind, group, score
    for seed, kinds in found["own_split"].items():
        for kind, score in kinds.items():
            yield f"seed{seed}", kind, ALL, score
    for kind, over in (found["transfer"] or {}).items():
        mean = {"accuracy": over["mean_accuracy"], "floor": over["mean_floor"]}
        yield "transfer", kind, ALL, mean
        for group, score in over["groups"].items():
            yield "transfer", kind, group, score
