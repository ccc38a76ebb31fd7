"""Each group by itself: peak accuracy of its own probe over training, against the peak that chance gives.

Source: fragility paper, appendix A. With 16 test sentences a group, the best of many layers is far above 0.5
by chance alone (DEFINITIONS, foundations), so that peak is drawn too.
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.figures import marks, style
from strataprobe.figures.frames import Checkpoints, Expected, one_study, seeds_only, where

_COLUMNS = 3


@style.styled
def draw(
    foundations: pd.DataFrame,
    *,
    title: str,
    expected: Expected = (),
    step_scale: str = "linear",
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw the foundations table of one model and dataset, a panel a group.

    Args:
        foundations: rows of the foundations table.
        expected: (revision, step) of every checkpoint there should be; missing ones are hatched.

    Raises:
        StrataprobeError: no rows, rows of several models or datasets, or a revision without a step.
    """
    study = one_study(foundations)
    checkpoints = Checkpoints.of([foundations], expected)
    groups = list(dict.fromkeys(foundations["group"].astype(str)))
    columns = min(_COLUMNS, len(groups))
    rows = -(-len(groups) // columns)
    figure = style.new_figure(title, width=width, height=height or 1.2 + 1.65 * rows)
    # The last, low row holds nothing but the legend.
    grid = figure.add_gridspec(rows + 1, columns, height_ratios=(*[1] * rows, 0.06))
    panels: list[Axes] = []
    twins = marks.twin_groups(checkpoints, foundations)
    for place, group in enumerate(groups):
        shared = panels[0] if panels else None
        axes = figure.add_subplot(grid[place // columns, place % columns], sharex=shared, sharey=shared)
        _panel(axes, where(foundations, group=group), checkpoints)
        axes.set_title(group)
        style.mark_gaps(axes, checkpoints.steps, checkpoints.missing(where(foundations, group=group)))
        marks.mark_twins(axes, checkpoints.steps, twins)
        style.step_axis(axes, checkpoints.steps, scale=step_scale, label=False)
        _edges(axes, left=place % columns == 0, bottom=place + columns >= len(groups))
        panels.append(axes)
    lowest = min(axes.dataLim.ymin for axes in panels)
    panels[0].set_ylim(min(0.45, lowest - 0.02), 1.03)
    handles, names = panels[0].get_legend_handles_labels()
    below = figure.add_subplot(grid[-1, :])
    below.axis("off")
    below.legend(handles, names, loc="center", ncols=len(handles))
    lines = [*_small_print(foundations, study, checkpoints), *marks.twin_lines(checkpoints, twins)]
    style.note(figure, lines)
    return figure


def _small_print(foundations: pd.DataFrame, study: dict[str, str], checkpoints: Checkpoints) -> list[str]:
    test = sorted({int(count) for count in foundations["test_items"].dropna()})
    seeds = seeds_only(foundations)["seed"].astype(str).unique()
    about = style.about(
        study, f". Line: mean of {len(seeds)} seed{'s' * (len(seeds) != 1)}, dots: single seeds"
    )
    permuted = where(foundations, quantity="chance_peak")
    grey = "" if permuted.empty else " Grey: the peak that permuted labels give, mean to 95 % quantile."
    gaps = checkpoints.gap_lines({"all groups": foundations}, list(seeds))
    return [*about, f"{' or '.join(map(str, test))} test sentences a group.{grey}", *gaps]


def _edges(axes: Axes, *, left: bool, bottom: bool) -> None:
    """Axis labels at the outer edge alone; below a group that has no panel under it, too."""
    axes.tick_params(labelleft=left, labelbottom=bottom)
    if left:
        axes.set_ylabel("peak accuracy\nover layers")
    if bottom:
        axes.set_xlabel("training step")


def _panel(axes: Axes, frame: pd.DataFrame, checkpoints: Checkpoints) -> None:
    steps = checkpoints.steps
    chance = checkpoints.along(where(frame, quantity="chance_peak"), "value")
    high = checkpoints.along(where(frame, quantity="chance_peak_high"), "value")
    if np.isfinite(chance).any():
        axes.plot(
            steps,
            chance,
            color=style.GREY,
            linestyle="--",
            marker="x",
            linewidth=1,
            label="peak by chance, mean",
        )
        axes.fill_between(
            steps, chance, high, color=style.GREY, alpha=0.25, linewidth=0, label="up to its 95 % quantile"
        )
    peak = where(frame, quantity="peak_accuracy")
    for seed, own in peak.groupby(peak["seed"].astype(str)):
        values = checkpoints.along(own, "value")
        axes.plot(steps, values, ".", color=style.SKY, markersize=2.5, label=f"_seed {seed}")
    mean = checkpoints.along(peak, "value")
    axes.plot(steps, mean, color=style.BLUE, marker="o", label="peak of the group's own probe", zorder=4)
