"""Behaviour: what a language model answers, by the probabilities of the answers it could give."""

from strataprobe.behavior.continuations import Continuations, prepare
from strataprobe.behavior.measure import measure, summarise
from strataprobe.behavior.rows import COLUMNS, item_rows, write_rows
from strataprobe.behavior.scoring import score
from strataprobe.datasets.answers import accuracy, by_split, describe, read, splits, written

__all__ = [
    "COLUMNS",
    "Continuations",
    "accuracy",
    "by_split",
    "describe",
    "item_rows",
    "measure",
    "prepare",
    "read",
    "score",
    "splits",
    "summarise",
    "write_rows",
    "written",
]
