"""Every patched run as a row, so that each rate can be traced."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from strataprobe import files

COLUMNS = (
    *("task", "states", "window", "layer", "block", "kind", "target", "donor", "unequal"),
    *("clean_margin", "patched_margin"),
)


def write_rows(path: str | os.PathLike[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write runs as csv, numbers in full, atomically."""
    files.write_rows(path, COLUMNS, rows)
