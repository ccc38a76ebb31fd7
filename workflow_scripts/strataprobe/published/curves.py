"""The authors' own summaries of a trajectory: a curve a dataset, or a curve a seed."""

import os
from typing import Any

from strataprobe.errors import StrataprobeError, listing
from strataprobe.files import read_json
from strataprobe.published.fields import Fields
from strataprobe.published.files import UNKNOWN_SEED

Curves = dict[str, dict[Any, list[tuple[int, float | None]]]]


def read_curves(path: str | os.PathLike[str], *, dataset: str = "") -> dict[str, Curves]:
    """Curves over training from one of the authors' two kinds of summary files.

    Emergence timing (`curves`: a dataset's `steps` and `mean_accuracies`) holds one curve a dataset and
    names no seed. Replication files (`per_checkpoint`: `seeds`, and `values` of a quantity) hold one curve
    a seed.

    Args:
        dataset: the name for a replication file's curves, which it does not say itself.

    Returns:
        quantity -> dataset -> seed -> (step, value); step 0 is a step, a value of null stays None.

    Raises:
        StrataprobeError: the file is of neither kind, or has faults; all of them are listed.
    """
    obj = read_json(path)
    source = Fields(obj if isinstance(obj, dict) else {}, os.path.basename(path))
    if "curves" in source.obj:
        found = {"mean_accuracy": _emergence(source.inner("curves"))}
    elif "per_checkpoint" in source.obj:
        found = _replication(source.inner("per_checkpoint"), dataset)
    else:
        raise StrataprobeError(f"{path} has no curves: neither 'curves' nor 'per_checkpoint' is there")
    if source.faults:
        raise StrataprobeError(listing(str(path), source.faults))
    return found


def _emergence(source: Fields) -> Curves:
    found: Curves = {}
    for name in source.obj:
        curve = source.inner(name)
        steps, values = curve.of("steps", list), curve.of("mean_accuracies", list)
        if len(steps) != len(values):
            curve.fault("steps", f"has {len(steps)} entries, but mean_accuracies has {len(values)}")
            continue
        found[name] = {UNKNOWN_SEED: _points(curve, steps, values)}
    return found


def _replication(source: Fields, dataset: str) -> dict[str, Curves]:
    found: dict[str, Curves] = {}
    for name in source.obj:
        entry = source.inner(name)
        step, seeds = entry.whole("step"), entry.of("seeds", list)
        for quantity in entry.obj:
            if not isinstance(entry.obj[quantity], dict):
                continue
            values = entry.inner(quantity).of("values", list)
            if len(values) != len(seeds):
                entry.fault(quantity, f"has {len(values)} values for {len(seeds)} seeds")
                continue
            for seed, value in zip(seeds, values, strict=True):
                seen = found.setdefault(quantity, {}).setdefault(dataset, {}).setdefault(seed, [])
                seen += _points(entry, [step], [value])
    return found


def _points(source: Fields, steps: list[Any], values: list[Any]) -> list[tuple[int, float | None]]:
    points = []
    for index, (step, value) in enumerate(zip(steps, values, strict=True)):
        each = Fields({"step": step, "value": value}, source.file, f"{source.place}[{index}]", source.faults)
        points.append((each.whole("step") or 0, each.number("value", required=False)))
    return points
