"""Does what the corpus teaches show in the loss? Critical noise against training loss, a path a condition.

Source: fragility paper, section 4.3 ("training loss is decoupled from representational change").
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.figures import level_looks as looks
from strataprobe.figures import style
from strataprobe.figures.curation_frames import Experiment, curve
from strataprobe.figures.frames import where
from strataprobe.figures.level_names import refuse_unknown
from strataprobe.tabular.curation_columns import BASE

_NOISE = "mean_critical_noise"
_UNITS = {
    "raw": "mean σ* (activation units)",
    "rms_before": "mean σ* (units of the RMS)",
    "rms_after": "mean σ* (units of the RMS)",
    "within_class": "mean σ* (within-class units)",
}
_SIZES = (8.0, 36.0)  # points squared, of the first and the last mark of a path
_START = {"facecolor": "white", "linewidth": 1.0, "zorder": 4}


@dataclass(frozen=True)
class Path:
    """One condition's way: mean over runs and bounds of loss and noise, by rising step; step 0 is the base's.

    Attributes:
        loss, noise: (3, steps) value, lower and upper bound; NaN where there is none.
    """

    steps: tuple[int, ...]
    loss: np.ndarray
    noise: np.ndarray

    @classmethod
    def of(cls, table: pd.DataFrame, condition: str, control: str) -> "Path":
        own = table[table["condition"].astype(str) == condition]
        steps = tuple(sorted({int(step) for step in own["step"]}))
        loss = curve(own, steps, quantity="loss")
        named = {"quantity": _NOISE, "control": control, "statistic": "continuous", "means": "dropped"}
        noise = curve(own, steps, **named)
        if steps and steps[0] == 0:
            noise[:, :1] = curve(table, [0], condition=BASE, **named)
        return cls(steps, loss, noise)

    @property
    def whole(self) -> np.ndarray:
        """(steps,) whether a snapshot has both values."""
        return np.isfinite(self.loss[0]) & np.isfinite(self.noise[0])


@style.styled
def draw(
    curation: pd.DataFrame,
    *,
    title: str,
    conditions: Sequence[str] = (),
    scaled: str = "rms_after",
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw mean critical noise, raw and with scale divided out, against the training loss.

    Args:
        curation: rows of the table `curation` of one experiment and dataset.
        conditions: those there should be, in order, without the base; missing ones are named below.
        scaled: the scale control of the right panel.

    Raises:
        StrataprobeError: no rows, mixed rows, a row twice, or an unknown control.
    """
    refuse_unknown(scaled=([scaled], [name for name in style.CONTROL_NAME if name != "raw"]))
    study = Experiment.of(curation, conditions=conditions)
    handles = _handles(study)
    below = looks.legend_height([str(each.get_label()) for each in handles], width)
    figure = style.new_figure(title, width=width, height=height or 3.9 + below)
    grid = figure.add_gridspec(2, 2, height_ratios=(3.2, below))
    gone: list[str] = []
    for column, (control, letter) in enumerate((("raw", "a"), (scaled, "b"))):
        axes = figure.add_subplot(grid[0, column])
        paths = {name: Path.of(curation, name, control) for name in study.conditions}
        for name, path in paths.items():
            _path(axes, path, name, study.looks[name])
        gone += [said for said in _incomplete(paths, control) if said not in gone]
        if not any(path.whole.any() for path in paths.values()):
            style.say_empty(axes, "no snapshot has both")
        axes.set_title(f"{letter}  {style.CONTROL_NAME[control]}")
        axes.set_xlabel("training loss (nats a token)")
        axes.set_ylabel(_UNITS[control])
        axes.margins(0.12)
    looks.legend_row(figure, grid[1, :], handles)
    looks.note(figure, _small_print(study, curation, gone))
    return figure


def _handles(study: Experiment) -> list[Artist]:
    start = {"marker": "o", "markerfacecolor": "white", "markersize": 5.5, "linestyle": "none"}
    return [
        *(style.line_handle(label=name, **study.looks[name]) for name in study.conditions),
        style.line_handle(label="step 0 (the base)", color=style.BLACK, **start),
    ]


def _path(axes: Axes, path: Path, name: str, look: dict) -> None:
    """Marks that grow with the step, the spread over runs as crosses, and an arrow into the last one."""
    there = np.flatnonzero(path.whole)
    x, y = path.loss[0, there], path.noise[0, there]
    for across, values in (("xerr", path.loss), ("yerr", path.noise)):
        spread = np.abs(values[1:, there] - values[0, there])
        known = np.isfinite(spread[0])
        if known.any():
            bars = axes.errorbar(
                x[known], y[known], fmt="none", ecolor=look["color"], elinewidth=0.6, alpha=0.75, zorder=2,
                **{across: spread[:, known]},
            )  # fmt: skip
            bars.set_label(f"_{across} {name}")
    axes.plot(
        x,
        y,
        color=look["color"],
        linestyle=look["linestyle"],
        linewidth=1.0,
        zorder=2.5,
        label=f"_path {name}",
    )
    sizes = np.linspace(*_SIZES, max(len(path.steps), 2))[there]
    begins = np.array([path.steps[index] == 0 for index in there], dtype=bool)
    points = {"marker": look["marker"], "edgecolor": "white", "linewidth": 0.5, "label": f"_steps {name}"}
    axes.scatter(x[~begins], y[~begins], sizes[~begins], facecolor=look["color"], zorder=3, **points)
    axes.scatter(x[begins], y[begins], 34, edgecolor=look["color"], label=f"_step 0 {name}", **_START)
    if len(there) > 1 and (x[-1], y[-1]) != (x[-2], y[-2]):
        arrow = {"arrowstyle": "-|>", "color": look["color"], "shrinkA": 0, "shrinkB": 3, "linewidth": 1.0}
        axes.annotate("", (x[-1], y[-1]), (x[-2], y[-2]), arrowprops=arrow, zorder=2.6)


def _incomplete(paths: dict[str, Path], control: str) -> list[str]:
    """Names the snapshots that lack a loss or a noise."""
    return [
        f"{name} {control} step {step}"
        for name, path in paths.items()
        for step, whole in zip(path.steps, path.whole, strict=True)
        if not whole
    ]


def _small_print(study: Experiment, curation: pd.DataFrame, gone: Sequence[str]) -> list[str]:
    lines = [
        study.about(curation),
        "Loss: mean over the steps since the snapshot before; at step 0 the base's on the first rows. Noise: "
        "exact critical noise, mean over the layers that have one. Marks grow with the step. Thin crosses: "
        "± sd over runs (of the base's noise: over probe seeds), where there are two.",
    ]
    more = f" and {len(gone) - 6} more" if len(gone) > 6 else ""
    lost = [f"Not drawn, a value missing: {'; '.join(gone[:6])}{more}."] if gone else []
    return [*lines, *lost, *study.lacking(where(curation, quantity=_NOISE))]
