"""Probing accuracy saturates; does fragility go on? Mean accuracy above, mean critical noise below.

Source: fragility paper, section 4.2, Figure 3. Raw critical noise never stands alone: beside it are
the forms in which the layer's own scale is divided out.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.figures import marks, style
from strataprobe.figures.frames import Checkpoints, Expected, one_study, seeds_only, where
from strataprobe.onsets import onset_step
from strataprobe.tabular import SEED_MEAN

_SCALED = ("rms_after", "rms_before", "within_class")
_SMALL_PRINT = "Thin lines: 95 % pair bootstrap of a seed, its bounds averaged over seeds."
_GRID_LOOK = {"capped": ("--", style.VERMILION), "dropped": (":", style.BLACK)}


@style.styled
def draw(
    trajectory: pd.DataFrame,
    *,
    title: str,
    expected: Expected = (),
    seeds: Sequence[int] = (),
    chance: float = 0.5,
    onset: float = 0.70,
    means: str = "dropped",
    step_scale: str = "linear",
    width: float = style.TEXT_WIDTH,
    height: float = 6.1,
) -> Figure:
    """Draw the trajectory table of one model and dataset.

    Args:
        trajectory: rows of the trajectory table, single seeds and `mean`.
        expected: (revision, step) of every checkpoint there should be; missing ones are hatched.
        seeds: seeds there should be; checkpoints with fewer are named under the figure.
        chance: accuracy of guessing.
        onset: mean accuracy over layers at which the property counts as there.
        step_scale: "linear", or "symlog" where the early checkpoints lie close together.
        means: how layers whose noise is censored enter the continuous lines (capped or dropped).

    Raises:
        StrataprobeError: no rows, rows of several models or datasets, or a revision without a step.
    """
    study = one_study(trajectory)
    checkpoints = Checkpoints.of([trajectory], expected)
    figure = style.new_figure(title, width=width, height=height)
    grid = figure.add_gridspec(3, 2, height_ratios=(1.15, 1, 0.22))
    top = figure.add_subplot(grid[0, :])
    raw, scaled = figure.add_subplot(grid[1, 0], sharex=top), figure.add_subplot(grid[1, 1], sharex=top)
    strips = figure.add_subplot(grid[2, 0], sharex=top), figure.add_subplot(grid[2, 1], sharex=top)
    accuracy = where(trajectory, quantity="mean_accuracy")
    noise = where(trajectory, quantity="mean_critical_noise", band="all")
    _accuracy(top, accuracy, checkpoints, chance=chance, onset=onset)
    continuous = where(noise, statistic="continuous", means=means)
    _raw(raw, noise, continuous, checkpoints)
    _scaled(scaled, continuous, checkpoints)
    _strip(strips[0], continuous, checkpoints, ("raw",))
    _strip(strips[1], continuous, checkpoints, _SCALED)
    twins = marks.twin_groups(checkpoints, trajectory)
    for axes, frame in ((top, accuracy), (raw, noise), (scaled, noise)):
        style.mark_gaps(axes, checkpoints.steps, checkpoints.missing(frame))
        marks.mark_twins(axes, checkpoints.steps, twins)
        style.step_axis(axes, checkpoints.steps, scale=step_scale, label=False)
    gaps = checkpoints.gap_lines({"accuracy": accuracy, "critical noise": noise}, seeds)
    gaps += marks.twin_lines(checkpoints, twins)
    count = seeds_only(trajectory)["seed"].astype(str).nunique()
    bands = f". Bands: seed mean ± sd ({count} seeds)" if count > 1 else "; one seed"
    style.note(figure, [*style.about(study, bands), _SMALL_PRINT, *gaps])
    return figure


def _accuracy(
    axes: Axes, frame: pd.DataFrame, checkpoints: Checkpoints, *, chance: float, onset: float
) -> None:
    axes.axhline(chance, color=style.GREY, linestyle=":", linewidth=1, label="chance")
    axes.axhline(onset, color=style.GREY, linestyle="--", linewidth=1, label=f"onset level {onset:.2f}")
    mean = _curve(axes, frame, checkpoints, color=style.BLUE, label="seed mean", marker="o")
    _bootstrap(axes, frame, checkpoints, style.BLUE)
    _mark_onset(axes, frame, checkpoints, mean, onset)
    finite = mean[np.isfinite(mean)]
    axes.set_ylim(min(0.45, *(finite - 0.05)) if len(finite) else 0.45, 1.02)
    axes.set_ylabel("mean probe accuracy\nover layers")
    axes.set_title("a  accuracy")
    # Below the panel: wherever the accuracy stays, the legend covers none of it.
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=5, columnspacing=1.2, handlelength=2.2)


def _mark_onset(
    axes: Axes, frame: pd.DataFrame, checkpoints: Checkpoints, mean: np.ndarray, onset: float
) -> None:
    single = seeds_only(frame)
    for index, (_, rows) in enumerate(single.groupby(single["seed"].astype(str))):
        own, _ = onset_step(zip(checkpoints.steps, checkpoints.along(rows, "value"), strict=True), onset)
        if own is not None:
            label = "onset of a seed" if index == 0 else "_onset of a seed"
            axes.plot([own], [onset], "|", color=style.BLACK, markersize=7, label=label, linestyle="none")
    first, sustained = onset_step(zip(checkpoints.steps, mean, strict=True), onset)
    if first is None:
        said = "onset: not reached"
    elif sustained == first:
        said = f"onset: step {style.step_label(first)}, sustained"
    else:
        kept = "never sustained" if sustained is None else f"sustained from {style.step_label(sustained)}"
        said = f"onset: step {style.step_label(first)}, {kept}"
    if first is not None:
        axes.axvline(first, color=style.BLACK, linestyle="-", linewidth=0.9, label="_onset")
    axes.set_title(said, loc="right", fontsize=7.5)


def _raw(axes: Axes, noise: pd.DataFrame, continuous: pd.DataFrame, checkpoints: Checkpoints) -> None:
    raw = where(continuous, control="raw")
    drawn = [_curve(axes, raw, checkpoints, color=style.BLUE, label="exact, continuous", marker="o")]
    _bootstrap(axes, raw, checkpoints, style.BLUE)
    for means, (dash, colour) in _GRID_LOOK.items():
        grid = where(noise, control="raw", statistic="grid_sampled", means=means, seed=SEED_MEAN)
        values = checkpoints.along(grid, "value")
        axes.plot(
            checkpoints.steps,
            values,
            color=colour,
            linestyle=dash,
            linewidth=0.9,
            label=f"published grid, {means}",
        )
        drawn.append(values)
    axes.set_title("b  raw critical noise")
    axes.set_ylabel("mean σ* over layers\n(activation units)")
    _finish(axes, drawn, measured=not noise.empty)


def _scaled(axes: Axes, continuous: pd.DataFrame, checkpoints: Checkpoints) -> None:
    drawn = []
    for control in _SCALED:
        look = style.CONTROL_LOOK[control]
        rows = where(continuous, control=control)
        drawn.append(_curve(axes, rows, checkpoints, label=style.CONTROL_NAME[control], **look))
        _bootstrap(axes, rows, checkpoints, look["color"], label=None)
    axes.set_title("c  scale divided out")
    axes.set_ylabel("mean σ* over layers\n(units of the layer's RMS)")
    _finish(axes, drawn, measured=continuous["control"].isin(_SCALED).any())


def _curve(
    axes: Axes, frame: pd.DataFrame, checkpoints: Checkpoints, *, color: str, label: str, **look: str
) -> np.ndarray:
    """The seed mean as a line that breaks where there is nothing, with the seeds' band."""
    rows = where(frame, seed=SEED_MEAN)
    mean = checkpoints.along(rows, "value")
    low, high = checkpoints.along(rows, "interval_low"), checkpoints.along(rows, "interval_high")
    axes.plot(checkpoints.steps, mean, color=color, label=label, zorder=3, **look)
    axes.fill_between(checkpoints.steps, low, high, color=color, alpha=0.25, linewidth=0, zorder=2)
    return mean


def _bootstrap(
    axes: Axes,
    frame: pd.DataFrame,
    checkpoints: Checkpoints,
    color: str,
    label: str | None = "95 % pair bootstrap",
) -> None:
    """The seeds' bootstrap intervals, averaged: what other test pairs would give, not other seeds."""
    single = seeds_only(frame)
    for column in ("interval_low", "interval_high"):
        bound = checkpoints.along(single, column)
        name = label if label and column == "interval_low" else f"_{column}"
        axes.plot(checkpoints.steps, bound, color=color, linewidth=0.5, alpha=0.7, label=name, zorder=2)


def _strip(axes: Axes, continuous: pd.DataFrame, checkpoints: Checkpoints, controls: Sequence[str]) -> None:
    """How many layers the means above are over: those that reach the threshold without noise."""
    total = 0.0
    for control in controls:
        rows = where(continuous, control=control, seed=SEED_MEAN)
        counted, layers = checkpoints.along(rows, "counted"), checkpoints.along(rows, "layers")
        look = style.CONTROL_LOOK[control]
        axes.step(
            checkpoints.steps,
            counted,
            where="mid",
            color=look["color"],
            linestyle=look["linestyle"],
            linewidth=1,
        )
        total = max(total, np.nanmax(layers, initial=1))
    axes.set_ylim(-0.08 * total, 1.12 * total)
    axes.set_yticks([0, total])
    axes.set_ylabel("layers\ncounted", fontsize=6.8)
    axes.set_xlabel("training step")


def _finish(axes: Axes, drawn: Sequence[np.ndarray], *, measured: bool) -> None:
    finite = np.concatenate(drawn)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        why = "no layer reaches the threshold\nwithout noise" if measured else "not in these results"
        style.say_empty(axes, why)
    # Room above the curves for the legend, so that it covers none of them.
    top = max([axes.dataLim.ymax, 1e-9]) if len(finite) else 1.0
    axes.set_ylim(0, top / (0.93 - 0.1 * len(axes.get_legend_handles_labels()[0])))
    axes.legend(loc="upper left", borderaxespad=0.2)
