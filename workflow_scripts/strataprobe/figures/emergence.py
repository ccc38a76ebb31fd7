"""When does each dataset's property become readable? Mean accuracy of several probes on one step axis.

Source: fragility paper, section 4.1, Figure 1.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.errors import StrataprobeError
from strataprobe.figures import marks, style
from strataprobe.figures.frames import Checkpoints, Expected, one_study, seeds_only, where
from strataprobe.onsets import mean_curve, onset_step
from strataprobe.tabular import SEED_MEAN

# One a dataset, in the order given, told apart in grey print too.
LOOKS: tuple[dict[str, Any], ...] = (
    {"color": style.BLUE, "linestyle": "-", "marker": "o"},
    {"color": style.VERMILION, "linestyle": "--", "marker": "s"},
    {"color": style.GREEN, "linestyle": "-.", "marker": "^"},
    {"color": style.BLACK, "linestyle": (0, (3, 1, 1, 1, 1, 1)), "marker": "D"},
    {"color": style.PURPLE, "linestyle": ":", "marker": "v"},
    {"color": style.ORANGE, "linestyle": (0, (5, 2)), "marker": "P"},
)


@style.styled
def draw(
    trajectories: Sequence[pd.DataFrame],
    *,
    title: str,
    expected: Expected = (),
    chance: float = 0.5,
    onset: float = 0.70,
    step_scale: str = "linear",
    width: float = style.TEXT_WIDTH,
    height: float = 3.9,
) -> Figure:
    """Overlay the trajectory tables of several datasets of one model.

    Args:
        trajectories: one table a dataset; the order is that of the legend.
        expected: (revision, step) of every checkpoint there should be.
        chance: accuracy of guessing.
        onset: mean accuracy over layers at which a property counts as there.
        step_scale: "linear", or "symlog" where the early checkpoints lie close together.

    Raises:
        StrataprobeError: no table has a row, rows of several models are mixed, a dataset there twice, more
            datasets than can be told apart, or a revision without a step.
    """
    drawn = [frame for frame in trajectories if not frame.empty]
    if not drawn:
        raise StrataprobeError("the figure's tables have no row for it; there is nothing to draw")
    names = [one_study(frame)["dataset"] for frame in drawn]
    refuse_too_many(names)
    shared = one_study(*[frame.assign(dataset="") for frame in drawn])
    checkpoints = Checkpoints.of(drawn, expected)
    figure = style.new_figure(title, width=width, height=height)
    axes = figure.add_subplot()
    axes.axhline(chance, color=style.GREY, linestyle=":", linewidth=1, label="chance")
    axes.axhline(onset, color=style.GREY, linestyle="--", linewidth=1, label=f"onset level {onset:.2f}")
    curves = {name: where(frame, quantity="mean_accuracy") for name, frame in zip(names, drawn, strict=True)}
    for (name, accuracy), look in zip(curves.items(), LOOKS, strict=False):
        _curve(axes, accuracy, checkpoints, name, onset, look)
    missing = {index for accuracy in curves.values() for index in checkpoints.missing(accuracy)}
    style.mark_gaps(axes, checkpoints.steps, sorted(missing))
    twins = marks.twin_groups(checkpoints, *drawn)
    marks.mark_twins(axes, checkpoints.steps, twins)
    style.step_axis(axes, checkpoints.steps, scale=step_scale)
    axes.set_ylim(min(0.45, axes.dataLim.ymin - 0.02), 1.02)
    axes.set_ylabel("mean probe accuracy over layers")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)
    told = [*checkpoints.gap_lines(curves), *marks.twin_lines(checkpoints, twins)]
    style.note(figure, [*_small_print(shared), *told])
    return figure


def _small_print(shared: dict[str, str]) -> list[str]:
    pooling = style.POOLING_NAME.get(shared["pooling"], shared["pooling"])
    return [
        f"{shared['model']}; {pooling}. Bands: seed mean ± sd, where there is more than one seed.",
        "Vertical ticks: onset of the seed-mean curve; in the legend, its step.",
    ]


def refuse_too_many(datasets: Sequence[str]) -> None:
    """
    Raises:
        StrataprobeError: a dataset is there twice, or there are more than can be told apart.
    """
    if twice := sorted({name for name in datasets if list(datasets).count(name) > 1}):
        raise StrataprobeError(f"a dataset is drawn once; given more often: {', '.join(twice)}")
    if len(datasets) > len(LOOKS):
        raise StrataprobeError(f"at most {len(LOOKS)} datasets can be told apart; {len(datasets)} were given")


def _curve(
    axes: Axes,
    frame: pd.DataFrame,
    checkpoints: Checkpoints,
    dataset: str,
    onset: float,
    look: dict[str, Any],
) -> None:
    rows = where(frame, seed=SEED_MEAN)
    mean = checkpoints.along(rows, "value")
    # As in the table of onsets: where a seed lacks a checkpoint, the mean of the others is another curve.
    each = [
        list(zip(checkpoints.steps, checkpoints.along(own, "value"), strict=True))
        for _, own in seeds_only(frame).groupby(seeds_only(frame)["seed"].astype(str))
    ]
    first, _ = onset_step(mean_curve(each), onset)
    seeds = len(each)
    said = "not reached" if first is None else f"step {style.step_label(first)}"
    label = f"{dataset} ({seeds} seed{'s' * (seeds != 1)})\nonset {said}"
    axes.plot(checkpoints.steps, mean, label=label, zorder=3, **look)
    low, high = checkpoints.along(rows, "interval_low"), checkpoints.along(rows, "interval_high")
    if np.isfinite(low).any():
        axes.fill_between(checkpoints.steps, low, high, color=look["color"], alpha=0.2, linewidth=0, zorder=2)
    if first is not None:
        axes.plot(
            [first], [onset], "|", color=look["color"], markersize=12, markeredgewidth=1.6, zorder=4,
            label=f"_onset, {dataset}",
        )  # fmt: skip
