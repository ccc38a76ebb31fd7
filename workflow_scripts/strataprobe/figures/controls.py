"""What a probe's accuracy rests on, at one checkpoint: control task, null, unseen words, other sets, code.

Source: fragility paper, appendix C; the control task and the code length are in docs/methods.md.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.figures import style
from strataprobe.figures.frames import by_layer, layer_count, one_study, seeds_only, where
from strataprobe.tabular import ALL

_SPLIT = "lexeme_split"
# Three colours, two dashes and five markers: thirty sets before two look alike.
_LOOKS: dict[str, Sequence[Any]] = {
    "color": (style.GREEN, style.PURPLE, style.BLACK),
    "linestyle": ((0, (1, 1)), "-."),
    "marker": "^vDP*",
}


@style.styled
def draw(
    controls: pd.DataFrame,
    *,
    title: str,
    chance: float = 0.5,
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw one model, revision and dataset.

    Args:
        controls: rows of the controls table.
        chance: accuracy of guessing.
        height: by default the page grows with the sets and groups that test these probes.

    Raises:
        StrataprobeError: no rows, or rows of several models, revisions or datasets.
    """
    study = one_study(controls, also=("revision",))
    of_layer = where(controls, over="layer", group=ALL)
    lost = where(controls, over="mean", quantity="difference")
    places = list(dict.fromkeys(zip(lost["tested_on"].astype(str), lost["group"].astype(str), strict=True)))
    heights = (2.1, 1.2, 0.35 + 0.19 * max(len(places), 2))
    figure = style.new_figure(title, width=width, height=height or 1.9 + sum(heights))
    top, middle, bottom = figure.subplots(3, 1, height_ratios=heights)
    layers = layer_count(of_layer)
    _accuracies(top, of_layer, layers, chance)
    _code(middle, where(of_layer, tested_on="", quantity="compression"), layers)
    _differences(bottom, lost, places)
    for axes in (top, middle):
        style.layer_axis(axes, layers, label=axes is middle)
    count = seeds_only(controls)["seed"].astype(str).nunique()
    seeds = "; one seed" if count == 1 else f"; mean over {count} seeds"
    style.note(figure, [*style.about(study, seeds), *_shown(of_layer, places, count)])
    return figure


def _shown(of_layer: pd.DataFrame, places: Sequence[tuple[str, str]], seeds: int) -> list[str]:
    """What bands, bars and ticks are, of those that are drawn."""
    bounded = [
        *(["band in a"] if not where(of_layer, tested_on=_SPLIT).empty else []),
        *(["bars in c"] if places else []),
    ]
    several = " (mean of seeds)" if seeds > 1 else ""
    said = [f"{' and '.join(bounded).capitalize()}: 95 % bootstrap over pairs{several}."] if bounded else []
    if seeds > 1:
        said.append(f"Band in b: seed mean ± sd.{' Ticks in c: seeds.' if places else ''}")
    return [" ".join(said)] if said else []


def _accuracies(axes: Axes, rows: pd.DataFrame, layers: int, chance: float) -> None:
    accuracy, own = where(rows, quantity="accuracy"), where(rows, tested_on="")
    axes.axhline(chance, color=style.GREY, linestyle=":", linewidth=1, label="chance")
    _line(axes, where(accuracy, tested_on=""), layers, "test pairs", color=style.BLUE, marker="o")
    split = where(accuracy, tested_on=_SPLIT)
    if not split.empty:
        label = "pairs whose words\nthe probe has not seen"
        _line(axes, split, layers, label, color=style.VERMILION, marker="s", linestyle=(0, (5, 1)))
        low, high = (by_layer(split, bound, layers)[0] for bound in ("interval_low", "interval_high"))
        axes.fill_between(range(layers), low, high, color=style.VERMILION, alpha=0.13, linewidth=0)
    for place, name in enumerate(_others(rows)):
        look = {what: each[place % len(each)] for what, each in _LOOKS.items()}
        _line(axes, where(accuracy, tested_on=name), layers, name, **look)
    control = where(own, quantity="control_accuracy")
    if control["value"].notna().any():
        look = {"color": style.ORANGE, "linestyle": "--", "marker": "x", "markersize": 3.5, "linewidth": 1}
        _line(axes, control, layers, "control task\n(random label a word)", **look)
    look = {"color": style.GREY, "linestyle": "--", "linewidth": 1}
    _line(axes, where(own, quantity="null_high"), layers, "permuted labels,\n95 % quantile", **look)
    axes.set_ylabel("accuracy")
    axes.set_title("a  the probe on other words and other sentences")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)


def _others(rows: pd.DataFrame) -> list[str]:
    """The datasets that test these probes, in the order of the table."""
    return [name for name in dict.fromkeys(rows["tested_on"].astype(str)) if name not in ("", _SPLIT)]


def _line(axes: Axes, rows: pd.DataFrame, layers: int, label: str, **look: Any) -> None:
    mean, _ = by_layer(rows, "value", layers)
    axes.plot(range(layers), mean, label=label, zorder=3, **look)


def _code(axes: Axes, rows: pd.DataFrame, layers: int) -> None:
    compression, spread = by_layer(rows, "value", layers)
    axes.axhline(1, color=style.GREY, linestyle=":", linewidth=1, label="_nothing learned")
    axes.plot(range(layers), compression, color=style.BLUE, marker="o", label="compression")
    low, high = compression - spread, compression + spread
    axes.fill_between(range(layers), low, high, color=style.BLUE, alpha=0.2, linewidth=0)
    axes.set_ylabel("compression\n(1: none)")
    axes.set_title("b  online code: bits of the labels alone over bits given the states")


def _differences(axes: Axes, lost: pd.DataFrame, places: Sequence[tuple[str, str]]) -> None:
    """Accuracy elsewhere minus accuracy on the test pairs, both means over layers: a line a set and group."""
    axes.axvline(0, color=style.GREY, linestyle=":", linewidth=1, label="_no difference")
    for height, (name, group) in enumerate(places):
        own = seeds_only(where(lost, tested_on=name, group=group))
        value, low, high = own[["value", "interval_low", "interval_high"]].astype(float).mean()
        look = {"color": style.BLUE if group == ALL else style.SKY, "label": f"_{name}, {group}"}
        axes.plot([low, high], [height, height], linewidth=1.4, **look)
        axes.plot(value, height, "o", markersize=4, zorder=3, **look)
        if len(own) > 1:
            look |= {"color": style.BLACK, "markeredgewidth": 0.7}
            axes.plot(own["value"], [height] * len(own), "|", markersize=5, zorder=4, **look)
    # A group stands below its set, and need not repeat its name.
    axes.set_yticks(range(len(places)), [name if group == ALL else group for name, group in places])
    for text, (_, group) in zip(axes.get_yticklabels(), places, strict=True):
        text.set(color=style.BLACK if group == ALL else style.GREY, fontsize=7.5 if group == ALL else 6.8)
    axes.set_ylim(max(len(places), 1) - 0.4, -0.6)
    axes.set_xlabel("accuracy there minus accuracy on the test pairs (mean over layers)")
    if not places:
        style.say_empty(axes, "no dataset tests these probes")
        axes.set_xticks([])
        axes.set_xlabel("")
    axes.set_title("c  what is lost on other sentences, and by what they differ in")
