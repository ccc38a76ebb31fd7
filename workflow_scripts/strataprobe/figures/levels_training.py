"""When is it encoded, when read out, when deployed? The three levels over training, with bias and noise.

Source: levels paper, section 3.2, over the checkpoints of a trajectory; bias decomposition and critical noise
are in docs/methods.md.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.figures import level_looks as looks
from strataprobe.figures import level_rows as rows
from strataprobe.figures import marks, style
from strataprobe.figures.frames import Checkpoints, Expected, where
from strataprobe.figures.level_looks import LEVEL_LOOK
from strataprobe.figures.level_names import (
    ALL,
    BEHAVIOR,
    LEVEL_NAME,
    RECOVERABILITY,
    TASK_NAME,
    TASKS,
    Chosen,
    refuse_unknown,
    split_name,
)
from strataprobe.onsets import onset_step

_TASK_LOOK = {
    "qa": {"color": style.VERMILION, "marker": "o"},
    "paraphrase": {"color": style.PURPLE, "marker": "v"},
}
_NULL = {"linewidth": 0.8, "linestyle": ":", "marker": "_", "markersize": 4}


@style.styled
def draw(
    levels: pd.DataFrame,
    layers: pd.DataFrame,
    *,
    title: str,
    expected: Expected = (),
    split: str = "all",
    task: str = "mean",
    definition: str | None = None,
    coding: str | None = None,
    chance: float = 0.5,
    step_scale: str = "linear",
    width: float = style.TEXT_WIDTH,
    height: float = 6.8,
) -> Figure:
    """Draw one model and dataset over its checkpoints.

    Args:
        levels, layers: rows of the levels and levels_layers tables of one model.
        expected: (revision, step) of every checkpoint there should be; missing ones are hatched.
        split: "all", a language, a control type, or "en:object_control"; critical noise is of all items.
        task: behaviour in "qa", in "paraphrase", or their "mean".
        definition, coding: of the readout and of the probe; by default what the table's conventions compare.
        chance: accuracy of guessing.
        step_scale: "linear", or "symlog" where the early checkpoints lie close together.

    Raises:
        StrataprobeError: no rows, rows of several models or datasets, a row twice, a revision without a step,
            or an unknown task.
    """
    refuse_unknown(task=([task], TASKS))
    study = rows.one_dataset(levels, layers, also=("model",))
    for table in (levels, layers):
        rows.refuse_twice(table)
    checkpoints = Checkpoints.of([levels, layers], expected)
    chosen = Chosen.of(levels if len(levels) else layers, definition, coding)
    # Gaps are found by checkpoint: these tables have no seeds.
    levels, layers = levels.assign(seed=""), layers.assign(seed="")
    shown = where(levels, split=split)
    of_level = {
        level: where(shown, level=level, measure=measure) for level, measure in chosen.measures(task).items()
    }
    probed = where(layers, level=RECOVERABILITY, measure=chosen.base, split=ALL)
    figure = style.new_figure(title, width=width, height=height)
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=(1.3, 1, 1))
    _levels(top, shown, of_level, split, chosen, checkpoints, chance)
    _bias(middle, where(shown, level=BEHAVIOR), checkpoints, [*_TASK_LOOK] if task == "mean" else [task])
    _noise(bottom, layers, _best_layers(levels, chosen), chosen, checkpoints)
    gone = {name: checkpoints.missing(frame) for name, frame in (*of_level.items(), ("layers", probed))}
    everywhere = [step for step in gone["layers"] if all(step in missing for missing in gone.values())]
    twins = marks.twin_groups(checkpoints, levels, layers)
    for axes, missing in ((top, everywhere), (middle, gone[BEHAVIOR]), (bottom, gone["layers"])):
        style.mark_gaps(axes, checkpoints.steps, missing)
        marks.mark_twins(axes, checkpoints.steps, twins)
        style.step_axis(axes, checkpoints.steps, scale=step_scale, label=axes is bottom)
    frames = {LEVEL_NAME[level]: frame for level, frame in of_level.items()} | {"layers": probed}
    if all(missing == everywhere for missing in gone.values()):
        frames = {"any level": probed}
    lines = _small_print(study, shown, split, task, chosen)
    told = [*checkpoints.gap_lines(frames), *marks.twin_lines(checkpoints, twins)]
    looks.note(figure, [*lines, *told])
    return figure


def _best_layers(levels: pd.DataFrame, chosen: Chosen) -> dict[str, tuple[str, int]]:
    """Revision -> (mode, hidden_states index) where recoverability of all items is best."""
    found = where(levels, level=RECOVERABILITY, measure=f"layer:{chosen.coding}", split=ALL)
    found = found.dropna(subset=["value"])
    return {
        str(revision): (str(mode), int(layer))
        for revision, mode, layer in zip(found["revision"], found["note"], found["value"], strict=True)
    }


def _levels(
    axes: Axes,
    shown: pd.DataFrame,
    of_level: dict[str, pd.DataFrame],
    split: str,
    chosen: Chosen,
    checkpoints: Checkpoints,
    chance: float,
) -> None:
    steps = checkpoints.steps
    axes.axhline(chance, color=style.GREY, linestyle=":", linewidth=1, label="chance")
    for level, frame in of_level.items():
        look = LEVEL_LOOK[level]
        value, low, high = (
            checkpoints.along(frame, name) for name in ("value", "interval_low", "interval_high")
        )
        nulls = where(shown, level=level, measure=chosen.null(level))
        null = checkpoints.along(
            nulls if level != BEHAVIOR and chosen.judged(split) else nulls.iloc[:0], "value"
        )
        margin = low - chance if level == BEHAVIOR else value - null
        # Above, not at: a tie with chance is no evidence.
        _, since = onset_step(zip(steps, margin, strict=True), float(np.nextafter(0, 1)))
        axes.plot(steps, value, label=f"{LEVEL_NAME[level]}\n{_since(since, margin)}", zorder=3, **look)
        axes.fill_between(steps, low, high, color=look["color"], alpha=0.13, linewidth=0, zorder=2)
        if np.isfinite(null).any():
            axes.plot(steps, null, color=look["color"], label=f"_null {level}", zorder=2, **_NULL)
        if since is not None:
            height = value[list(steps).index(since)]
            mark = {"color": look["color"], "markersize": 13, "markeredgewidth": 1.6, "linestyle": "none"}
            axes.plot([since], [height], marker="|", zorder=4, label=f"_since {level}", **mark)
    if chosen.judged(split):
        axes.plot([], [], color=style.GREY, label="95 % of chance", **_NULL)
    lowest = axes.dataLim.y0 if np.isfinite(axes.dataLim.y0) else 0.4
    axes.set_ylim(min(0.4, lowest - 0.02), 1.03)
    axes.set_ylabel("accuracy")
    axes.set_title("a  three levels on the same items")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)


def _since(since: int | None, margin: np.ndarray) -> str:
    if not np.isfinite(margin).any():
        return "no chance level"
    return "not above chance" if since is None else f"from step {style.step_label(since)}"


def _bias(axes: Axes, behavior: pd.DataFrame, checkpoints: Checkpoints, tasks: Sequence[str]) -> None:
    axes.axhline(0, color=style.GREY, linestyle=":", linewidth=1, label="_zero")
    steps = checkpoints.steps
    for task in tasks:
        look: dict[str, Any] = {**_TASK_LOOK[task], "zorder": 3}
        d_prime, criterion = (where(behavior, measure=f"{name}:{task}") for name in ("d_prime", "criterion"))
        if d_prime.empty and criterion.empty:
            continue
        axes.plot(steps, checkpoints.along(d_prime, "value"), label=f"d\N{PRIME}, {TASK_NAME[task]}", **look)
        low, high = (checkpoints.along(d_prime, bound) for bound in ("interval_low", "interval_high"))
        axes.fill_between(steps, low, high, color=look["color"], alpha=0.13, linewidth=0)
        hollow = {"linestyle": "--", "linewidth": 1, "markerfacecolor": "white", "markersize": 3.4}
        values = checkpoints.along(criterion, "value")
        axes.plot(steps, values, label=f"criterion, {TASK_NAME[task]}", **look, **hollow)
    if len(axes.lines) == 1:
        style.say_empty(axes, "both control types are needed")
    else:
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)
    axes.set_ylabel("z units")
    axes.set_title("b  behaviour without its bias: sensitivity d\N{PRIME}, and criterion")


def _noise(
    axes: Axes,
    layers: pd.DataFrame,
    best: dict[str, tuple[str, int]],
    chosen: Chosen,
    checkpoints: Checkpoints,
) -> None:
    """Critical noise at the best layer: in units of its RMS (left), and raw (right)."""
    columns = (layers["revision"].astype(str), layers["mode"].astype(str), layers["hidden_state"])
    at_best = layers[[best.get(name) == (mode, index) for name, mode, index in zip(*columns, strict=True)]]
    scaled, raw = (
        where(at_best, measure=f"{name}:{chosen.base}", split=ALL)
        for name in ("critical_noise_rms", "critical_noise")
    )
    handles = _noise_line(axes, scaled, checkpoints, "scale divided out\n(left)", style.BLACK, "D", "-.")
    if not handles:
        style.say_empty(axes, "no best layer reaches the threshold without noise")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("σ* (units of the RMS)")
    axes.set_title("c  critical noise of the recoverability probe, at its best layer")
    reached = set(scaled.dropna(subset=["value"])["revision"].astype(str))
    places = zip(checkpoints.revisions, checkpoints.steps, strict=True)
    if below := [step for name, step in places if name in best and name not in reached]:
        cross = {"color": style.GREY, "linestyle": "none", "marker": "x", "markersize": 4, "clip_on": False}
        cross |= {"transform": axes.get_xaxis_transform(), "label": "below the threshold\nwithout noise"}
        handles += axes.plot(below, [0.03] * len(below), **cross)
    if raw["value"].notna().any():
        beside = axes.twinx()
        beside.grid(visible=False)
        beside.tick_params(labelbottom=False)
        handles += _noise_line(beside, raw, checkpoints, "raw (right)", style.BLUE, "o", "-")
        # Room above, so that two lines of one shape do not lie on each other.
        beside.set_ylim(0, 1.3 * beside.dataLim.y1)
        beside.spines["right"].set_visible(True)
        beside.set_ylabel("σ* (activation units)")
    if handles:
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.16, 1), borderaxespad=0)


def _noise_line(
    axes: Axes, frame: pd.DataFrame, checkpoints: Checkpoints, label: str, colour: str, marker: str, dash: str
) -> list[Any]:
    value, spread = checkpoints.along(frame, "value"), checkpoints.along(frame, "sd")
    if not np.isfinite(value).any():
        return []
    steps, look = checkpoints.steps, {"color": colour, "marker": marker, "linestyle": dash}
    axes.fill_between(steps, value - spread, value + spread, color=colour, alpha=0.15, linewidth=0)
    return axes.plot(steps, value, label=label, zorder=3, **look)


def _small_print(
    study: dict[str, str], shown: pd.DataFrame, split: str, task: str, chosen: Chosen
) -> list[str]:
    judged = chosen.judged(split)
    rest = "above the 95 % quantile of the same maximum by chance, dotted" if judged else "not judged"
    return [
        f"{study['model']}, {study['dataset']}; {split_name(split)}. Behaviour: {TASK_NAME[task]}. "
        f"{chosen.said([split])}",
        *rows.bootstrap_line(shown, [split], "Bands in a and b"),
        "Upright ticks, and steps in the legend: from there on above chance at every checkpoint (behaviour: "
        f"interval above chance; the others: {rest}).",
        "Band in c: seeds ± sd. Raw noise grows with the size of the states.",
    ]
