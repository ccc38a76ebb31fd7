"""Behaviour, readout and recoverability of the same items, put together."""

from strataprobe.bootstrap import Draws, Estimate, estimate
from strataprobe.datasets.answers import vector
from strataprobe.levels.detected import both_right, detection, parts
from strataprobe.levels.layer_rows import LayerObservation, layer_observations
from strataprobe.levels.measured import CONVENTIONS, Choice, Measured
from strataprobe.levels.over_models import Quantity, over_models
from strataprobe.levels.reading import Checkpoint, Items, read_checkpoint
from strataprobe.levels.rows import Observation, observations
from strataprobe.levels.summary import (
    ERASURE_DROP,
    Ordering,
    deficit,
    erasure,
    erasure_verdict,
    ordering,
    ordering_of,
    ratio,
    surplus,
)

__all__ = [
    "CONVENTIONS",
    "ERASURE_DROP",
    "Checkpoint",
    "Choice",
    "Draws",
    "Estimate",
    "Items",
    "LayerObservation",
    "Measured",
    "Observation",
    "Ordering",
    "Quantity",
    "both_right",
    "deficit",
    "detection",
    "erasure",
    "erasure_verdict",
    "estimate",
    "layer_observations",
    "observations",
    "ordering",
    "ordering_of",
    "over_models",
    "parts",
    "ratio",
    "read_checkpoint",
    "surplus",
    "vector",
]
