"""How the figures of the three levels look: a level, a model, the legend and the small print below."""

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec

from strataprobe.figures import style
from strataprobe.figures.level_names import BEHAVIOR, READOUT, RECOVERABILITY

# Colour alone is lost in grey print: each level has a marker and a dash of its own as well.
LEVEL_LOOK: dict[str, dict[str, Any]] = {
    BEHAVIOR: {"color": style.VERMILION, "marker": "o", "linestyle": "-"},
    READOUT: {"color": style.BLUE, "marker": "s", "linestyle": "--"},
    RECOVERABILITY: {"color": style.GREEN, "marker": "^", "linestyle": "-."},
}
# Coprime numbers of colours, dashes and markers: 252 models before two look alike.
_COLOURS = (style.BLUE, style.VERMILION, style.GREEN, style.BLACK, style.PURPLE, style.ORANGE, style.SKY)
_DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)))
_MARKERS = "os^DvP<*X"
_NOTE_WIDTH = 116  # letters of the small print in a line of the page's width


def model_looks(models: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Each model's line, told apart in grey print too."""
    return {
        name: {
            "color": _COLOURS[place % len(_COLOURS)],
            "linestyle": _DASHES[place % len(_DASHES)],
            "marker": _MARKERS[place % len(_MARKERS)],
        }
        for place, name in enumerate(models)
    }


def note(figure: Figure, lines: Sequence[str]) -> None:
    """Small print under the figure, in lines that the page holds."""
    width = int(_NOTE_WIDTH * figure.get_figwidth() / style.TEXT_WIDTH)
    style.note(figure, [part for line in lines for part in textwrap.wrap(line, width)])


def legend_row(
    figure: Figure, place: SubplotSpec, handles: Sequence[Any], columns: int | None = None
) -> Axes:
    """A low panel that holds nothing but the legend, in as many columns as the page holds unless told."""
    axes = figure.add_subplot(place)
    axes.axis("off")
    columns = columns or legend_columns([str(each.get_label()) for each in handles], figure.get_figwidth())
    axes.legend(
        handles=list(handles), loc="center", ncols=columns, columnspacing=1.1, handlelength=2.0,
        handletextpad=0.6, borderpad=0,
    )  # fmt: skip
    return axes


def legend_columns(labels: Sequence[str], width: float) -> int:
    """How many columns of these labels stand beside each other on a page of this width (inches)."""
    longest = max((len(line) for label in labels for line in label.split("\n")), default=1)
    return max(1, min(4, int((width - 0.7) / (0.052 * longest + 0.38))))


def legend_height(labels: Sequence[str], width: float) -> float:
    """Inches that the legend takes."""
    tallest = max((1 + label.count("\n") for label in labels), default=1)
    lines = -(-len(labels) // legend_columns(labels, width))
    return 0.08 + lines * (0.05 + 0.115 * tallest)


def sparse(layers: int) -> int:
    """Every how manieth layer bears a marker, so that markers stay apart in deep models."""
    return max(1, -(-layers // 15))


def wrapped(name: str, width: int) -> str:
    """A model's name in lines of about `width` letters, broken after its hyphens."""
    lines = [""]
    for part in name.replace("_", "_\0").replace("-", "-\0").split("\0"):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
