"""Which blocks does an answer hang on? The effect of every block, by design, beside the neutral control.

Source: fragility paper, appendix B; the designs beside the published one are in docs/methods.md.
"""

from collections.abc import Sequence

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.figures import level_looks as looks
from strataprobe.figures import style
from strataprobe.figures import tracing_names as names
from strataprobe.figures.frames import where
from strataprobe.figures.level_names import refuse_unknown


@style.styled
def draw(
    tracing: pd.DataFrame,
    *,
    title: str,
    sides: Sequence[str] = ("positive", "negative"),
    scores: Sequence[str] = names.SCORES,
    designs: Sequence[str] | None = None,
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw one checkpoint: a column a design, a row a score; the peak is ringed, the probe's peak dotted.

    Args:
        tracing: rows of the tracing table of one checkpoint.
        sides: of "positive", "negative", "difference".
        scores: of "expected", "contrast".
        designs: of "published", "rms", "restoration"; by default those of the table.
        height: by default the page grows with the rows.

    Raises:
        StrataprobeError: no rows, rows of several checkpoints, a row twice, or an unknown option.
    """
    refuse_unknown(
        sides=(sides, names.SIDES), scores=(scores, names.SCORES), designs=(designs or (), names.DESIGNS)
    )
    study = names.one_tracing(tracing, also=("revision",))
    shown = list(designs or names.there(tracing, "design", names.DESIGNS))
    blocks = names.blocks_of(tracing)
    probe = where(tracing, design=names.PROBE, measure="peak_layer")["value"]
    figure = style.new_figure(title, width=width, height=height or 1.7 + 1.55 * len(scores))
    grid = figure.add_gridspec(len(scores) + 1, len(shown), height_ratios=[*[1.65] * len(scores), 0.25])
    for row, score in enumerate(scores):
        for column, design in enumerate(shown):
            axes = figure.add_subplot(grid[row, column])
            axes.axhline(0, color=style.GREY, linewidth=0.8, label="_zero", zorder=1)
            if len(probe):
                axes.axvline(float(probe.iloc[0]), zorder=1, label="_probe peak", **_probe_line())
            for side in sides:
                _line(axes, where(tracing, design=design, side=side, score=score), side)
            style.layer_axis(axes, blocks, label=row == len(scores) - 1)
            axes.set_title(names.DESIGN_NAME[design] if row == 0 else "", fontsize=7.5)
            if column == 0:
                axes.set_ylabel(names.SCORE_LABEL[score])
    looks.legend_row(figure, grid[len(scores), :], _handles(sides, bool(len(probe))))
    looks.note(figure, _small_print(tracing, study))
    return figure


def _probe_line() -> dict[str, object]:
    return {"color": style.BLACK, "linestyle": ":", "linewidth": 1.1}


def _line(axes: Axes, rows: pd.DataFrame, side: str) -> None:
    look = names.SIDE_LOOK[side]
    curve = where(rows, measure="indirect_effect").sort_values("layer")
    layers = curve["layer"].astype(float)
    axes.plot(layers, curve["value"], label=f"_{side}", zorder=3, **look)
    axes.fill_between(
        layers, curve["interval_low"], curve["interval_high"], color=look["color"], alpha=0.15, linewidth=0
    )
    peak = where(rows, measure="peak_effect")
    ring = {"marker": "o", "markersize": 7, "markerfacecolor": "none", "linestyle": "none"}
    axes.plot(peak["layer"], peak["value"], label=f"_peak {side}", color=look["color"], zorder=4, **ring)


def _handles(sides: Sequence[str], probed: bool) -> list[Artist]:
    handles = [style.line_handle(label=names.SIDE_NAME[side], **names.SIDE_LOOK[side]) for side in sides]
    if probed:
        handles.append(style.line_handle(label="peak of the linear probe", **_probe_line()))
    return handles


def _small_print(tracing: pd.DataFrame, study: dict[str, str]) -> list[str]:
    agreement = where(tracing, measure="draw_agreement", side="positive", score="expected")
    said = ", ".join(
        f"{design} {float(share):.0%}"
        for design, share in zip(agreement["design"], agreement["value"], strict=True)
    )
    return [
        f"{study['model']} at {study['revision']}, {study['dataset']}; {names.counted(tracing)}.",
        "Rows: effect on log P of the expected answer, and on its difference to log P of the other one. "
        "Noise at a block: what the answer loses. Restoration: what its clean states return, put back "
        "at the contrast words. Ring: the largest effect.",
        f"Single draws with the same peak as all together (expected answer, with the property): {said}.",
    ]
