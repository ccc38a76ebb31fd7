"""Does the probe know the relation or the verbs? Accuracy on verbs it was not trained on, by depth.

Source: levels paper, appendix H, Figure 9, Tables 8 and 9; the verdicts are those of the table's notes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.errors import StrataprobeError
from strataprobe.figures import level_looks as looks
from strataprobe.figures import level_rows as rows
from strataprobe.figures import style
from strataprobe.figures.frames import where
from strataprobe.figures.level_names import RECOVERABILITY, Chosen, split_name
from strataprobe.figures.level_rows import Compared

NOTHING = "learned nothing"
_FEW = 3  # models up to which a further line each leaves the panel readable
Curves = dict[str, pd.DataFrame]  # model -> its rows by depth
Looks = dict[str, dict[str, Any]]


@style.styled
def draw(
    layers: pd.DataFrame,
    *,
    title: str,
    models: rows.Models = (),
    split: str = "subject_control",
    mode: str = "bv",
    coding: str | None = None,
    clean_gap: float = 0.10,
    leak_gap: float = 0.30,
    clean_window: float = 0.90,
    chance: float = 0.5,
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw the verb-out gap by relative depth, a line a model, with both accuracies below.

    Args:
        layers: rows of the levels_layers table, of one or several models.
        models: (name, revision) in the order of the legend; models without a row are named below.
        split: a control type.
        mode: of the probe's features.
        coding: of the probe: "paper" or "decorrelated"; by default what the table's conventions compare.
        clean_gap, leak_gap: gaps at which verdicts change, for the background.
        clean_window: what both accuracies of a clean window's layers reach.
        chance: accuracy of guessing.
        height: by default the page grows with the legend.

    Raises:
        StrataprobeError: no rows, mixed or repeated rows, or no verb-out gap of this split and mode.
    """
    table = Compared.of(layers, models)
    coding = Chosen.of(table.rows, None, coding).bare
    of = where(table.rows, level=RECOVERABILITY, split=split, mode=mode)
    gaps, item_out, verb_out, balanced = (
        _curves(where(of, measure=measure), table)
        for measure in (f"gap:{coding}", coding, f"verb_out:{coding}", f"balanced:{coding}")
    )
    if not gaps:
        raise StrataprobeError(
            f"the table has no verb-out gap (coding {coding}, mode {mode}) of split '{split}'; there is "
            "nothing to draw"
        )
    look_of = looks.model_looks(table.models)
    windows = {
        model: found
        for model in gaps
        if model in item_out
        and model in verb_out
        and (found := window(item_out[model], verb_out[model], clean_gap, clean_window)) is not None
    }
    balanced = balanced if len(gaps) <= _FEW else {}
    handles = _handles(gaps, windows, look_of, bool(balanced))
    below = looks.legend_height([str(each.get_label()) for each in handles], width)
    strip = 0.16 + 0.07 * max(len(windows), 1)
    figure = style.new_figure(title, width=width, height=height or 5.3 + strip + below)
    grid = figure.add_gridspec(4, 2, height_ratios=(2.1, strip, 1.6, below))
    top = figure.add_subplot(grid[0, :])
    left = figure.add_subplot(grid[2, 0])
    right = figure.add_subplot(grid[2, 1], sharex=left, sharey=left)
    _gaps(top, gaps, look_of, clean_gap, leak_gap)
    _windows(figure.add_subplot(grid[1, :], sharex=top), windows, look_of)
    _accuracies(left, item_out, {}, look_of, chance, "b  item-out accuracy")
    _accuracies(right, verb_out, balanced, look_of, chance, "c  verb-out accuracy")
    left.set_ylim(min(0.42, left.dataLim.y0 - 0.03, right.dataLim.y0 - 0.03), 1.03)
    left.set_ylabel("accuracy")
    right.tick_params(labelleft=False)
    looks.legend_row(figure, grid[3, :], handles)
    looks.note(figure, _small_print(table, gaps, split, mode, coding, clean_window))
    return figure


def window(
    item_out: pd.DataFrame, verb_out: pd.DataFrame, clean_gap: float, least: float
) -> pd.DataFrame | None:
    """The longest run of layers in which both accuracies reach `least` and their gap is below `clean_gap`.

    Of equally long runs the first; None without any. As in the library of recoverability, which finds it too.

    Args:
        item_out, verb_out: one model's rows, by depth.

    Source: levels paper, appendix H.4.
    """
    both = item_out.merge(verb_out[["hidden_state", "value"]], on="hidden_state", suffixes=("", "_out"))
    # Tables have six digits: a gap that is 0.1 exactly must not be below it by its last bit.
    gap = (both["value"] - both["value_out"]).round(6)
    fits = (both["value"] >= least) & (both["value_out"] >= least) & (gap < clean_gap)
    runs = [own for _, own in both[fits].groupby((~fits).cumsum()[fits])]
    return max(runs, key=len) if runs else None


def _curves(frame: pd.DataFrame, table: Compared) -> Curves:
    found = {}
    for model in table.models:
        own = where(frame, model=model).dropna(subset=["value"])
        if not own.empty:
            found[model] = own.sort_values("hidden_state", kind="stable").reset_index(drop=True)
    return found


def _gaps(axes: Axes, gaps: Curves, look_of: Looks, clean: float, leakage: float) -> None:
    for model, curve in gaps.items():
        depth, value = curve["depth"].to_numpy(dtype=float), curve["value"].to_numpy(dtype=float)
        axes.plot(depth, value, label=f"_{model}", zorder=3, markersize=3.4, **look_of[model])
        hollow = np.where(curve["note"].astype(str) == NOTHING, value, np.nan)
        look = {"marker": look_of[model]["marker"], "markeredgecolor": look_of[model]["color"]}
        look |= {"markersize": 3.4, "linestyle": "none", "markerfacecolor": "white"}
        axes.plot(depth, hollow, zorder=4, label=f"_{NOTHING}, {model}", **look)
    low, high = min(axes.dataLim.y0, -clean) - 0.06, max(axes.dataLim.y1, leakage) + 0.06
    bands = (
        ("unstable", low, -clean, "#cfcfcf"),
        ("clean", -clean, clean, "#e0eef7"),
        ("partial", clean, leakage, "#ffffff"),
        ("leakage-\ndominant", leakage, high, "#f5d3be"),
    )
    beside = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 6.5, "color": "#333333"}
    for name, start, stop, colour in bands:
        axes.axhspan(start, stop, color=colour, linewidth=0, zorder=0, label=f"_band {name}")
        axes.text(1.01, (start + stop) / 2, name, linespacing=0.95, **beside)
    axes.grid(visible=False)
    axes.axhline(0, color=style.GREY, linestyle=":", linewidth=1, zorder=1, label="_no gap")
    axes.set_ylim(low, high)
    axes.set_xlim(-0.02, 1.02)
    axes.tick_params(labelbottom=False)
    axes.set_ylabel("item-out minus\nverb-out accuracy")
    axes.set_title("a  what is lost on verbs that the probe has not seen")


def _windows(axes: Axes, windows: Curves, look_of: Looks) -> None:
    """A bar from the first to the last layer of each clean window."""
    for height, (model, inside) in enumerate(windows.items()):
        look = {"color": look_of[model]["color"], "marker": look_of[model]["marker"], "linewidth": 2.4}
        ends = inside["depth"].iloc[[0, -1]].astype(float)
        axes.plot(ends, [height] * 2, markersize=4, label=f"_window {model}", solid_capstyle="butt", **look)
    if not windows:
        style.say_empty(axes, "none")
    axes.set_ylim(max(len(windows), 1) - 0.4, -0.6)
    axes.set_yticks([])
    axes.set_ylabel("clean\nwindow", rotation=0, ha="right", va="center", fontsize=6.8)
    axes.set_xlabel("relative depth (0: embedding, 1: last block)")


def _accuracies(axes: Axes, curves: Curves, beside: Curves, look_of: Looks, chance: float, name: str) -> None:
    axes.axhline(chance, color=style.GREY, linestyle=":", linewidth=1, label="_chance")
    for model, curve in curves.items():
        depth, value, spread = (curve[column].to_numpy(dtype=float) for column in ("depth", "value", "sd"))
        look = look_of[model] | {"linewidth": 1, "markevery": looks.sparse(len(depth))}
        axes.plot(depth, value, label=f"_{model}", zorder=3, **look)
        low, high = value - spread, value + spread
        axes.fill_between(depth, low, high, color=look["color"], alpha=0.13, linewidth=0)
    for model, curve in beside.items():
        look = look_of[model] | {"linewidth": 0.7, "marker": ""}
        axes.plot(curve["depth"], curve["value"], label=f"_balanced {model}", zorder=2, **look)
    if not curves:
        style.say_empty(axes, "no value")
    axes.set_xlim(-0.02, 1.02)
    axes.set_title(name)
    axes.set_xlabel("relative depth")


def _handles(gaps: Curves, windows: Curves, look_of: Looks, balanced: bool) -> list[Artist]:
    """Each model with its clean window as hidden_states indices (0: embedding)."""
    named = []
    for model, curve in gaps.items():
        said = "no clean window"
        if model in windows:
            first, last = windows[model]["hidden_state"].iloc[[0, -1]].astype(int)
            span = f"at {first}" if first == last else f"{first} to {last}"
            said = f"clean {span} of {int(curve['hidden_state'].max())}"
        named.append(style.line_handle(label=f"{model}\n{said}", **look_of[model]))
    hollow = {"color": style.GREY, "marker": "o", "markerfacecolor": "white", "markersize": 3.4}
    thin = style.line_handle(label="c, thin: folds\nbalanced in type", color=style.GREY, linewidth=0.7)
    return [
        *named,
        style.line_handle(label=NOTHING, linestyle="none", **hollow),
        style.line_handle(label="chance", color=style.GREY, linestyle=":", linewidth=1),
        *([thin] if balanced else []),
    ]


def _small_print(
    table: Compared, gaps: Curves, split: str, mode: str, coding: str, least: float
) -> Sequence[str]:
    gone = [model for model in table.models if model not in gaps]
    return [
        f"{table.dataset}; {split_name(split)}; probe of mode {mode}, coding {coding}; mean of seeds, bands "
        "± sd. Either accuracy can lie far below chance: item-out keeps the held-out item's twin in "
        "training, verb-out takes a verb of one type from it.",
        f"Hollow: a small gap where the item-out probe has {NOTHING}. Clean window: the longest run of "
        f"layers with a clean gap and both accuracies at least {least:g}, as hidden_states indices.",
        *table.absent_line(),
        *([f"No verb-out: {', '.join(gone)}."] if gone else []),
    ]
