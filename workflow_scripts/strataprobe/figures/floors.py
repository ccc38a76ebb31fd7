"""Is what is read early only what words give away? Onset step against the height of the lexical floor.

Source: fragility paper, section 4.1: the order of onsets follows the height of the floors.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.errors import StrataprobeError
from strataprobe.figures import style
from strataprobe.figures.emergence import LOOKS, refuse_too_many
from strataprobe.figures.frames import one_study, seeds_only, where
from strataprobe.tabular import ALL, SEED_MEAN

_READ = {"unigrams": "a bag of words", "characters": "a bag of characters", "length": "length in words"}


@style.styled
def draw(
    floors: pd.DataFrame,
    onsets: pd.DataFrame,
    *,
    title: str,
    last_step: int | None = None,
    floor: str = "unigrams",
    width: float = style.TEXT_WIDTH,
    height: float = 3.4,
) -> Figure:
    """One point a dataset: its floor, and the onset of its probe's seed-mean curve.

    Args:
        floors: rows of the floors table; those of pair-disjoint folds over a whole dataset are drawn.
        onsets: rows of the onsets table of one model.
        last_step: of the trajectory; where an onset is not reached, the point stands above it.
        floor: which floor.

    Raises:
        StrataprobeError: no dataset has both a floor and an onset, rows of several models are mixed, or more
            datasets than can be told apart.
    """
    whole = where(floors, scheme="folds", group=ALL, kind=floor)
    reached = where(onsets, quantity="onset_step")
    datasets = list(dict.fromkeys(reached["dataset"].astype(str)))
    both = [name for name in datasets if name in set(whole["dataset"].astype(str))]
    if not both:
        raise StrataprobeError("no dataset has both a lexical floor and an onset; there is nothing to draw")
    refuse_too_many(both)
    study = one_study(onsets.assign(dataset=""))
    steps = reached["value"].astype(float).dropna()
    last = float(max([*steps, 1]) if last_step is None else last_step)
    figure = style.new_figure(title, width=width, height=height)
    axes = figure.add_subplot()
    axes.axvline(0.5, color=style.GREY, linestyle=":", linewidth=1, label="chance")
    for name, look in zip(both, LOOKS, strict=False):
        _point(axes, where(whole, dataset=name).iloc[0], where(reached, dataset=name), last, look)
    axes.axhline(
        last, color=style.GREY, linewidth=0.8, linestyle="--", label="last checkpoint;\nabove: no onset"
    )
    axes.set_ylim(-0.04 * last, 1.16 * last)
    axes.yaxis.set_major_formatter(style.step_label)
    axes.set_xlabel(f"lexical floor: accuracy of {_READ.get(floor, floor)} without a model, pair-disjoint")
    axes.set_ylabel("onset (training step)")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)
    style.note(figure, _small_print(study, [name for name in datasets if name not in both]))
    return figure


def _small_print(study: dict[str, str], without: list[str]) -> list[str]:
    pooling = style.POOLING_NAME.get(study["pooling"], study["pooling"])
    lines = [
        f"{study['model']}; {pooling}. Points: onset of the seed-mean curve; in the legend, its step.",
        "Bars: 95 % bootstrap of the floor over pairs; first and last onset of single seeds.",
    ]
    return [*lines, f"Without a floor, so not drawn: {', '.join(without)}."] if without else lines


def _point(axes: Axes, floor: pd.Series, onsets: pd.DataFrame, last: float, look: dict[str, Any]) -> None:
    """One dataset; what has no onset stands above the last step."""
    above = 1.08 * last
    mean = where(onsets, seed=SEED_MEAN)["value"].astype(float)
    step = float(mean.iloc[0]) if len(mean) and np.isfinite(mean.iloc[0]) else None
    place = above if step is None else step
    single = [*seeds_only(onsets)["value"].astype(float).fillna(above), place]
    low, high = floor["floor"] - floor["floor_low"], floor["floor_high"] - floor["floor"]
    across = [[np.nanmax([low, 0])], [np.nanmax([high, 0])]]
    said = "not reached" if step is None else f"step {style.step_label(step)}"
    axes.errorbar(
        floor["floor"], place, xerr=across, yerr=[[place - min(single)], [max(single) - place]], fmt="none",
        ecolor=look["color"], elinewidth=0.9, capsize=2, label=f"_bars, {floor['dataset']}",
    )  # fmt: skip
    axes.plot(
        [floor["floor"]], [place], look["marker"], color=look["color"], markersize=6, linestyle="none",
        markerfacecolor="white" if step is None else look["color"],
        label=f"{floor['dataset']}\nonset {said}",
    )  # fmt: skip
