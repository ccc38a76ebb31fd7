"""How much hangs on the threshold? Flagged cells over thresholds, and the gate's verdicts by scope.

Source: lucky-defaults paper, Table 2 and section 3.2; its own counts are drawn beside ours.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from strataprobe.concentration import VERDICTS
from strataprobe.figures import style
from strataprobe.figures.frames import where
from strataprobe.figures.routing_frames import (
    P_MIN,
    VERDICT_LOOK,
    Models,
    Routes,
    apart,
    of_models,
    scope_axis,
    small_print,
)
from strataprobe.published import Numbers

_HATCH = dict(zip(VERDICTS, ("", "////", "....", "xxxx"), strict=True))
_OURS = {"color": style.BLUE, "marker": "o", "linestyle": "-"}
_THEIRS = {"color": style.VERMILION, "marker": "s", "linestyle": (0, (4, 1.5))}
_LEFT, _RIGHT = 0.5, 1.005
_PAPER = "lucky_defaults"
_FITS = 0.07  # of the bar's height, from which a count stands inside


@style.styled
def draw(
    sensitivity: pd.DataFrame,
    cells: pd.DataFrame,
    numbers: Numbers | None = None,
    *,
    title: str,
    models: Models = (),
    lucky: float = 0.95,
    width: float = style.TEXT_WIDTH,
    height: float = 3.5,
) -> Figure:
    """Draw counts of cells: flagged ones as steps over the threshold, verdicts as bars by scope.

    Args:
        sensitivity, cells: rows of the routing_sensitivity and routing_cells tables; several models are
            counted together, as the paper counts its three.
        numbers: what the papers print; without it ours alone.
        models: (name, revision) of those to draw; all by default, one revision each.
        lucky: the gate's threshold for p_w,min.

    Raises:
        StrataprobeError: no rows, several datasets or revisions, or a cell twice.
    """
    found = Routes.of(cells, models)
    counted = of_models(sensitivity, models) if len(sensitivity) else sensitivity
    figure = style.new_figure(title, width=width, height=height)
    grid = figure.add_gridspec(2, 2, height_ratios=(1, 0.2), width_ratios=(1.15, 1))
    left, right = (figure.add_subplot(grid[0, column]) for column in (0, 1))
    _flagged(left, found, counted, numbers, lucky)
    _verdicts(right, found)
    _legend(figure.add_subplot(grid[1, 0]), left.get_legend_handles_labels()[0], 1)
    named = [Patch(label=verdict, **_bar(verdict)) for verdict in VERDICTS]
    _legend(figure.add_subplot(grid[1, 1]), named, 2)
    style.note(figure, small_print(_small_print(found, counted, numbers), width))
    return figure


def _legend(axes: Axes, handles: Sequence, columns: int) -> None:
    axes.axis("off")
    axes.legend(handles=list(handles), loc="center", ncols=columns, borderpad=0, columnspacing=1.1)


def _flagged(axes: Axes, found: Routes, counted: pd.DataFrame, numbers: Numbers | None, lucky: float) -> None:
    """Steps from the cells themselves, marks at the thresholds of the tables."""
    axes.axvline(lucky, color=style.BLACK, linestyle="--", linewidth=0.9, label="_lucky threshold", zorder=1)
    shares = found.over_scopes("p_top_min")
    largest = [np.nanmax(shares[cell]) for cell in found.passing if np.isfinite(shares[cell]).any()]
    verb = "passes" if len(found.passing) == 1 else "pass"
    said = f"this study, of {len(found.passing)} that {verb}{found.at_first}"
    levels, flags = totals(counted)
    steps = [_counts(axes, largest, levels, flags, label=said, **_OURS)]
    if numbers is not None:
        theirs = published(numbers)
        printed = numbers.find(paper=_PAPER, place="Table 2")
        at = [float(number.group.removeprefix("threshold ")) for number in printed]
        said = f"published, of {len(theirs)} cells of three models"
        flags = [int(number.value) for number in printed]
        steps.append(_counts(axes, theirs, at, flags, label=said, **_THEIRS))
    if not found.passing:
        axes.text(
            0.04, 0.1, f"no cell of this study passes{found.at_first}", transform=axes.transAxes,
            color=style.GREY,
        )  # fmt: skip
    axes.set_xlim(_LEFT, _RIGHT)
    axes.set_ylim(-0.02 * max([*steps, 1]), max([*steps, 1]) * 1.08)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel(f"threshold for {P_MIN}")
    axes.set_ylabel("flagged cells")
    axes.set_title("a  flagged at any scope, by threshold")


def _counts(
    axes: Axes, largest: Sequence[float], at: Sequence[float], flags: Sequence[int], *, label: str, **look
) -> int:
    """One study's steps and marks; returns the highest."""
    ends = np.unique([value for value in largest if value >= _LEFT])
    ends = np.append(ends, _RIGHT) if not len(ends) or ends[-1] < _RIGHT else ends
    heights = [sum(value >= end for value in largest) for end in ends]
    # The count holds up to its threshold, that included: steps fall just behind it.
    places, counts = [_LEFT, *ends], [heights[0], *heights]
    axes.plot(places, counts, drawstyle="steps-pre", label=label, markevery=[], **look)
    axes.plot(
        at, flags, linestyle="none", marker=look["marker"], color=look["color"], markersize=3.8, zorder=4,
        label=f"_table {label}",
    )  # fmt: skip
    return max([*counts, *flags])


def totals(counted: pd.DataFrame) -> tuple[list[float], list[int]]:
    """Thresholds and how many cells reach them in all models together, of those that all models have."""
    if counted.empty:
        return [], []
    by_level = counted.groupby("threshold")
    shared = by_level["model"].nunique() == counted["model"].nunique()
    flags = by_level["flagged"].sum()[shared]
    return [float(level) for level in flags.index], [int(count) for count in flags]


def published(numbers: Numbers) -> list[float]:
    """The largest p_w,min over the scopes of each cell of the paper's Table 4."""
    by_cell: dict[tuple, list[float]] = {}
    for number in numbers.find(paper=_PAPER, place="Table 4"):
        by_cell.setdefault((number.model, number.group, number.layer), []).append(number.value)
    return [max(values) for values in by_cell.values()]


def _verdicts(axes: Axes, found: Routes) -> None:
    """How many cells of each scope have which verdict, with the counts written where they fit."""
    rows = found.rows.assign(verdict=found.rows["verdict"].astype(str))
    most = int(rows.groupby("scope").size().max())
    for place, scope in enumerate(found.scopes):
        below, narrow = 0, []
        for verdict in VERDICTS:
            count = len(where(rows, scope=scope, verdict=verdict))
            axes.bar(place, count, 0.72, bottom=below, label=f"_{verdict}", zorder=2, **_bar(verdict))
            if count >= _FITS * most:
                axes.text(
                    place, below + count / 2, str(count), ha="center", va="center", fontsize=6.5, zorder=3,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.9},
                )  # fmt: skip
            elif count:
                narrow.append((below + count / 2, count))
            below += count
        heights = apart([height for height, _ in narrow], 0.078 * most, 0.03 * most, most)
        for height, (_, count) in zip(heights, narrow, strict=True):
            axes.text(place + 0.39, height, str(count), va="center", fontsize=6.2)
    scope_axis(axes, found.scopes)
    axes.set_xlim(-0.6, len(found.scopes) - 0.3)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel("cells")
    axes.set_title("b  verdicts by scope")


def _bar(verdict: str) -> dict:
    colour = VERDICT_LOOK[verdict]["color"]
    return {"facecolor": colour + "99", "edgecolor": "#333333", "linewidth": 0.5, "hatch": _HATCH[verdict]}


def _small_print(found: Routes, counted: pd.DataFrame, numbers: Numbers | None) -> list[str]:
    lines = [f"{found.about()} {found.outcome()}"]
    if counted.empty:
        lines.append("The table of thresholds has no row: steps alone, from the cells.")
    else:
        lines.append(
            f"Steps: cells whose largest {P_MIN} over the scopes reaches the threshold; marks: thresholds of "
            "the tables."
        )
    if numbers is not None:
        lines.append(f"Published: Tables 2 and 4 of the paper, of {len(published(numbers))} cells that pass.")
    return [*lines, *found.lacking()]
