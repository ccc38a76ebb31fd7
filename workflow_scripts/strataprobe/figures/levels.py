"""What a model deploys, what its LM head reads out and what a probe recovers, on the same items.

Source: levels paper, sections 3.2 and 4.1, Figures 1 and 2; the chance of the maxima is in docs/methods.md.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from strataprobe.figures import level_looks as looks
from strataprobe.figures import level_rows as rows
from strataprobe.figures import style
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
    split_name,
)
from strataprobe.figures.level_rows import Compared, Mark

_OFFSET = {BEHAVIOR: -0.24, READOUT: 0.0, RECOVERABILITY: 0.24}
_TICK = {"marker": "|", "markersize": 8.5, "markeredgewidth": 1.3, "linestyle": "none"}
_ROW = 0.42  # inches
_LETTERS = 24  # of a model's name in a line


@style.styled
def draw(
    levels: pd.DataFrame,
    *,
    title: str,
    models: rows.Models = (),
    split: str | Sequence[str] = "all",
    task: str = "mean",
    definition: str | None = None,
    coding: str | None = None,
    pick: str = "all",
    chance: float = 0.5,
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw one row a model (and split): three marks joined by a line, and the surplus beside them.

    Args:
        levels: rows of the levels table, of one or several models.
        models: (name, revision) in the order of the rows; models without a row are named below.
        split: "all", a language, a control type, "en:object_control", or several of them.
        task: behaviour in "qa", in "paraphrase", or their "mean".
        definition: of the readout: "default", "code", "paper" or "tuned"; by default what the table's
            conventions compare.
        coding: of the probe: "paper", "decorrelated", "pair_out:decorrelated" (other folds), "paper:seed1729"
            (of one seed); by default likewise.
        pick: by what a layer is chosen, "all" items or each "split" (as the paper's Figure 2 and Table 7).
        chance: accuracy of guessing.
        height: by default the page grows with the rows.

    Raises:
        StrataprobeError: no rows, mixed or repeated rows, or an unknown task or pick.
    """
    refuse_unknown(task=([task], TASKS))
    table = Compared.of(levels, models)
    chosen = Chosen.of(table.rows, definition, coding, pick)
    splits = [split] if isinstance(split, str) else list(split)
    places = [(model, part) for model in table.models for part in splits]
    figure = style.new_figure(title, width=width, height=height or 1.8 + _ROW * len(places))
    grid = figure.add_gridspec(2, 2, width_ratios=(2.3, 1), height_ratios=(_ROW * len(places), 0.3))
    left = figure.add_subplot(grid[0, 0])
    right = figure.add_subplot(grid[0, 1], sharey=left)
    for place, (model, part) in enumerate(places):
        _row(left, table, model, part, place, chosen, task)
        _surplus(right, table.surplus(model, task, part, chosen), place, f"_{model}, {part}")
    left.set_yticks(range(len(places)), [_name(table, *one, len(splits) > 1) for one in places])
    _finish(left, right, len(places), chance)
    ticks = any(str(line.get_label()).startswith("_null") for line in left.lines)
    looks.legend_row(figure, grid[1, :], _handles(ticks), 5)
    hollow = any(line.get_markerfacecolor() == "white" for line in right.lines)
    looks.note(figure, _small_print(table, splits, chosen, task, ticks, hollow))
    return figure


def _row(
    axes: Axes, table: Compared, model: str, split: str, place: float, chosen: Chosen, task: str
) -> None:
    """Three marks of one model, a little below each other so that their intervals stay apart."""
    found = {
        level: mark
        for level, measure in chosen.measures(task).items()
        if (mark := table.mark(model, level, measure, split)) is not None
    }
    heights = [place + _OFFSET[level] for level in found]
    joined = {"color": style.GREY, "linewidth": 0.7, "zorder": 2, "label": f"_joined {model}, {split}"}
    axes.plot([mark.value for mark in found.values()], heights, **joined)
    for (level, mark), height in zip(found.items(), heights, strict=True):
        look = {name: LEVEL_LOOK[level][name] for name in ("color", "marker")}
        label = f"{level} {model}, {split}"
        axes.plot(mark.value, height, linestyle="none", markersize=5, zorder=4, label=f"_{label}", **look)
        if mark.bounded:
            span = {"color": look["color"], "linewidth": 1.2, "zorder": 3, "label": f"_interval {label}"}
            axes.plot([mark.low, mark.high], [height] * 2, **span)
        if (null := table.null(model, level, split, chosen)) is not None:
            axes.plot(null.value, height, color=style.BLACK, zorder=5, label=f"_null {label}", **_TICK)


def _surplus(axes: Axes, mark: Mark | None, place: float, label: str) -> None:
    if mark is None:
        return
    look: dict[str, Any] = {"color": style.BLACK, "label": label}
    if mark.bounded:
        axes.plot([mark.low, mark.high], [place] * 2, linewidth=1.2, **look)
    face = style.BLACK if mark.bounded else "white"
    axes.plot(mark.value, place, "D", markersize=4, markerfacecolor=face, zorder=3, **look)


def _finish(left: Axes, right: Axes, count: int, chance: float) -> None:
    left.axvline(chance, color=style.GREY, linestyle=":", linewidth=1, label="_chance", zorder=1)
    right.axvline(0, color=style.GREY, linestyle=":", linewidth=1, label="_no surplus", zorder=1)
    left.set_ylim(count - 0.45, -0.55)
    left.set_xlim(min(0.28, left.dataLim.x0 - 0.02), 1.03)
    left.set_title("a  three levels on the same items")
    left.set_xlabel("accuracy")
    right.tick_params(labelleft=False)
    right.set_title("b  surplus")
    right.set_xlabel("recoverability\nminus behaviour")
    right.xaxis.set_major_locator(MaxNLocator(4))
    if len(right.lines) == 1:
        style.say_empty(right, "no surplus")
        right.set_xticks([])


def _name(table: Compared, model: str, split: str, several: bool) -> str:
    name = looks.wrapped(model, _LETTERS)
    if not several:
        return name
    return split_name(split) if len(table.models) == 1 else f"{name}\n{split_name(split)}"


def _handles(ticks: bool) -> list[Line2D]:
    levels = [
        style.line_handle(label=LEVEL_NAME[level], markersize=5, **(LEVEL_LOOK[level] | {"linestyle": "-"}))
        for level in LEVELS
    ]
    chance = style.line_handle(label="chance", color=style.GREY, linestyle=":", linewidth=1)
    null = style.line_handle(label="95 % of chance", color=style.BLACK, **_TICK)
    return [*levels, chance, *([null] if ticks else [])]


def _small_print(
    table: Compared, splits: Sequence[str], chosen: Chosen, task: str, ticks: bool, hollow: bool
) -> list[str]:
    who = f"{table.models[0]}, " if len(table.models) == 1 and len(splits) > 1 else ""
    lines = [
        f"{who}{table.about(splits)}. Behaviour: {TASK_NAME[task]}. {chosen.said(splits)}",
        *rows.bootstrap_line(table.rows, splits),
    ]
    if ticks:
        lines.append(
            "Upright ticks: 95 % quantile of the same maximum by chance (readout: sign flips over items; "
            "recoverability: labels exchanged within pairs, closed-form ridge)."
        )
    if hollow:
        lines.append("Open diamonds: the bare difference; the table has no interval for it.")
    if task == "mean" and (broken := _broken(table, splits, chosen)):
        lines.append(f"Levels out of order by more than one item: {', '.join(broken)}.")
    asked = {
        LEVEL_NAME[level]: [(level, measure, split) for split in splits]
        for level, measure in chosen.measures(task).items()
    }
    return [*lines, *table.lacking(asked)]


def _broken(table: Compared, splits: Sequence[str], chosen: Chosen) -> list[str]:
    """Rows whose levels are not in the order that the paper claims, as the table says of these levels."""
    found = []
    for model in table.models:
        for split in splits:
            mark = table.mark(model, SUMMARY, "ordering", split)
            if mark is not None and mark.value == 0 and chosen.stands_for(mark.note):
                found.append(model if len(splits) == 1 else f"{model} ({split_name(split)})")
    return found
