"""What the heatmaps by layer share: cells without a value, colours of critical noise, and their legend."""

from collections.abc import Collection

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection, QuadMesh
from matplotlib.colors import LogNorm, Normalize
from matplotlib.patches import Patch, Rectangle

from strataprobe.figures import style

_NO_DATA, _BELOW, _UNDEFINED = "no data", "below the threshold without noise", "no value (undefined)"
_CELLS: dict[str, dict[str, object]] = {
    _NO_DATA: {"facecolor": "white", "edgecolor": style.GREY, "hatch": "xxxx"},
    _BELOW: {"facecolor": "#d9d9d9", "edgecolor": "#8a8a8a", "hatch": "////"},
    _UNDEFINED: {"facecolor": "white", "edgecolor": style.GREY, "hatch": "...."},
}
_DOT = {
    "marker": "o",
    "linestyle": "none",
    "markersize": 2.6,
    "color": "white",
    "markeredgecolor": "black",
    "markeredgewidth": 0.5,
}


def draw_cells(axes: Axes, cells: np.ndarray, norm: Normalize) -> QuadMesh:
    """The cells (layers, columns) that have a value, layer 0 at the bottom."""
    layers, count = cells.shape
    edges = np.arange(count + 1) - 0.5, np.arange(layers + 1) - 0.5
    return axes.pcolormesh(*edges, np.ma.masked_invalid(cells), norm=norm, cmap="cividis", edgecolors="none")


def mark_special(axes: Axes, cells: np.ndarray, states: np.ndarray, some: str) -> set[str]:
    """Hatch the cells without a value, and dot those of which only a part has one.

    Args:
        cells: (layers, columns), NaN where there is no value.
        states: (layers, columns) the state of critical noise, "mixed" where several stand behind a cell, ""
            where there is no row.
        some: what a dot says.

    Returns:
        Which kinds of special cells there are, for `legend`.
    """
    empty = np.isnan(cells)
    kinds = {
        _NO_DATA: empty & (states == ""),
        _BELOW: empty & np.isin(states, ["below_threshold", "mixed"]),
        _UNDEFINED: empty & np.isin(states, ["undefined", "censored", "value"]),
    }
    for kind, chosen in kinds.items():
        boxes = [Rectangle((column - 0.5, layer - 0.5), 1, 1) for layer, column in np.argwhere(chosen)]
        if boxes:
            axes.add_collection(PatchCollection(boxes, linewidth=0, label=kind, **_CELLS[kind]))
    dotted = np.argwhere(~empty & (states == "mixed"))
    if len(dotted):
        axes.plot(dotted[:, 1], dotted[:, 0], label=some, **_DOT)
    return {kind for kind, chosen in kinds.items() if chosen.any()} | ({some} if len(dotted) else set())


def log_norm(values: np.ndarray) -> LogNorm:
    """Logarithmic colours over the values, however close together they are."""
    finite = values[np.isfinite(values) & (values > 0)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.1, 10.0)
    return LogNorm(low, high) if high > 1.05 * low else LogNorm(low / 1.5, high * 1.5)


def legend(axes: Axes, used: Collection[str], some: str) -> None:
    """What the special cells mean, alone in its axes; `some` as of `mark_special`."""
    axes.set_axis_off()
    handles: list[object] = [
        Patch(linewidth=0, label=kind, **look) for kind, look in _CELLS.items() if kind in used
    ]
    if some in used:
        handles.append(style.line_handle(label=some, **_DOT))
    if handles:
        axes.legend(handles=handles, loc="center", ncols=2, handleheight=1.2)
