"""At what depth does a probe recover the controller, and at what depth does the LM head read it out?

Late-layer erasure would show as a fall of recoverability in the shaded late layers.

Source: levels paper, section 4.3 and Figure 3.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from strataprobe.errors import StrataprobeError
from strataprobe.figures import level_looks as looks
from strataprobe.figures import level_rows as rows
from strataprobe.figures import style
from strataprobe.figures.frames import where
from strataprobe.figures.level_names import LEVEL_NAME, READOUT, RECOVERABILITY, Chosen, split_name
from strataprobe.figures.level_rows import Compared

BEST = "best"
_LATE = "#e9e9e9"
_WIDTH = {RECOVERABILITY: 1.4, READOUT: 0.8}
Curves = dict[str, tuple[str, pd.DataFrame]]  # model -> mode, its rows by depth


@style.styled
def draw(
    layers: pd.DataFrame,
    *,
    title: str,
    models: rows.Models = (),
    split: str = "all",
    mode: str = BEST,
    task: str = BEST,
    definition: str | None = None,
    coding: str | None = None,
    late: float = 0.75,
    chance: float = 0.5,
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw accuracy by relative depth, a line a model: the probe above, the LM head (thin) below.

    Args:
        layers: rows of the levels_layers table, of one or several models.
        models: (name, revision) in the order of the legend; models without a row are named below.
        split: "all", a language or a control type.
        mode: of the probe's features ("ab", "av", ...), or each model's best.
        task: the readout's prompt ("qa", "paraphrase"), or each model's best.
        definition, coding: of the readout and of the probe ("pair_out:paper": with other folds); by default
            what the table's conventions compare.
        late: relative depth from which layers count as late; shaded.
        chance: accuracy of guessing.
        height: by default the page grows with the legend.

    Raises:
        StrataprobeError: no rows, mixed or repeated rows, or nothing of this split, mode and task.
    """
    table = Compared.of(layers, models)
    chosen = Chosen.of(table.rows, definition, coding)
    of_split = where(table.rows, split=split)
    drawn = {
        RECOVERABILITY: _curves(where(of_split, level=RECOVERABILITY, measure=chosen.coding), table, mode),
        READOUT: _curves(where(of_split, level=READOUT, measure=chosen.definition), table, task),
    }
    if not any(drawn.values()):
        raise StrataprobeError(
            f"the table has neither recoverability ({chosen.probe}, mode {mode}) nor readout "
            f"({chosen.definition}, prompt {task}) of split '{split}'; there is nothing to draw"
        )
    look_of = looks.model_looks(table.models)
    handles = _handles(drawn, look_of)
    below = looks.legend_height([str(each.get_label()) for each in handles], width)
    figure = style.new_figure(title, width=width, height=height or 4.9 + below)
    grid = figure.add_gridspec(3, 1, height_ratios=(1.8, 1.8, below))
    first = figure.add_subplot(grid[0])
    panels = first, figure.add_subplot(grid[1], sharex=first, sharey=first)
    for axes, (level, curves) in zip(panels, drawn.items(), strict=True):
        axes.axvspan(late, 1, color=_LATE, linewidth=0, zorder=0, label="_late layers")
        axes.axhline(chance, color=style.GREY, linestyle=":", linewidth=1, label="_chance")
        for model, (_, curve) in curves.items():
            _line(axes, curve, model, look_of[model] | {"linewidth": _WIDTH[level]})
        axes.set_title(f"{'ab'[axes is not first]}  {LEVEL_NAME[level]} ({split_name(split)})")
        axes.set_ylabel("accuracy")
        axes.tick_params(labelbottom=axes is not first)
        if not curves:
            style.say_empty(axes, "no value")
    panels[1].set_xlabel("relative depth (0: embedding, 1: last block)")
    first.set_xlim(-0.02, 1.02)
    first.set_ylim(min(0.44, *(axes.dataLim.y0 - 0.02 for axes in panels)), 1.03)
    looks.legend_row(figure, grid[2], handles)
    looks.note(figure, _small_print(table, drawn, chosen))
    return figure


def _curves(frame: pd.DataFrame, table: Compared, mode: str) -> Curves:
    """By model: the mode asked for, or that of the best layer (of equals the lowest, as in the tables)."""
    found = {}
    for model in table.models:
        own = where(frame, model=model).dropna(subset=["value"]).sort_values("hidden_state", kind="stable")
        own = own if mode == BEST else where(own, mode=mode)
        if not own.empty:
            chosen = str(own.loc[own["value"].astype(float).idxmax(), "mode"])
            found[model] = chosen, where(own, mode=chosen)
    return found


def _line(axes: Axes, curve: pd.DataFrame, label: str, look: dict[str, Any]) -> None:
    depth, value, spread = (curve[name].to_numpy(dtype=float) for name in ("depth", "value", "sd"))
    axes.plot(depth, value, label=f"_{label}", zorder=3, markevery=looks.sparse(len(depth)), **look)
    if np.isfinite(spread).any():
        low, high = value - spread, value + spread
        axes.fill_between(depth, low, high, color=look["color"], alpha=0.15, linewidth=0, zorder=2)
    best = int(np.argmax(value))
    ring = {"color": look["color"], "markerfacecolor": "none", "markersize": 8, "markeredgewidth": 1}
    axes.plot(depth[best], value[best], "o", zorder=4, label=f"_best {label}", **ring)


def _handles(drawn: dict[str, Curves], look_of: dict[str, dict[str, Any]]) -> list[Artist]:
    """Each model with its modes and best layers, as hidden_states index (0: embedding) of how many."""
    said: dict[str, list[str]] = {model: [] for model in look_of}
    for curves in drawn.values():
        for model, (mode, curve) in curves.items():
            top = curve.loc[curve["value"].astype(float).idxmax(), "hidden_state"]
            said[model].append(f"{mode} {int(top)}/{int(curve['hidden_state'].max())}")
    named = [
        style.line_handle(label=f"{model}\n{', '.join(said[model]) or 'no value'}", **look)
        for model, look in look_of.items()
    ]
    chance = style.line_handle(label="chance", color=style.GREY, linestyle=":", linewidth=1)
    return [*named, chance, Patch(color=_LATE, label="late layers")]


def _small_print(table: Compared, drawn: dict[str, Curves], chosen: Chosen) -> Sequence[str]:
    lines = [
        f"{table.dataset}. Recoverability: {chosen.probe}, ± sd (bands). "
        f"Readout: {chosen.definition}. Rings: the best layer; in the legend the mode and prompt drawn, each "
        "with its best hidden_states index of all. The best of so many is high by chance: the figure of "
        "levels shows how high.",
        *table.absent_line(),
    ]
    for level, curves in drawn.items():
        if gone := [model for model in table.models if model not in curves]:
            lines.append(f"No {LEVEL_NAME[level]}: {', '.join(gone)}.")
    return lines
