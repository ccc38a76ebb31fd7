"""Cells as rows of a table: the measures, their intervals, the verdict and the nulls."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from strataprobe.concentration.gate import Thresholds, verdicts
from strataprobe.concentration.measures import Concentration, measure
from strataprobe.concentration.nulls import prototypes, relabelling
from strataprobe.concentration.resampling import intervals
from strataprobe.statistics import finite

COLUMNS = (
    *("coarse_accuracy", "coarse_low", "coarse_high"),
    *("p_top_min", "p_top_min_low", "p_top_min_high", "p_top_mean", "p_top_max"),
    *("max_share", "top_class", "hhi", "effective_targets", "side_mass", "verdict"),
    *("relabelling_mean", "relabelling_q95", "relabelling_p"),
    *("prototype_mean", "prototype_q95", "prototype_p"),
)


def described(
    counts: ArrayLike,
    classes: Sequence[str],
    class_sides: ArrayLike,
    item_sides: ArrayLike,
    *,
    thresholds: Thresholds,
    property_accuracy: ArrayLike | None,
    replicates: int,
    seed: int,
    names: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Everything that the diagnostic says of each cell, ready for JSON.

    Args:
        counts: (cells, items, classes).
        classes: (classes,) their names.
        class_sides, item_sides, names: as in `measure`.
        thresholds: of the gate.
        property_accuracy: (cells,) accuracy of the property on canonical words across notations, NaN where a
            cell has none, None where nothing is known. The gate is then one condition shorter, which a table
            shows by leaving its property accuracy empty.
        replicates, seed: of the bootstrap; the seed is also that of relabellings too many to take them all.

    Returns:
        One dict a cell, with the fields `COLUMNS`.

    Raises:
        StrataprobeError, ValueError: as `measure`.
    """
    found = measure(counts, class_sides, item_sides, names=names)
    numbers = _numbers(found, (counts, class_sides, item_sides), replicates, seed)
    said = verdicts(found, thresholds, property_accuracy).tolist()
    rows = []
    for cell, (top, verdict) in enumerate(zip(found.top_class, said, strict=True)):
        row: dict[str, Any] = {"top_class": classes[top], "verdict": verdict}
        row |= {column: finite(values[cell]) for column, values in numbers.items()}
        rows.append({column: row[column] for column in COLUMNS})
    return rows


def _numbers(
    found: Concentration, own: tuple[ArrayLike, ArrayLike, ArrayLike], replicates: int, seed: int
) -> dict[str, np.ndarray]:
    """Column -> (cells,), of all columns that are numbers."""
    ends = intervals(*own, replicates=replicates, seed=seed, of=("coarse_accuracy", "p_top_min"))
    beside = {"relabelling": relabelling(*own, seed=seed), "prototype": prototypes(*own)}
    numbers = {name: getattr(found, name) for name in COLUMNS if hasattr(found, name)}
    for name, column in (("coarse_accuracy", "coarse"), ("p_top_min", "p_top_min")):
        numbers[f"{column}_low"], numbers[f"{column}_high"] = np.moveaxis(ends[name], -1, 0)
    for name, null in beside.items():
        numbers |= {f"{name}_{part}": getattr(null, part) for part in ("mean", "q95", "p")}
    del numbers["top_class"]  # an index, shown by its name
    return numbers
