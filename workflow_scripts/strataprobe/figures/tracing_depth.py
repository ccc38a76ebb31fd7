"""Where is it encoded, and where does it matter? Peak causal and peak probing depth over training.

Source: fragility paper, appendix B; the designs beside the published one are in docs/methods.md.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.figures import level_looks as looks
from strataprobe.figures import marks, style
from strataprobe.figures import tracing_names as names
from strataprobe.figures.frames import Checkpoints, Expected, where
from strataprobe.figures.level_names import refuse_unknown

_APART = 0.008
"""Between neighbours, of the axis of steps."""
_ESTIMATE = ("value", "interval_low", "interval_high")
_HOLLOW = {"markerfacecolor": "none", "markersize": 6, "linewidth": 0.6, "linestyle": ":", "zorder": 4}
_PEAK = {"linewidth": 0.9, "markersize": 4, "clip_on": False, "zorder": 3}
_BESIDE = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "borderaxespad": 0}


@style.styled
def draw(
    tracing: pd.DataFrame,
    *,
    title: str,
    expected: Expected = (),
    side: str = "positive",
    score: str = "expected",
    designs: Sequence[str] | None = None,
    step_scale: str = "linear",
    width: float = style.TEXT_WIDTH,
    height: float = 4.4,
) -> Figure:
    """Draw one model and dataset over its checkpoints.

    Above, the relative depth of each design's peak and of the probe's; below, the mean effect over blocks,
    with the neutral control hollow. A peak where there is no effect is none.

    Args:
        tracing: rows of the tracing table of one model.
        expected: (revision, step) of every checkpoint there should be; missing ones are hatched.
        side: "positive", "negative" or "difference".
        score: "expected" or "contrast".
        designs: of "published", "rms", "restoration"; by default those of the table.
        step_scale: "linear", or "symlog" where the early checkpoints lie close together.

    Raises:
        StrataprobeError: no rows, rows of several models or datasets, a row twice, a revision without a step,
            or an unknown option.
    """
    refuse_unknown(
        side=([side], names.SIDES), score=([score], names.SCORES), designs=(designs or (), names.DESIGNS)
    )
    study = names.one_tracing(tracing)
    # Gaps are found by checkpoint: the table has no seeds.
    tracing = tracing.assign(seed="")
    checkpoints = Checkpoints.of([tracing], expected)
    shown = list(designs or names.there(tracing, "design", names.DESIGNS))
    figure = style.new_figure(title, width=width, height=height)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1.25, 1))
    rows = where(tracing, side=side, score=score)
    _depths(above, rows, where(tracing, design=names.PROBE), shown, checkpoints, names.blocks_of(tracing))
    _effects(below, tracing, (side, score), shown, checkpoints)
    twins = marks.twin_groups(checkpoints, tracing)
    for axes in (above, below):
        style.mark_gaps(axes, checkpoints.steps, checkpoints.missing(tracing))
        marks.mark_twins(axes, checkpoints.steps, twins)
        style.step_axis(axes, checkpoints.steps, scale=step_scale, label=axes is below)
    lines = _small_print(tracing, study, side, score)
    told = [*checkpoints.gap_lines({"tracing": tracing}), *marks.twin_lines(checkpoints, twins)]
    looks.note(figure, [*lines, *told])
    return figure


def _depths(
    axes: Axes,
    rows: pd.DataFrame,
    probe: pd.DataFrame,
    designs: Sequence[str],
    checkpoints: Checkpoints,
    blocks: int,
) -> None:
    peaks = where(rows, measure="peak_layer")
    curves = [
        (names.DESIGN_NAME[name], where(peaks, design=name), names.DESIGN_LOOK[name]) for name in designs
    ]
    if probe["value"].notna().any():
        curves.append(("linear probe", probe, names.PROBE_LOOK))
    # Beside each other, not on each other: peaks are whole blocks, and many are the same.
    apart = _APART * max(*checkpoints.steps, 1)
    for place, (label, curve, look) in enumerate(curves):
        steps = np.asarray(checkpoints.steps) + (place - (len(curves) - 1) / 2) * apart
        value, low, high = (checkpoints.along(curve, name) / blocks for name in _ESTIMATE)
        axes.plot(steps, value, label=label, **{**look, **_PEAK})
        axes.vlines(steps, low, high, color=look["color"], linewidth=1.3, alpha=0.55, zorder=2)
    axes.set_ylim(-0.04, 1.04)
    axes.set_ylabel("relative depth (block / blocks)")
    axes.set_title("a  the block with the largest effect, and the best probe's")
    axes.legend(**_BESIDE)


def _effects(
    axes: Axes,
    tracing: pd.DataFrame,
    which: tuple[str, str],
    designs: Sequence[str],
    checkpoints: Checkpoints,
) -> None:
    side, score = which
    means = where(tracing, measure="mean_effect", score=score)
    axes.axhline(0, color=style.GREY, linewidth=0.8, label="_zero", zorder=1)
    for design in designs:
        own = where(means, design=design)
        look = names.DESIGN_LOOK[design]
        value, low, high = (checkpoints.along(where(own, side=side), name) for name in _ESTIMATE)
        axes.plot(checkpoints.steps, value, label=names.DESIGN_NAME[design], zorder=3, **look)
        axes.fill_between(checkpoints.steps, low, high, color=look["color"], alpha=0.12, linewidth=0)
        if side == "positive":
            control = checkpoints.along(where(own, side="negative"), "value")
            axes.plot(checkpoints.steps, control, label=f"_control {design}", **{**look, **_HOLLOW})
    if side == "positive":
        axes.plot([], [], color=style.GREY, marker="o", label="neutral control", **_HOLLOW)
    axes.set_ylabel("mean effect (nats)")
    axes.set_title("b  how large it is: mean over blocks")
    axes.legend(**_BESIDE)


def _small_print(tracing: pd.DataFrame, study: dict[str, str], side: str, score: str) -> list[str]:
    lines = [
        f"{study['model']}, {study['dataset']}: {names.SIDE_NAME[side]}; score: {names.SCORE_NAME[score]}.",
        f"{names.counted(tracing)} (bars in a); of the probe's peak, the range over seeds.",
    ]
    blocks = names.blocks_of(tracing)
    effects = tracing[tracing["measure"] == "indirect_effect"]
    traced = sorted(effects["layer"].dropna().astype(int).unique())
    if len(traced) < blocks:
        lines.append(
            f"Effects are of blocks {', '.join(map(str, traced))} only; the probe is of all {blocks}."
        )
    return lines
