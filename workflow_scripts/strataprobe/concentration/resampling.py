"""Intervals over items: how far the measures hang on which items were taken.

Stimuli of one item are routed alike, so items are what is resampled (TRAPS 19), all stimuli of one together.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from strataprobe.concentration.measures import agreeing, checked
from strataprobe.statistics import cluster_counts

MEASURES = ("coarse_accuracy", "p_top_min", "hhi", "max_share")

_TAILS = (2.5, 97.5)
_AT_ONCE = 1_000_000  # marginal counts held at a time


def intervals(
    counts: ArrayLike,
    class_sides: ArrayLike,
    item_sides: ArrayLike,
    *,
    replicates: int,
    seed: int,
    of: Sequence[str] = MEASURES,
) -> dict[str, np.ndarray]:
    """95 % percentile intervals of a bootstrap over items, of all cells at once.

    Every cell has the same draws, so its intervals do not depend on the cells beside it. That of p_w,min
    needs none, see `_of_the_least`.

    Args:
        counts, class_sides, item_sides: as in `measure`.
        replicates, seed: at least 1, drawn with the seed; replicate k does not depend on how many there are.
        of: which of `MEASURES`.

    Returns:
        Measure -> (..., 2) low and high.

    Raises:
        StrataprobeError, ValueError: as `measure`; ValueError also for no replicate or an unknown measure.
    """
    if replicates < 1 or not set(of) <= set(MEASURES):
        raise ValueError(f"{replicates} replicates of {list(of)}; at least 1, of {list(MEASURES)}")
    table, classes, sides = checked(counts, class_sides, item_sides)
    cells = table.reshape(-1, *table.shape[-2:])
    found = {name: np.empty((len(cells), 2)) for name in of}
    if "p_top_min" in found:
        found["p_top_min"] = _of_the_least(cells.max(axis=-1) / cells.sum(axis=-1))
    if drawn_too := [name for name in of if name != "p_top_min"]:
        drawn = np.ascontiguousarray(cluster_counts(len(sides), replicates, seed).T, dtype=float)
        step = max(1, _AT_ONCE // (replicates * len(classes)))
        for start in range(0, len(cells), step):
            block = slice(start, start + step)
            for name, values in _replicated(cells[block], classes, sides, drawn, drawn_too).items():
                found[name][block] = np.percentile(values, _TAILS, axis=-1).T
    return {name: found[name].reshape(*table.shape[:-2], 2) for name in of}


def _of_the_least(p_top: np.ndarray) -> np.ndarray:
    """(cells, 2) 2.5 and 97.5 % points of the least of N items drawn with replacement, exactly.

    One of the r lowest is drawn with the chance 1 - (1 - r/N)^N. The lower point is always the observed
    least, since leaving items out can only raise it; the upper says how much hangs on the few lowest.

    Args:
        p_top: (cells, items).
    """
    items = p_top.shape[-1]
    below = 1 - (1 - np.arange(1, items + 1) / items) ** items  # chance that one of the r lowest is drawn
    places = [int(np.searchsorted(below, tail / 100)) for tail in _TAILS]
    return np.sort(p_top, axis=-1)[:, places]


def _replicated(
    counts: np.ndarray, class_sides: np.ndarray, item_sides: np.ndarray, drawn: np.ndarray, of: Sequence[str]
) -> dict[str, np.ndarray]:
    """Measure -> (cells, replicates).

    Args:
        counts: (cells, items, classes).
        drawn: (items, replicates) how often each item was drawn.
    """
    total = counts.sum(axis=-1) @ drawn
    found = {}
    if "coarse_accuracy" in of:
        found["coarse_accuracy"] = (agreeing(counts, class_sides, item_sides) @ drawn) / total
    if {"hhi", "max_share"} & set(of):
        cells, items, classes = counts.shape
        by_class = counts.swapaxes(1, 2).reshape(-1, items).astype(float)  # one matrix: one fast product
        marginal = (by_class @ drawn).reshape(cells, classes, -1)
        if "max_share" in of:
            found["max_share"] = marginal.max(axis=1) / total
        if "hhi" in of:
            found["hhi"] = np.einsum("kcr,kcr->kr", marginal, marginal) / total**2
    return found
