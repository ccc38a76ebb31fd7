"""What the figures of fine-tuning experiments share: conditions, their looks, curves, and what is missing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from strataprobe.errors import StrataprobeError, listing
from strataprobe.figures import style
from strataprobe.figures.frames import where
from strataprobe.tabular import SEED_MEAN
from strataprobe.tabular.curation_columns import BASE, RUN_MEAN

BASE_LOOK: dict[str, Any] = {"color": style.GREY, "linestyle": "-.", "marker": "o"}
# Colour alone is lost in grey print. The marker ^ is kept for censored layers.
_COLOURS = (style.BLUE, style.VERMILION, style.GREEN, style.PURPLE, style.ORANGE, style.SKY)
_DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1, 1, 1, 1, 1)))
_MARKERS = "sDvP<"
_STUDY = ("experiment", "dataset", "conventions", "pooling")
_KEY = (
    *("experiment", "condition", "run", "step", "seed", "layer", "condition_a", "condition_b", "matched"),
    *("quantity", "control", "statistic", "means"),
)
_PROBE = ("condition", "run", "step", "seed")
_NONE = (np.nan, np.nan, np.nan)


@dataclass(frozen=True)
class Experiment:
    """One experiment on one dataset, the base checkpoint among its conditions.

    Attributes:
        conditions: those that have rows, in the order of the figure, without the base.
        absent: those that there should be and that have no row.
        looks: colour, dash and marker of every condition and of the base; a condition that is not there yet
            keeps its own, so that figures drawn before and after agree.
    """

    name: str
    dataset: str
    conventions: str
    pooling: str
    conditions: tuple[str, ...]
    absent: tuple[str, ...]
    looks: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, *frames: pd.DataFrame, conditions: Sequence[str] = ()) -> "Experiment":
        """
        Args:
            frames: rows of one or several of the experiment's tables.
            conditions: those there should be, in order, without the base; by default what the tables have.

        Raises:
            StrataprobeError: no row, rows of several experiments, datasets, conventions or poolings, or a
                row that is in a table twice.
        """
        study = _one_of_each(frames)
        for frame in frames:
            _refuse_twice(frame)
        found = [name for name in _named(frames) if name != BASE]
        order = list(dict.fromkeys(str(name) for name in conditions)) or found
        return cls(
            *study,
            tuple(name for name in order if name in found),
            tuple(name for name in order if name not in found),
            {BASE: BASE_LOOK, **{name: _look(place) for place, name in enumerate(order)}},
        )

    def about(self, *frames: pd.DataFrame) -> str:
        """What the figure is of, from how many runs and probe seeds, and the caveat of its pooling."""
        counts = [
            (len(single_values(frames, "run")), "run"),
            (len(single_values(frames, "seed")), "probe seed"),
        ]
        return self.about_counts([f"{count} {noun}{'s' * (count != 1)}" for count, noun in counts])

    def about_counts(self, counts: Sequence[str]) -> str:
        """The same, from what is counted elsewhere."""
        study = {"model": f"Experiment {self.name}", "dataset": self.dataset, "pooling": self.pooling}
        return " ".join(style.about(study, f"; conventions {self.conventions}; {', '.join(counts)}"))

    def ends(self, frame: pd.DataFrame) -> dict[str, int]:
        """The last step at which the base and each condition have rows; 0 of the base."""
        steps = frame["step"].astype(int).groupby(frame["condition"].astype(str)).max()
        return {name: int(steps[name]) for name in (BASE, *self.conditions) if name in steps.index}

    def lacking(self, frame: pd.DataFrame) -> list[str]:
        """Sentences that name what is not in the table: conditions, the base, last steps and runs."""
        ends = self.ends(frame)
        gone = [name for name in (*self.conditions, *self.absent) if name not in ends]
        said = [f"Nothing is measured yet of: {', '.join(gone)}."] if gone else []
        if ends.pop(BASE, None) is None:
            said.append("The base has no row: nothing is drawn of it.")
        if len(set(ends.values())) > 1:
            named = ", ".join(f"{name} {step}" for name, step in ends.items())
            said.append(f"Last steps differ: {named}.")
        runs = {name: len(single_values([at(frame, name, step)], "run")) for name, step in ends.items()}
        most = len(single_values([frame], "run"))
        if fewer := [f"{name} ({count})" for name, count in runs.items() if count < most]:
            said.append(f"Fewer than {most} runs at the last step: {', '.join(fewer)}.")
        return said


def _look(place: int) -> dict[str, Any]:
    """Colour, dash and marker of the condition at this place: 60 of them before two are alike."""
    return {
        "color": _COLOURS[place % len(_COLOURS)],
        "linestyle": _DASHES[place % len(_DASHES)],
        "marker": _MARKERS[place % len(_MARKERS)],
    }


def at(frame: pd.DataFrame, condition: str, step: int) -> pd.DataFrame:
    """A condition's rows at one step."""
    return frame[(frame["condition"].astype(str) == condition) & (frame["step"].astype(int) == step)]


def single_values(frames: Sequence[pd.DataFrame], column: str) -> list[str]:
    """Runs or seeds of any row, without the means and without rows that are of none."""
    found = {str(value) for frame in frames if column in frame for value in frame[column].unique()}
    return sorted(found - {"", SEED_MEAN})


def curve(frame: pd.DataFrame, steps: Sequence[int], **equal: Any) -> np.ndarray:
    """(3, steps) mean over runs, its lower and its upper bound; NaN where the table has none."""
    rows = where(frame, run=RUN_MEAN, **equal)
    values = {
        int(row.step): (row.value, row.interval_low, row.interval_high)
        for row in rows[["step", "value", "interval_low", "interval_high"]].itertuples()
    }
    return np.array([values.get(step, _NONE) for step in steps], dtype=float).reshape(-1, 3).T


def of_runs(frame: pd.DataFrame, values: pd.Series, condition: str) -> pd.Series:
    """Mean over probe seeds of each run; of the base, which has no runs, each probe seed for itself.

    Args:
        frame: rows of one condition, at one step.
        values: of each row, what is averaged.
    """
    single = frame[frame["run"].astype(str) != RUN_MEAN]
    group = single["seed" if condition == BASE else "run"].astype(str)
    return values.loc[single.index].astype(float).groupby(group).mean()


def by_layer(
    frame: pd.DataFrame, values: pd.Series, condition: str, layers: int
) -> tuple[np.ndarray, np.ndarray]:
    """((layers,) mean over runs, (layers,) their standard deviation, ddof 1, NaN of one run).

    A run's value is its mean over the probe seeds that have one; the base's spread is over probe seeds.

    Args:
        frame: rows of one condition, at one step.
        values: of each row, what is averaged; NaN where it has no value.
    """
    group = frame["seed" if condition == BASE else "run"].astype(str)
    keys = [group.to_numpy(), frame["layer"].astype(int).to_numpy()]
    runs = values.loc[frame.index].astype(float).groupby(keys).mean().groupby(level=1)
    mean, spread = runs.mean().reindex(range(layers)), runs.std(ddof=1).reindex(range(layers))
    return mean.to_numpy(dtype=float), spread.to_numpy(dtype=float)


def grid_top(means: pd.DataFrame, layers: pd.DataFrame) -> float | None:
    """The largest level of a noise grid, None where every layer has a number on it.

    The tables do not hold the grid, but the two means over layers of one probe differ by nothing else than
    that level for each layer that has no number.

    Args:
        means: rows of `curation` of one control and one statistic on that grid.
        layers: the same of `curation_layers`.
    """
    defined = layers[layers["state"] != "undefined"]
    values = defined["value"].astype(float).groupby([defined[name].astype(str) for name in _PROBE])
    for probe, own in values:
        missing, kept = int(own.isna().sum()), int(own.notna().sum())
        rows = where(means, quantity="mean_critical_noise", **dict(zip(_PROBE, probe, strict=True)))
        found = dict(zip(rows["means"], rows["value"].astype(float), strict=True))
        if missing and np.isfinite(found.get("capped", np.nan)):
            total = (missing + kept) * found["capped"] - (kept * found["dropped"] if kept else 0.0)
            # Tables have six digits, of which the difference loses some.
            return float(f"{total / missing:.4g}")
    highest = defined["value"].max()
    return float(highest) if defined["value"].isna().any() and np.isfinite(highest) else None


def _named(frames: Sequence[pd.DataFrame]) -> list[str]:
    """Conditions of any row, in the order of the rows."""
    columns = ("condition", "condition_a", "condition_b")
    found = (frame[name] for frame in frames for name in columns if name in frame.columns)
    return list(dict.fromkeys(str(name) for column in found for name in column.unique()))


def _one_of_each(frames: Sequence[pd.DataFrame]) -> list[str]:
    if all(frame.empty for frame in frames):
        raise StrataprobeError("the figure's tables have no row for it; there is nothing to draw")
    values = {
        name: sorted({str(value) for frame in frames for value in frame[name].unique()}) for name in _STUDY
    }
    faults = [f"{name}: {', '.join(found)}; choose one" for name, found in values.items() if len(found) > 1]
    if faults:
        raise StrataprobeError(listing("a figure of fine-tuning shows one of each", faults))
    return [values[name][0] for name in _STUDY]


def _refuse_twice(frame: pd.DataFrame) -> None:
    key = [name for name in _KEY if name in frame.columns]
    twice = frame.loc[frame.duplicated(key), key].drop_duplicates()
    if len(twice):
        faults = [" ".join(filter(None, map(str, row))) for row in twice.head(5).itertuples(index=False)]
        more = [f"and {len(twice) - 5} more"] if len(twice) > 5 else []
        raise StrataprobeError(listing("rows that are in the table twice", [*faults, *more]))
