"""Lucky defaults: per-item concentration of a many-class probe's predictions, the gate, and its nulls."""

from strataprobe.concentration.gate import (
    FAIL,
    LUCKY,
    NOT_PASSED,
    PASS,
    PATHS,
    PROPERTY_ONLY,
    RETRACTED,
    VERDICTS,
    Thresholds,
    conjuncts,
    paths,
    sensitivity,
    verdicts,
)
from strataprobe.concentration.measures import Concentration, counted, measure
from strataprobe.concentration.nulls import Null, prototypes, relabelling
from strataprobe.concentration.partition import Partition
from strataprobe.concentration.reading import CELL_COLUMNS, Cells, Predictions, read_predictions
from strataprobe.concentration.resampling import intervals
from strataprobe.concentration.rows import COLUMNS, described

__all__ = [
    "CELL_COLUMNS",
    "COLUMNS",
    "FAIL",
    "LUCKY",
    "NOT_PASSED",
    "PASS",
    "PATHS",
    "PROPERTY_ONLY",
    "RETRACTED",
    "VERDICTS",
    "Cells",
    "Concentration",
    "Null",
    "Partition",
    "Predictions",
    "Thresholds",
    "conjuncts",
    "counted",
    "described",
    "intervals",
    "measure",
    "paths",
    "prototypes",
    "read_predictions",
    "relabelling",
    "sensitivity",
    "verdicts",
]
