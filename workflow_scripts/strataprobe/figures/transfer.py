"""Does the probe read more than words? Transfer to a group it has not seen, and lift over the lexical floor.

Source: fragility paper, section 4.1 (1b, 1c), Figure 2a; the validation gate, section 3.3.
"""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.errors import StrataprobeError
from strataprobe.figures import marks, style
from strataprobe.figures.frames import Checkpoints, Expected, one_study, where
from strataprobe.tabular import ALL

_CHOSEN = {
    "default": "Layer chosen in a on the training groups, in b where all groups together are read best.",
    "published": "Layer chosen as published: in a on the group left out, in b where that group is read best.",
}
_SAID = (
    "In c the best layer of all groups together, as published: a maximum over layers, which is generous.",
    "Bands in a and c: 95 % bootstrap over pairs.",
)
# Four colours, three dashes and seven markers: eighty-four groups before two look alike.
_COLOURS = (style.ORANGE, style.GREEN, style.PURPLE, style.SKY)
_DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)))
_MARKERS = "s^vPX<*"


@style.styled
def draw(
    transfer: pd.DataFrame,
    *,
    title: str,
    expected: Expected = (),
    chance: float = 0.5,
    selection: str = "default",
    singled_out: Sequence[str] = (),
    step_scale: str = "linear",
    width: float = style.TEXT_WIDTH,
    height: float = 7.2,
) -> Figure:
    """Draw the transfer table of one model and dataset.

    Args:
        transfer: rows of the transfer table.
        expected: (revision, step) of every checkpoint there should be; missing ones are hatched.
        selection: how the layer was chosen: "default" (on the training groups) or "published".
        singled_out: groups drawn in black and with their interval; those not here are passed over.

    Raises:
        StrataprobeError: no rows, rows of several models or datasets, a revision without a step, or an
            unknown selection.
    """
    if selection not in _CHOSEN:
        raise StrataprobeError(f"selection '{selection}' is unknown; there are: {', '.join(_CHOSEN)}")
    study = one_study(transfer)
    checkpoints = Checkpoints.of([transfer], expected)
    figure = style.new_figure(title, width=width, height=height)
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    looks = _looks(transfer, singled_out)
    _upper(top, transfer, checkpoints, looks, selection, chance)
    _lift(middle, where(transfer, quantity="lift", selection=selection), checkpoints, looks)
    _gate(bottom, transfer, checkpoints)
    twins = marks.twin_groups(checkpoints, transfer)
    for axes in (top, middle, bottom):
        style.mark_gaps(axes, checkpoints.steps, checkpoints.missing(transfer))
        marks.mark_twins(axes, checkpoints.steps, twins)
        style.step_axis(axes, checkpoints.steps, scale=step_scale, label=axes is bottom)
    # The groups look the same in a and b, so one legend serves.
    top.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)
    lines = [_CHOSEN[selection], *_SAID, *checkpoints.gap_lines({"transfer": transfer})]
    style.note(figure, [*style.about(study), *lines, *marks.twin_lines(checkpoints, twins)])
    return figure


def _upper(
    axes: Axes,
    transfer: pd.DataFrame,
    checkpoints: Checkpoints,
    looks: dict[str, dict[str, Any]],
    selection: str,
    chance: float,
) -> None:
    axes.axhline(chance, color=style.GREY, linestyle=":", linewidth=1, label="chance")
    _lines(axes, where(transfer, quantity="transfer", selection=selection), checkpoints, looks)
    floor = checkpoints.along(where(transfer, quantity="transfer_floor", group=ALL), "value")
    look = {"color": style.VERMILION, "linestyle": "--", "marker": "x"}
    axes.plot(checkpoints.steps, floor, label="bag of words, mean", **look)
    axes.set_ylabel("accuracy on the\ngroup left out")
    axes.set_title("a  transfer to a group the probe has not seen")


def _lift(axes: Axes, lift: pd.DataFrame, checkpoints: Checkpoints, looks: dict[str, dict[str, Any]]) -> None:
    axes.axhline(0, color=style.GREY, linestyle=":", linewidth=1)
    _lines(axes, lift, checkpoints, looks)
    axes.set_ylabel("accuracy within a group\nminus its lexical floor")
    axes.set_title("b  lift over the lexical floor")


def _gate(axes: Axes, transfer: pd.DataFrame, checkpoints: Checkpoints) -> None:
    """Accuracy within the distribution beside the floor and what it must reach above it."""
    steps, rows = checkpoints.steps, where(transfer, group=ALL)
    best = where(rows, quantity="in_distribution", selection="published")
    accuracy = checkpoints.along(best, "value")
    floor = checkpoints.along(where(rows, quantity="gate_floor"), "value")
    bar = floor + checkpoints.along(where(rows, quantity="gate_margin"), "value")
    # Marks too: beside a gap, or alone, a checkpoint has no line.
    look = {"color": style.VERMILION, "linestyle": "--", "marker": "x", "linewidth": 1}
    axes.plot(steps, floor, label="bag of words", **look)
    look = {"color": style.GREY, "linestyle": ":", "marker": "_", "markersize": 5, "linewidth": 1}
    axes.plot(steps, bar, label="margin above it", **look)
    axes.plot(steps, accuracy, color=style.BLUE, label="probe", zorder=3)
    low, high = checkpoints.along(best, "interval_low"), checkpoints.along(best, "interval_high")
    axes.fill_between(steps, low, high, color=style.BLUE, alpha=0.15, linewidth=0)
    passed = checkpoints.along(where(rows, quantity="gate_passed"), "value")
    for value, face, marker, label in ((1, style.BLUE, "o", "passes"), (0, "white", "s", "does not pass")):
        heights = np.where(passed == value, accuracy, np.nan)
        look = {"markerfacecolor": face, "markeredgecolor": style.BLUE, "markersize": 4, "linestyle": "none"}
        axes.plot(steps, heights, marker=marker, label=label, zorder=4, **look)
    axes.set_ylabel("accuracy on\nheld-out pairs")
    axes.set_title("c  validation gate: does the probe beat the words by the margin?")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)


def _looks(transfer: pd.DataFrame, singled_out: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Each group's line, told apart in grey print too; those singled out are black."""
    groups = [group for group in dict.fromkeys(transfer["group"].astype(str)) if group != ALL]
    plain = zip(cycle(_COLOURS), cycle(_DASHES), cycle(_MARKERS), strict=False)
    black = cycle(("D", "o", "s", "^"))
    looks = {}
    for group in groups:
        if group in singled_out:
            looks[group] = {"color": style.BLACK, "linestyle": "-.", "marker": next(black), "linewidth": 1.2}
        else:
            colour, dashes, marker = next(plain)
            looks[group] = {"color": colour, "linestyle": dashes, "marker": marker, "linewidth": 0.9}
    return looks


def _lines(
    axes: Axes, frame: pd.DataFrame, checkpoints: Checkpoints, looks: dict[str, dict[str, Any]]
) -> None:
    """The mean over groups and each group; bands for those that stand out, where there are any."""
    drawn = {ALL: {"color": style.BLUE, "marker": "o", "linewidth": 1.8}, **looks}
    for group, look in drawn.items():
        rows = where(frame, group=group)
        label, order = ("mean over groups", 4) if group == ALL else (group, 3)
        axes.plot(checkpoints.steps, checkpoints.along(rows, "value"), label=label, zorder=order, **look)
        low, high = checkpoints.along(rows, "interval_low"), checkpoints.along(rows, "interval_high")
        if look["color"] in (style.BLUE, style.BLACK) and np.isfinite(low).any():
            axes.fill_between(
                checkpoints.steps, low, high, color=look["color"], alpha=0.15, linewidth=0, zorder=2
            )
