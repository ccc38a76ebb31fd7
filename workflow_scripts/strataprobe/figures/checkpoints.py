"""Is every checkpoint what its name says? Perplexity of a fixed text over training, with what is odd.

Ours: a sanity figure. It finds weights that are not finite, a BOS that is missing or too much, a checkpoint
served under another one's name.
"""

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strataprobe.errors import StrataprobeError
from strataprobe.figures import marks, style
from strataprobe.figures.frames import Checkpoints, Expected

# Hollow, around the point: told apart by form, in grey print too.
_FLAG_LOOK: dict[str, dict[str, Any]] = {
    "not_finite": {"marker": "X", "color": style.VERMILION},
    "not_measured": {"marker": "P", "color": style.GREY},
    "worse_than_uniform": {"marker": "^", "color": style.VERMILION},
    "bos": {"marker": "s", "color": style.ORANGE},
    "jump": {"marker": "o", "color": style.VERMILION},
}
_FLAG_NAME = {
    "not_finite": "not finite",
    "not_measured": "not measured",
    "worse_than_uniform": "worse than uniform",
    "bos": "better the other way (BOS)",
    "jump": "out of line",
}
_WITHOUT_VALUE = ("not_finite", "not_measured")


@style.styled
def draw(
    checkpoints: pd.DataFrame,
    *,
    title: str,
    expected: Expected = (),
    step_scale: str = "linear",
    width: float = style.TEXT_WIDTH,
    height: float = 3.6,
) -> Figure:
    """Draw the rows of one model.

    Args:
        checkpoints: rows of the table of checkpoints.
        expected: (revision, step) of every checkpoint there should be; missing ones are hatched.
        step_scale: "linear", or "symlog" where the early checkpoints lie close together.

    Raises:
        StrataprobeError: no rows, rows of several models, or a revision without a step.
    """
    model = _one_model(checkpoints)
    shown = Checkpoints.of([checkpoints], expected)
    own = _by_place(checkpoints, shown)
    figure = style.new_figure(title, width=width, height=height)
    axes = figure.add_subplot()
    _curves(axes, checkpoints, shown)
    found = _flagged(axes, own, shown)
    groups = marks.twin_groups(shown, _twins_of(checkpoints, model))
    marks.mark_twins(axes, shown.steps, groups)
    seen = checkpoints.assign(seed="")  # gaps are found by checkpoint: this table has no seeds
    style.mark_gaps(axes, shown.steps, shown.missing(seen[seen["status"] != "not_measured"]))
    style.step_axis(axes, shown.steps, scale=step_scale)
    # Room for the marks around the highest point, and for the diamonds above it.
    highest = axes.dataLim.ymax
    axes.set_ylim(0, 1.12 * highest if np.isfinite(highest) else 1)
    axes.set_ylabel("negative log-likelihood\nof the text (nats a token)")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)
    told = [*found, *shown.gap_lines({"perplexity": seen}), *_twin_lines(checkpoints, model)]
    style.note(figure, [*_small_print(checkpoints, model), *told])
    return figure


def _one_model(checkpoints: pd.DataFrame) -> str:
    models = sorted({str(name) for name in checkpoints["model"]})
    if not models:
        raise StrataprobeError("the figure's table has no row for it; there is nothing to draw")
    if len(models) > 1:
        raise StrataprobeError(f"a figure shows the checkpoints of one model, not of {', '.join(models)}")
    return models[0]


def _by_place(checkpoints: pd.DataFrame, shown: Checkpoints) -> dict[int, pd.Series]:
    place = {revision: index for index, revision in enumerate(shown.revisions)}
    return {place[str(row["revision"])]: row for _, row in checkpoints.iterrows()}


def _curves(axes: Axes, checkpoints: pd.DataFrame, shown: Checkpoints) -> None:
    ways = checkpoints.loc[checkpoints["adds_bos"] != "", "adds_bos"]
    adds = bool((ways == "yes").any())
    own, other = (shown.along(checkpoints, column) for column in ("nll", "nll_other_bos"))
    as_it_is, otherwise = ("with", "without") if adds else ("without", "with")
    look = {"color": style.BLUE, "marker": "o", "zorder": 3}
    axes.plot(shown.steps, own, label=f"as the tokenizer begins\n({as_it_is} BOS)", **look)
    if np.isfinite(other).any():
        look = {"color": style.GREEN, "marker": "v", "linestyle": "--", "linewidth": 1, "zorder": 2}
        axes.plot(shown.steps, other, label=f"{otherwise} BOS", **look)
    sizes = checkpoints["vocabulary"].dropna()
    if len(sizes):
        look = {"color": style.GREY, "linestyle": ":", "linewidth": 1}
        axes.axhline(math.log(float(sizes.max())), label="uniform over\nthe vocabulary", **look)


def _flagged(axes: Axes, own: dict[int, pd.Series], shown: Checkpoints) -> list[str]:
    """Mark every flagged checkpoint; returns a sentence a flag that names them."""
    lines = []
    for flag, look in _FLAG_LOOK.items():
        places = [place for place, row in sorted(own.items()) if flag in str(row["flags"]).split(";")]
        if not places:
            continue
        name = _FLAG_NAME[flag]
        names = ", ".join(shown.revisions[place] for place in places)
        lines.append(f"{name[0].upper()}{name[1:]}: {names}.")
        steps = [shown.steps[place] for place in places]
        common = {"linestyle": "none", "label": name, "zorder": 5, **look}
        values = [float(own[place]["nll"]) for place in places]
        if flag in _WITHOUT_VALUE or not np.isfinite(values).any():
            # There is no value to mark: at the lower edge, above the cross of a gap.
            axes.plot(
                steps, [0.1] * len(steps), transform=axes.get_xaxis_transform(), markersize=5.5, **common
            )
            continue
        size = {"worse_than_uniform": 11, "bos": 9, "jump": 7}[flag]
        axes.plot(steps, values, markersize=size, markerfacecolor="none", markeredgewidth=1.3, **common)
    return lines


def _twins_of(checkpoints: pd.DataFrame, model: str) -> pd.DataFrame:
    """Twins that are checkpoints of this model, as the other tables name them."""
    own = [
        ";".join(
            name.removeprefix(f"{model}/") for name in str(twins).split(";") if name.startswith(f"{model}/")
        )
        for twins in checkpoints["twins"]
    ]
    return pd.DataFrame({"revision": checkpoints["revision"], "twin_of": own})


def _twin_lines(checkpoints: pd.DataFrame, model: str) -> list[str]:
    """Each group once, those under other models' names too."""
    groups = []
    for revision, twins in zip(checkpoints["revision"], checkpoints["twins"], strict=True):
        group = {f"{model}/{revision}", *str(twins).split(";")} - {""}
        if len(group) > 1 and group not in groups:
            groups.append(group)
    if not groups:
        return ["No two checkpoints have byte-identical weights."]
    named = [sorted(name.removeprefix(f"{model}/") for name in group) for group in groups]
    return [f"Byte-identical weights (diamonds at the upper edge, joined): {marks.equal(named)}."]


def _small_print(checkpoints: pd.DataFrame, model: str) -> list[str]:
    tokens = sorted({int(count) for count in checkpoints["tokens"].dropna()})
    bits = checkpoints.dropna(subset=["bits_per_byte"]).sort_values("step", kind="stable")["bits_per_byte"]
    said = f"; {bits.iloc[-1]:.2f} bits a byte at the last checkpoint" if len(bits) else ""
    count = f"{', '.join(map(str, tokens))} tokens of one fixed text" if tokens else "one fixed text"
    return [f"{model}; {count}{said}."]
