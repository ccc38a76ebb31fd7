"""Do conditions differ once their accuracies are matched and scale is taken out? Differences with intervals.

Source: fragility paper, section 4.3, with the checks its numbers do not have: intervals, matching, scale.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from strataprobe.figures import level_looks as looks
from strataprobe.figures import style
from strataprobe.figures.curation_frames import Experiment
from strataprobe.figures.frames import where
from strataprobe.tabular.curation_columns import BASE

Pair = tuple[str, str]

_EXACT = {"quantity": "mean_critical_noise", "statistic": "continuous", "means": "dropped"}
# Two rows of three panels: what is compared, then the scale controls that it must stand.
_PANELS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("peak accuracy", "fraction", {"quantity": "peak_accuracy"}),
    ("mean accuracy", "fraction", {"quantity": "mean_accuracy"}),
    ("σ*, raw", "activation units", {**_EXACT, "control": "raw"}),
    ("σ*, RMS before", "units of the RMS", {**_EXACT, "control": "rms_before"}),
    ("σ*, RMS after", "units of the RMS", {**_EXACT, "control": "rms_after"}),
    ("σ*, within-class", "within-class units", {**_EXACT, "control": "within_class"}),
)
# All in black: colours are those of conditions.
_MATCHED: dict[str, dict[str, Any]] = {
    "none": {"marker": "o", "linestyle": "-"},
    "layers": {"marker": "^", "linestyle": (0, (4, 1.2))},
    "snapshots": {"marker": "X", "linestyle": (0, (1, 1))},
}
_MATCHED_NAME = {
    "none": "last step, all layers",
    "layers": "last step, layers\nof like accuracy",
    "snapshots": "snapshots of like\nmean accuracy",
}
_OFFSET = {"none": -0.27, "layers": 0.0, "snapshots": 0.27}
_COUNTS = {"runs": "run", "seeds": "probe seed", "pairs": "test pair"}
_ROW = 0.44  # inches


@dataclass(frozen=True)
class _Forest:
    """What is drawn: pairs of conditions from top to bottom, and all rows of the table."""

    study: Experiment
    rows: pd.DataFrame
    pairs: tuple[Pair, ...]

    @classmethod
    def of(cls, table: pd.DataFrame, conditions: Sequence[str]) -> "_Forest":
        study = Experiment.of(table, conditions=conditions)
        names = (*study.conditions, BASE)
        found = table[["condition_a", "condition_b"]].astype(str).drop_duplicates()
        pairs = [(a, b) for a, b in found.itertuples(index=False) if a in names and b in names]
        return cls(study, table, tuple(pairs))

    def of_pair(self, pair: Pair, matched: str, **equal: str) -> pd.DataFrame:
        return where(self.rows, condition_a=pair[0], condition_b=pair[1], matched=matched, **equal)

    def lines(self) -> Iterator[tuple[float, Pair, str]]:
        """Height, pair and matching of every line, from the top."""
        for place, pair in enumerate(self.pairs):
            for matched, offset in _OFFSET.items():
                yield place + offset, pair, matched


@style.styled
def draw(
    differences: pd.DataFrame,
    *,
    title: str,
    conditions: Sequence[str] = (),
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw a forest of differences, a panel a quantity, three marks a pair; at the right what scale leaves.

    Args:
        differences: rows of the table `curation_differences` of one experiment and dataset.
        conditions: those there should be, without the base; pairs of them without a row are named below.
        height: by default the page grows with the pairs.

    Raises:
        StrataprobeError: no rows, mixed rows, or a row twice.
    """
    forest = _Forest.of(differences, conditions)
    tall = max(1.5, _ROW * len(forest.pairs))
    figure = style.new_figure(title, width=width, height=height or 2 * tall + 2.3)
    grid = figure.add_gridspec(2, 5, width_ratios=(1.0, 1.3, 1.3, 1.3, 1.2))
    for row in (0, 1):
        _names(figure.add_subplot(grid[row, 0]), forest)
    for place, (name, unit, quantity) in enumerate(_PANELS):
        axes = figure.add_subplot(grid[place // 3, 1 + place % 3])
        _differences(axes, forest, quantity)
        axes.set_title(f"{'abcdef'[place]}  {name}", fontsize=7.6)
        axes.set_xlabel(unit)
    _legend(figure.add_subplot(grid[0, 4]))
    _verdicts(figure.add_subplot(grid[1, 4]), forest)
    looks.note(figure, _small_print(forest))
    return figure


def _rows_axis(axes: Axes, forest: _Forest) -> None:
    """A row a pair, the first at the top; every second one shaded, so that the eye keeps to it."""
    axes.set_ylim(len(forest.pairs) - 0.5, -0.5)
    axes.set_yticks([])
    for place in range(1, len(forest.pairs), 2):
        axes.axhspan(place - 0.5, place + 0.5, color="#f3f3f3", zorder=0, label="_shade")


def _names(axes: Axes, forest: _Forest) -> None:
    """Both conditions of every pair, each with its mark."""
    _rows_axis(axes, forest)
    axes.set_xlim(0, 1)
    axes.set_axis_off()
    for place, pair in enumerate(forest.pairs):
        for height, name, sign in ((place - 0.23, pair[0], ""), (place + 0.23, pair[1], "− ")):
            look, said = forest.study.looks[name], looks.wrapped(f"{sign}{name}", 17)
            mark = {"marker": look["marker"], "color": look["color"], "markersize": 4}
            axes.plot([0.05], [height], clip_on=False, **mark)
            size = 7.2 if len(said) <= 14 else 6.0
            axes.text(0.14, height, said, va="center", fontsize=size, linespacing=0.95)


def _differences(axes: Axes, forest: _Forest, quantity: dict[str, str]) -> None:
    """One quantity of every pair: marks, filled where the interval leaves out 0, and 95 % intervals."""
    _rows_axis(axes, forest)
    axes.spines["left"].set_visible(False)
    axes.axvline(0, color=style.GREY, linewidth=0.9, label="_zero", zorder=1)
    drawn = []
    for height, pair, matched in forest.lines():
        rows = forest.of_pair(pair, matched, **quantity).dropna(subset=["difference"])
        if rows.empty:
            continue
        row, look = rows.iloc[0], _MATCHED[matched]
        value, low, high = (float(row[name]) for name in ("difference", "interval_low", "interval_high"))
        said = f"_{matched} {pair[0]} {pair[1]}"
        if np.isfinite(low):
            bar = {"linestyle": look["linestyle"], "linewidth": 1.1, "label": f"{said} interval"}
            axes.plot([low, high], [height] * 2, color=style.BLACK, **bar)
        face = style.BLACK if str(row["verdict"]) == "apart" else "white"
        mark = {"marker": look["marker"], "markerfacecolor": face, "linestyle": "none", "zorder": 3}
        axes.plot(
            [value], [height], color=style.BLACK, markersize=4.2, markeredgewidth=0.8, label=said, **mark
        )
        drawn += [value, *(bound for bound in (low, high) if np.isfinite(bound))]
    if not drawn:
        style.say_empty(axes, "no value")
    reach = 1.12 * max([abs(value) for value in drawn], default=1.0) or 1.0
    axes.set_xlim(-reach, reach)
    axes.xaxis.set_major_locator(MaxNLocator(4, symmetric=True))
    axes.tick_params(axis="x", labelsize=6.5)


def _legend(axes: Axes) -> None:
    axes.set_axis_off()
    handles = [
        style.line_handle(label=_MATCHED_NAME[name], color=style.BLACK, markersize=4.2, linewidth=1.1, **look)
        for name, look in _MATCHED.items()
    ]
    bare = {"color": style.BLACK, "marker": "o", "markersize": 3.6, "linestyle": "none"}
    handles += [
        style.line_handle(label="filled: apart from 0", **bare),
        style.line_handle(label="open: not apart", markerfacecolor="white", **bare),
    ]
    axes.legend(
        handles=handles, loc="center left", bbox_to_anchor=(-0.05, 0.5), handlelength=1.8, borderpad=0
    )


def _verdicts(axes: Axes, forest: _Forest) -> None:
    """What scale leaves of the raw difference, a line a matching, with what was matched."""
    _rows_axis(axes, forest)
    axes.set_xlim(0, 1)
    axes.set_axis_off()
    axes.set_title("verdict on c", fontsize=7.6)
    for height, pair, matched in forest.lines():
        rows, look = forest.of_pair(pair, matched, quantity="undercutting"), _MATCHED[matched]
        if rows.empty:
            continue
        mark = {"marker": look["marker"], "color": style.BLACK, "markersize": 3.6, "markeredgewidth": 0.5}
        axes.plot([0.04], [height], clip_on=False, **mark)
        axes.text(0.11, height, _verdict(rows.iloc[0]), va="center", fontsize=6.3)


def _verdict(row: pd.Series) -> str:
    """The verdict, and over how many layers or with which snapshot it is had."""
    said, count = str(row["verdict"]) or "no verdict", int(row["layers"])
    if not count:
        return f"no {row['matched'].removesuffix('s')} matched"
    if row["matched"] == "layers":
        return f"{said}, {count} layer{'s' * (count != 1)}"
    if row["matched"] == "snapshots":
        return f"{said}, step {int(row['step_b'])}"
    return said


def _small_print(forest: _Forest) -> list[str]:
    study, rows = forest.study, forest.rows
    counts = [_counted(rows[name], noun) for name, noun in _COUNTS.items()]
    lines = [
        study.about_counts(counts),
        "The first condition less the second. Bars: 95 % paired bootstrap over pairs of the dataset and over "
        "runs. Critical noise σ* is exact, its mean over the layers that have one. The difference in raw "
        "noise (c) survives where all scale controls (d, e, f) leave out 0 with its sign, in part where some "
        "do, is undercut where none does; no separation: raw itself is not apart. Of snapshots, the step is "
        "that of the second condition.",
    ]
    return [*lines, *_lacking(forest)]


def _counted(found: pd.Series, noun: str) -> str:
    """`2 runs`, and where pairs of conditions differ in it `1 or 2 runs`."""
    numbers = sorted({int(value) for value in found.dropna()})
    return f"{' or '.join(map(str, numbers)) or 'no'} {noun}{'s' * (numbers != [1])}"


def _lacking(forest: _Forest) -> list[str]:
    """Names pairs that have no row, and lines without a value."""
    every = [name for name in forest.study.looks if name != BASE]
    asked = [*combinations(every, 2), *((name, BASE) for name in every)]
    there = {frozenset(pair) for pair in forest.pairs}
    gone = [f"{a} − {b}" for a, b in asked if frozenset((a, b)) not in there]
    said = [f"No row at all: {', '.join(gone)}."] if gone else []
    empty = [
        f"{pair[0]} − {pair[1]} ({matched})"
        for _, pair, matched in forest.lines()
        if len(rows := forest.of_pair(pair, matched)) and rows["difference"].isna().all()
    ]
    if empty:
        said.append(f"No value (the table says why): {', '.join(empty)}.")
    return said
