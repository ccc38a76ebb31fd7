"""Layer by fine-tuning step, a row of panels a condition: critical noise, raw and in units of the RMS.

Source: fragility paper, section 4.3 (it keeps every hundredth step), drawn as its Figure 4.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.figures import heatmaps, style
from strataprobe.figures import level_looks as looks
from strataprobe.figures.curation_frames import Experiment
from strataprobe.figures.frames import layer_count, spread_out, where
from strataprobe.figures.level_names import refuse_unknown
from strataprobe.tabular.curation_columns import BASE

Cells = tuple[np.ndarray, np.ndarray]
_SOME = "some runs or seeds have no value"
_UNITS = {"raw": "σ* (activation units)", "within_class": "σ* (within-class units)"}
_RMS = "σ* (units of the RMS)"


@style.styled
def draw(
    layers: pd.DataFrame,
    *,
    title: str,
    conditions: Sequence[str] = (),
    scaled: str = "rms_after",
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw two heatmaps a condition, runs and probe seeds averaged, with one scale of colours a column.

    Args:
        layers: rows of the table `curation_layers` of one experiment and dataset.
        conditions: those there should be, from top to bottom, without the base, which is step 0 of each;
            missing ones are named below.
        scaled: the scale control of the right column.
        height: by default the page grows with the conditions.

    Raises:
        StrataprobeError: no rows, mixed rows, a row twice, or an unknown control.
    """
    refuse_unknown(scaled=([scaled], [name for name in style.CONTROL_NAME if name != "raw"]))
    study = Experiment.of(layers, conditions=conditions)
    noise = where(layers, quantity="critical_noise", statistic="continuous")
    steps, count = sorted({int(step) for step in layers["step"]}), layer_count(layers)
    shown = study.conditions or (BASE,)
    figure = style.new_figure(title, width=width, height=height or 1.55 * len(shown) + 1.5)
    # The last, low row holds nothing but the legend of the hatchings.
    grid = figure.add_gridspec(len(shown) + 1, 2, height_ratios=[*([1.55] * len(shown)), 0.3])
    used: set[str] = set()
    for column, control in enumerate(("raw", scaled)):
        rows = where(noise, control=control)
        every = {name: _cells(_with_base(rows, name), steps, count) for name in shown}
        panels = [figure.add_subplot(grid[place, column]) for place in range(len(shown))]
        used |= _column(panels, every, control, steps, left=column == 0)
    heatmaps.legend(figure.add_subplot(grid[len(shown), :]), used, _SOME)
    looks.note(figure, _small_print(study, layers, steps))
    return figure


def _with_base(rows: pd.DataFrame, condition: str) -> pd.DataFrame:
    return rows[rows["condition"].astype(str).isin([condition, BASE])]


def _cells(rows: pd.DataFrame, steps: Sequence[int], layers: int) -> Cells:
    """((layers, steps) mean over runs of their means over seeds, NaN where none has a value, and states).

    A state is that of all runs and seeds, "mixed" where they differ, "" where there is no row.
    """
    place, over = ["layer", "step"], ["layer", "step", "run"]
    mean = rows["value"].astype(float).groupby([rows[name] for name in over]).mean().groupby(place).mean()
    states = rows["state"].astype(str).groupby([rows[name] for name in place]).agg(_one_state)
    shape = {"index": range(layers), "columns": list(steps)}
    tables = (found.unstack("step").reindex(**shape) for found in (mean, states))
    values, names = (found.to_numpy() for found in tables)
    return values.astype(float), np.where(pd.isna(names), "", names)


def _one_state(states: pd.Series) -> str:
    return states.iloc[0] if states.nunique() == 1 else "mixed"


def _column(
    panels: Sequence[Axes], every: dict[str, Cells], control: str, steps: Sequence[int], *, left: bool
) -> set[str]:
    """One control of every condition on one scale of colours; returns which kinds of special cells it has."""
    norm = heatmaps.log_norm(np.concatenate([cells for cells, _ in every.values()], axis=None))
    used: set[str] = set()
    for axes, (name, (cells, states)) in zip(panels, every.items(), strict=True):
        heatmaps.draw_cells(axes, cells, norm)
        axes.grid(visible=False)
        used |= heatmaps.mark_special(axes, cells, states, _SOME)
        axes.set_title(looks.wrapped(f"{name}, {style.CONTROL_NAME[control].partition(' (')[0]}", 34))
        _label(axes, steps, len(cells), bottom=axes is panels[-1], left=left)
    bar = panels[0].figure.colorbar(
        panels[0].collections[0], ax=list(panels), pad=0.02, aspect=16 * len(panels)
    )
    bar.set_label(_UNITS.get(control, _RMS))
    style.log_colour_bar(bar, norm.vmin, norm.vmax)
    return used


def _label(axes: Axes, steps: Sequence[int], layers: int, *, bottom: bool, left: bool) -> None:
    style.layer_labels(axes, layers)
    chosen = spread_out(len(steps), 6)
    axes.set_xticks(chosen, [style.step_label(steps[index]) for index in chosen])
    axes.tick_params(labelbottom=bottom, labelleft=left)
    if bottom:
        axes.set_xlabel("fine-tuning step")
    if left:
        axes.set_ylabel("layer (block)")


def _small_print(study: Experiment, layers: pd.DataFrame, steps: Sequence[int]) -> list[str]:
    lines = [
        study.about(layers),
        "A column a snapshot; step 0 is the base, the same for all conditions. Mean over the runs and probe "
        "seeds that have a value; one scale of colours for all conditions. Critical noise is exact.",
    ]
    gone = []
    for name in study.conditions:
        own = set(where(layers, condition=name)["step"].astype(int))
        if lost := [step for step in steps if step and step not in own]:
            gone.append(f"{name} {', '.join(map(str, lost))}")
    snapshots = [f"No data (hatched) at steps: {'; '.join(gone)}."] if gone else []
    return [*lines, *snapshots, *study.lacking(layers)]
