"""Revisions of a model on the hub: what their names say, their order, and the list of them that git keeps.

Pure text: nothing here asks a hub, so the config and the rules can read a model's list without a network.
"""

from strataprobe.revisions.chosen import choose, instead, shortened
from strataprobe.revisions.names import MAIN, RevisionName, in_order, parse
from strataprobe.revisions.table import COLUMNS, COMMAND, Listed, Table, listed, place, read, write

__all__ = [
    "COLUMNS",
    "COMMAND",
    "MAIN",
    "Listed",
    "RevisionName",
    "Table",
    "choose",
    "in_order",
    "instead",
    "listed",
    "parse",
    "place",
    "read",
    "shortened",
    "write",
]
