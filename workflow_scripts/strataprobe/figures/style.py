"""One look for all figures: colour-blind safe, readable in grey print, and the same bytes every time."""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec

import matplotlib as mpl
import matplotlib.style
import matplotlib.ticker
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import BoundaryNorm, Colormap, ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from strataprobe.errors import StrataprobeError, listing
from strataprobe.files import atomic

TEXT_WIDTH = 6.3  # inches: the text of an A4 page with 25 mm margins
DPI = 200

# Okabe and Ito (2008), whose hues stay apart for every common form of colour blindness.
BLACK, BLUE, VERMILION, GREEN = "#000000", "#0072B2", "#D55E00", "#009E73"
ORANGE, SKY, PURPLE = "#E69F00", "#56B4E9", "#CC79A7"
GREY = "#6b6b6b"

# Colour alone is lost in grey print: each control has a dash and a marker of its own as well.
CONTROL_LOOK: dict[str, dict[str, Any]] = {
    "raw": {"color": BLUE, "linestyle": "-", "marker": "o"},
    "rms_after": {"color": VERMILION, "linestyle": "-", "marker": "s"},
    "rms_before": {"color": GREEN, "linestyle": "--", "marker": "^"},
    "within_class": {"color": BLACK, "linestyle": "-.", "marker": "D"},
}
CONTROL_NAME = {
    "raw": "raw",
    "rms_after": "RMS after (same probe)",
    "rms_before": "RMS before (probe retrained)",
    "within_class": "within-class shape",
}
POOLING_NAME = {
    "mean": "mean over all tokens, the first included",
    "mean_rest": "mean over all tokens but the first",
    "last": "last token",
}
CRITICAL = r"critical noise $\sigma^*$"

_RC = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7,
    "legend.frameon": True,
    "legend.edgecolor": "none",
    "legend.framealpha": 0.85,
    "legend.fancybox": False,
    "legend.handlelength": 2.6,
    "figure.titlesize": 9.5,
    "figure.titleweight": "bold",
    "lines.linewidth": 1.4,
    "lines.markersize": 2.6,
    "hatch.linewidth": 0.6,
    "hatch.color": GREY,
    "svg.hashsalt": "strataprobe",
    "svg.fonttype": "path",
    "path.simplify": True,
    "savefig.facecolor": "white",
}


@contextmanager
def context() -> Iterator[None]:
    """Our settings over matplotlib's own defaults, whatever the user's matplotlibrc says."""
    with mpl.style.context(["default", _RC]):
        yield


P = ParamSpec("P")


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Run a drawing function under our settings."""

    @wraps(draw)
    def inner(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with context():
            return draw(*args, **kwargs)

    return inner


def drawn(draw: Callable[..., Figure], *tables: Any, style: Mapping[str, Any], **given: Any) -> Figure:
    """Draw with the config's `style` of this figure, having checked that the drawing knows every entry.

    Args:
        draw: a figure module's `draw`.
        tables: what it draws.
        style: options by name, as the config gives them.
        given: what the study itself decides; a style cannot set these.

    Raises:
        StrataprobeError: options the drawing does not have, or that are not a style's to set; all are named.
    """
    known = [
        name
        for name, parameter in inspect.signature(draw).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name not in given
    ]
    unknown = [f"{name}: not an option of this figure" for name in style if name not in known]
    if unknown:
        raise StrataprobeError(listing(f"style (options are: {', '.join(known)})", unknown))
    return draw(*tables, **given, **style)


def new_figure(title: str, *, width: float, height: float) -> Figure:
    """An empty figure (inches) of its own: no pyplot, so nothing global changes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.05, h_pad=0.05)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def save(figure: Figure, svg: str | os.PathLike[str], png: str | os.PathLike[str]) -> None:
    """Write both files, complete or not at all; equal figures give equal bytes.

    Raises:
        StrataprobeError: a file cannot be written.
    """
    with context():
        # The layout is found once and kept, so that both files and any later ones agree; at the dots of the
        # page, since letters are fitted to whole dots and coarser ones would leave less room than they take.
        figure.set_dpi(DPI)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        # The solver of the layout differs in the last bit from run to run, which would change the clip ids.
        for axes in figure.axes:
            axes.set_position(np.round(axes.get_position(original=True).bounds, 6))
        with atomic(svg) as place:
            figure.savefig(place, format="svg", metadata={"Date": None, "Creator": None})
        with atomic(png) as place:
            figure.savefig(place, format="png", dpi=DPI, metadata={"Software": None})


def about(study: Mapping[str, str], extra: str = "") -> list[str]:
    """The lines that say what a figure is of; for pooling with the first token, its caveat too."""
    pooling = study["pooling"]
    who = study["model"] + (f" at {study['revision']}" if "revision" in study else "")
    lines = [f"{who}, {study['dataset']}; {POOLING_NAME.get(pooling, pooling)}{extra}."]
    if pooling == "mean":
        lines.append(
            "The first token is a sink in many models: for claims about scale use pooling mean_rest."
        )
    return lines


def note(figure: Figure, lines: Sequence[str]) -> None:
    """Small print under the figure; nothing is drawn for no lines."""
    if lines:
        figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=6.8, color="#333333")


def line_handle(*, label: str, **look: Any) -> Line2D:
    """A legend entry that stands for lines of several colours."""
    return Line2D([], [], label=label, **look)


def mark_gaps(axes: Axes, steps: Sequence[float], missing: Sequence[int]) -> None:
    """Hatch the place of each missing checkpoint, half way to its neighbours, with a cross below.

    Args:
        steps: all expected steps, ascending.
        missing: indices into `steps` of those that have no value at all.
    """
    edges = midpoints(steps)
    for index in missing:
        band = axes.axvspan(edges[index], edges[index + 1], facecolor="none", edgecolor=GREY, linewidth=0)
        band.set(hatch="xxxx", alpha=0.55, label=f"_no data: {steps[index]:g}", zorder=0.5)
        # A band between two dense checkpoints can be thinner than a hair: the cross is not.
        axes.plot(
            [steps[index]],
            [0.035],
            transform=axes.get_xaxis_transform(),
            marker="X",
            markersize=4.5,
            linestyle="none",
            color=VERMILION,
            markeredgecolor="white",
            markeredgewidth=0.4,
            clip_on=False,
            label=f"_gap mark: {steps[index]:g}",
            zorder=5,
        )


def midpoints(steps: Sequence[float]) -> np.ndarray:
    """(n + 1,) edges half way between n ascending places; the outer ones as far as the inner."""
    places = np.asarray(steps, dtype=float)
    if len(places) == 1:
        return np.array([places[0] - 0.5, places[0] + 0.5])
    middle = (places[1:] + places[:-1]) / 2
    return np.concatenate(([2 * places[0] - middle[0]], middle, [2 * places[-1] - middle[-1]]))


def step_axis(axes: Axes, steps: Sequence[float], *, scale: str = "linear", label: bool = True) -> None:
    """A step axis that begins at step 0, with a little room so that step 0 is seen.

    Args:
        scale: "linear", or "symlog" (linear up to the first step after 0, then logarithmic).
    """
    last = max([*steps, 1])
    if scale == "symlog":
        first = min([step for step in steps if step > 0], default=1)
        axes.set_xscale("symlog", linthresh=first)
        axes.set_xlim(-0.2 * first, 1.15 * last)
    else:
        axes.set_xlim(-0.02 * last, 1.02 * last)
        axes.xaxis.set_major_locator(mpl.ticker.MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter(mpl.ticker.FuncFormatter(step_label))
    if label:
        axes.set_xlabel("training step")


def step_label(step: float, _: int | None = None) -> str:
    """12,000 as 12K, so that labels stay short; never rounded."""
    if step >= 1000 and step % 100 == 0:
        return f"{step / 1000:g}K"
    return f"{step:g}" if step < 1e5 else f"{int(step)}"


def layer_axis(axes: Axes, layers: int, *, label: bool = True) -> None:
    """Blocks 0 to L - 1 on the x axis."""
    axes.set_xlim(-0.5, layers - 0.5)
    axes.xaxis.set_major_locator(mpl.ticker.MaxNLocator(8, integer=True, min_n_ticks=1))
    if label:
        axes.set_xlabel("layer (block)")


def layer_labels(axes: Axes, layers: int) -> None:
    """Whole layer numbers on the y axis of a heatmap, layer 0 at the bottom."""
    axes.set_ylim(-0.5, layers - 0.5)
    axes.yaxis.set_major_locator(mpl.ticker.MaxNLocator(7, integer=True, min_n_ticks=1))


def _plain_number(value: float, _: int | None = None) -> str:
    return f"{value:g}"


def log_colour_bar(bar: Colorbar, low: float, high: float) -> None:
    """Plain numbers beside a log colour bar, closer together where it spans little."""
    subs = (1, 2, 5) if high / low > 6 else (1, 1.5, 2, 3, 4, 5, 7)
    bar.ax.yaxis.set_major_locator(mpl.ticker.LogLocator(subs=subs, numticks=12))
    bar.ax.yaxis.set_major_formatter(_plain_number)
    bar.ax.yaxis.set_minor_locator(mpl.ticker.NullLocator())


def log_if_wide(axes: Axes, values: Sequence[float], *, factor: float = 8.0) -> None:
    """A log y axis where positive values span more than `factor`, else linear from 0."""
    finite = np.asarray(values, dtype=float)
    finite = finite[np.isfinite(finite)]
    if len(finite) and finite.min() > 0 and finite.max() / finite.min() > factor:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(_plain_number)
        axes.yaxis.set_minor_locator(mpl.ticker.LogLocator(subs=(2, 5)))
        few = finite.max() / finite.min() < 400
        axes.yaxis.set_minor_formatter(_plain_number if few else mpl.ticker.NullFormatter())
    elif len(finite) and finite.min() >= 0:
        axes.set_ylim(bottom=0)


def say_empty(axes: Axes, text: str) -> None:
    """Words in the middle of a panel that has no value to show."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=GREY)


def ordered_colours(count: int) -> Colormap:
    """`count` colours from dark to light whose lightness rises evenly; the palest are left out."""
    base = mpl.colormaps["viridis"]
    return ListedColormap(base(np.linspace(0.0, 0.88, max(count, 1))))


def named_colour_bar(
    figure: Figure, panels: Sequence[Axes], names: Sequence[str], label: str, absent: Sequence[int] = ()
) -> None:
    """A colour bar with one named box a line; boxes of `absent` lines are hatched."""
    count = len(names)
    norm = BoundaryNorm(np.arange(count + 1) - 0.5, count)
    mappable = ScalarMappable(norm=norm, cmap=ordered_colours(count))
    bar = figure.colorbar(mappable, ax=list(panels), ticks=range(count), aspect=35, pad=0.015, fraction=0.04)
    bar.ax.set_yticklabels(names)
    bar.ax.tick_params(length=0, which="both")
    bar.set_label(label)
    for index in absent:
        box = bar.ax.axhspan(index - 0.5, index + 0.5, facecolor="white", edgecolor=GREY, hatch="xxxx")
        box.set(label=f"_no data: {names[index]}", zorder=3)
