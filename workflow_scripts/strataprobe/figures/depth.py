"""Layer by checkpoint: accuracy, raw critical noise, and critical noise in units of the RMS.

Source: fragility paper, section 4.2, Figure 4, with the scale control its section 5.3 asks for.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from strataprobe.figures import heatmaps, marks, style
from strataprobe.figures.frames import (
    Checkpoints,
    Expected,
    layer_count,
    one_study,
    seeds_only,
    spread_out,
    where,
)

_SOME = "some seeds have no value"


@style.styled
def draw(
    probing: pd.DataFrame,
    fragility: pd.DataFrame,
    *,
    title: str,
    expected: Expected = (),
    seeds: Sequence[int] = (),
    scaled: str = "rms_after",
    floor: float = 0.5,
    width: float = style.TEXT_WIDTH,
    height: float = 7.6,
) -> Figure:
    """Draw three heatmaps of one model and dataset, one column a checkpoint, seeds averaged.

    Args:
        probing, fragility: rows of the two tables.
        expected: (revision, step) of every checkpoint there should be; missing ones are hatched.
        seeds: seeds there should be; checkpoints with fewer are named under the figure.
        scaled: the scale control of the third panel.
        floor: accuracy at the dark end of the colours.

    Raises:
        StrataprobeError: no rows, rows of several models or datasets, or a revision without a step.
    """
    study = one_study(probing, fragility)
    checkpoints = Checkpoints.of([probing, fragility], expected)
    layers = layer_count(probing, fragility)
    noise = where(fragility, statistic="continuous")
    raw, controlled = where(noise, control="raw"), where(noise, control=scaled)
    figure = style.new_figure(title, width=width, height=height)
    # The last, low row holds nothing but the legend of the hatchings.
    grid = figure.add_gridspec(4, 1, height_ratios=(1, 1, 1, 0.06))
    panels = [figure.add_subplot(grid[0])]
    panels += [figure.add_subplot(grid[row], sharex=panels[0]) for row in (1, 2)]
    cells = _cells(probing, "accuracy", checkpoints, layers)
    norm = Normalize(min(floor, np.nanmin(cells, initial=1.0)), 1.0)
    used = _panel(panels[0], cells, norm, "probe accuracy\n(fraction of test items)", "a  accuracy")
    for axes, rows, unit, name in (
        (panels[1], raw, "σ* (activation units)", "b  raw critical noise"),
        (panels[2], controlled, "σ* (units of the RMS)", f"c  critical noise, {style.CONTROL_NAME[scaled]}"),
    ):
        cells = _cells(rows, "critical_noise", checkpoints, layers)
        used |= _panel(axes, cells, heatmaps.log_norm(cells), unit, name, _states(rows, checkpoints, layers))
        style.layer_labels(axes, layers)
    style.layer_labels(panels[0], layers)
    twins = marks.twin_groups(checkpoints, probing, fragility)
    for axes in panels:
        marks.mark_twins(axes, range(len(checkpoints.steps)), twins)
    _label_steps(panels[2], checkpoints.steps)
    heatmaps.legend(figure.add_subplot(grid[3]), used, _SOME)
    gaps = checkpoints.gap_lines({"accuracy": probing, "critical noise": fragility}, seeds)
    gaps += marks.twin_lines(checkpoints, twins)
    style.note(figure, [*style.about(study, "; mean over the seeds that have a value"), *gaps])
    return figure


def _cells(frame: pd.DataFrame, column: str, checkpoints: Checkpoints, layers: int) -> np.ndarray:
    """(layers, checkpoints) mean over seeds, NaN where there is none."""
    single = seeds_only(frame)
    keys = [single["layer"].astype(int), single["revision"].astype(str)]
    table = single[column].astype(float).groupby(keys).mean().unstack("revision")
    return table.reindex(index=range(layers), columns=list(checkpoints.revisions)).to_numpy(dtype=float)


def _states(frame: pd.DataFrame, checkpoints: Checkpoints, layers: int) -> np.ndarray:
    """(layers, checkpoints) the state most seeds are in; "" where there is no row.

    Only looked at where no seed has a value, and to count seeds that have none.
    """
    single = seeds_only(frame)
    places = {revision: index for index, revision in enumerate(checkpoints.revisions)}
    states = np.full((layers, len(places)), "", dtype=object)
    for (layer, revision), rows in single.groupby(
        [single["layer"].astype(int), single["revision"].astype(str)]
    ):
        counts = rows["state"].value_counts()
        states[layer, places[revision]] = "mixed" if len(counts) > 1 else counts.index[0]
    return states


def _panel(
    axes: Axes,
    cells: np.ndarray,
    norm: Normalize,
    unit: str,
    name: str,
    states: np.ndarray | None = None,
) -> set[str]:
    """One heatmap with its colour bar; returns which kinds of special cells it has."""
    mesh = heatmaps.draw_cells(axes, cells, norm)
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.015, aspect=16)
    bar.set_label(unit)
    if isinstance(norm, LogNorm):
        style.log_colour_bar(bar, norm.vmin, norm.vmax)
    axes.grid(visible=False)
    axes.set_ylabel("layer (block)")
    axes.set_title(name)
    states = np.full(cells.shape, "", dtype=object) if states is None else states
    return heatmaps.mark_special(axes, cells, states, _SOME)


def _label_steps(axes: Axes, steps: Sequence[int]) -> None:
    chosen = spread_out(len(steps), 10)
    axes.set_xticks(chosen, [style.step_label(steps[index]) for index in chosen])
    axes.set_xlabel("training step (one column a checkpoint)")
