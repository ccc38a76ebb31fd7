"""Coarse accuracy against the concentration of the least concentrated word: where cells stand in the gate.

Source: lucky-defaults paper, section 3; beside it what the canonical words' own p_w,min is, which is near 1
for a perfect probe too.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from strataprobe.concentration import FAIL, PROPERTY_ONLY, VERDICTS
from strataprobe.figures import level_looks as looks
from strataprobe.figures import style
from strataprobe.figures.routing_frames import (
    A_PI,
    BARS,
    P_MIN,
    VERDICT_LOOK,
    Models,
    Routes,
    scope_label,
    small_print,
)

_REGIONS = {"lucky": "#fbe3d6", "candidate": "#dff1ea"}
_RIGHT, _TOP, _SIZE = 1.025, 1.04, 4.3
_STRIPS = {"p_top_min": "invented", "canonical_p_top_min": "canonical"}


@style.styled
def draw(
    cells: pd.DataFrame,
    *,
    title: str,
    models: Models = (),
    coarse_accuracy: float = 0.65,
    lucky: float = 0.95,
    scopes: Sequence[str] = (),
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw a panel a scope: every cell by its verdict, with intervals where it passes at the first scope.

    Args:
        cells: rows of the routing_cells table, of one or several models.
        models: (name, revision) of those to draw; all by default, one revision each.
        coarse_accuracy, lucky: thresholds of the gate for A_pi and p_w,min; the regions between them.
        scopes: those to draw, in order; all by default.
        height: by default the page grows with the scopes.

    Raises:
        StrataprobeError: no rows, several datasets or revisions, a cell twice, or an unknown scope.
    """
    found = Routes.of(cells, models)
    looks_of = _handles(found)
    shown = found.chosen(scopes)
    columns = min(2, len(shown))
    rows = -(-len(shown) // columns)
    below = looks.legend_height([str(each.get_label()) for each in looks_of], width)
    figure = style.new_figure(title, width=width, height=height or 1.25 + 2.55 * rows + below)
    grid = figure.add_gridspec(2 * rows + 1, columns, height_ratios=(*[2.2, 0.42] * rows, below))
    panels: list[Axes] = []
    strips: list[Axes] = []
    for place, scope in enumerate(shown):
        row, column = divmod(place, columns)
        shared = panels[0] if panels else None
        axes = figure.add_subplot(grid[2 * row, column], sharex=shared, sharey=shared)
        _plane(axes, found, scope, coarse_accuracy, lucky)
        axes.set_title(f"{'abcdefgh'[place % 8]}  {scope_label(scope)}")
        axes.tick_params(labelleft=column == 0, labelbottom=False)
        axes.set_ylabel(f"coarse accuracy {A_PI}" if column == 0 else "")
        strip = figure.add_subplot(grid[2 * row + 1, column], sharex=axes)
        _strip(strip, found, scope, lucky, named=column == 0)
        strip.set_xlabel(P_MIN if place + columns >= len(shown) else "")
        panels.append(axes)
        strips.append(strip)
    panels[0].set_xlim(np.nanmin([0.18, *(found.rows[list(_STRIPS)].min() - 0.03)]), _RIGHT)
    panels[0].set_ylim(-0.03, _TOP)
    looks.legend_row(figure, grid[-1, :], looks_of)
    style.note(figure, small_print(_small_print(found, coarse_accuracy, lucky), width))
    return figure


def _plane(axes: Axes, found: Routes, scope: str, coarse: float, lucky: float) -> None:
    """The regions of the gate and the cells in them."""
    for name, corner, size in (
        ("lucky", (lucky, coarse), (2 - lucky, 2 - coarse)),
        ("candidate", (-1, coarse), (lucky + 1, 2 - coarse)),
    ):
        look = {"facecolor": _REGIONS[name], "edgecolor": "none", "zorder": 0.2, "label": f"_region {name}"}
        axes.add_patch(Rectangle(corner, *size, **look))
    edge = {"color": style.BLACK, "linestyle": "--", "linewidth": 0.9, "zorder": 1}
    axes.axhline(coarse, label="_coarse threshold", **edge)
    axes.axvline(lucky, label="_lucky threshold", **edge)
    # Above the panel: in it there are cells, and one region is too narrow for its name.
    small = {"fontsize": 6.3, "color": "#333333", "va": "bottom", "transform": axes.transAxes}
    axes.text(0.47, 1.012, "may pass ↓", ha="center", **small)
    axes.text(1.0, 1.012, "lucky default ↓", ha="right", **small)
    rows = found.rows[found.rows["scope"].astype(str) == scope]
    for row in rows.to_dict("records"):
        if found.cells[row["cell"]] in found.passing:
            _bars(axes, found.name(found.cells[row["cell"]]), row)
    for verdict in VERDICTS:
        own = rows[rows["verdict"].astype(str) == verdict]
        edges = {"markeredgecolor": "white", "markeredgewidth": 0.35} if verdict != FAIL else {}
        axes.plot(
            own["p_top_min"], own["coarse_accuracy"], linestyle="none", markersize=_SIZE, zorder=4,
            label=f"_{verdict}", **edges, **VERDICT_LOOK[verdict],
        )  # fmt: skip
    if rows.empty:
        style.say_empty(axes, "no value")


def _bars(axes: Axes, name: str, row: dict) -> None:
    """Both intervals of a cell that passes at the first scope, with a ring that marks it."""
    look = {"color": "#444444", "linewidth": 0.8, "zorder": 3}
    at = row["p_top_min"], row["coarse_accuracy"]
    axes.plot([row["p_top_min_low"], row["p_top_min_high"]], [at[1]] * 2, label=f"_p interval {name}", **look)
    axes.plot([at[0]] * 2, [row["coarse_low"], row["coarse_high"]], label=f"_A interval {name}", **look)
    ring = {"marker": "o", "markersize": 6.5, "markerfacecolor": "none", "markeredgewidth": 0.8}
    axes.plot([at[0]], [at[1]], label=f"_ring {name}", zorder=5, color=style.BLACK, linestyle="none", **ring)


def _strip(axes: Axes, found: Routes, scope: str, lucky: float, *, named: bool) -> None:
    """p_w,min of every cell by invented and by canonical words, with the median of each."""
    rows = found.rows[found.rows["scope"].astype(str) == scope]
    axes.axvline(lucky, color=style.BLACK, linestyle="--", linewidth=0.9, zorder=1, label="_lucky threshold")
    for height, (column, name) in enumerate(_STRIPS.items()):
        values = rows[column].to_numpy(dtype=float)
        values = values[np.isfinite(values)]
        colour = style.BLUE if column == "p_top_min" else style.ORANGE
        axes.plot(
            values, [height] * len(values), "|", color=colour, markersize=6, alpha=0.45, label=f"_{name}",
        )  # fmt: skip
        if len(values):
            axes.plot(
                [np.median(values)], [height], marker="v", markersize=4.2, color=style.BLACK, zorder=4,
                markeredgecolor="white", markeredgewidth=0.4, linestyle="none", label=f"_median {name}",
            )  # fmt: skip
        else:
            axes.text(
                0.5, height, "no value", transform=axes.get_yaxis_transform(), ha="center", va="center",
                fontsize=6.2, color=style.GREY,
            )  # fmt: skip
    axes.set_ylim(len(_STRIPS) - 0.4, -0.6)
    axes.set_yticks(range(len(_STRIPS)), list(_STRIPS.values()) if named else [""] * len(_STRIPS))
    axes.tick_params(axis="y", labelsize=6.5, length=0)
    axes.grid(axis="y", visible=False)


def _handles(found: Routes) -> list:
    there = set(found.rows["verdict"].astype(str))
    marks = [
        style.line_handle(label=verdict, markersize=_SIZE, linestyle="none", **VERDICT_LOOK[verdict])
        for verdict in VERDICTS
        if verdict in there
    ]
    ring = {"marker": "o", "markersize": 6.5, "markerfacecolor": "none", "linestyle": "none"}
    if found.passing:
        marks.append(style.line_handle(label=f"passes{found.at_first}", color=style.BLACK, **ring))
    median = {"marker": "v", "markersize": 4.2, "linestyle": "none"}
    return [*marks, style.line_handle(label="median of the cells", color=style.BLACK, **median)]


def _small_print(found: Routes, coarse: float, lucky: float) -> list[str]:
    return [
        f"{found.about()} {found.outcome()}",
        *([BARS] if found.passing else []),
        f"Dashed: the gate asks for {A_PI} of at least {coarse:g} and {P_MIN} below {lucky:g}; a cell that "
        "may pass does if HHI, largest share, the shares of the sides and the canonical words' property "
        f"accuracy are within it too; {PROPERTY_ONLY}: that accuracy is, the rest is not.",
        f"Strips: {P_MIN} of each cell by its invented words, and by the canonical words that its probe "
        "knows. Where those are near 1 as well, concentration alone does not tell a collapse from a sure "
        "probe.",
        *found.lacking(),
    ]
