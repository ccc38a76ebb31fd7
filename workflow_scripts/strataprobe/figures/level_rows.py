"""What figures of the three levels take out of the tables `levels` and `levels_layers`.

Source: levels paper, section 3.2; the names of measures and splits are those of the tables (docs/outputs.md).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from strataprobe.errors import StrataprobeError, listing
from strataprobe.figures.level_names import (
    BEHAVIOR,
    RECOVERABILITY,
    SUMMARY,
    Chosen,
    split_name,
)

Models = Sequence[Sequence[str]]
Where = tuple[str, str, str]  # level, measure, split

_KEY = ("level", "measure", "mode", "split", "hidden_state")


@dataclass(frozen=True)
class Mark:
    """A value and its 95 % interval; bounds are NaN where the table has none."""

    value: float
    low: float = np.nan
    high: float = np.nan
    note: str = ""

    @property
    def bounded(self) -> bool:
        return bool(np.isfinite(self.low) and np.isfinite(self.high))


@dataclass(frozen=True)
class Compared:
    """Rows of several models on one dataset, one revision a model, in the order of the figure."""

    rows: pd.DataFrame
    models: tuple[str, ...]
    absent: tuple[str, ...]
    dataset: str
    marks: dict[tuple[str, ...], Mark]

    @classmethod
    def of(cls, table: pd.DataFrame, models: Models = ()) -> "Compared":
        """
        Args:
            table: rows of `levels` or of `levels_layers`, of one or several models.
            models: (name, revision) of the models wanted, in the figure's order; all of the table's if empty.

        Raises:
            StrataprobeError: no rows, rows of several datasets or conventions, of several revisions of a
                model, or a row twice.
        """
        if models:
            wanted = {(str(name), str(revision)) for name, revision in models}
            places = zip(table["model"].astype(str), table["revision"].astype(str), strict=True)
            table = table[[place in wanted for place in places]]
        study = one_dataset(table)
        there = list(dict.fromkeys(table["model"].astype(str)))
        asked = list(dict.fromkeys(str(name) for name, _ in models)) or there
        revisions = table["revision"].astype(str).groupby(table["model"].astype(str)).unique()
        faults = [
            f"{name}: revisions {', '.join(map(str, found))}; choose one"
            for name, found in revisions.items()
            if len(found) > 1
        ]
        if faults:
            raise StrataprobeError(
                listing("a figure that compares models shows one revision of each", faults)
            )
        refuse_twice(table)
        return cls(
            table,
            tuple(name for name in asked if name in there),
            tuple(name for name in asked if name not in there),
            study["dataset"],
            {} if "mode" in table.columns else _marks(table),
        )

    def mark(self, model: str, level: str, measure: str, split: str) -> Mark | None:
        """The value of one model's measure, or None where the table has none."""
        return self.marks.get((model, level, measure, split))

    def surplus(self, model: str, task: str, split: str, chosen: Chosen) -> Mark | None:
        """Recoverability minus behaviour: the table's row where it is of this probe, else the difference."""
        found = self.mark(model, SUMMARY, "surplus" if task == "mean" else f"surplus:{task}", split)
        if found is not None and chosen.stands_for(found.note):
            return found
        measures = chosen.measures(task)
        probe = self.mark(model, RECOVERABILITY, measures[RECOVERABILITY], split)
        behavior = self.mark(model, BEHAVIOR, measures[BEHAVIOR], split)
        return None if probe is None or behavior is None else Mark(probe.value - behavior.value)

    def null(self, model: str, level: str, split: str, chosen: Chosen) -> Mark | None:
        """The 95 % quantile of a level's maximum by chance, where the value drawn is such a maximum."""
        if level == BEHAVIOR or not chosen.judged(split):
            return None
        return self.mark(model, level, chosen.null(level), split)

    def about(self, splits: Sequence[str]) -> str:
        """The dataset; where one split is drawn, its name and number of items too."""
        if len(splits) > 1:
            return self.dataset
        count = self.rows.loc[self.rows["split"].astype(str) == splits[0], "n"].max()
        items = "" if pd.isna(count) else f" (n = {int(count)})"
        return f"{self.dataset}; {split_name(splits[0])}{items}"

    def lacking(self, names: dict[str, Iterable[Where]]) -> list[str]:
        """Sentences that name the models which have none of the values called so.

        Args:
            names: what is drawn -> every place (level, measure, split) that the figure shows of it.
        """
        said = []
        for name, wheres in names.items():
            asked = list(wheres)
            gone = [
                model
                for model in self.models
                if not any(self.mark(model, *where) is not None for where in asked)
            ]
            if gone:
                said.append(f"No {name}: {', '.join(gone)}.")
        return [*self.absent_line(), *said]

    def absent_line(self) -> list[str]:
        return [f"No row at all: {', '.join(self.absent)}."] if self.absent else []


def one_dataset(*frames: pd.DataFrame, also: Sequence[str] = ()) -> dict[str, str]:
    """The dataset and conventions that all rows share (and what else they must).

    Raises:
        StrataprobeError: there is no row, or rows of several datasets (conventions ...) are mixed.
    """
    if all(frame.empty for frame in frames):
        raise StrataprobeError("the figure's tables have no row for it; there is nothing to draw")
    values = {
        name: sorted({str(value) for frame in frames for value in frame[name].unique()})
        for name in ("dataset", "conventions", *also)
    }
    faults = [f"{name}: {', '.join(found)}; choose one" for name, found in values.items() if len(found) > 1]
    if faults:
        raise StrataprobeError(listing("a figure of levels shows one of each", faults))
    return {name: found[0] for name, found in values.items()}


def refuse_twice(table: pd.DataFrame) -> None:
    """
    Raises:
        StrataprobeError: a measure stands in the table twice (a part given twice, say); names them.
    """
    key = ["model", "revision", *(name for name in _KEY if name in table.columns)]
    twice = table.loc[table.duplicated(key), key].drop_duplicates()
    if len(twice):
        faults = [" ".join(map(str, row)) for row in twice.head(5).itertuples(index=False)]
        more = [f"and {len(twice) - 5} more"] if len(twice) > 5 else []
        raise StrataprobeError(listing("rows that are in the table twice", [*faults, *more]))


def bootstrap_line(
    table: pd.DataFrame, splits: Sequence[str], what: str = "Bars", *, picked: bool = True
) -> list[str]:
    """What the intervals are, with the number of clusters that were resampled; nothing without intervals.

    Args:
        splits: those that are drawn.
        picked: whether some value is a best over layers.
    """
    # Pairs are resampled by larger clusters, and none of them is drawn.
    drawn = table["split"].astype(str).isin(splits) & ~table["measure"].astype(str).str.startswith(
        "both_right"
    )
    bounded = table[drawn & table["interval_low"].notna()]
    if bounded.empty:
        return []
    counts = sorted({int(count) for count in bounded["clusters"].dropna()})
    groups = f"{' or '.join(map(str, counts))} translation groups" if counts else "translation groups"
    anew = "; a best layer is picked anew in each replicate" if picked else ""
    return [f"{what}: 95 % cluster bootstrap over {groups}{anew}."]


def _marks(table: pd.DataFrame) -> dict[tuple[str, ...], Mark]:
    columns = ["model", "level", "measure", "split", "value", "interval_low", "interval_high", "note"]
    return {
        tuple(map(str, row[:4])): Mark(*(float(number) for number in row[4:7]), str(row[7]))
        for row in table[columns].itertuples(index=False)
        if pd.notna(row[4])
    }
