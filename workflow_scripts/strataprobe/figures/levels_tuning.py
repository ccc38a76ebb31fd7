"""What instruction tuning does to each level: base and tuned model side by side, on the same items.

Source: levels paper, section 4.5 and Figure 4.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from string import ascii_lowercase

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from strataprobe.errors import StrataprobeError, listing
from strataprobe.figures import level_looks as looks
from strataprobe.figures import level_rows as rows
from strataprobe.figures import style
from strataprobe.figures.frames import where
from strataprobe.figures.level_looks import LEVEL_LOOK
from strataprobe.figures.level_names import (
    BEHAVIOR,
    LEVEL_NAME,
    LEVELS,
    READOUT,
    RECOVERABILITY,
    SUMMARY,
    TASK_NAME,
    TASKS,
    Chosen,
    refuse_unknown,
)
from strataprobe.figures.level_rows import Compared, Mark

_OFFSET = {BEHAVIOR: -0.07, READOUT: 0.0, RECOVERABILITY: 0.07}
_LOOK = {**LEVEL_LOOK, SUMMARY: {"color": style.BLACK, "marker": "D", "linestyle": "none"}}
Pair = tuple[str, str]  # base, tuned


@style.styled
def draw(
    levels: pd.DataFrame,
    changes: pd.DataFrame | None = None,
    *,
    title: str,
    pairs: Sequence[Sequence[str]],
    models: rows.Models = (),
    split: str = "all",
    tasks: Sequence[str] = ("qa", "paraphrase"),
    definition: str | None = None,
    coding: str | None = None,
    chance: float = 0.5,
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw a row a pair: the three levels of both models, a panel a task, and the change of each level.

    Args:
        levels: rows of the levels table of all models of the pairs.
        changes: rows of the levels_models table, whose changes have intervals of a difference.
        pairs: (base, tuned) names.
        models: (name, revision) of each model, where the table holds several revisions.
        split: "all", a language, a control type, or "en:object_control".
        tasks: of "qa", "paraphrase" and their "mean"; a panel each.
        definition, coding: of the readout and of the probe; by default what the table's conventions compare.
        chance: accuracy of guessing.
        height: by default the page grows with the pairs.

    Raises:
        StrataprobeError: no rows, mixed or repeated rows, no pair or one that is not two models, a model of a
            pair without any row, or an unknown task.
    """
    refuse_unknown(tasks=(tasks, TASKS))
    table = Compared.of(levels, models)
    both = _checked(pairs, table)
    shown = _Shown(table, changes, Chosen.of(table.rows, definition, coding), split)
    figure = style.new_figure(title, width=width, height=height or 1.7 + 1.95 * len(both))
    shape = (len(both) + 1, len(tasks) + 1)
    ratios = {"height_ratios": (*[1] * len(both), 0.1), "width_ratios": (*[1] * len(tasks), 1.05)}
    grid = figure.add_gridspec(*shape, **ratios)
    accuracies: list[Axes] = []
    changed: list[Axes] = []
    for row, pair in enumerate(both):
        for column, task in enumerate(tasks):
            axes = figure.add_subplot(grid[row, column], sharey=accuracies[0] if accuracies else None)
            shown.levels_of(axes, pair, task, chance)
            axes.tick_params(labelleft=column == 0)
            axes.set_ylabel("accuracy" if column == 0 else "")
            accuracies.append(axes)
        shared = changed[0] if changed else None
        axes = figure.add_subplot(grid[row, len(tasks)], sharex=shared, sharey=shared)
        shown.changes_of(axes, pair, tasks)
        changed.append(axes)
    for letter, axes in zip(cycle(ascii_lowercase), figure.axes, strict=False):
        axes.set_title(f"{letter}  {axes.get_title(loc='left')}")
    accuracies[0].set_ylim(min([0.38, *(axes.dataLim.y0 - 0.03 for axes in accuracies)]), 1.03)
    looks.legend_row(figure, grid[-1, :], _handles(), 5)
    hollow = any(line.get_markerfacecolor() == "white" for axes in changed for line in axes.lines)
    looks.note(figure, shown.small_print(tasks, hollow))
    return figure


def _checked(pairs: Sequence[Sequence[str]], table: Compared) -> list[Pair]:
    if not pairs:
        raise StrataprobeError("no pair of a base and a tuned model is given; there is nothing to draw")
    faults = [f"{list(pair)}: a pair is (base, tuned)" for pair in pairs if len(pair) != 2]
    faults += [
        f"{name}: the table has no row of it"
        for name in dict.fromkeys(name for pair in pairs for name in pair)
        if name not in table.models
    ]
    if faults:
        raise StrataprobeError(listing("pairs of base and tuned models", faults))
    return [(str(base), str(tuned)) for base, tuned in pairs]


@dataclass(frozen=True)
class _Shown:
    """What is drawn of which table."""

    table: Compared
    changes: pd.DataFrame | None
    chosen: Chosen
    split: str

    def levels_of(self, axes: Axes, pair: Pair, task: str, chance: float) -> None:
        axes.axhline(chance, color=style.GREY, linestyle=":", linewidth=1, label="_chance")
        for level, measure in self.chosen.measures(task).items():
            marks = [self.table.mark(name, level, measure, self.split) for name in pair]
            places = [place + _OFFSET[level] for place in range(2)]
            values = [np.nan if mark is None else mark.value for mark in marks]
            axes.plot(places, values, markersize=5, zorder=3, label=f"_{level}", **LEVEL_LOOK[level])
            span = {"color": LEVEL_LOOK[level]["color"], "linewidth": 1, "alpha": 0.8, "zorder": 2}
            for place, mark in zip(places, marks, strict=True):
                if mark is not None and mark.bounded:
                    axes.plot([place] * 2, [mark.low, mark.high], label=f"_interval {level}", **span)
        axes.set_xticks([0, 1], [looks.wrapped(name, 11) for name in pair])
        axes.set_xlim(-0.35, 1.35)
        axes.set_title("mean behaviour" if task == "mean" else TASK_NAME[task])

    def changes_of(self, axes: Axes, pair: Pair, tasks: Sequence[str]) -> None:
        """Tuned minus base, a line a level, with its name and numbers at the right."""
        axes.axvline(0, color=style.GREY, linestyle=":", linewidth=1, label="_no change")
        lines = list(self._lines(pair, tasks))
        text = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 6.5, "linespacing": 1.1}
        for height, (name, level, change, share) in enumerate(lines):
            said = "no value"
            if change is not None:
                _mark(axes, change, height, level, f"_{pair[1]}, {name}")
                relative = "" if share is None else f" ({_signed(100 * share, 0)} %)"
                said = f"{_signed(change.value, 2)}{relative}"
            axes.text(1.03, height, f"{name}\n{said}", **text)
        axes.set_yticks(range(len(lines)), [""] * len(lines))
        axes.set_ylim(len(lines) - 0.4, -0.6)
        axes.margins(x=0.12)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.set_xlabel("tuned minus base")
        axes.set_title("change")

    def _lines(
        self, pair: Pair, tasks: Sequence[str]
    ) -> Iterator[tuple[str, str, Mark | None, float | None]]:
        """(name, level, change, relative change) of each line: tasks, the other levels, the surplus."""
        measures = self.chosen.measures("mean")
        wanted = [
            (TASK_NAME[task] if task != "mean" else "behaviour", BEHAVIOR, TASKS[task]) for task in tasks
        ]
        wanted += [
            ("readout", READOUT, measures[READOUT]),
            ("probe", RECOVERABILITY, measures[RECOVERABILITY]),
        ]
        for name, level, measure in wanted:
            base, tuned = (self.table.mark(model, level, measure, self.split) for model in pair)
            if base is None or tuned is None:
                yield name, level, None, None
                continue
            known = measure if level == BEHAVIOR else level
            share = (tuned.value - base.value) / base.value if base.value > 0 else None
            yield name, level, self._change(pair, known) or Mark(tuned.value - base.value), share
        before, after = (self.table.surplus(model, "mean", self.split, self.chosen) for model in pair)
        surplus = None if before is None or after is None else Mark(after.value - before.value)
        # A surplus can be near 0, so that its relative change says nothing.
        yield "surplus", SUMMARY, surplus and (self._change(pair, "surplus") or surplus), None

    def _change(self, pair: Pair, name: str) -> Mark | None:
        """The change as the table has it, with its interval; None where it is of another probe or readout."""
        if self.changes is None:
            return None
        keys = {"quantity": f"change:{name}", "model": pair[1], "other": pair[0], "split": self.split}
        found = where(self.changes, dataset=self.table.dataset, **keys)
        note = "" if found.empty else str(found["note"].iloc[0])
        if found.empty or (name in (READOUT, RECOVERABILITY, "surplus") and not self.chosen.stands_for(note)):
            return None
        columns = ["value", "interval_low", "interval_high"]
        return Mark(*found[columns].iloc[0].astype(float), note)

    def small_print(self, tasks: Sequence[str], hollow: bool) -> list[str]:
        splits = [self.split]
        lines = [
            f"{self.table.about(splits)}. {self.chosen.said(splits)} Surplus: recoverability minus mean "
            "behaviour. In brackets: relative to the base model.",
            *rows.bootstrap_line(self.table.rows, splits),
        ]
        if hollow:
            lines.append("Open marks: the bare difference; the tables have no interval for it.")
        asked = {f"behaviour ({TASK_NAME[task]})": [(BEHAVIOR, TASKS[task], self.split)] for task in tasks}
        measures = self.chosen.measures("mean")
        for level in (READOUT, RECOVERABILITY):
            asked[LEVEL_NAME[level]] = [(level, measures[level], self.split)]
        return [*lines, *self.table.lacking(asked)]


def _mark(axes: Axes, change: Mark, height: int, level: str, label: str) -> None:
    look = {"color": _LOOK[level]["color"], "label": label}
    if change.bounded:
        axes.plot([change.low, change.high], [height] * 2, linewidth=1.2, **look)
    face = look["color"] if change.bounded else "white"
    marker = {"marker": _LOOK[level]["marker"], "markersize": 5, "linestyle": "none", "markerfacecolor": face}
    axes.plot(change.value, height, zorder=3, **marker, **look)


def _signed(value: float, digits: int) -> str:
    """With a sign, unless it is nothing."""
    said = f"{value:+.{digits}f}"
    return said[1:] if float(said) == 0 else said.replace("-", "\N{MINUS SIGN}")


def _handles() -> list[Line2D]:
    levels = [
        style.line_handle(label=LEVEL_NAME[level], markersize=5, **LEVEL_LOOK[level]) for level in LEVELS
    ]
    chance = style.line_handle(label="chance", color=style.GREY, linestyle=":", linewidth=1)
    return [*levels, style.line_handle(label="surplus", markersize=5, **_LOOK[SUMMARY]), chance]
