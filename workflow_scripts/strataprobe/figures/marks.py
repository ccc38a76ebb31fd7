"""Checkpoints with byte-identical weights, marked in one way on every figure over training."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes

from strataprobe.figures import style
from strataprobe.figures.frames import Checkpoints

_APART = 0.05
_LOOK = {"color": style.PURPLE, "markeredgecolor": style.BLACK, "markeredgewidth": 0.5, "clip_on": False}


def twin_groups(checkpoints: Checkpoints, *frames: pd.DataFrame) -> list[list[int]]:
    """Places in `checkpoints` of those with the same weights, a list a group of two or more.

    Args:
        frames: tables with `revision` and `twin_of`, the other revisions of the model with the same weights,
            ";" between them. A table without that column knows of none.
    """
    place = {revision: index for index, revision in enumerate(checkpoints.revisions)}
    groups: set[tuple[int, ...]] = set()
    for frame in frames:
        if "twin_of" not in frame.columns:
            continue
        rows = frame[["revision", "twin_of"]].astype(str).drop_duplicates()
        for revision, twins in rows[rows["twin_of"] != ""].itertuples(index=False):
            # A twin that this figure does not show (another set of checkpoints) has no place in it.
            together = sorted(place[name] for name in (revision, *twins.split(";")) if name in place)
            if len(together) > 1:
                groups.add(tuple(together))
    # Tables that lack checkpoints know parts of a group only.
    whole = [set(group) for group in groups]
    kept = [list(group) for group in groups if not any(set(group) < other for other in whole)]
    return sorted(kept)


def mark_twins(axes: Axes, places: Sequence[float], groups: Sequence[Sequence[int]]) -> None:
    """A diamond at the upper edge over each twin, joined to the others of its group.

    Groups whose lines would lie on each other are drawn one below the other.

    Args:
        places: on the x axis, of every checkpoint.
        groups: indices into `places`, as `twin_groups` found them.
    """
    levels: list[float] = []  # how far the groups at each height reach: none is drawn over another one
    for group in groups:
        said = " = ".join(f"{places[index]:g}" for index in group)
        first, last = places[group[0]], places[group[-1]]
        level = next((at for at, end in enumerate(levels) if end < first), len(levels))
        levels[level : level + 1] = [last]
        axes.plot(
            [places[index] for index in group],
            [1.0 - _APART * level] * len(group),
            transform=axes.get_xaxis_transform(),
            marker="D",
            markersize=4.2,
            linestyle="-",
            linewidth=1.1,
            label=f"_same weights: {said}",
            zorder=6,
            **_LOOK,
        )


def twin_lines(
    checkpoints: Checkpoints, groups: Sequence[Sequence[int]], place: str = "diamonds at the upper edge"
) -> list[str]:
    """A sentence that names them and says where they are marked, for the small print; none where none are."""
    named = [[checkpoints.revisions[index] for index in group] for group in groups]
    return [f"Byte-identical weights ({place}): {equal(named)}."] if groups else []


def equal(groups: Sequence[Sequence[str]], most: int = 4) -> str:
    """Names of groups of equals, at most so many of each."""
    said = [
        " = ".join(group[:most]) + (f" and {len(group) - most} more" if len(group) > most else "")
        for group in groups
    ]
    return "; ".join(said[:most]) + (f"; and {len(said) - most} more groups" if len(said) > most else "")
