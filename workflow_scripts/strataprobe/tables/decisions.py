"""Rows of configured tests of a decline."""

from collections.abc import Iterable, Mapping
from typing import Any

from strataprobe.errors import StrataprobeError
from strataprobe.tables.measures import SEED_MEAN
from strataprobe.tabular.columns import DECISION, Row


def decision_row(name: str, rule: Mapping[str, Any], trajectory: Iterable[Row]) -> Row:
    """What the test of one decline says, with the numbers it says it by.

    Args:
        rule: `model`, `dataset`, `first` and `second` (revisions), `control`, `statistic`, `band`, `means`,
            `least_drop`.
        trajectory: rows of the trajectory table that hold that model's and dataset's.

    Returns:
        One row; with fewer than two seeds that have a value at either checkpoint its answers are empty and
        `note` says why.

    Source: fragility paper, section 4.2.
    """
    from strataprobe import onsets  # numpy comes with it, which no other table needs

    where = {key: rule[key] for key in ("model", "dataset", "control", "statistic", "band", "means")}
    found: dict[str, list[float | None]] = {rule["first"]: [], rule["second"]: []}
    for row in trajectory:
        wanted = row["quantity"] == "mean_critical_noise" and row["seed"] != SEED_MEAN
        if wanted and row["revision"] in found and all(row[key] == value for key, value in where.items()):
            found[row["revision"]].append(row["value"])
    given = {key: {**where, **rule, "rule": name, "note": ""}.get(key) for key in DECISION}
    try:
        said = onsets.decision_rule(*found.values(), least_drop=rule["least_drop"])
    except StrataprobeError as error:
        # A checkpoint that is missing, or layers that are all below the threshold, must not stop the study.
        return {**given, "falls": "", "above_spread": "", "real": "", "note": " ".join(str(error).split())}
    answers = {key: "yes" if said[key] else "no" for key in ("real", "falls", "above_spread")}
    return {key: {**given, **said, **answers}[key] for key in DECISION}
