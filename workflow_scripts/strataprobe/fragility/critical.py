"""Critical noise: on a grid as published, and continuous from the closed form."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, ndtri

State = Literal["value", "censored", "below_threshold", "undefined"]

_SCAN = 256
_REFINEMENTS = 60
# A dip below the threshold by less than this is rounding: sums of ndtr are exact to about 1e-15.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Critical:
    """A critical noise and what kind of number it is.

    `value`: accuracy crosses the threshold there. `censored`: never below it on the grid (value None).
    `below_threshold`: below it without any noise; a grid then gives the first level that is below, as
    published, which says nothing about noise. `undefined`: noise does not reach the probe (w'Sw = 0).
    """

    value: float | None
    state: State

    def as_json(self) -> dict[str, Any]:
        return {"value": self.value, "state": self.state}


def grid_critical_noise(
    accuracy: np.ndarray, clean: float, sigma: Sequence[float], threshold: float
) -> Critical:
    """The first level of a grid at which accuracy is below the threshold.

    Args:
        accuracy: (levels,) accuracy at each level, exact or sampled.
        clean: accuracy without noise.
        sigma: (levels,) rising noise levels.
        threshold: e.g. 0.6.

    Source: fragility paper, section 3.4.
    """
    below = np.flatnonzero(accuracy < threshold)
    value = float(sigma[below[0]]) if len(below) else None
    if clean < threshold:
        return Critical(value, "below_threshold")
    return Critical(value, "censored" if value is None else "value")


def continuous_critical_noise(
    margins: np.ndarray, threshold: float, counts: np.ndarray | None = None
) -> np.ndarray:
    """The first noise level at which exact accuracy crosses below the threshold.

    A(s) = sum_i c_i Phi(t_i / s) / sum_i c_i can rise and fall, so a dense logarithmic scan finds the first
    crossing and a bracketed root search refines it to about 1e-11 relative. Where
    accuracy without noise is exactly the threshold, that is the noise at which it first falls by 1e-12.

    Args:
        margins: (items,) t_i = y_i z_i / sqrt(w'Sw), in the unit wanted for the result.
        threshold: between 0.5 and 1, both excluded.
        counts: (replicates, items) how often each item counts; None is once each, one replicate.

    Returns:
        (replicates,) critical noise; NaN where accuracy is below the threshold as s goes to 0 (an item with
        t = 0 counts one half there).

    Source: DESIGN section 4; fragility paper, section 3.4, without its grid.
    """
    weights = np.ones((1, len(margins))) if counts is None else counts.astype(np.float64)
    total = weights.sum(axis=1, keepdims=True)
    # Divided after the (exact) sum, so that 60 of 100 is exactly 0.6.
    clean = weights @ ((np.sign(margins) + 1) / 2) / total[:, 0]
    weights = weights / total
    result = np.full(len(weights), np.nan)
    alive = np.flatnonzero(clean >= threshold)
    if len(alive) == 0:
        return result
    low, high = _brackets(margins, threshold - _ROUNDING, weights[alive])
    result[alive] = _refine(margins, threshold - _ROUNDING, weights[alive], low, high)
    return result


def _brackets(margins: np.ndarray, threshold: float, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Neighbouring scan points between which each replicate first falls below the threshold."""
    size = np.abs(margins[margins != 0])
    # At `start` every Phi is 0 or 1 to double precision (10 sd away); at `end` all are at most the threshold.
    start, end = size.min() / 10, size.max() / ndtri(threshold) * 1.0001
    scan = np.geomspace(start, max(end, start * 1.001), _SCAN)
    accuracy = weights @ ndtr(margins[:, None] / scan[None, :])  # (replicates, points)
    first = np.argmax(accuracy < threshold, axis=1)
    before = np.where(first == 0, start / 2, scan[np.maximum(first - 1, 0)])
    return before, scan[first]


def _refine(
    margins: np.ndarray, threshold: float, weights: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Illinois method in log noise, all replicates at once: superlinear, and the bracket is never left."""
    a, b = np.log(low), np.log(high)

    def excess(point: np.ndarray) -> np.ndarray:
        return (weights * ndtr(margins[None, :] / np.exp(point)[:, None])).sum(axis=1) - threshold

    at_a, at_b = excess(a), excess(b)
    point = b
    for _ in range(_REFINEMENTS):
        spread = at_a - at_b
        sloped = spread != 0
        point = np.where(sloped, b + at_b * (b - a) / np.where(sloped, spread, 1.0), (a + b) / 2)
        point = np.clip(point, np.minimum(a, b), np.maximum(a, b))
        at_point = excess(point)
        same = at_point * at_b > 0
        a, at_a = np.where(same, a, b), np.where(same, at_a / 2, at_b)
        b, at_b = point, at_point
        if ((np.abs(at_point) < 1e-14) | (np.abs(b - a) < 1e-11)).all():
            break
    return np.exp(point)
