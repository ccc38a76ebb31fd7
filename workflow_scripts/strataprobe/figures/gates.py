"""Do the datasets keep what their profiles promise? One box a gate: the value found, and the threshold."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.errors import StrataprobeError
from strataprobe.figures import style

_PASSED, _FAILED = "#d5e8f3", "#f6d5c2"


@style.styled
def draw(
    gates: pd.DataFrame, *, title: str, width: float = style.TEXT_WIDTH, height: float | None = None
) -> Figure:
    """Draw the gates table.

    Args:
        gates: rows of the gates table: dataset, profile, gate, threshold, value, passed.

    Raises:
        StrataprobeError: there is no row.
    """
    if gates.empty:
        raise StrataprobeError("the table of gates has no row; there is nothing to draw")
    datasets = list(dict.fromkeys(gates["dataset"].astype(str)))
    columns = 2 if len(datasets) > 1 else 1
    rows = -(-len(datasets) // columns)
    sizes = [
        max(
            (gates["dataset"].astype(str) == name).sum()
            for name in datasets[row * columns : (row + 1) * columns]
        )
        for row in range(rows)
    ]
    figure = style.new_figure(title, width=width, height=height or 0.7 + 0.3 * rows + 0.19 * sum(sizes))
    grid = figure.add_gridspec(rows, columns, height_ratios=sizes)
    for place, name in enumerate(datasets):
        axes = figure.add_subplot(grid[place // columns, place % columns])
        _panel(axes, gates[gates["dataset"].astype(str) == name], sizes[place // columns])
    style.note(
        figure,
        [
            "Each row is a gate: the worst value found, and the threshold it must keep.",
            "Blue: kept. Orange with a cross: not kept; the report names the items.",
        ],
    )
    return figure


def _panel(axes: Axes, rows: pd.DataFrame, lines: int) -> None:
    first = rows.iloc[0]
    failed = int((rows["passed"].astype(str) != "yes").sum())
    said = "all kept" if not failed else f"{failed} not kept"
    axes.set_title(f"{first['dataset']} ({first['profile']}): {said}", fontsize=7.5)
    axes.set_xlim(0, 1)
    axes.set_ylim(lines - 0.5, -0.5)
    axes.axis("off")
    for line, row in enumerate(rows.itertuples(index=False)):
        kept = str(row.passed) == "yes"
        axes.axhspan(line - 0.46, line + 0.46, color=_PASSED if kept else _FAILED, linewidth=0)
        mark = "" if kept else "× "
        axes.text(0.01, line, mark + str(row.gate).replace("_", " "), va="center", fontsize=5.6)
        axes.text(0.99, line, f"{row.value:.3g} / {row.threshold:g}", va="center", ha="right", fontsize=5.6)
