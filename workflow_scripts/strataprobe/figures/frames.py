"""What figures take out of a table: one model's rows, curves along checkpoints, and what is missing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from strataprobe.errors import StrataprobeError, listing
from strataprobe.tabular import SEED_MEAN

Expected = Sequence[tuple[str, int]]

_ONE = ("model", "dataset", "conventions", "pooling")


def one_study(*frames: pd.DataFrame, also: Sequence[str] = ()) -> dict[str, str]:
    """The model, dataset, conventions and pooling that all rows share.

    Raises:
        StrataprobeError: there is no row, or rows of several models (datasets ...) are mixed.
    """
    if all(frame.empty for frame in frames):
        raise StrataprobeError("the figure's tables have no row for it; there is nothing to draw")
    values = {
        name: sorted({str(value) for frame in frames for value in frame[name].unique()})
        for name in (*_ONE, *also)
    }
    faults = [f"{name}: {', '.join(found)}; choose one" for name, found in values.items() if len(found) > 1]
    if faults:
        raise StrataprobeError(listing("a figure shows one of each", faults))
    return {name: found[0] for name, found in values.items()}


def where(frame: pd.DataFrame, **equal: Any) -> pd.DataFrame:
    """The rows whose columns have these values (`seed` compared as text)."""
    chosen = np.ones(len(frame), dtype=bool)
    for name, value in equal.items():
        chosen &= (frame[name].astype(str) == str(value)).to_numpy()
    return frame[chosen]


def seeds_only(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of single seeds, without the `mean` rows."""
    return frame[frame["seed"].astype(str) != SEED_MEAN]


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of a figure, ascending in step: those expected and those that are there."""

    revisions: tuple[str, ...]
    steps: tuple[int, ...]

    @classmethod
    def of(cls, frames: Sequence[pd.DataFrame], expected: Expected = ()) -> "Checkpoints":
        """
        Raises:
            StrataprobeError: a revision has no step, so that it has no place on a step axis.
        """
        found = {str(revision): step for revision, step in expected}
        for frame in frames:
            for revision, step in frame[["revision", "step"]].drop_duplicates().itertuples(index=False):
                found.setdefault(str(revision), step)
        faults = [f"{name}: it has no step" for name, step in found.items() if pd.isna(step)]
        if faults:
            raise StrataprobeError(listing("a figure over training needs a step for each revision", faults))
        order = sorted(found, key=lambda name: (float(found[name]), name))
        return cls(tuple(order), tuple(int(found[name]) for name in order))

    def along(self, frame: pd.DataFrame, column: str) -> np.ndarray:
        """(checkpoints,) one value a revision, NaN where there is no row; several rows are averaged."""
        values = frame[column].astype(float).groupby(frame["revision"].astype(str)).mean()
        return values.reindex(list(self.revisions)).to_numpy(dtype=float)

    def missing(self, frame: pd.DataFrame) -> list[int]:
        """Indices of checkpoints that have no row of any seed in this frame."""
        there = set(seeds_only(frame)["revision"].astype(str))
        return [index for index, revision in enumerate(self.revisions) if revision not in there]

    def short(self, frame: pd.DataFrame, seeds: Sequence[int]) -> dict[int, int]:
        """Indices of checkpoints that have some of the expected seeds, with how many they have."""
        if not seeds:
            return {}
        single = seeds_only(frame)
        counts = single["seed"].astype(str).groupby(single["revision"].astype(str)).nunique()
        found = {index: int(counts.get(revision, 0)) for index, revision in enumerate(self.revisions)}
        return {index: count for index, count in found.items() if 0 < count < len(seeds)}

    def gap_lines(self, frames: dict[str, pd.DataFrame], seeds: Sequence[int] = ()) -> list[str]:
        """Sentences that name what is missing, one a kind of gap where tables lack the same."""
        said: dict[str, list[str]] = {}
        for name, frame in frames.items():
            if gone := self.missing(frame):
                names = _some([self.revisions[index] for index in gone])
                said.setdefault(f"No data (hatched) for {{}}: {names}.", []).append(name)
            if fewer := self.short(frame, seeds):
                names = _some([f"{self.revisions[index]} ({count})" for index, count in fewer.items()])
                said.setdefault(f"Fewer than {len(seeds)} seeds for {{}}: {names}.", []).append(name)
        return [line.format(" and ".join(tables)) for line, tables in said.items()]


def by_layer(frame: pd.DataFrame, column: str, layers: int) -> tuple[np.ndarray, np.ndarray]:
    """((layers,) mean, (layers,) standard deviation, ddof 1) over the seeds that have a value."""
    single = seeds_only(frame)
    grouped = single[column].astype(float).groupby(single["layer"].astype(int))
    mean, spread = grouped.mean().reindex(range(layers)), grouped.std(ddof=1).reindex(range(layers))
    return mean.to_numpy(dtype=float), spread.to_numpy(dtype=float)


def layer_count(*frames: pd.DataFrame) -> int:
    """Number of blocks, from the highest layer of any row."""
    return max(int(frame["layer"].astype(int).max()) for frame in frames if not frame.empty) + 1


def spread_out(count: int, most: int) -> list[int]:
    """At most `most` indices of `count`, evenly apart, the first and the last among them."""
    return sorted({round(place) for place in np.linspace(0, count - 1, min(count, most))})


def _some(names: Sequence[str], most: int = 8) -> str:
    said = ", ".join(names[:most])
    return said if len(names) <= most else f"{said} and {len(names) - most} more"
