"""Where does each invented word go? Words by classes of one cell, a panel a readout scope.

Source: lucky-defaults paper, sections 2.2 and 4: one or two columns that take every word are a lucky default.
"""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from strataprobe.figures import style
from strataprobe.figures.level_names import refuse_unknown
from strataprobe.figures.routing_cell import OneCell, Word
from strataprobe.figures.routing_frames import A_PI, P_MIN, Models, scope_label, small_print
from strataprobe.published.lucky_results import at_scope, quoted

_SIGNS = ("■", "△")  # of the two sides: seen in grey print, and by whoever cannot tell the colours
_MAPS = {True: "Blues", False: "Oranges"}  # by whether the class is of the word's side
_DARKEST = 0.92
_OUTSIDE = "#ededed"
_ROW = 0.145  # inches of a word
_LEADING = 9.0  # points between lines above a panel
_GAP = 0.8  # rows between invented and canonical words


@style.styled
def draw(
    counts: pd.DataFrame,
    cells: pd.DataFrame,
    *,
    title: str,
    models: Models = (),
    direction: str | None = None,
    train_anchor: str | None = None,
    test_anchor: str | None = None,
    layer: int | None = None,
    scopes: Sequence[str] = (),
    canonical: bool = False,
    lucky: float = 0.95,
    width: float = style.TEXT_WIDTH,
    height: float | None = None,
) -> Figure:
    """Draw the predictions of one cell of one model, all scopes side by side.

    Args:
        counts, cells: rows of the routing_counts and the routing_cells table.
        models: one (name, revision); may be left out where the tables are of one.
        direction, train_anchor, test_anchor, layer: the cell; what is left out is as in the cell with the
            highest A_pi among those that pass at the first scope, or among all where none does.
        scopes: those to draw, in order; all by default.
        canonical: whether the canonical words' own rows stand below the invented ones.
        lucky: threshold of p_w,min; shares at or above it are printed bold.
        height: by default the page grows with the words.

    Raises:
        StrataprobeError: no rows, several models, datasets or revisions, no such cell or scope, or a cell
            without counts.
    """
    found = OneCell.of(counts, cells, models, (direction, train_anchor, test_anchor, layer))
    refuse_unknown(scopes=(scopes, found.scopes))
    shown = list(scopes or found.scopes)
    items = found.items(shown, canonical)
    classes = [found.classes(scope) for scope in shown]
    places = _places(items)
    rows = _ROW * (places[-1] + 1)
    lines = small_print(_small_print(found, shown, canonical, lucky), width)
    letters = max(len(one.name) for own in classes for one in own)
    size = height or 1.95 + rows + 0.055 * letters + 0.125 * len(lines)
    figure = style.new_figure(title, width=width, height=size)
    widths = [len(own) + 2.8 for own in classes]
    grid = figure.add_gridspec(2, len(shown), height_ratios=(rows, 0.1), width_ratios=widths)
    for place, (scope, own) in enumerate(zip(shown, classes, strict=True)):
        axes = figure.add_subplot(grid[0, place])
        _panel(axes, found, scope, items, places, own, lucky)
        labels = [_label(one, found.sides) for one in items] if place == 0 else [""] * len(items)
        axes.set_yticks(places, labels)
        _heading(axes, _said(found, scope))
    _scales(figure.add_subplot(grid[1, :]))
    style.note(figure, lines)
    return figure


def _places(items: Sequence[Word]) -> np.ndarray:
    """The height of each row: canonical words a little below the invented ones."""
    return np.array([place + (_GAP if one.canonical else 0.0) for place, one in enumerate(items)])


def _label(word: Word, sides: Sequence[str]) -> str:
    return f"{word.name} {_SIGNS[sides.index(word.side)]}"


def _panel(
    axes: Axes,
    found: OneCell,
    scope: str,
    items: Sequence[Word],
    places: np.ndarray,
    classes: Sequence[Word],
    lucky: float,
) -> None:
    shares = found.shares(scope, items, classes)
    colours = _colours(shares, items, classes)
    edges = np.arange(len(classes) + 1) - 0.5
    for kind, own in (("invented", False), ("canonical", True)):
        chosen = np.array([one.canonical == own for one in items])
        if chosen.any():
            ends = np.append(places[chosen] - 0.5, places[chosen][-1] + 0.5)
            look = {"edgecolors": "white", "linewidth": 0.4, "label": f"_{kind}"}
            mesh = axes.pcolormesh(edges, ends, colours[chosen], **look)
            mesh.set_snap(False)  # rounded to whole dots, boxes would differ in width
    _frames(axes, items, places, classes)
    _top_shares(axes, items, places, shares, lucky)
    axes.set_xlim(-0.5, len(classes) + 2.3)
    axes.set_ylim(places[-1] + 0.5, -0.5)
    axes.set_xticks(range(len(classes)), [_label(one, found.sides) for one in classes], rotation=90)
    axes.tick_params(length=0, labelsize=6.2, pad=1.5)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _colours(shares: np.ndarray, items: Sequence[Word], classes: Sequence[Word]) -> np.ndarray:
    """(items, classes, 4) a colour a share: blue on the word's own side, orange on the other."""
    right = np.array([[one.side == other.side for other in classes] for one in items])
    own, other = (mpl.colormaps[_MAPS[side]](_DARKEST * np.nan_to_num(shares)) for side in (True, False))
    colours = np.where(right[..., None], own, other)
    colours[np.isnan(shares)] = to_rgba(_OUTSIDE)
    return colours


def _frames(axes: Axes, items: Sequence[Word], places: np.ndarray, classes: Sequence[Word]) -> None:
    """A frame around every block of words and classes of the same side."""
    look = {"facecolor": "none", "edgecolor": style.BLACK, "linewidth": 0.9, "zorder": 3}
    for canonical in (False, True):
        for side in dict.fromkeys(one.side for one in classes):
            same = [one.side == side and one.canonical == canonical for one in items]
            columns = [place for place, one in enumerate(classes) if one.side == side]
            if any(same):
                first, last = places[same][0], places[same][-1]
                size = columns[-1] - columns[0] + 1, last - first + 1
                frame = Rectangle((columns[0] - 0.5, first - 0.5), *size, label=f"_frame {side} {canonical}")
                frame.set(**look)
                axes.add_patch(frame)


def _top_shares(
    axes: Axes, items: Sequence[Word], places: np.ndarray, shares: np.ndarray, lucky: float
) -> None:
    """Each word's largest share at the right, with a mark at the smallest of the invented words."""
    top = shares.max(axis=1)
    own = np.array([np.nan if one.canonical else share for one, share in zip(items, top, strict=True)])
    least = int(np.nanargmin(own)) if np.isfinite(own).any() else -1
    for row, (place, share) in enumerate(zip(places, top, strict=True)):
        if np.isfinite(share):
            weight = "bold" if share >= lucky else "normal"
            said = f"{share:.2f}{' ◂' if row == least else ''}"
            axes.text(
                shares.shape[1] - 0.3, place, said, fontsize=5.8, va="center", fontweight=weight,
                label="_top share",
            )  # fmt: skip


def _heading(axes: Axes, lines: Sequence[str]) -> None:
    """Lines above a panel, each by itself: in one text formulas would push apart those of some panels."""
    for place, line in enumerate(reversed(lines)):
        axes.annotate(
            line, (0, 1), (0, 4 + _LEADING * place), xycoords="axes fraction", textcoords="offset points",
            fontsize=6.8, label="_heading",
        )  # fmt: skip


def _said(found: OneCell, scope: str) -> list[str]:
    """The scope, its measures and its verdict, in lines that a narrow panel holds."""
    row = found.rows[scope]
    lines = [scope_label(scope)]
    for name, column in ((A_PI, "coarse_accuracy"), (P_MIN, "p_top_min"), ("HHI", "hhi")):
        value = row[column]
        lines.append(f"{name} {'-' if value is None or value != value else f'{value:.2f}'}")
    return [*lines, str(row["verdict"])]


def _scales(axes: Axes) -> None:
    """Both colour scales: shares in classes of the word's own side, and of the other."""
    axes.axis("off")
    for left, right, side in ((0.06, True, "its own"), (0.56, False, "the other")):
        shown = ListedColormap(mpl.colormaps[_MAPS[right]](np.linspace(0, _DARKEST, 256)))
        extent = (left, left + 0.38, 0, 1)
        axes.imshow(np.linspace(0, 1, 256)[None], cmap=shown, extent=extent, aspect="auto", label=f"_{side}")
        axes.add_patch(Rectangle((left, 0), 0.38, 1, facecolor="none", edgecolor=style.BLACK, linewidth=0.5))
        for share in (0, 0.5, 1):
            axes.text(left + 0.38 * share, -0.3, f"{share:g}", ha="center", va="top", fontsize=6.2)
        said = f"share of a word's stimuli, to a class of {side} side"
        axes.text(left + 0.19, 1.3, said, ha="center", va="bottom", fontsize=6.5)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)


def _small_print(found: OneCell, scopes: Sequence[str], canonical: bool, lucky: float) -> list[str]:
    where, several = at_scope(found.first, found.scopes), len(found.scopes) > 1
    among = f"among those that pass{where}" if found.passes else f"none passes{where}"
    picked = f" (the highest {A_PI}; {among})" if found.chosen else ""
    over = f"; over the scopes: {found.path}" if several else ""
    named = [f"{sign} {side}" for sign, side in zip(_SIGNS, found.sides, strict=False)]
    lines = [
        f"{found.model}; {found.dataset}; {found.name}{picked}{over}.",
        f"{', '.join(named)}: the side that a word is meant to have and that a class has. Frames: both are "
        f"the same, which is what {A_PI} counts.{' Grey: the word is not in that scope.' if several else ''}",
        r"At the right a word's share in its most frequent class, $p_{w,\mathrm{top}}$: bold from "
        f"{lucky:g} on, ◂ the smallest{' of the invented words' if canonical else ''}, {P_MIN}.",
    ]
    if canonical:
        lines.append("Below: the canonical words' own stimuli in the notation tested on.")
    few = [scope for scope in scopes if len(found.classes(scope)) < found.rows[scope]["classes"]]
    if few:
        at = f" at {', '.join(map(quoted, few))}" if several else ""
        lines.append(f"Classes that no word goes to are left out{at}.")
    return lines
