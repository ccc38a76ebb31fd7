"""Tables as csv files: written, joined and read back."""

import csv
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strataprobe.errors import StrataprobeError, listing
from strataprobe.files import atomic
from strataprobe.tabular.columns import TEXT, Row
from strataprobe.tabular.curation_columns import CURATION_WHOLE
from strataprobe.tabular.routing_columns import ROUTING_WHOLE

if TYPE_CHECKING:
    import pandas as pd


_WHOLE = {
    "step",
    "layer",
    "hidden_state",
    "test_items",
    "pairs",
    "decided_pairs",
    "features",
    "n",
    "clusters",
    "window",
    "draws",
    "parameters",
    "tokens",
    "vocabulary",
    *CURATION_WHOLE,
    *ROUTING_WHOLE,
}


def write_csv(path: str | os.PathLike[str], rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Write rows as csv: floats with six digits, None as nothing, "\\n" line ends, atomically.

    Raises:
        StrataprobeError: a row has other fields than `columns`, or a number is not finite.
    """
    faults = []
    for index, row in enumerate(rows, start=1):
        if wrong := sorted(set(row) ^ set(columns)):
            faults.append(f"row {index}: fields missing or not in the table: {', '.join(wrong)}")
        for name, value in row.items():
            if isinstance(value, float) and not math.isfinite(value):
                faults.append(f"row {index}: '{name}' is {value}, not a finite number (leave it empty)")
    if faults:
        raise StrataprobeError(listing(str(path), faults))
    with atomic(path) as place, place.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(row[name]) for name in columns] for row in rows)


def concatenate(paths: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> None:
    """Put parts with the same header under one header, in the order given.

    Raises:
        StrataprobeError: there is no part, or headers differ from the first one's; names the files.
    """
    if not paths:
        raise StrataprobeError(f"{out}: there is no part to concatenate; a table needs at least one")
    texts = [Path(path).read_text(encoding="utf-8").splitlines(keepends=True) or [""] for path in paths]
    header = texts[0][0]
    faults = [
        f"{path}: its header differs from that of {paths[0]} ({lines[0].strip() or 'empty file'})"
        for path, lines in zip(paths, texts, strict=True)
        if lines[0] != header or not header.strip()
    ]
    if faults:
        raise StrataprobeError(listing(str(out), faults))
    with atomic(out) as place, place.open("w", encoding="utf-8", newline="") as handle:
        handle.write(header)
        for lines in texts:
            handle.writelines(lines[1:])


def read_rows(path: str | os.PathLike[str]) -> list[Row]:
    """Read a table as the rows it was written from: text as text, numbers as numbers, nothing as None.

    Raises:
        StrataprobeError: as `read_table`.
    """
    frame = read_table(path)
    whole = _WHOLE & set(frame.columns)
    return [
        {
            name: None if value != value else int(value) if name in whole else value
            for name, value in row.items()
        }
        for row in frame.to_dict("records")
    ]


def read_table(path: str | os.PathLike[str]) -> "pd.DataFrame":
    """Read a table: names, seeds and states as text (empty stays ""), everything else as numbers.

    A revision that is called "NA" or a model "none" stays what it is.

    Raises:
        StrataprobeError: the file cannot be read, or a number column holds something else.
    """
    import pandas as pd

    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, na_filter=False)
    except (OSError, ValueError) as error:
        raise StrataprobeError(f"cannot read the table {path}: {error}") from error
    faults = []
    for name in frame.columns:
        if name not in TEXT:
            numbers = pd.to_numeric(frame[name].where(frame[name] != ""), errors="coerce")
            wrong = frame.index[numbers.isna() & (frame[name] != "")]
            faults += [f"{path}:{row + 2}: '{name}' is not a number: '{frame[name][row]}'" for row in wrong]
            frame[name] = numbers
    if faults:
        raise StrataprobeError(listing(str(path), faults))
    return frame


def read_parts(paths: Sequence[str | os.PathLike[str]]) -> "pd.DataFrame":
    """Several parts of a table, one below the other, read as `read_table` does.

    Raises:
        StrataprobeError: as `read_table`.
    """
    import pandas as pd

    return pd.concat([read_table(path) for path in paths], ignore_index=True)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
