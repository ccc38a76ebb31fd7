"""Is a wrong answer only the place of an option? Accuracy under both option orders and without their bias.

Source: levels paper, section 4.3 and appendix F, Figure 6 and Table 6.
"""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MultipleLocator

from strataprobe.figures import level_looks as looks
from strataprobe.figures import level_names as names
from strataprobe.figures import level_rows as rows
from strataprobe.figures import style
from strataprobe.figures.level_rows import Compared

_ORDERS = {
    "ab": {"color": style.BLUE, "marker": "<"},
    "ba": {"color": style.VERMILION, "marker": ">"},
}
_KINDS = {"forced_choice": "a  forced choice", "label_choice": "b  label choice"}
_CONTRASTIVE = "contrastive"
_ROW = 0.34  # inches


@style.styled
def draw(
    levels: pd.DataFrame,
    *,
    title: str,
    models: rows.Models = (),
    split: str = "all",
    chance: float = 0.5,
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw a row a model: forced choice and label choice in both orders, debiased, and contrastive scoring.

    Args:
        levels: rows of the levels table, of one or several models.
        models: (name, revision) in the order of the rows; models without a row are named below.
        split: "all", a language, a control type, or "en:object_control".
        chance: accuracy of guessing.
        height: by default the page grows with the models.

    Raises:
        StrataprobeError: no rows, or mixed or repeated rows.
    """
    table = Compared.of(levels, models)
    count = len(table.models)
    figure = style.new_figure(title, width=width, height=height or 1.75 + _ROW * count)
    grid = figure.add_gridspec(2, 3, height_ratios=(_ROW * count, 0.25))
    first = figure.add_subplot(grid[0, 0])
    panels = [first, *(figure.add_subplot(grid[0, at], sharey=first, sharex=first) for at in (1, 2))]
    for axes, kind in zip(panels, (*_KINDS, _CONTRASTIVE), strict=True):
        axes.axvline(chance, color=style.GREY, linestyle=":", linewidth=1, label="_chance")
        for place, model in enumerate(table.models):
            _row(axes, table, model, kind, split, place)
        axes.set_title(_KINDS.get(kind, "c  contrastive"))
        axes.set_xlabel("accuracy")
        axes.tick_params(labelleft=axes is first)
        if len(axes.lines) == 1:
            style.say_empty(axes, "no value")
    first.set_yticks(range(count), [looks.wrapped(name, 24) for name in table.models])
    first.set_ylim(count - 0.45, -0.55)
    low = min(axes.dataLim.x0 for axes in panels)
    first.set_xlim(min(0.28, low - 0.03), 1.03)
    first.xaxis.set_major_locator(MultipleLocator(0.2))
    looks.legend_row(figure, grid[1, :], _handles(), 4)
    looks.note(figure, _small_print(table, split))
    return figure


def _row(axes: Axes, table: Compared, model: str, kind: str, split: str, place: int) -> None:
    orders = {
        order: mark
        for order in _ORDERS
        if kind in _KINDS
        and (mark := table.mark(model, names.BEHAVIOR, f"{kind}:{order}", split)) is not None
    }
    label = f"{model}, {kind}"
    if len(orders) == 2:
        ends = [mark.value for mark in orders.values()]
        axes.plot(ends, [place - 0.17] * 2, color=style.GREY, linewidth=0.8, label=f"_gap {label}")
    for order, mark in orders.items():
        axes.plot(
            mark.value, place - 0.17, linestyle="none", markersize=5, zorder=3, label=f"_{order} {label}",
            markerfacecolor="white", markeredgecolor=_ORDERS[order]["color"], marker=_ORDERS[order]["marker"],
        )  # fmt: skip
    whole = table.mark(model, names.BEHAVIOR, kind, split)
    if whole is not None:
        below = place + (0.17 if kind in _KINDS else 0)
        if whole.bounded:
            axes.plot(
                [whole.low, whole.high],
                [below] * 2,
                color=style.BLACK,
                linewidth=1.2,
                label=f"_interval {label}",
            )
        axes.plot(whole.value, below, "D", color=style.BLACK, markersize=4, zorder=4, label=f"_{label}")


def _handles() -> list[Line2D]:
    orders = [
        style.line_handle(
            label=f"order {' '.join(order.upper())}",
            linestyle="none",
            markersize=5,
            markerfacecolor="white",
            **look,
        )
        for order, look in _ORDERS.items()
    ]
    both = {"color": style.BLACK, "marker": "D", "markersize": 4, "linestyle": "-", "linewidth": 1.2}
    chance = style.line_handle(label="chance", color=style.GREY, linestyle=":", linewidth=1)
    return [*orders, style.line_handle(label="debiased (a, b), accuracy (c)", **both), chance]


def _small_print(table: Compared, split: str) -> Sequence[str]:
    kinds = {kind.replace("_", " "): [(names.BEHAVIOR, kind, split)] for kind in (*_KINDS, _CONTRASTIVE)}
    orders = {
        f"{kind.replace('_', ' ')} in order {' '.join(order.upper())}": [
            (names.BEHAVIOR, f"{kind}:{order}", split)
        ]
        for kind in _KINDS
        for order in _ORDERS
    }
    return [
        f"{table.about([split])}. The grey line between the triangles is the order gap: a model "
        "that always takes one place has its debiased value at chance.",
        *rows.bootstrap_line(table.rows, [split], picked=False),
        *table.lacking({**kinds, **orders}),
    ]
