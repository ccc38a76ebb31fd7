"""Any many-class probe under the same columns: class accuracy, coarse accuracy and p_w,min over layers.

Ours: the lucky-defaults paper's section 5 asks for the diagnostic wherever many classes are made two.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from strataprobe.concentration import VERDICTS
from strataprobe.errors import StrataprobeError, listing
from strataprobe.figures import level_looks as looks
from strataprobe.figures import style
from strataprobe.figures.frames import where
from strataprobe.figures.level_names import refuse_unknown
from strataprobe.figures.routing_frames import A_PI, P_MIN, VERDICT_LOOK, Models, of_models, small_print

_INSIDE = {"color": style.BLUE, "marker": "o", "linestyle": "-"}
_OUTSIDE = {"color": style.VERMILION, "marker": "s", "linestyle": "-."}
_ACCURACIES: dict[str, tuple[str, dict[str, Any]]] = {
    "class_accuracy": ("class accuracy", _INSIDE),
    "property_accuracy": (
        "property accuracy",
        {"color": style.GREEN, "marker": "^", "linestyle": (0, (4, 1.5))},
    ),
    "coarse_accuracy": (f"{A_PI}, group left out", _OUTSIDE),
}
_SHARES: dict[str, tuple[str, dict[str, Any]]] = {
    "in_p_top_min": (f"{P_MIN}, in distribution", _INSIDE),
    "p_top_min": (f"{P_MIN}, group left out", _OUTSIDE),
    "p_top_mean": (
        r"mean $p_{w,\mathrm{top}}$, left out",
        {"color": style.VERMILION, "marker": "", "linestyle": (0, (1, 1)), "linewidth": 0.8},
    ),
}
_GATE = {"color": style.BLACK, "linestyle": "--", "linewidth": 0.9}
_CHANCE = {"color": style.BLUE, "linestyle": ":", "linewidth": 0.9}
_UNINFORMED = {"color": style.VERMILION, "linestyle": (0, (6, 1.5, 1, 1.5, 1, 1.5)), "linewidth": 0.9}
_RING = {"marker": "o", "markersize": 5.8, "markerfacecolor": "none", "linestyle": "none"}
_LEVEL = 0.05  # of the relabelling test
_COLUMNS = 2  # of each legend

Sides = Mapping[str, Sequence[int]]


@style.styled
def draw(
    many_class: pd.DataFrame,
    *,
    title: str,
    models: Models = (),
    partitions: Sequence[str] = (),
    sides: Sides | None = None,
    coarse_accuracy: float = 0.65,
    lucky: float = 0.95,
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw a row a partition: accuracies at the left, shares of the most frequent class at the right.

    Args:
        many_class: rows of the many_class table, of one model and dataset.
        models: one (name, revision); may be left out where the table is of one.
        partitions: those to draw, in order; all by default.
        sides: partition -> how many groups are on each side; where it has one, the A_pi of predictions that
            know nothing is drawn.
        coarse_accuracy, lucky: thresholds of the gate for A_pi and p_w,min.
        height: by default the page grows with the partitions.

    Raises:
        StrataprobeError: no rows, several models, datasets or revisions, an unknown partition, a layer twice,
            or sides whose groups are more or fewer than the table's.
    """
    rows = of_models(many_class, models)
    names = list(dict.fromkeys(rows["partition"].astype(str)))
    refuse_unknown(partitions=(partitions, names), sides=(list(sides or ()), names))
    shown = list(partitions or names)
    known = {name: list(sizes) for name, sizes in (sides or {}).items() if name in shown}
    _refuse_mixed(rows, known)
    legends = _handles(rows, bool(known))
    lines = small_print(_small_print(rows, shown, known), width)
    below = 0.1 + 0.165 * max(-(-len(own) // _COLUMNS) for own in legends)
    size = height or 0.65 + 2.3 * len(shown) + below + 0.12 * len(lines)
    figure = style.new_figure(title, width=width, height=size)
    grid = figure.add_gridspec(len(shown) + 1, 2, height_ratios=(*[2.1] * len(shown), below))
    for place, name in enumerate(shown):
        left, right = (figure.add_subplot(grid[place, column]) for column in (0, 1))
        own = where(rows, partition=name).sort_values("layer")
        _accuracies(left, own, coarse_accuracy, known.get(name))
        _shares(right, own, lucky)
        for axes, letter, said in ((left, "a", f"  {name}"), (right, "b", "")):
            style.layer_axis(axes, int(rows["layer"].max()) + 1, label=place == len(shown) - 1)
            axes.set_title(f"{chr(ord(letter) + 2 * place)}{said}")
    for column, own in enumerate(legends):
        _legend(figure.add_subplot(grid[-1, column]), own)
    style.note(figure, lines)
    return figure


def uninformed(sizes: Sequence[int]) -> float:
    """A_pi of predictions that know nothing, where no group can go to its own class.

    Of N groups the k - 1 others of a group's side are among the N - 1 classes it can go to; mean over groups.

    Args:
        sizes: groups on each side.
    """
    groups = sum(sizes)
    return sum(size * (size - 1) for size in sizes) / (groups * (groups - 1))


def _refuse_mixed(rows: pd.DataFrame, sides: Sides) -> None:
    faults = []
    for name, sizes in sides.items():
        groups = int(where(rows, partition=name)["classes"].iloc[0])
        if sum(sizes) != groups:
            said = " and ".join(map(str, sizes))
            faults.append(f"{name}: sides of {said}, but the table has {groups} groups")
    if rows["model"].nunique() > 1:
        faults.append(f"model: {', '.join(sorted(rows['model'].astype(str).unique()))}; choose one")
    twice = rows[rows.duplicated(["model", "partition", "layer"])]
    faults += [f"{row.partition}, layer {int(row.layer)}: there twice" for row in twice.head(5).itertuples()]
    if faults:
        raise StrataprobeError(listing("a figure of many-class probes shows one model, a layer once", faults))


def _fraction_axis(axes: Axes, label: str) -> None:
    """From 0 to 1, with room below for the marks of verdicts."""
    axes.set_ylim(-0.12, 1.04)
    axes.set_yticks(np.linspace(0, 1, 6))
    axes.set_ylabel(label)


def _accuracies(axes: Axes, rows: pd.DataFrame, threshold: float, sizes: Sequence[int] | None) -> None:
    axes.axhline(threshold, label="_threshold", zorder=1, **_GATE)
    axes.plot(rows["layer"], 1 / rows["classes"].astype(float), label="_chance", zorder=1, **_CHANCE)
    if sizes is not None:
        axes.axhline(uninformed(sizes), label="_uninformed", zorder=1, **_UNINFORMED)
    low, high = (rows[name].to_numpy(dtype=float) for name in ("coarse_low", "coarse_high"))
    axes.fill_between(
        rows["layer"], low, high, color=style.VERMILION, alpha=0.15, linewidth=0, label="_interval"
    )
    for column, (_, look) in _ACCURACIES.items():
        _line(axes, rows, column, look)
    _marks(axes, rows)
    _fraction_axis(axes, "accuracy")
    if rows[list(_ACCURACIES)].isna().all(axis=None):
        style.say_empty(axes, "no value")


def _shares(axes: Axes, rows: pd.DataFrame, lucky: float) -> None:
    axes.axhline(lucky, label="_threshold", zorder=1, **_GATE)
    for column, (_, look) in _SHARES.items():
        _line(axes, rows, column, look)
    for verdict in VERDICTS:
        own = rows[rows["verdict"].astype(str) == verdict]
        axes.plot(
            own["layer"], [-0.06] * len(own), linestyle="none", markersize=3.6, label=f"_{verdict}",
            **VERDICT_LOOK[verdict],
        )  # fmt: skip
    _fraction_axis(axes, "share of the top class")
    axes.tick_params(labelleft=False)
    if rows[list(_SHARES)].isna().all(axis=None):
        style.say_empty(axes, "no value")


def _line(axes: Axes, rows: pd.DataFrame, column: str, look: dict[str, Any]) -> None:
    """A column by layer; layers that the table has not are a gap."""
    last = int(rows["layer"].max())
    values = rows.set_index(rows["layer"].astype(int))[column].astype(float).reindex(range(last + 1))
    axes.plot(range(last + 1), values, label=f"_{column}", zorder=3, markevery=looks.sparse(last + 1), **look)


def _marks(axes: Axes, rows: pd.DataFrame) -> None:
    """Rings where A_pi is more than relabelled groups give."""
    sure = rows[_sure(rows)]
    look = {**_RING, "color": style.BLACK, "markeredgewidth": 0.8}
    axes.plot(sure["layer"], sure["coarse_accuracy"], label="_sure", zorder=4, **look)


def _legend(axes: Axes, handles: Sequence[Line2D]) -> None:
    axes.axis("off")
    look = {"columnspacing": 1.1, "handlelength": 2.0, "handletextpad": 0.6, "borderpad": 0}
    axes.legend(handles=list(handles), loc="upper center", ncols=_COLUMNS, **look)


def _sure(rows: pd.DataFrame) -> pd.Series:
    return rows["relabelling_p"].astype(float) <= _LEVEL


def _handles(rows: pd.DataFrame, uninformed: bool) -> tuple[list[Line2D], list[Line2D]]:
    """The entries of the legend below the left and of that below the right panels."""
    gate = style.line_handle(label="threshold", **_GATE)
    left = [style.line_handle(label=label, **look) for label, look in _ACCURACIES.values()]
    left += [gate, style.line_handle(label="chance, class", **_CHANCE)]
    if uninformed:
        left.append(style.line_handle(label=f"chance, {A_PI}", **_UNINFORMED))
    if _sure(rows).any():
        left.append(style.line_handle(label=f"relabelling p ≤ {_LEVEL:g}", color=style.BLACK, **_RING))
    right = [style.line_handle(label=label, **look) for label, look in _SHARES.values()]
    there = set(rows["verdict"].astype(str))
    right += [gate] + [
        style.line_handle(label=name, linestyle="none", markersize=3.6, **VERDICT_LOOK[name])
        for name in VERDICTS
        if name in there
    ]
    return left, right


def _small_print(rows: pd.DataFrame, shown: Sequence[str], sides: Sides) -> list[str]:
    lines = [f"{rows['model'].iloc[0]} at {rows['revision'].iloc[0]}; {rows['dataset'].iloc[0]}."]
    for place, name in enumerate(shown):
        own = where(rows, partition=name).iloc[0]
        panels = f"{chr(ord('a') + 2 * place)}, {chr(ord('b') + 2 * place)}"
        sizes = f", {' | '.join(map(str, sides[name]))} by side" if name in sides else ""
        chance = f" Chance of {A_PI}: {uninformed(sides[name]):.2f}." if name in sides else ""
        lines.append(
            f"{panels}: {int(own['stimuli'])} sentences of {int(own['classes'])} groups{sizes}, which are "
            f"the classes.{chance}"
        )
    lines += [
        "Class and property accuracy: in distribution, by cross-validation that keeps pairs together; "
        "property: the same predictions, made two. Left out: the probe has not seen the group and must send "
        "it to other classes. Band: 95 % bootstrap over groups. Marks at the bottom of the right: the "
        "verdict of the gate.",
        f"A group left out cannot go to its own class: of N groups, k on its side, {A_PI} is (k-1)/(N-1) by "
        "chance (mean over groups). Neither null knows of this: both take chance to be higher, so their p is "
        "too large.",
    ]
    if _sure(rows).any():
        lines.append(
            f"Rings: at most {100 * _LEVEL:g} % of all ways to give the groups their sides reach this {A_PI}."
        )
    return lines
