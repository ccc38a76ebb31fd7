"""Long, tidy tables: one row an observation."""

from strataprobe.tables.checkpoints import checkpoint_rows
from strataprobe.tables.datasets import floor_rows, gate_rows
from strataprobe.tables.decisions import decision_row
from strataprobe.tables.levels import levels_layers_rows, levels_models_rows, levels_rows
from strataprobe.tables.measures import (
    curves_of,
    fragility_rows,
    probing_rows,
    scale_rows,
    trajectory_rows,
)
from strataprobe.tables.onset import onset_rows
from strataprobe.tables.pages import write_checkpoints_page
from strataprobe.tables.patching import patching_models_rows, patching_rows
from strataprobe.tables.routing import routing_rows
from strataprobe.tables.steering import steering_rows
from strataprobe.tables.structure import controls_rows, foundations_rows, transfer_rows
from strataprobe.tables.tracing import tracing_rows
from strataprobe.tabular import (
    COLUMNS,
    KEY,
    SEED_MEAN,
    Row,
    concatenate,
    read_parts,
    read_rows,
    read_table,
    write_csv,
)

__all__ = [
    "COLUMNS",
    "KEY",
    "SEED_MEAN",
    "Row",
    "checkpoint_rows",
    "concatenate",
    "controls_rows",
    "curves_of",
    "decision_row",
    "floor_rows",
    "foundations_rows",
    "fragility_rows",
    "gate_rows",
    "levels_layers_rows",
    "levels_models_rows",
    "levels_rows",
    "onset_rows",
    "patching_models_rows",
    "patching_rows",
    "probing_rows",
    "read_parts",
    "read_rows",
    "read_table",
    "routing_rows",
    "scale_rows",
    "steering_rows",
    "tracing_rows",
    "trajectory_rows",
    "transfer_rows",
    "write_checkpoints_page",
    "write_csv",
]
