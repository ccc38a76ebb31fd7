"""Routing studies: where probes of a small readout send words that they have never seen."""

from strataprobe.routing.audit import audit, read_tokenizer
from strataprobe.routing.elsewhere import summary_of
from strataprobe.routing.many_class import many_class_rows
from strataprobe.routing.measure import measure, read_predictions, write_predictions

__all__ = [
    "audit",
    "many_class_rows",
    "measure",
    "read_predictions",
    "read_tokenizer",
    "summary_of",
    "write_predictions",
]
