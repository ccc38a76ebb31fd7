"""LM-head readout: what the model's own output map says of every layer's states."""

from strataprobe.readout.lens import DEFINITIONS, EMBEDDING_INDEX, TUNED, Lens
from strataprobe.readout.measure import layer_rows, measure_levels
from strataprobe.readout.null import maximum_null
from strataprobe.readout.sentence import first_tokens
from strataprobe.readout.training import divergences
from strataprobe.readout.training import train as train_tuned
from strataprobe.readout.tuned import TunedLens
from strataprobe.readout.tuned import load as load_tuned

__all__ = [
    "DEFINITIONS",
    "EMBEDDING_INDEX",
    "TUNED",
    "Lens",
    "TunedLens",
    "divergences",
    "first_tokens",
    "layer_rows",
    "load_tuned",
    "maximum_null",
    "measure_levels",
    "train_tuned",
]
