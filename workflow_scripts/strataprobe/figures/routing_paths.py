"""What becomes of a cell when the readout is enlarged: A_pi and p_w,min over the scopes.

Source: lucky-defaults paper, Table 4 and sections 4.2 and 4.3.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from strataprobe.concentration import PASS
from strataprobe.figures import level_looks as looks
from strataprobe.figures import style
from strataprobe.figures.routing_frames import (
    A_PI,
    BARS,
    P_MIN,
    PATH_LOOK,
    PATHS,
    Cell,
    Models,
    Routes,
    apart,
    scope_axis,
    small_print,
)

_MOST = 18  # cells whose names are listed below; the numbers of more have no room beside a panel
_TOP = 1.04
_SMALL = 6.2
_NULL = {"color": style.BLACK, "marker": "_", "markersize": 6, "markeredgewidth": 0.9, "linestyle": "none"}
_OTHER = {"color": "#b5b5b5", "linewidth": 0.5, "linestyle": "-"}


@style.styled
def draw(
    cells: pd.DataFrame,
    *,
    title: str,
    models: Models = (),
    coarse_accuracy: float = 0.65,
    lucky: float = 0.95,
    null: bool = True,
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw both measures over the scopes, a line a cell that passes at the first scope, the others grey.

    Args:
        cells: rows of the routing_cells table, of one or several models.
        models: (name, revision) of those to draw; all by default, one revision each.
        coarse_accuracy, lucky: thresholds of the gate for A_pi and p_w,min.
        null: whether to draw the 95 % point of the relabelling null of each cell.
        height: by default the page grows with the cells that are listed.

    Raises:
        StrataprobeError: no rows, several datasets or revisions, or a cell twice.
    """
    found = Routes.of(cells, models)
    named = found.passing[:_MOST]
    keys = _keys(found, named)
    handles = _handles(found, null)
    below = looks.legend_height([str(each.get_label()) for each in handles], width)
    columns, keyed = _room(keys, width)
    figure = style.new_figure(title, width=width, height=height or 3.75 + below + keyed)
    grid = figure.add_gridspec(3, 2, height_ratios=(2.7, below, max(keyed, 0.01)))
    left = figure.add_subplot(grid[0, 0])
    right = figure.add_subplot(grid[0, 1], sharex=left, sharey=left)
    _panel(left, found, "coarse_accuracy", ("coarse_low", "coarse_high"), named)
    _panel(right, found, "p_top_min", ("p_top_min_low", "p_top_min_high"), named)
    if null:
        _nulls(left, found)
    _finish(left, found, f"a  coarse accuracy {A_PI}", coarse_accuracy, "pass:")
    _finish(right, found, f"b  least concentrated word, {P_MIN}", lucky, "lucky\ndefault:")
    right.tick_params(labelleft=False)
    looks.legend_row(figure, grid[1, :], handles)
    if keys:
        axes = figure.add_subplot(grid[2, :])
        axes.axis("off")
        axes.legend(handles=keys, loc="center", ncols=columns, fontsize=_SMALL, borderpad=0, columnspacing=1)
    style.note(figure, small_print(_small_print(found, named, null), width))
    return figure


def _panel(axes: Axes, found: Routes, column: str, bounds: tuple[str, str], named: Sequence[Cell]) -> None:
    values, verdicts = found.over_scopes(column), found.over_scopes("verdict")
    low, high = (found.over_scopes(name) for name in bounds)
    scopes = np.arange(len(found.scopes), dtype=float)
    others = [cell for cell in found.cells if cell not in found.passing]
    if others:
        # One line with gaps: hundreds of them would be a large file.
        joined = np.concatenate([np.append(values[cell], np.nan) for cell in others])
        axes.plot(
            np.tile(np.append(scopes, np.nan), len(others)), joined, label="_others", zorder=1, **_OTHER
        )
    for cell, offset in zip(found.passing, _offsets(len(found.passing)), strict=True):
        look, name = PATH_LOOK[found.paths[cell]], found.name(cell)
        places = scopes + offset
        ends = np.stack([low[cell], high[cell], np.full(len(scopes), np.nan)], axis=1).ravel()
        bar = {"color": look["color"], "linewidth": 0.9, "alpha": 0.55, "zorder": 2}
        axes.plot(np.repeat(places, 3), ends, label=f"_interval {name}", **bar)
        axes.plot(places, values[cell], label=f"_line {name}", zorder=3, **{**look, "marker": ""})
        passes = verdicts[cell] == PASS
        for chosen, face, said in ((passes, look["color"], "passes"), (~passes, "white", "open")):
            marks = {"marker": look["marker"], "markersize": 3.8, "linestyle": "none", "color": look["color"]}
            axes.plot(
                places[chosen], values[cell][chosen], markerfacecolor=face, label=f"_{said} {name}",
                zorder=4, **marks,
            )  # fmt: skip
    _numbers(axes, found, values, named)
    if not found.passing:
        axes.text(
            0.5, 0.04, f"no cell passes the gate{found.at_first}", transform=axes.transAxes, ha="center",
            color=style.GREY,
        )  # fmt: skip


def _room(keys: Sequence[Line2D], width: float) -> tuple[int, float]:
    """Columns of the list of cells, and its height in inches."""
    longest = max((len(str(each.get_label())) for each in keys), default=1)
    columns = max(1, min(2, int((width - 0.2) / (0.0455 * longest + 0.4))))
    return columns, 0.125 * -(-len(keys) // columns)


def _offsets(count: int) -> np.ndarray:
    """Beside each other, so that their intervals stay apart."""
    return np.linspace(-0.2, 0.2, count) if count > 1 else np.zeros(count)


def _numbers(axes: Axes, found: Routes, values: dict[Cell, np.ndarray], named: Sequence[Cell]) -> None:
    """The number of each listed cell at the right end of its line."""
    ends = []
    for number, (cell, offset) in enumerate(zip(found.passing, _offsets(len(found.passing)), strict=True), 1):
        there = np.flatnonzero(np.isfinite(values[cell]))
        if cell in named and len(there):
            ends.append((number, cell, there[-1] + offset, values[cell][there[-1]]))
    heights = apart([end[3] for end in ends], 0.056, 0.02, _TOP - 0.02)
    last = len(found.scopes) - 1
    for (number, cell, place, value), height in zip(ends, heights, strict=True):
        colour = PATH_LOOK[found.paths[cell]]["color"]
        axes.plot(
            [place, last + 0.36], [value, height], color=colour, linewidth=0.4, label=f"_leader {number}",
            zorder=2,
        )  # fmt: skip
        axes.text(last + 0.4, height, str(number), color=colour, fontsize=_SMALL, va="center")


def _nulls(axes: Axes, found: Routes) -> None:
    points = found.over_scopes("relabelling_q95")
    for cell, offset in zip(found.passing, _offsets(len(found.passing)), strict=True):
        places = np.arange(len(found.scopes)) + offset
        axes.plot(places, points[cell], label=f"_null {found.name(cell)}", zorder=2.5, **_NULL)


def _finish(axes: Axes, found: Routes, title: str, threshold: float, said: str) -> None:
    axes.axhline(threshold, color=style.BLACK, linestyle="--", linewidth=0.9, label="_threshold", zorder=1.5)
    # Outside of the panel, where no line can run through it.
    axes.text(
        1.012, threshold, f"{said}\n≥ {threshold:g}", transform=axes.get_yaxis_transform(), fontsize=_SMALL,
        va="center", linespacing=1.15,
    )  # fmt: skip
    axes.set_ylim(0, _TOP)
    axes.set_xlim(-0.45, len(found.scopes) - 1 + 0.62)
    scope_axis(axes, found.scopes)
    axes.set_title(title)


def _handles(found: Routes, null: bool) -> list[Line2D]:
    paths = [
        style.line_handle(label=path, markersize=3.8, **PATH_LOOK[path])
        for path in PATHS
        if path in found.paths.values()
    ]
    hollow = {"marker": "o", "markersize": 3.8, "markerfacecolor": "white", "linestyle": "none"}
    extra = [style.line_handle(label="open: not a pass at that scope", color=style.BLACK, **hollow)]
    extra = extra if len(found.scopes) > 1 else []
    if null:
        extra.append(style.line_handle(label="95 % of relabellings", **_NULL))
    others = (
        [style.line_handle(label="other cells", **_OTHER)] if len(found.passing) < len(found.cells) else []
    )
    return [*paths, *(extra if paths else []), *others]


def _keys(found: Routes, named: Sequence[Cell]) -> list[Line2D]:
    return [
        style.line_handle(
            label=f"{number}  {found.name(cell)}", markersize=3.8, **PATH_LOOK[found.paths[cell]]
        )
        for number, cell in enumerate(named, 1)
    ]


def _small_print(found: Routes, named: Sequence[Cell], null: bool) -> list[str]:
    more = len(found.passing) - len(named)
    said = [f"{found.about()} {found.outcome()}"]
    if found.passing:
        dashes = " Black dashes: 95 % point when the words' sides are given out in all ways." if null else ""
        said.append(f"{BARS}{dashes}")
    if more:
        said.append(f"{more} more cells are drawn and not listed; the table routing_cells names them.")
    return [*said, *found.lacking()]
