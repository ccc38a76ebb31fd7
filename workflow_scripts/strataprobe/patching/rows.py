"""Every patched run as a row, so that each rate can be traced."""

import csv
import os
from collections.abc import Iterable, Mapping
from typing import Any

from strataprobe.files import atomic

COLUMNS = (
    *("task", "states", "window", "layer", "block", "kind", "target", "donor", "unequal"),
    *("clean_margin", "patched_margin"),
)


def write_rows(path: str | os.PathLike[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write runs as csv, numbers in full, atomically."""
    with atomic(path) as place, place.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
