"""Is a late layer robust, or only large? Scale, margin and critical noise by depth, over training.

Upper row in activation units, lower row relative to the layer's scale. Ours: the decomposition that
the fragility paper's section 5.3 names as missing.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.figures import marks, style
from strataprobe.figures.frames import (
    Checkpoints,
    Expected,
    by_layer,
    layer_count,
    one_study,
    spread_out,
    where,
)

_MOST = 7
_TWIN = " \N{BLACK DIAMOND}"


@style.styled
def draw(
    scale: pd.DataFrame,
    fragility: pd.DataFrame,
    *,
    title: str,
    expected: Expected = (),
    seeds: Sequence[int] = (),
    scaled: str = "rms_after",
    steps: Sequence[int] = (),
    width: float = style.TEXT_WIDTH,
    height: float = 4.8,
) -> Figure:
    """Draw six panels by depth of one model and dataset, a line a checkpoint.

    Args:
        scale, fragility: rows of the two tables.
        expected: (revision, step) of every checkpoint there should be; a missing one that would
            have a line is hatched in the colour bar, and all are named under the figure.
        seeds: seeds there should be; checkpoints with fewer are named under the figure.
        scaled: the scale control of the last panel.
        steps: steps to draw; by default at most seven, evenly apart among the checkpoints.

    Raises:
        StrataprobeError: no rows, rows of several models or datasets, or a revision without a step.
    """
    study = one_study(scale, fragility)
    checkpoints = Checkpoints.of([scale, fragility], expected)
    every = range(len(checkpoints.steps))
    chosen = [index for index in every if checkpoints.steps[index] in steps] or spread_out(len(every), _MOST)
    noise = where(fragility, statistic="continuous")
    figure = style.new_figure(title, width=width, height=height)
    panels = figure.subplots(2, 3, sharex=True)
    contents = (
        (panels[0, 0], scale, "activation_rms", "a  activation RMS"),
        (panels[0, 1], scale, "margin_mean", "b  geometric margin"),
        (panels[0, 2], where(noise, control="raw"), "critical_noise", "c  critical noise σ*, raw"),
        (panels[1, 0], scale, "first_token_share", "d  first-token share"),
        (panels[1, 1], scale, "margin_over_rms", "e  margin / RMS"),
        (panels[1, 2], where(noise, control=scaled), "critical_noise", "f  σ*, units of the RMS"),
    )
    for axes, frame, column, name in contents:
        _panel(axes, frame, column, checkpoints, chosen, layer_count(scale, fragility))
        axes.set_title(name)
        style.layer_axis(axes, layer_count(scale, fragility), label=axes in panels[1])
    twins = marks.twin_groups(checkpoints, scale, fragility)
    twin = {index for group in twins for index in group}
    # A line has no place of its own on an axis, so its name in the colour bar bears the diamond.
    names = [style.step_label(checkpoints.steps[index]) + _TWIN * (index in twin) for index in chosen]
    gone = set(checkpoints.missing(scale)) & set(checkpoints.missing(fragility))
    absent = [place for place, index in enumerate(chosen) if index in gone]
    style.named_colour_bar(figure, panels.ravel(), names, "training step", absent)
    gaps = checkpoints.gap_lines({"scale": scale, "critical noise": fragility}, seeds)
    gaps += marks.twin_lines(checkpoints, twins, "diamonds in the colour bar")
    style.note(figure, [*style.about(study, ". Bands: seed mean ± sd"), *gaps])
    return figure


def _panel(
    axes: Axes,
    frame: pd.DataFrame,
    column: str,
    checkpoints: Checkpoints,
    chosen: Sequence[int],
    layers: int,
) -> None:
    colours, drawn = style.ordered_colours(len(chosen)), []
    for place, index in enumerate(chosen):
        rows = where(frame, revision=checkpoints.revisions[index])
        if rows.empty:
            continue
        mean, spread = by_layer(rows, column, layers)
        look = {"color": colours(place), "zorder": 2 + place / 100}
        marker = "osD^vPX"[place % 7]
        axes.plot(range(layers), mean, marker=marker, label=f"_{checkpoints.revisions[index]}", **look)
        low, high = mean - spread, mean + spread
        axes.fill_between(range(layers), low, high, alpha=0.2, linewidth=0, **look)
        drawn.append(mean)
    values = np.concatenate(drawn) if drawn else np.array([])
    if not np.isfinite(values).any():
        style.say_empty(axes, "no value")
    if column == "first_token_share":
        axes.set_ylim(0, 1.03 * max(1.0, np.nanmax(values, initial=0.0)))
    else:
        style.log_if_wide(axes, values)
