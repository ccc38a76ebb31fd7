"""At which depth does another item's state change the answer? Lift by relative depth, a line a model.

Source: levels paper, appendix G.3 and Figure 7.
"""

from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.figures import level_looks as looks
from strataprobe.figures import level_rows as rows
from strataprobe.figures import style
from strataprobe.figures.level_names import TASK_NAME, TASKS, refuse_unknown, split_name
from strataprobe.figures.patching_curves import MEASURES, Patched, counted, draw_curve


@style.styled
def draw(
    patching: pd.DataFrame,
    *,
    title: str,
    models: rows.Models = (),
    task: str = "qa",
    split: str = "subject_control",
    states: str | None = None,
    window: int = 1,
    measure: str = "lift",
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw lift by relative depth, with each model's probe peak (dotted) and its own peak (ring).

    Args:
        patching: rows of the patching table, of one or several models.
        models: (name, revision) in the order of the legend; models without a row are named below.
        task: "qa" or "paraphrase".
        split: "all", a language, a control type, or "en:subject_control".
        states: where donors' states are taken, "own_prompt" or "bare"; by default what the table has first.
        window: how many adjacent layers are patched together.
        measure: "lift", or "lift_pooled" as published.
        height: by default the page grows with the legend.

    Raises:
        StrataprobeError: no rows, mixed rows, or an unknown option.
    """
    refuse_unknown(task=([task], [name for name in TASKS if name != "mean"]))
    table = Patched.of(patching, models, states, window, measure)
    look_of = looks.model_looks(table.models)
    handles = _handles(table, look_of, task, split)
    below = looks.legend_height([str(each.get_label()) for each in handles], width)
    figure = style.new_figure(title, width=width, height=height or 2.9 + below)
    grid = figure.add_gridspec(2, 1, height_ratios=(1.9, below))
    axes = figure.add_subplot(grid[0])
    axes.axhline(0, color=style.GREY, linewidth=0.8, label="_zero", zorder=1)
    drawn = [name for name in table.models if _line(axes, table, name, task, split, look_of[name])]
    if not drawn:
        style.say_empty(axes, "no wrong target has donors of both kinds")
    axes.set_xlim(table.from_depth(), 1.02)
    axes.set_xlabel("relative depth of the patched layer (0: embedding, 1: last block)")
    axes.set_ylabel("lift")
    axes.set_title(f"correct minus wrong donors: {TASK_NAME[task]}, {split_name(split)}")
    looks.legend_row(figure, grid[1], handles)
    looks.note(figure, _small_print(table, drawn, measure))
    return figure


def _line(axes: Axes, table: Patched, model: str, task: str, split: str, look: dict[str, Any]) -> bool:
    """Whether there was anything to draw beside the probe peak."""
    probe = table.probe_peak(model, task)
    if probe is not None:
        axes.axvline(
            probe, color=look["color"], linestyle=":", linewidth=1.1, zorder=1, label=f"_probe peak {model}"
        )
    curve = table.curve(model, task, split, table.measure)
    if curve.empty:
        return False
    draw_curve(axes, curve, f"_{model}", look)
    best = curve.loc[curve["value"].astype(float).idxmax()]
    if best["value"] <= 0:
        return True
    ring = {"color": look["color"], "markerfacecolor": "none", "markersize": 8, "markeredgewidth": 1}
    axes.plot(best["depth"], best["value"], "o", zorder=4, label=f"_peak {model}", **ring)
    return True


def _handles(table: Patched, look_of: dict[str, dict[str, Any]], task: str, split: str) -> list[Artist]:
    """Each model with its peak, how far behind the probe's it is, and of how many targets."""
    handles: list[Artist] = []
    for model, look in look_of.items():
        said = [model]
        layer = table.one(model, task, split, f"peak_layer:{table.measure}")
        shift = table.one(model, task, split, f"shift:{table.measure}")
        if layer is not None and shift is not None and pd.notna(layer["value"]):
            said.append(f"peak at {int(layer['value'])}, probe {int(shift['value']):+d}")
        null = table.one(model, task, split, f"null_high:{table.measure}")
        if null is not None and pd.notna(null["value"]):
            said.append(f"95 % of chance {float(null['value']):.2f}")
        said.append(counted(table.curve(model, task, split, table.measure)))
        handles.append(style.line_handle(label="\n".join(said), **look))
    dotted = style.line_handle(label="probe peak", color=style.GREY, linestyle=":", linewidth=1.1)
    return [*handles, dotted]


def _small_print(table: Patched, drawn: list[str], measure: str) -> list[str]:
    empty = [name for name in table.models if name not in drawn]
    return [
        f"{table.said()} Lift {MEASURES[measure]}: share of wrong answers put right by donors that are right "
        f"themselves, less that by donors that are wrong. {table.bootstrap_line()} Rings: the largest; "
        "in the legend its hidden_states index, and how many layers it lies behind the probe's. The largest "
        "of so many is high by chance: 95 % of chance is with right and wrong donors exchanged.",
        *table.absent_line(),
        *([f"Empty (no wrong target with donors of both kinds): {', '.join(empty)}."] if empty else []),
    ]
