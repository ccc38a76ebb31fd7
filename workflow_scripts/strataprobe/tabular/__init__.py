"""Tables as files: their columns, written, joined and read back. Nothing is computed here."""

from strataprobe.tabular.columns import ALL, COLUMNS, KEY, SEED_MEAN, Row
from strataprobe.tabular.files import concatenate, read_parts, read_rows, read_table, write_csv

__all__ = [
    "ALL",
    "COLUMNS",
    "KEY",
    "SEED_MEAN",
    "Row",
    "concatenate",
    "read_parts",
    "read_rows",
    "read_table",
    "write_csv",
]
