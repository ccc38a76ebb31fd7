"""What figures of activation patching take out of the table `patching`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from strataprobe.errors import StrataprobeError
from strataprobe.figures import level_looks as looks
from strataprobe.figures import level_rows as rows
from strataprobe.figures.frames import where
from strataprobe.figures.level_names import TASK_NAME, refuse_unknown, split_name

MEASURES = {"lift": "within targets, then averaged", "lift_pooled": "pooled, as published"}
STATES = {
    "own_prompt": "donors in their own prompt of the same task",
    "bare": "donors as bare sentences without a BOS, as published",
}


@dataclass(frozen=True)
class Patched:
    """Rows of several models, one revision a model, of one source of states and one size of window."""

    rows: pd.DataFrame
    models: tuple[str, ...]
    absent: tuple[str, ...]
    dataset: str
    states: str
    window: int
    measure: str

    @classmethod
    def of(
        cls, table: pd.DataFrame, models: rows.Models, states: str | None, window: int, measure: str
    ) -> "Patched":
        """
        Args:
            models: (name, revision) in the figure's order; all of the table's if empty.
            states: of `STATES`; by default the first that the table has.

        Raises:
            StrataprobeError: no rows, mixed rows, an unknown option, or nothing of this source and window.
        """
        refuse_unknown(measure=([measure], MEASURES), states=([states] if states else [], STATES))
        if models:
            wanted = {(str(name), str(revision)) for name, revision in models}
            places = zip(table["model"].astype(str), table["revision"].astype(str), strict=True)
            table = table[[place in wanted for place in places]]
        study = rows.one_dataset(table)
        there = list(dict.fromkeys(table["model"].astype(str)))
        asked = list(dict.fromkeys(str(name) for name, _ in models)) or there
        known = set(table["states"].astype(str))
        source = states or next((name for name in STATES if name in known), "")
        chosen = table[(table["states"].astype(str) == source) & (table["window"] == window)]
        if chosen.empty:
            sizes = ", ".join(map(str, sorted(set(table["window"]))))
            raise StrataprobeError(
                f"the table has nothing of states '{source}' in windows of {window}; it has the states "
                f"{', '.join(sorted(known))} and windows of {sizes}"
            )
        _one_revision(chosen)
        return cls(
            chosen,
            tuple(name for name in asked if name in there),
            tuple(name for name in asked if name not in there),
            study["dataset"],
            source,
            window,
            measure,
        )

    @property
    def tasks(self) -> list[str]:
        there = set(self.rows["task"].astype(str))
        return [task for task in ("qa", "paraphrase") if task in there]

    def curve(self, model: str, task: str, split: str, measure: str) -> pd.DataFrame:
        """A measure by rising layer, without those at which it does not exist."""
        own = where(self.rows, model=model, task=task, split=split, measure=measure)
        return own.dropna(subset=["value", "depth"]).sort_values("hidden_state", kind="stable")

    def one(self, model: str, task: str, split: str, measure: str) -> pd.Series | None:
        """The one row of a measure that is not layer by layer."""
        own = where(self.rows, model=model, task=task, split=split, measure=measure)
        return None if own.empty else own.iloc[0]

    def probe_peak(self, model: str, task: str) -> float | None:
        """Relative depth of the probe peak."""
        found = self.one(model, task, "all", "probe_peak")
        return None if found is None else float(found["depth"])

    def from_depth(self) -> float:
        """Where a depth axis begins: a little before anything that is drawn."""
        return max(0.0, float(self.rows["depth"].min()) - 0.05) - 0.02

    def said(self) -> str:
        together = f"; {self.window} adjacent layers together" if self.window > 1 else ""
        return f"{self.dataset}; {STATES[self.states]}{together}."

    def absent_line(self) -> list[str]:
        return [f"No row at all: {', '.join(self.absent)}."] if self.absent else []

    def bootstrap_line(self) -> str:
        return "Bands: 95 % bootstrap over the targets' translation groups; their donors stay with them."


def draw_curve(
    axes: Axes, curve: pd.DataFrame, label: str, look: dict[str, Any], *, band: bool = True
) -> None:
    """A line by relative depth, with its interval."""
    depth, value, low, high = (
        curve[name].to_numpy(dtype=float) for name in ("depth", "value", "interval_low", "interval_high")
    )
    axes.plot(depth, value, label=label, zorder=3, markevery=looks.sparse(len(depth)), **look)
    if band and np.isfinite(low).any():
        axes.fill_between(depth, low, high, color=look["color"], alpha=0.12, linewidth=0, zorder=2)


def cell_name(task: str, split: str) -> str:
    return f"{TASK_NAME[task]}, {split_name(split)}"


def counted(curve: pd.DataFrame) -> str:
    """How many targets and runs a curve is of."""
    if curve.empty:
        return "empty"
    return f"{int(curve['n'].max())} targets, {int(curve['pairs'].max())} runs"


def _one_revision(table: pd.DataFrame) -> None:
    found = table["revision"].astype(str).groupby(table["model"].astype(str)).unique()
    several: Sequence[str] = [f"{model}: {', '.join(own)}" for model, own in found.items() if len(own) > 1]
    if several:
        raise StrataprobeError(
            f"a figure of patching shows one revision of each model; choose one of {'; '.join(several)}"
        )
