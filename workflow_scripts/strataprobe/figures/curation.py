"""Does the corpus change how robust an encoding is, or only how accurate? Conditions at their last step.

Source: fragility paper, section 4.3, Figure 5; with the base checkpoint, runs, and the scale divided out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import NullLocator
from matplotlib.transforms import ScaledTranslation

from strataprobe.errors import StrataprobeError
from strataprobe.figures import level_looks as looks
from strataprobe.figures import style
from strataprobe.figures.curation_frames import Experiment, at, by_layer, curve, grid_top, of_runs
from strataprobe.figures.frames import layer_count, spread_out, where
from strataprobe.figures.level_names import refuse_unknown
from strataprobe.tabular.curation_columns import BASE

Look = dict[str, Any]
GRIDS = {"grid_sampled": "sampled on the published grid", "grid_exact": "exact on the published grid"}
_NOISE = "mean_critical_noise"
_MEASURED = ("peak_accuracy", "mean_accuracy", _NOISE, "fragile_layers")
_HATCH = {"peak_accuracy": "", "mean_accuracy": "////"}
_BESIDE = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
_LETTERS = 62  # that stand beside each other under the bars
_WIDE = 0.38
_APART = 0.32  # of a layer, over which the lines of conditions are spread so that none hides another
_RISE = 0.2  # inches by layer of that shift, since on a grid lines lie on each other
_CENSORED = {"marker": "^", "markersize": 4.2, "markerfacecolor": "white", "linestyle": "none"}
_RUN = {"marker": "o", "markersize": 3, "markerfacecolor": "white", "markeredgewidth": 0.8}
_SEED = {"marker": "x", "markersize": 3.4, "markeredgewidth": 0.9}
_CROSS = {"marker": "x", "markersize": 4, "linestyle": "none"}


@dataclass(frozen=True)
class _Shown:
    """What is drawn: the base and the conditions with their last steps, in order.

    Attributes:
        means: rows of `curation` that are measured by probes, at those steps.
        noise: rows of `curation_layers` of critical noise, at those steps.
        ends: condition -> step.
        layers: blocks of the model.
        lacking: sentences that name what is missing.
    """

    study: Experiment
    means: pd.DataFrame
    noise: pd.DataFrame
    ends: dict[str, int]
    layers: int
    lacking: list[str]

    @classmethod
    def of(cls, curation: pd.DataFrame, layers: pd.DataFrame, conditions: Sequence[str]) -> "_Shown":
        study = Experiment.of(curation, layers, conditions=conditions)
        means = curation[curation["quantity"].isin(_MEASURED)]
        if means.empty:
            raise StrataprobeError(
                f"experiment {study.name}: no probe is measured yet; there is nothing to draw"
            )
        ends, count = study.ends(means), layer_count(layers) if len(layers) else 1
        both = means, where(layers, quantity="critical_noise")
        last = (pd.concat([at(rows, name, step) for name, step in ends.items()]) for rows in both)
        return cls(study, *last, ends, count, study.lacking(means))

    def mean(self, condition: str, **equal: str) -> np.ndarray:
        """(3,) mean over runs at the condition's last step, and its bounds."""
        return curve(self.means, [self.ends[condition]], condition=condition, **equal)[:, 0]

    def shifted(self) -> Iterator[tuple[float, str, int]]:
        """How far each one's line is moved sideways, its name and its step."""
        count = len(self.ends)
        for place, (name, step) in enumerate(self.ends.items()):
            yield _APART * (place - (count - 1) / 2) / max(count - 1, 1), name, step


@style.styled
def draw(
    curation: pd.DataFrame,
    layers: pd.DataFrame,
    *,
    title: str,
    conditions: Sequence[str] = (),
    statistic: str = "grid_sampled",
    chance: float = 0.5,
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw accuracy, raw critical noise by layer on the grid, and critical noise in units of the RMS.

    Args:
        curation, layers: rows of the tables `curation` and `curation_layers` of one experiment and dataset.
        conditions: those there should be, in order, without the base; missing ones are named below.
        statistic: of the grid, "grid_sampled" as published, or "grid_exact".
        chance: accuracy of guessing.
        height: by default the page grows with the conditions.

    Raises:
        StrataprobeError: no rows, mixed rows, a row twice, or an unknown statistic.
    """
    refuse_unknown(statistic=([statistic], GRIDS))
    shown = _Shown.of(curation, layers, conditions)
    tall = max(1.7, 0.45 + 0.26 * len(shown.ends))
    figure = style.new_figure(title, width=width, height=height or 2 * tall + 3.3)
    panels = figure.subplots(3, 1, height_ratios=(1.6, tall, tall))
    _accuracies(panels[0], shown, chance)
    top = grid_top(*(where(rows, control="raw", statistic=statistic) for rows in (shown.means, shown.noise)))
    _on_grid(panels[1], shown, statistic, top)
    _in_rms(panels[2], shown)
    for axes in panels[1:]:
        style.layer_axis(axes, shown.layers, label=axes is panels[2])
    looks.note(figure, _small_print(shown, statistic, top))
    return figure


def _accuracies(axes: Axes, shown: _Shown, chance: float) -> None:
    """Two bars a condition with the spread over runs, and a dot a run."""
    reach = []
    for place, name in enumerate(shown.ends):
        for side, quantity in ((-0.5, "peak_accuracy"), (0.5, "mean_accuracy")):
            reach += _bar(axes, shown, place + side * _WIDE, name, quantity)
    low, high = (np.nanmin([0.97, *reach]), np.nanmax([0.1, *reach]))
    # Whole twentieths, with room for the dots.
    start, end = (0.05 * max(0, np.floor((low - 0.03) / 0.05)), 0.05 * np.ceil((high + 0.01) / 0.05))
    axes.set_ylim(start, min(1.0, end) + 0.01)
    if chance > start:
        axes.axhline(chance, color=style.GREY, linestyle=":", linewidth=1, label="_chance", zorder=3)
    _name_bars(axes, list(shown.ends))
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("fraction of test items")
    axes.set_title(f"a  probe accuracy at the last step{f' (axis from {start:g})' if start else ''}")
    axes.legend(handles=_handles(chance > start, BASE in shown.ends), **_BESIDE)


def _name_bars(axes: Axes, names: Sequence[str]) -> None:
    """The conditions under their bars: smaller, then slanted, where they do not fit beside each other."""
    for size in (7.5, 6.5, 5.5):
        room = int(_LETTERS * 7.5 / size / len(names))
        said = [looks.wrapped(name, room) for name in names]
        if max(len(part) for name in said for part in name.split("\n")) <= room:
            axes.set_xticks(range(len(names)), said, fontsize=size)
            break
    else:
        axes.set_xticks(range(len(names)), names, rotation=30, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.6, len(names) - 0.4)


def _bar(axes: Axes, shown: _Shown, x: float, name: str, quantity: str) -> list[float]:
    """A bar, its spread and its runs; returns the places that are drawn at."""
    value, low, high = shown.mean(name, quantity=quantity)
    own = where(at(shown.means, name, shown.ends[name]), quantity=quantity)
    single, colour = of_runs(own, own["value"], name).to_numpy(), shown.study.looks[name]["color"]
    axes.bar(
        x, value, _WIDE, facecolor=colour + "77", edgecolor=colour, linewidth=0.8, hatch=_HATCH[quantity],
        label=f"_{quantity} {name}", zorder=2,
    )  # fmt: skip
    if np.isfinite(low):
        bars = [[value - low], [high - value]]
        axes.errorbar(x, value, bars, fmt="none", ecolor=style.BLACK, elinewidth=0.9, zorder=3)
    places = x + _WIDE * 0.3 * (np.linspace(-1, 1, len(single)) if len(single) > 1 else np.zeros(len(single)))
    look = _SEED if name == BASE else _RUN
    ink = {"color": style.BLACK, "linestyle": "none", "label": f"_single {quantity} {name}", "zorder": 4}
    axes.plot(places, single, **ink, **look)
    return [value, low, high, *single]


def _handles(chance: bool, base: bool) -> list[Artist]:
    box = {"facecolor": "#cccccc", "edgecolor": style.GREY, "linewidth": 0.8}
    ink = {"color": style.BLACK, "linestyle": "none"}
    handles = [
        Patch(label="best layer (peak)", hatch=_HATCH["peak_accuracy"], **box),
        Patch(label="mean over layers", hatch=_HATCH["mean_accuracy"], **box),
        style.line_handle(label="a run", **ink, **_RUN),
        style.line_handle(label="± sd over runs", marker="|", markersize=7, **ink),
    ]
    if base:
        handles.append(style.line_handle(label="a probe seed (base)", **ink, **_SEED))
    if chance:
        handles.append(style.line_handle(label="chance", color=style.GREY, linestyle=":", linewidth=1))
    return handles


def _on_grid(axes: Axes, shown: _Shown, statistic: str, top: float | None) -> None:
    """Raw critical noise on the grid; censored layers, which have no number on it, stand at its top."""
    noise = where(shown.noise, control="raw", statistic=statistic)
    filled = noise["value"].astype(float)
    if top is not None:
        filled = filled.where(filled.notna() | (noise["state"] != "censored"), top)
    handles, censored = [], False
    for shift, name, step in shown.shifted():
        rows, look = at(noise, name, step), shown.study.looks[name]
        mean = _line(axes, rows, filled, name, shift, look, shown.layers)
        # Many layers share a level: what is drawn is moved by points of the page, and no value is changed.
        moved = axes.transData + ScaledTranslation(0, _RISE * shift, axes.figure.dpi_scale_trans)
        axes.lines[-1].set_transform(moved)
        lost = rows["state"].eq("censored").groupby(rows["layer"].astype(int)).all()
        places = [layer for layer in range(shown.layers) if lost.get(layer, False)]
        at_top = {"color": look["color"], "label": f"_censored {name}", "transform": moved, "zorder": 4}
        axes.plot(np.array(places) + shift, mean[places], **at_top, **_CENSORED)
        censored |= bool(places)
        said = f"{looks.wrapped(name, 20)}\n{_fragile(shown, name, statistic)}"
        handles.append(style.line_handle(label=said, **look))
    if censored:
        said = "never at the threshold\non the grid (censored)"
        handles.append(style.line_handle(label=said, color=style.GREY, **_CENSORED))
    _grid_axis(axes, sorted({*noise["value"].dropna().astype(float), *([] if top is None else [top])}))
    axes.set_title(f"b  raw critical noise, {GRIDS[statistic]}")
    axes.set_ylabel("σ* (activation units)")
    axes.legend(handles=handles, **_BESIDE)


def _fragile(shown: _Shown, name: str, statistic: str) -> str:
    """How many layers are fragile and the mean over layers as published, censored ones at the grid's top."""
    named = {"control": "raw", "statistic": statistic}
    fragile = shown.mean(name, quantity="fragile_layers", **named)[0]
    capped = shown.mean(name, quantity=_NOISE, means="capped", **named)[0]
    return f"{fragile:.3g} of {shown.layers} fragile, mean {capped:.3g}"


def _grid_axis(axes: Axes, levels: Sequence[float]) -> None:
    """A log axis whose ticks are the levels of the grid."""
    if not levels:
        style.say_empty(axes, "no layer has a critical noise on the grid")
        return
    axes.set_yscale("log")
    axes.set_ylim(levels[0] / 1.5, levels[-1] * 1.5)
    axes.yaxis.set_minor_locator(NullLocator())
    chosen = [levels[index] for index in spread_out(len(levels), 8)]
    axes.set_yticks(chosen, [f"{level:g}" for level in chosen])


def _in_rms(axes: Axes, shown: _Shown) -> None:
    """Critical noise in units of the RMS; layers below the threshold without noise have none."""
    named = {"control": "rms_after", "statistic": "continuous"}
    noise = where(shown.noise, **named)
    handles, drawn, crosses = [], [np.full(shown.layers, np.nan)], False
    for shift, name, step in shown.shifted():
        rows, look = at(noise, name, step), shown.study.looks[name]
        mean = _line(axes, rows, noise["value"].astype(float), name, shift, look, shown.layers)
        drawn.append(mean)
        none = [layer for layer in sorted(set(rows["layer"].astype(int))) if np.isnan(mean[layer])]
        if none:  # an empty line that is not clipped would take room at the corner of the page
            cross = {"color": look["color"], "label": f"_no value {name}", "clip_on": False, "zorder": 4}
            on_axis = axes.get_xaxis_transform()
            axes.plot(np.array(none) + shift, np.zeros(len(none)), transform=on_axis, **cross, **_CROSS)
            crosses = True
        over = shown.mean(name, quantity=_NOISE, means="dropped", **named)[0]
        handles.append(style.line_handle(label=f"{looks.wrapped(name, 20)}: mean {over:.3g}", **look))
    if crosses:
        said = "no value: below the\nthreshold without noise"
        handles.append(style.line_handle(label=said, color=style.GREY, **_CROSS))
    if not np.isfinite(drawn).any():
        style.say_empty(axes, "no layer reaches the threshold without noise")
    style.log_if_wide(axes, np.concatenate(drawn))
    axes.set_title("c  critical noise, scale divided out (same probe)")
    axes.set_ylabel("σ* (units of the RMS)")
    axes.legend(handles=handles, **_BESIDE)


def _line(
    axes: Axes, rows: pd.DataFrame, values: pd.Series, name: str, shift: float, look: Look, layers: int
) -> np.ndarray:
    """Mean over runs by layer with the band of their spread."""
    mean, spread = by_layer(rows, values, name, layers)
    places = np.arange(layers) + shift
    every = {"markevery": looks.sparse(layers), "linewidth": 1.1, "zorder": 3}
    axes.plot(places, mean, label=f"_{name}", **every, **look)
    axes.fill_between(places, mean - spread, mean + spread, color=look["color"], alpha=0.16, linewidth=0)
    return mean


def _small_print(shown: _Shown, statistic: str, top: float | None) -> list[str]:
    study, last = shown.study, sorted({step for name, step in shown.ends.items() if name != BASE})
    lines = [
        study.about(shown.means),
        f"Last step: {' or '.join(map(str, last)) or 'none'}; the base is the checkpoint that all runs began "
        "with. Bands and bars: ± sd over runs (of the base: over probe seeds), where there are two. Fragile: "
        "critical noise on the grid below its top. Lines are set apart so that all are seen.",
    ]
    if top is not None:
        lines.append(f"A censored layer counts as the grid's top, {top:g}, also in the means.")
    gone = [name for name in shown.ends if name not in study.ends(where(shown.noise, statistic=statistic))]
    named = [f"Not by layer: {', '.join(gone)}."] if gone else []
    return [*lines, *shown.lacking, *named]
