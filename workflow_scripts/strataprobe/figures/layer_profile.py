"""One model at one checkpoint, by layer: accuracy, critical noise raw and with scale divided out.

Source: fragility paper, sections 3.3 and 3.4; the ceiling without a probe is in docs/methods.md.
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.figures import style
from strataprobe.figures.frames import by_layer, layer_count, one_study, seeds_only, where

_SCALED = ("rms_after", "rms_before", "within_class")


@style.styled
def draw(
    probing: pd.DataFrame,
    fragility: pd.DataFrame,
    scale: pd.DataFrame,
    *,
    title: str,
    chance: float = 0.5,
    onset: float = 0.6,
    width: float = style.TEXT_WIDTH,
    height: float = 6.4,
) -> Figure:
    """Draw one model, revision and dataset; the note says what pooling its states come from.

    Args:
        probing, fragility, scale: rows of the three tables.
        chance: accuracy of guessing.
        onset: accuracy from which a layer is said to encode the property.

    Raises:
        StrataprobeError: no rows, or rows of several models, revisions or datasets.
    """
    study = one_study(probing, fragility, scale, also=("revision",))
    layers = layer_count(probing, fragility, scale)
    noise = where(fragility, statistic="continuous")
    figure = style.new_figure(title, width=width, height=height)
    panels = figure.subplots(3, 1, sharex=True)
    _accuracy(panels[0], probing, layers, chance, onset)
    drawn = [_noise(panels[1], where(noise, control="raw"), layers, "raw", "probe")]
    drawn.append(_ceiling(panels[1], scale, layers))
    _finish(panels[1], drawn, "b  raw critical noise", "σ* (activation units)")
    drawn = [
        _noise(panels[2], where(noise, control=control), layers, control, style.CONTROL_NAME[control])
        for control in _SCALED
    ]
    _finish(panels[2], drawn, "c  scale divided out", "σ* (units of the RMS)")
    for axes in panels:
        style.layer_axis(axes, layers, label=axes is panels[-1])
    count = seeds_only(probing)["seed"].astype(str).nunique()
    bands = "Thin lines: 95 % pair bootstrap (mean of seeds)." + (
        " Bands: seed mean ± sd." if count > 1 else ""
    )
    said = "; one seed" if count == 1 else f"; mean over {count} seeds"
    style.note(figure, [*style.about(study, said), bands])
    return figure


def _accuracy(axes: Axes, probing: pd.DataFrame, layers: int, chance: float, onset: float) -> None:
    axes.axhline(chance, color=style.GREY, linestyle=":", linewidth=1, label="chance")
    axes.axhline(onset, color=style.GREY, linestyle="--", linewidth=1, label=f"onset level {onset:.2f}")
    mean = _line(axes, probing, "accuracy", layers, color=style.BLUE, marker="o", label="probe")
    finite = mean[np.isfinite(mean)]
    axes.set_ylim(min(0.45, *(finite - 0.08)) if len(finite) else 0.45, 1.02)
    axes.set_title("a  accuracy")
    axes.set_ylabel("fraction of test items")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _noise(axes: Axes, rows: pd.DataFrame, layers: int, control: str, label: str) -> np.ndarray:
    look = style.CONTROL_LOOK[control]
    mean = _line(axes, rows, "critical_noise", layers, label=_wrap(label), **look)
    below = seeds_only(rows)
    below = set(below.loc[below["state"] == "below_threshold", "layer"].astype(int))
    places = [layer for layer in range(layers) if layer in below and np.isnan(mean[layer])]
    if places:
        heights = [0.03 + 0.04 * _SCALED.index(control) if control in _SCALED else 0.03] * len(places)
        axes.plot(
            places,
            heights,
            transform=axes.get_xaxis_transform(),
            linestyle="none",
            marker="x",
            markersize=4,
            color=look["color"],
            label=f"_below the threshold, {control}",
            clip_on=False,
        )
    return mean


def _ceiling(axes: Axes, scale: pd.DataFrame, layers: int) -> np.ndarray:
    look = {"color": style.ORANGE, "linestyle": "--", "marker": "v"}
    return _line(axes, scale, "ceiling_critical_noise", layers, label="ceiling without\na probe", **look)


def _line(
    axes: Axes, rows: pd.DataFrame, column: str, layers: int, *, color: str, label: str, **look: str
) -> np.ndarray:
    """Seed mean by layer, its band over seeds, and the bootstrap bounds where the table has them."""
    mean, spread = by_layer(rows, column, layers)
    axes.plot(range(layers), mean, color=color, label=label, zorder=3, **look)
    axes.fill_between(range(layers), mean - spread, mean + spread, color=color, alpha=0.22, linewidth=0)
    for bound in ("interval_low", "interval_high"):
        if bound in rows.columns:
            values, _ = by_layer(rows, bound, layers)
            axes.plot(range(layers), values, color=color, linewidth=0.5, alpha=0.8, label=f"_{bound}")
    return mean


def _finish(axes: Axes, drawn: list[np.ndarray], name: str, unit: str) -> None:
    values = np.concatenate(drawn)
    if not np.isfinite(values).any():
        style.say_empty(axes, "no layer reaches the threshold without noise")
    style.log_if_wide(axes, values)
    handles, _ = axes.get_legend_handles_labels()
    if any(line.get_label().startswith("_below") for line in axes.lines):
        cross = {"color": style.GREY, "linestyle": "none", "marker": "x", "markersize": 4}
        handles.append(style.line_handle(label="below the threshold\nwithout noise", **cross))
    axes.set_title(name)
    axes.set_ylabel(unit)
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _wrap(text: str) -> str:
    return text.replace(", ", ",\n", 1).replace(" (", "\n(", 1)
