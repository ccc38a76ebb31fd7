"""Training loss of a model pre-trained here, with the checkpoints that were kept."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.errors import StrataprobeError, listing
from strataprobe.figures import style

_COLUMNS = ("step", "loss", "learning_rate", "tokens")


@style.styled
def draw(
    losses: pd.DataFrame,
    *,
    title: str,
    checkpoints: Sequence[int] = (),
    log: bool = False,
    width: float = style.TEXT_WIDTH,
    height: float = 3.9,
) -> Figure:
    """Draw loss (nats a token) and learning rate over steps.

    Args:
        losses: columns step, loss, learning_rate, tokens, and heldout_loss where it was measured
            (empty at the other steps).
        checkpoints: steps that were kept, marked below the curve.
        log: a log loss axis.

    Raises:
        StrataprobeError: a column is missing, or there is no row.
    """
    faults = [f"column '{name}' is missing" for name in _COLUMNS if name not in losses.columns]
    faults += ["it has no row"] if losses.empty else []
    if faults:
        raise StrataprobeError(listing("the loss table", faults))
    losses = losses.sort_values("step", kind="stable")
    steps = losses["step"].to_numpy(dtype=float)
    figure = style.new_figure(title, width=width, height=height)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    _losses(top, losses, steps, checkpoints, log)
    bottom.plot(steps, losses["learning_rate"].to_numpy(dtype=float), color=style.BLACK, linewidth=1)
    bottom.set_ylim(bottom=0)
    bottom.set_ylabel("learning rate")
    style.step_axis(bottom, [*steps, *checkpoints])
    tokens = losses["tokens"].to_numpy(dtype=float)
    said = f"{np.nanmax(tokens):,.0f} tokens in {steps[-1]:,.0f} steps." if np.isfinite(tokens).any() else ""
    style.note(figure, [line for line in (said,) if line])
    return figure


def _losses(
    axes: Axes, losses: pd.DataFrame, steps: np.ndarray, checkpoints: Sequence[int], log: bool
) -> None:
    values = losses["loss"].to_numpy(dtype=float)
    axes.plot(steps, values, color=style.BLUE, linewidth=0.9, label="training batch", zorder=2)
    if "heldout_loss" in losses.columns:
        heldout = losses["heldout_loss"].to_numpy(dtype=float)
        there = np.isfinite(heldout)
        look = {"color": style.VERMILION, "marker": "s", "markersize": 3, "linestyle": "--"}
        axes.plot(steps[there], heldout[there], label="held-out text", zorder=3, **look)
    if len(checkpoints):
        axes.plot(
            list(checkpoints),
            [0.03] * len(checkpoints),
            transform=axes.get_xaxis_transform(),
            linestyle="none",
            marker="|",
            markersize=8,
            color=style.BLACK,
            label=f"checkpoint ({len(checkpoints)})",
            zorder=4,
        )
    if log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_ylabel("loss (nats a token)")
    axes.legend(loc="upper right")
