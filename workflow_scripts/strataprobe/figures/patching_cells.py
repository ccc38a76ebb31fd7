"""Lift of every task and control type by layer, a row a model; beside it what each kind of donor does.

Source: levels paper, appendix G.3 and Figure 8; the control donors are ours.
"""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.figures import level_looks as looks
from strataprobe.figures import level_rows as rows
from strataprobe.figures import style
from strataprobe.figures.level_names import TASK_NAME, TASKS, refuse_unknown, split_name
from strataprobe.figures.patching_curves import MEASURES, Patched, cell_name, counted, draw_curve

_CELL_LOOK: dict[tuple[str, str], dict[str, Any]] = {
    ("qa", "subject_control"): {"color": style.VERMILION, "marker": "o", "linestyle": "-"},
    ("qa", "object_control"): {"color": style.ORANGE, "marker": "s", "linestyle": "--"},
    ("paraphrase", "subject_control"): {"color": style.BLUE, "marker": "^", "linestyle": "-."},
    ("paraphrase", "object_control"): {"color": style.SKY, "marker": "D", "linestyle": ":"},
}
_DONOR_LOOK: dict[str, dict[str, Any]] = {
    "correct": {"color": style.GREEN, "marker": "o", "linestyle": "-"},
    "wrong": {"color": style.PURPLE, "marker": "s", "linestyle": "--"},
    "random": {"color": style.BLACK, "marker": "^", "linestyle": "-."},
    "norm": {"color": style.GREY, "marker": "x", "linestyle": ":"},
}
_DONOR_NAME = {
    "correct": "correct donor",
    "wrong": "wrong donor",
    "random": "random donor",
    "norm": "random direction\nof the same length",
}


@style.styled
def draw(
    patching: pd.DataFrame,
    *,
    title: str,
    models: rows.Models = (),
    task: str = "qa",
    split: str = "all",
    states: str | None = None,
    window: int = 1,
    measure: str = "lift",
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw a row a model: lift of each task and control type, and rescue by each kind of donor.

    Args:
        patching: rows of the patching table, of one or several models.
        models: (name, revision) from top to bottom; models without a row are named below.
        task, split: of the panel of donors on the right.
        states: where donors' states are taken, "own_prompt" or "bare"; by default what the table has first.
        window: how many adjacent layers are patched together.
        measure: "lift", or "lift_pooled" as published; with it the rates on the right are pooled too.
        height: by default the page grows with the models.

    Raises:
        StrataprobeError: no rows, mixed rows, or an unknown option.
    """
    refuse_unknown(task=([task], [name for name in TASKS if name != "mean"]))
    table = Patched.of(patching, models, states, window, measure)
    cells = {cell: look for cell, look in _CELL_LOOK.items() if cell[0] in table.tasks}
    handles = [
        *(style.line_handle(label=cell_name(*cell), **look) for cell, look in cells.items()),
        *(style.line_handle(label=_DONOR_NAME[kind], **look) for kind, look in _DONOR_LOOK.items()),
        style.line_handle(label="probe peak", color=style.BLACK, linestyle=":", linewidth=1.1),
    ]
    below = looks.legend_height([str(each.get_label()) for each in handles], width)
    count = len(table.models)
    figure = style.new_figure(title, width=width, height=height or 1.9 * count + 0.9 + below)
    grid = figure.add_gridspec(count + 1, 2, height_ratios=[*([1.9] * count), below])
    first: list[Axes | None] = [None, None]
    for place, model in enumerate(table.models):
        for column in (0, 1):
            axes = figure.add_subplot(grid[place, column], sharex=first[column], sharey=first[column])
            first[column] = first[column] or axes
            _frame(axes, table, model, task, last=place == count - 1)
            if column == 0:
                _lifts(axes, table, model, cells)
            else:
                _donors(axes, table, model, task, split)
    looks.legend_row(figure, grid[count, :], handles)
    looks.note(figure, _small_print(table, cells, measure))
    return figure


def _frame(axes: Axes, table: Patched, model: str, task: str, *, last: bool) -> None:
    axes.axhline(0, color=style.GREY, linewidth=0.8, label="_zero", zorder=1)
    probe = table.probe_peak(model, task)
    if probe is not None:
        axes.axvline(probe, color=style.BLACK, linestyle=":", linewidth=1.1, zorder=1, label="_probe peak")
    axes.set_xlim(table.from_depth(), 1.02)
    axes.tick_params(labelbottom=last)
    if last:
        axes.set_xlabel("relative depth of the patched layer")


def _lifts(axes: Axes, table: Patched, model: str, cells: dict[tuple[str, str], dict[str, Any]]) -> None:
    drawn = 0
    for cell, look in cells.items():
        curve = table.curve(model, *cell, table.measure)
        if not curve.empty:
            draw_curve(axes, curve, f"_{cell_name(*cell)}", look)
            drawn += 1
    if not drawn:
        style.say_empty(axes, "no wrong target has\ndonors of both kinds")
    axes.set_title(f"{model}: lift")
    axes.set_ylabel("lift")


def _donors(axes: Axes, table: Patched, model: str, task: str, split: str) -> None:
    drawn = 0
    for kind, look in _DONOR_LOOK.items():
        pooled = table.measure == "lift_pooled" and kind in ("correct", "wrong")
        curve = table.curve(model, task, split, f"{'rescue_pooled' if pooled else 'rescue'}:{kind}")
        if not curve.empty:
            draw_curve(axes, curve, f"_{kind}", look, band=kind in ("correct", "wrong"))
            drawn += 1
    if not drawn:
        style.say_empty(axes, "no wrong target has a donor")
    axes.set_title(f"answers put right ({TASK_NAME[task]}, {split_name(split)})")
    axes.set_ylabel("share")


def _small_print(table: Patched, cells: dict[tuple[str, str], dict[str, Any]], measure: str) -> list[str]:
    sizes = [
        f"{model}: "
        + "; ".join(f"{cell_name(*cell)} {counted(table.curve(model, *cell, measure))}" for cell in cells)
        for model in table.models
    ]
    return [
        f"{table.said()} Lift {MEASURES[measure]}. {table.bootstrap_line()} Those of random donors and "
        "directions are in the table.",
        *(f"{line}." for line in sizes),
        *table.absent_line(),
    ]
