"""What coarse accuracy would be by chance, given how the probe routes: two nulls, for two questions.

`relabelling`: were the intended sides of the items given out at random, as many of each as there are, would
they agree with these predictions as well? `prototypes`: were each item routed as a whole to one class, drawn
at random from the classes as often as they are predicted, would the sides agree as well? The second is what a
lucky default would give.

Source: ours; docs/methods.md.
"""

import math
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np
from numpy.typing import ArrayLike

from strataprobe.concentration.measures import agreeing, checked

SAMPLED = 20_000
"""Relabellings that are drawn where there are too many to take them all."""

_AT_ONCE = 4_000_000  # sums held at a time, of cells times relabellings
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Null:
    """A distribution of coarse accuracy by chance, in each cell, and where the observed one stands.

    Attributes:
        mean, q95: (...) mean, and the least value that 95 % of the distribution do not exceed.
        p: (...) chance of a coarse accuracy of at least the observed one.
        exact: the whole distribution was taken, not a sample of it.
        ways: how many equally likely ways were taken; None where it is not made of ways.
    """

    mean: np.ndarray
    q95: np.ndarray
    p: np.ndarray
    exact: bool
    ways: int | None


def relabelling(
    counts: ArrayLike, class_sides: ArrayLike, item_sides: ArrayLike, *, most: int = 200_000, seed: int
) -> Null:
    """Coarse accuracy when as many items as are on the second side are put there in every possible way.

    Predictions stay as they are. Up to `most` ways all are taken, the observed one among them; beyond it
    `SAMPLED` ways are drawn, and p counts the observed one in as one more (Phipson and Smyth, 2010). The mean
    is exact in both cases.

    Args:
        counts, class_sides, item_sides: as in `measure`.
        most: ways that are taken in full.
        seed: seeds the draws; not used below `most`. Every cell has the same draws.

    Raises:
        StrataprobeError, ValueError: as `measure`.
    """
    table, classes, sides = checked(counts, class_sides, item_sides)
    cells, (items, chosen) = table.shape[:-2], (len(sides), int(sides.sum()))
    stimuli, second = table.sum(axis=-1), table @ classes
    total, base = stimuli.sum(axis=-1), (stimuli - second).sum(axis=-1)
    gain = 2 * second - stimuli  # stimuli that agree more when an item is called one of the second side
    exact = math.comb(items, chosen) <= most
    ways = _every_way(items, chosen) if exact else _drawn_ways(items, chosen, seed)
    reached, quantile = _among(gain.reshape(-1, items), sides, ways)
    return Null(
        mean=(base + gain.sum(axis=-1) * chosen / items) / total,
        q95=(base + quantile.reshape(cells)) / total,
        p=(reached.reshape(cells) / len(ways) if exact else (1 + reached.reshape(cells)) / (1 + len(ways))),
        exact=exact,
        ways=len(ways),
    )


def _every_way(items: int, chosen: int) -> np.ndarray:
    """(ways, items) of 0 or 1: every way to choose so many of them."""
    ways = math.comb(items, chosen)
    places = np.fromiter(chain.from_iterable(combinations(range(items), chosen)), np.int64, ways * chosen)
    found = np.zeros((ways, items))
    np.put_along_axis(found, places.reshape(ways, chosen), 1, axis=1)
    return found


def _drawn_ways(items: int, chosen: int, seed: int) -> np.ndarray:
    """(SAMPLED, items) of 0 or 1, each way equally likely; way k does not depend on how many there are."""
    draws = np.random.Generator(np.random.Philox(key=seed)).random((SAMPLED, items))
    return (draws.argsort(axis=1).argsort(axis=1) < chosen).astype(float)


def _among(gain: np.ndarray, sides: np.ndarray, ways: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(cells,) ways whose sum of gains is at least that of `sides`, and the 95 % point of these sums.

    Sums are of whole numbers, so floats hold them exactly and equal ones compare as equal.
    """
    place = -(-95 * len(ways) // 100) - 1
    reached, quantile = np.empty(len(gain), np.int64), np.empty(len(gain))
    step = max(1, _AT_ONCE // len(ways))
    for start in range(0, len(gain), step):
        block = slice(start, start + step)
        sums = gain[block].astype(float) @ ways.T
        reached[block] = (sums >= (gain[block] @ sides)[:, None]).sum(axis=1)
        sums.partition(place, axis=1)
        quantile[block] = sums[:, place]
    return reached, quantile


def prototypes(counts: ArrayLike, class_sides: ArrayLike, item_sides: ArrayLike) -> Null:
    """Coarse accuracy when each item's stimuli all go to one class, drawn from the observed marginal.

    An item of the second side then agrees as a whole with the chance that is the side mass, one of the first
    side with the rest, independently of the others. With equally many stimuli an item the number of agreeing
    items is the sum of two binomials; with unequal ones each item weighs as many stimuli as it has. The
    distribution is computed item by item, exactly in both cases.

    Args:
        counts, class_sides, item_sides: as in `measure`.

    Raises:
        StrataprobeError, ValueError: as `measure`.
    """
    table, classes, sides = checked(counts, class_sides, item_sides)
    cells, items = table.shape[:-2], len(sides)
    stimuli = table.sum(axis=-1)
    total = stimuli.sum(axis=-1)
    mass = (table @ classes).sum(axis=-1) / total
    chance = np.where(sides == 1, mass[..., None], 1 - mass[..., None])
    observed = agreeing(table, classes, sides).sum(axis=-1)
    flat = stimuli.reshape(-1, items)
    q95, p = np.empty(len(flat)), np.empty(len(flat))
    numbers, kind = np.unique(flat, axis=0, return_inverse=True)
    for place, weights in enumerate(numbers):
        own = kind.ravel() == place
        q95[own], p[own] = _weighted(weights, chance.reshape(-1, items)[own], observed.reshape(-1)[own])
    return Null(
        mean=(chance * stimuli).sum(axis=-1) / total,
        q95=q95.reshape(cells) / total,
        p=p.reshape(cells),
        exact=True,
        ways=None,
    )


def _weighted(weights: np.ndarray, chance: np.ndarray, observed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """95 % point of a sum of weights, each counted with its own chance, and the chance to reach `observed`.

    Args:
        weights: (items,) whole numbers.
        chance: (cells, items).
        observed: (cells,).
    """
    unit = np.gcd.reduce(weights)
    steps = weights // unit
    mass = np.zeros((len(chance), steps.sum() + 1))
    mass[:, 0] = 1
    for item, step in enumerate(steps):
        own = chance[:, item, None]
        kept = mass * (1 - own)
        kept[:, step:] += mass[:, :-step] * own
        mass = kept
    q95 = (mass.cumsum(axis=1) < 0.95 - _ROUNDING).sum(axis=1) * unit
    upper = mass[:, ::-1].cumsum(axis=1)[:, ::-1]
    least = -(-observed // unit)
    return q95, np.minimum(1.0, np.take_along_axis(upper, least[:, None], axis=1)[:, 0])
