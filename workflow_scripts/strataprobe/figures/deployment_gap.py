"""Does scale close the gap between what a probe recovers and what the model deploys, for each control type?

Source: levels paper, section 4.4 and Figure 5; Table 7 for the numbers by type.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from strataprobe.figures import level_looks as looks
from strataprobe.figures import level_rows as rows
from strataprobe.figures import style
from strataprobe.figures.level_names import (
    RECOVERABILITY,
    TASK_NAME,
    TASKS,
    Chosen,
    refuse_more,
    refuse_unknown,
    split_name,
)
from strataprobe.figures.level_rows import Compared

_LOOKS = (
    {"color": style.BLUE, "marker": "s"},
    {"color": style.VERMILION, "marker": "o"},
    {"color": style.GREEN, "marker": "^"},
    {"color": style.BLACK, "marker": "D"},
    {"color": style.PURPLE, "marker": "v"},
    {"color": style.ORANGE, "marker": "P"},
)
_DASH = {"marker": "_", "markersize": 9, "markeredgewidth": 1.2, "linestyle": "none"}


@style.styled
def draw(
    levels: pd.DataFrame,
    *,
    title: str,
    models: rows.Models = (),
    tasks: Sequence[str] = ("qa", "paraphrase"),
    splits: Sequence[str] = ("object_control", "subject_control"),
    coding: str | None = None,
    pick: str = "all",
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw recoverability minus behaviour, a panel a task and one place on the x axis a model.

    Args:
        levels: rows of the levels table, of one or several models.
        models: (name, revision) from left to right; models without a row are named below.
        tasks: of "qa", "paraphrase" and their "mean".
        splits: what is compared at each place: control types, or any other splits (six at most).
        coding: of the probe; by default what the table's conventions compare.
        pick: by what a layer is chosen, "all" items or each "split" (as the paper's Table 7).

    Raises:
        StrataprobeError: no rows, mixed or repeated rows, an unknown task or pick, or too many splits.
    """
    refuse_unknown(tasks=(tasks, TASKS))
    refuse_more(splits, len(_LOOKS), "splits")
    table = Compared.of(levels, models)
    chosen = Chosen.of(table.rows, None, coding, pick)
    figure = style.new_figure(title, width=width, height=height or 2.0 + 1.9 * len(tasks))
    grid = figure.add_gridspec(len(tasks) + 1, 1, height_ratios=(*[1] * len(tasks), 0.1))
    panels: list[Axes] = []
    for place, task in enumerate(tasks):
        shared = panels[0] if panels else None
        axes = figure.add_subplot(grid[place], sharex=shared, sharey=shared)
        axes.axhline(0, color=style.GREY, linestyle=":", linewidth=1, label="_no gap")
        for number, (split, look) in enumerate(zip(splits, _LOOKS, strict=False)):
            offset = (number - (len(splits) - 1) / 2) * min(0.22, 0.7 / len(splits))
            _split(axes, table, task, split, chosen, offset, look)
        axes.set_title(f"{'abc'[place]}  behaviour: {TASK_NAME[task]}")
        axes.set_ylabel("recoverability\nminus behaviour")
        axes.tick_params(labelbottom=place == len(tasks) - 1)
        axes.grid(axis="x", visible=False)
        panels.append(axes)
    _models(panels[-1], table.models, width)
    drawn = [line for axes in panels for line in axes.lines]
    chance = any(str(line.get_label()).startswith("_chance") for line in drawn)
    hollow = any(line.get_markerfacecolor() == "white" for line in drawn)
    looks.legend_row(figure, grid[-1], _handles(splits, chance))
    looks.note(figure, _small_print(table, tasks, splits, chosen, chance, hollow))
    return figure


def _split(
    axes: Axes, table: Compared, task: str, split: str, chosen: Chosen, offset: float, look: dict[str, Any]
) -> None:
    for place, model in enumerate(table.models):
        gap = table.surplus(model, task, split, chosen)
        if gap is None:
            continue
        own = {"color": look["color"], "label": f"_{model}, {split}"}
        if gap.bounded:
            axes.plot([place + offset] * 2, [gap.low, gap.high], linewidth=1.2, **own)
        face = look["color"] if gap.bounded else "white"
        marker = {"marker": look["marker"], "markersize": 5, "markerfacecolor": face, "linestyle": "none"}
        axes.plot(place + offset, gap.value, zorder=3, **marker, **own)
        null = table.null(model, RECOVERABILITY, split, chosen)
        probe = table.mark(model, RECOVERABILITY, chosen.measures(task)[RECOVERABILITY], split)
        if null is not None and probe is not None:
            # The gap of a probe that has nothing but the luck of the maximum.
            height = gap.value - probe.value + null.value
            own = {"color": style.BLACK, "label": f"_chance {model}, {split}"}
            axes.plot(place + offset, height, zorder=4, **_DASH, **own)


def _models(axes: Axes, models: Sequence[str], width: float) -> None:
    """Names below, in as many letters a line as a model's place holds."""
    letters = max(6, int((width - 0.9) / len(models) / 0.062))
    size = 7.0 if len(models) <= 8 else 6.0
    axes.set_xticks(range(len(models)), [looks.wrapped(name, letters) for name in models], fontsize=size)
    axes.set_xlim(-0.5, len(models) - 0.5)


def _handles(splits: Sequence[str], chance: bool) -> list[Line2D]:
    shown = [
        style.line_handle(label=split_name(split), markersize=5, linestyle="-", **look)
        for split, look in zip(splits, _LOOKS, strict=False)
    ]
    null = style.line_handle(label="the gap that 95 % of chance gives", color=style.BLACK, **_DASH)
    return [*shown, *([null] if chance else [])]


def _small_print(
    table: Compared, tasks: Sequence[str], splits: Sequence[str], chosen: Chosen, chance: bool, hollow: bool
) -> list[str]:
    said = [
        f"{table.about(splits)}. {chosen.said_of_probe(splits)}",
        *rows.bootstrap_line(table.rows, splits),
    ]
    if chance:
        said.append(
            "Black dashes: 95 % quantile of that maximum with labels exchanged within pairs (closed-form "
            "ridge), minus behaviour."
        )
    if hollow:
        said.append("Open marks: the bare difference; the table has no interval for it.")
    without = {
        f"gap ({TASK_NAME[task]}, {split_name(split)})": [
            model for model in table.models if table.surplus(model, task, split, chosen) is None
        ]
        for task in tasks
        for split in splits
    }
    gone = [f"No {name}: {', '.join(models)}." for name, models in without.items() if models]
    return [*said, *table.absent_line(), *gone]
