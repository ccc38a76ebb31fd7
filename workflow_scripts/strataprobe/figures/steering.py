"""Does the direction that a probe reads move the answer? Flips, margins and place bias by strength.

Source: levels paper, appendix G.2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
from strataprobe.figures.level_names import TASK_NAME, refuse_unknown

_METHODS = {"probe": "probe weights", "means": "class means"}
_SOURCES = {"own_prompt": "states in the prompt", "bare": "states of the bare sentence"}
_LOOK: dict[str, dict[str, Any]] = {
    "probe": {"color": style.BLUE, "linestyle": "-", "marker": "o"},
    "means": {"color": style.VERMILION, "linestyle": "--", "marker": "s"},
}
_GOLDS = {
    "gold_first": {"color": style.GREEN, "linestyle": "-", "marker": "^"},
    "gold_second": {"color": style.PURPLE, "linestyle": "--", "marker": "v"},
}
_RANDOM = "#cfcfcf"
_ROW = 1.75  # inches


@dataclass(frozen=True)
class _Steered:
    """Rows of several models at one layer each, of one task and one source of directions."""

    rows: pd.DataFrame
    models: tuple[str, ...]
    absent: tuple[str, ...]
    dataset: str

    @classmethod
    def of(cls, table: pd.DataFrame, models: rows.Models, task: str, states: str | None) -> "_Steered":
        if models:
            wanted = {(str(name), str(revision)) for name, revision in models}
            places = zip(table["model"].astype(str), table["revision"].astype(str), strict=True)
            table = table[[place in wanted for place in places]]
        study = rows.one_dataset(table)
        there = list(dict.fromkeys(table["model"].astype(str)))
        asked = list(dict.fromkeys(str(name) for name, _ in models)) or there
        known = [name for name in _SOURCES if name in set(table["states"].astype(str))]
        chosen = where(table, task=task, states=states or next(iter(known), ""))
        if chosen.empty:
            raise StrataprobeError(
                f"the table has nothing of task '{task}' and states '{states or known}' to draw"
            )
        several = chosen.groupby("model")["revision"].nunique()
        if (several > 1).any():
            names = ", ".join(map(str, several.index[several > 1]))
            raise StrataprobeError(
                f"a figure of steering shows one revision of each model; choose one of {names}"
            )
        # The first layer is the one that random directions are tried at.
        first = chosen.dropna(subset=["hidden_state"]).groupby("model")["hidden_state"].transform("min")
        chosen = chosen.loc[first.index][chosen.loc[first.index, "hidden_state"] == first]
        return cls(
            chosen,
            tuple(name for name in asked if name in there),
            tuple(name for name in asked if name not in there),
            study["dataset"],
        )

    def curve(self, model: str, method: str, measure: str, split: str) -> pd.DataFrame:
        """A measure by rising strength, where it exists."""
        own = where(self.rows, model=model, method=method, measure=measure, split=split)
        return own.dropna(subset=["value", "alpha"]).sort_values("alpha", kind="stable")

    def one(self, model: str, method: str, measure: str, split: str) -> float | None:
        own = where(self.rows, model=model, method=method, measure=measure, split=split)
        value = None if own.empty else own.iloc[0]["value"]
        return None if value is None or pd.isna(value) else float(value)


@style.styled
def draw(
    steering: pd.DataFrame,
    *,
    title: str,
    models: rows.Models = (),
    task: str = "qa",
    states: str | None = None,
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw a row a model: flips of Q1 and Q2, shift of the margin, and place bias, by strength.

    Args:
        steering: rows of the steering table, of one or several models.
        models: (name, revision) in the order of the rows; models without a row are named below.
        task: "qa" or "paraphrase".
        states: those that directions are fitted on, "own_prompt" or "bare"; by default what the table has.
        height: by default the page grows with the models.

    Raises:
        StrataprobeError: no rows, mixed rows, or an unknown option.
    """
    refuse_unknown(task=([task], ("qa", "paraphrase")), states=([states] if states else [], _SOURCES))
    table = _Steered.of(steering, models, task, states)
    handles = _handles()
    below = looks.legend_height([str(each.get_label()) for each in handles], width)
    count = len(table.models)
    figure = style.new_figure(title, width=width, height=height or _ROW * count + 1.5 + below)
    grid = figure.add_gridspec(count + 1, 4, height_ratios=[*([_ROW] * count), below])
    shared: list[Axes | None] = [None] * 4
    for place, model in enumerate(table.models):
        for column, (name, panel) in enumerate(_PANELS.items()):
            axes = figure.add_subplot(grid[place, column], sharex=shared[column])
            shared[column] = shared[column] or axes
            panel(axes, table, model)
            axes.axvline(0, color=style.GREY, linewidth=0.8, label="_no push", zorder=1)
            axes.set_title(f"{'abcd'[column]}  {name}" if place == 0 else "")
            axes.tick_params(labelbottom=place == count - 1)
            if place == count - 1:
                axes.set_xlabel(r"strength $\alpha$")
            if column == 0:
                axes.set_ylabel(looks.wrapped(model, 18))
    looks.legend_row(figure, grid[count, :], handles)
    looks.note(figure, _small_print(table, task, states))
    return figure


def _flips(axes: Axes, table: _Steered, model: str, which: str) -> None:
    _random_band(axes, table, model, "flip_rate", which)
    for method, look in _LOOK.items():
        _line(axes, table.curve(model, method, "flip_rate", which), f"_{method}", look)
    axes.set_ylim(-0.04, 1.04)
    if not table.one(model, "none", "candidates", which):
        style.say_empty(axes, "no such item")


def _q1(axes: Axes, table: _Steered, model: str) -> None:
    _flips(axes, table, model, "q1")


def _q2(axes: Axes, table: _Steered, model: str) -> None:
    _flips(axes, table, model, "q2")


def _margin(axes: Axes, table: _Steered, model: str) -> None:
    axes.axhline(0, color=style.GREY, linestyle=":", linewidth=1, label="_no shift")
    _random_band(axes, table, model, "margin_shift", "all")
    for method, look in _LOOK.items():
        _line(axes, table.curve(model, method, "margin_shift", "all"), f"_{method}", look)


def _first_named(axes: Axes, table: _Steered, model: str) -> None:
    for way, look in _GOLDS.items():
        _line(axes, table.curve(model, "probe", "first_named", way), f"_{way}", look, band=False)
    axes.set_ylim(-0.04, 1.04)


_PANELS = {
    "Q1 put right": _q1,
    "Q2 made wrong": _q2,
    "margin (nats)": _margin,
    "first-named": _first_named,
}


def _line(axes: Axes, curve: pd.DataFrame, label: str, look: dict[str, Any], *, band: bool = True) -> None:
    if curve.empty:
        return
    alpha, value, low, high = (
        curve[name].to_numpy(dtype=float) for name in ("alpha", "value", "interval_low", "interval_high")
    )
    axes.plot(alpha, value, label=label, zorder=3, **look)
    if band and np.isfinite(low).any():
        axes.fill_between(alpha, low, high, color=look["color"], alpha=0.13, linewidth=0, zorder=2)


def _random_band(axes: Axes, table: _Steered, model: str, measure: str, split: str) -> None:
    """The middle 95 % of random directions, at either sign of their strengths: they have none."""
    curve = table.curve(model, "random", measure, split)
    if curve.empty:
        return
    alpha, low, high = (
        curve[name].to_numpy(dtype=float) for name in ("alpha", "interval_low", "interval_high")
    )
    for sign in (-1, 1):
        axes.vlines(
            sign * alpha, low, high, color=_RANDOM, linewidth=5, zorder=1.5, label="_random directions"
        )


def _handles() -> list[Artist]:
    ways = {"gold_first": "gold is named first (d: probe weights)", "gold_second": "gold is named second"}
    return [
        *(style.line_handle(label=_METHODS[name], **look) for name, look in _LOOK.items()),
        Patch(color=_RANDOM, label="random directions"),
        *(style.line_handle(label=ways[name], **look) for name, look in _GOLDS.items()),
    ]


def _small_print(table: _Steered, task: str, states: str | None) -> Sequence[str]:
    source = states or str(table.rows["states"].iloc[0])
    lines = [
        f"{table.dataset}, {TASK_NAME[task]}; directions from {_SOURCES[source]}. "
        "Above 0 pushes are towards the gold answer. Q1: subject control answered wrong without a push; Q2: "
        "object control answered right. Bands: 95 % bootstrap over translation groups; bars: the middle 95 % "
        "of random directions of the same norm, which have no sign. Where both lines of d move together, a "
        "push makes for a place and not for an answer.",
    ]
    lines += [_sizes(table, model) for model in table.models]
    if table.absent:
        lines.append(f"No row at all: {', '.join(table.absent)}.")
    return lines


def _sizes(table: _Steered, model: str) -> str:
    """Layer, items and relative size of a push, and what an erasure leaves."""
    layer = int(table.rows[table.rows["model"].astype(str) == model]["hidden_state"].iloc[0])
    size = table.curve(model, "probe", "relative_size", "all")
    largest = (
        "" if size.empty else f", |added|/|h| {size['value'].iloc[-1]:.2g} at {size['alpha'].iloc[-1]:g}"
    )
    q1, q2 = (int(table.one(model, "none", "candidates", name) or 0) for name in ("q1", "q2"))
    before, after = (table.one(model, method, "accuracy", "all") for method in ("none", "erased"))
    erased = (
        "" if after is None or before is None else f"; erased by LEACE: accuracy {before:.2f} to {after:.2f}"
    )
    probes = [_probe(table, model, method) for method in ("none", "erased")]
    if erased and None not in probes:
        erased += f", probe {probes[0]:.2f} to {probes[1]:.2f}"
    return f"{model}: hidden state {layer}, Q1 {q1}, Q2 {q2} items{largest}{erased}."


def _probe(table: _Steered, model: str, method: str) -> float | None:
    own = where(table.rows, model=model, method=method, measure="probe_accuracy")
    return None if own.empty else float(own.iloc[0]["value"])
