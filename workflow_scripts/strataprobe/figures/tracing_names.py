"""What both figures of causal tracing share: names and looks of designs, and rows that belong together."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from strataprobe.errors import StrataprobeError, listing
from strataprobe.figures import style
from strataprobe.figures.level_rows import one_dataset

DESIGNS = ("published", "rms", "restoration")
SIDES = ("positive", "negative", "difference")
SCORES = ("expected", "contrast")
PROBE = "probe"

DESIGN_NAME = {
    "published": "noise of one size (published)",
    "rms": "noise in units of RMS",
    "restoration": "restoration",
}
# Colour alone is lost in grey print: each design has a dash and a marker of its own as well.
DESIGN_LOOK: dict[str, dict[str, Any]] = {
    "published": {"color": style.BLUE, "marker": "s", "linestyle": "--"},
    "rms": {"color": style.VERMILION, "marker": "o", "linestyle": "-"},
    "restoration": {"color": style.GREEN, "marker": "^", "linestyle": "-."},
}
PROBE_LOOK = {"color": style.BLACK, "marker": "D", "linestyle": ":"}
SIDE_NAME = {
    "positive": "sentences with the property",
    "negative": "neutral control",
    "difference": "their difference within pairs",
}
SIDE_LOOK: dict[str, dict[str, Any]] = {
    "positive": {"color": style.VERMILION, "marker": "o", "linestyle": "-"},
    "negative": {"color": style.BLUE, "marker": "s", "linestyle": "--"},
    "difference": {"color": style.BLACK, "marker": "^", "linestyle": "-."},
}
SCORE_NAME = {
    "expected": "log P of the expected answer",
    "contrast": "log P, expected less other answer",
}
SCORE_LABEL = {"expected": "expected answer\n(nats)", "contrast": "expected less\nother (nats)"}
"""What fits beside a panel."""

_KEY = ["model", "revision", "design", "side", "score", "measure"]


def one_tracing(table: pd.DataFrame, *, also: Sequence[str] = ()) -> dict[str, str]:
    """The model, dataset and conventions that all rows share (and what else they must).

    Raises:
        StrataprobeError: no row, rows of several of these, or a row twice; names them.
    """
    study = one_dataset(table, also=("model", *also))
    # Only effects are of a block; the block of a peak follows from it.
    key = [*_KEY, "layer"]
    twice = table.loc[table.duplicated(key), key].drop_duplicates()
    if len(twice):
        faults = [" ".join(map(str, row)) for row in twice.head(5).itertuples(index=False)]
        more = [f"and {len(twice) - 5} more"] if len(twice) > 5 else []
        raise StrataprobeError(listing("rows that are in the table twice", [*faults, *more]))
    return study


def blocks_of(table: pd.DataFrame) -> int:
    """Blocks of the model: the last one is always traced."""
    return int(table.loc[table["measure"] == "indirect_effect", "layer"].max()) + 1


def there(table: pd.DataFrame, column: str, known: Sequence[str]) -> list[str]:
    """Those of the known names that the table has, in their order."""
    found = set(table[column].astype(str))
    return [name for name in known if name in found]


def counted(table: pd.DataFrame) -> str:
    """How many pairs and draws are behind the rows."""
    rows = table[table["measure"] == "mean_effect"]
    pairs, draws = (sorted({int(value) for value in rows[name].dropna()}) for name in ("n", "draws"))
    return (
        f"{' or '.join(map(str, pairs))} pairs, {' or '.join(map(str, draws))} noise "
        f"draw{'s' * (draws != [1])} a sentence; bands: 95 % bootstrap over pairs"
    )
