"""Accuracy under noise at one checkpoint: exact lines, sampled points on them, critical noise marked.

Source: fragility paper, section 3.4 (the curve whose crossing is the critical noise).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.errors import StrataprobeError
from strataprobe.figures import style
from strataprobe.figures.frames import spread_out

_UNITS = {
    "raw": "noise σ (activation units)",
    "rms_before": "noise σ (units of the RMS)",
    "rms_after": "noise σ (units of the RMS)",
    "within_class": "noise σ (units of the within-class RMS)",
}
_MOST = 8


@style.styled
def draw(
    summary: Mapping[str, Any],
    *,
    title: str,
    layers: Sequence[int] = (),
    scaled: str = "rms_after",
    threshold: float = 0.6,
    items: int | None = None,
    draws: int | None = None,
    width: float = style.TEXT_WIDTH,
    height: float = 3.9,
) -> Figure:
    """Draw one fragility summary (one model, revision, dataset, seed).

    Args:
        summary: the parsed summary; a control's `curve` {"sigma", "accuracy"} is drawn where it is
            there, else its exact accuracy at the grid's levels.
        layers: which layers; by default at most eight, evenly apart in depth.
        scaled: the scale control of the right panel.
        threshold: accuracy at which critical noise is read; the metadata's own goes before.
        items, draws: test items and noise draws an item behind each sampled point; taken from the
            metadata (`test_pairs`, `draws`) when not given. Without them no error bar is drawn.

    Raises:
        StrataprobeError: a layer is asked for that the model does not have, or more than eight.
    """
    scores = {score["layer"]: score for score in summary["layer_scores"]}
    chosen = _choose(scores, layers)
    metadata = summary.get("metadata", {})
    threshold = metadata.get("fragility_threshold", threshold)
    pairs = metadata.get("test_pairs")
    trials = (items or (2 * pairs if pairs else None), draws or metadata.get("draws"))
    figure = style.new_figure(title, width=width, height=height)
    grid = figure.add_gridspec(2, 2, height_ratios=(1, 0.06))
    left = figure.add_subplot(grid[0, 0])
    panels = (left, figure.add_subplot(grid[0, 1], sharey=left))
    panels[1].tick_params(labelleft=False)
    for axes, control, name in zip(
        panels, ("raw", scaled), ("a  raw noise", "b  scale divided out"), strict=True
    ):
        _panel(axes, [scores[layer] for layer in chosen], control, threshold, trials)
        axes.set_title(name)
        axes.set_xlabel(_UNITS[control])
    panels[0].set_ylabel("accuracy on the test items")
    style.named_colour_bar(figure, panels, [str(layer) for layer in chosen], "layer (block)")
    below = figure.add_subplot(grid[1, :])
    below.set_axis_off()
    below.legend(handles=_handles(threshold, None not in trials), loc="center", ncols=4)
    study = {**metadata, **summary}
    unmarked = _unmarked([scores[layer] for layer in chosen], ("raw", scaled))
    style.note(figure, [*style.about(study, f"; seed {summary['seed']}"), *unmarked])
    return figure


def _choose(scores: Mapping[int, Any], layers: Sequence[int]) -> list[int]:
    if unknown := sorted(set(layers) - set(scores)):
        raise StrataprobeError(f"no layer {', '.join(map(str, unknown))}; the model has 0 to {max(scores)}")
    if len(layers) > _MOST:
        raise StrataprobeError(
            f"{len(layers)} layers asked for; at most {_MOST} can be told apart in one panel"
        )
    every = sorted(scores)
    return sorted(layers) or [every[index] for index in spread_out(len(every), _MOST)]


def _panel(
    axes: Axes,
    scores: Sequence[Mapping[str, Any]],
    control: str,
    threshold: float,
    trials: tuple[int | None, int | None],
) -> None:
    axes.axhline(threshold, color=style.GREY, linestyle="--", linewidth=1, label="_threshold")
    axes.axhline(0.5, color=style.GREY, linestyle=":", linewidth=0.8, label="_chance")
    colours = style.ordered_colours(len(scores))
    for index, score in enumerate(scores):
        found, colour = score["controls"][control], colours(index)
        curve = found.get("curve") or {"sigma": found["noise_levels"], "accuracy": found["exact_accuracy"]}
        name = f"layer {score['layer']}"
        # Dashes alternate, so that neighbours in depth stay apart where the colour is lost.
        dash = ("-", (0, (5, 1.2)))[index % 2]
        axes.plot(curve["sigma"], curve["accuracy"], color=colour, linestyle=dash, label=f"_exact, {name}")
        _points(axes, found, colour, trials, name)
        value = found["continuous"]["value"]
        if value is not None:
            axes.plot([value], [threshold], label=f"_critical noise, {name}", color=colour, **_CROSSING)
    axes.set_xscale("log")
    axes.set_ylim(min(0.42, axes.dataLim.ymin - 0.03), 1.02)


_CROSSING = {
    "marker": "D",
    "markersize": 4.5,
    "markeredgecolor": "black",
    "markeredgewidth": 0.7,
    "zorder": 5,
    "linestyle": "none",
}


def _points(
    axes: Axes,
    found: Mapping[str, Any],
    colour: Any,
    trials: tuple[int | None, int | None],
    name: str,
) -> None:
    """Sampled accuracies with one standard error of the sampling, the items held fixed."""
    levels, sampled = np.asarray(found["noise_levels"]), np.asarray(found["sampled_accuracy"], dtype=float)
    error = found.get("sampled_se")
    if error is None and None not in trials:
        # Items differ in their chance of being right, which only makes the true error smaller.
        error = np.sqrt(sampled * (1 - sampled) / (trials[0] * trials[1]))
    axes.errorbar(
        levels,
        sampled,
        yerr=error,
        color=colour,
        fmt="o",
        markersize=3,
        elinewidth=0.9,
        capsize=1.8,
        markerfacecolor="white",
        markeredgewidth=0.9,
        label=f"_sampled, {name}",
        zorder=4,
    )


def _handles(threshold: float, bars: bool) -> list[Any]:
    plain: dict[str, Any] = {"color": "#333333"}
    return [
        style.line_handle(label="exact", **plain),
        style.line_handle(
            label="sampled ± 1 se" if bars else "sampled",
            **{**plain, "linestyle": "none", "marker": "o", "markersize": 3.5, "markerfacecolor": "white"},
        ),
        style.line_handle(label=style.CRITICAL, **plain, **_CROSSING),
        style.line_handle(label=f"threshold {threshold:g}; dots: chance", color=style.GREY, linestyle="--"),
    ]


def _unmarked(scores: Sequence[Mapping[str, Any]], controls: Sequence[str]) -> list[str]:
    """Sentences that name the layers that have no critical noise, with the reason."""
    words = {"below_threshold": "below the threshold without noise", "censored": "never below the threshold"}
    lines: dict[str, list[str]] = {}
    for control in controls:
        states: dict[str, list[str]] = {}
        for score in scores:
            found = score["controls"][control]["continuous"]
            if found["value"] is None:
                states.setdefault(found["state"], []).append(str(score["layer"]))
        said = [f"{words.get(state, state)}: {', '.join(names)}" for state, names in states.items()]
        if said:
            lines.setdefault("; ".join(said), []).append(control)
    return [f"Layers without critical noise ({', '.join(names)}): {said}." for said, names in lines.items()]
