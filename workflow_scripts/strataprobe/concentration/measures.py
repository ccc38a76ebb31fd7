"""How concentrated a many-class probe's predictions are, item by item and over all of them.

An item (a word, a group) has several stimuli (texts), and the probe predicts one class for each. Every
measure is of how often: `counts` (..., items, classes), whose leading axes are cells (a probe and the states
it was tested on). Sides are 0 or 1: that of a class by the partition, that of an item as intended.

Shares that a threshold is held against are one division of whole numbers, so a share that equals its
threshold in decimals compares as equal.

Source: lucky-defaults paper, sections 2.1 and 3.1 to 3.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from strataprobe.errors import StrataprobeError, listing

LEAST_STIMULI = 2
WHY_TWO = "its top-class share is 1 whatever the probe does; give 2 stimuli or more"
"""Why an item with a single stimulus is refused (section 3.4)."""


@dataclass(frozen=True)
class Concentration:
    """Measures of each cell; all have the leading axes of the counts.

    Attributes:
        coarse_accuracy: A_pi, share of all stimuli whose predicted class is on the item's intended side.
        p_top: (..., items) p_w,top, share of an item's stimuli in the class that most of them are in.
        p_top_min, p_top_mean, p_top_max: the least (p_w,min), mean and largest of it over items.
        max_share: largest share of all stimuli in one class.
        top_class: index of that class, the first of equal ones.
        hhi: sum over classes of the squared share of all stimuli.
        effective_targets: 1 / hhi, in classes.
        side_mass: share of all stimuli predicted to a class of the second side.
    """

    coarse_accuracy: np.ndarray
    p_top: np.ndarray
    p_top_min: np.ndarray
    p_top_mean: np.ndarray
    p_top_max: np.ndarray
    max_share: np.ndarray
    top_class: np.ndarray
    hhi: np.ndarray
    effective_targets: np.ndarray
    side_mass: np.ndarray


def counted(items: ArrayLike, predicted: ArrayLike, *, item_count: int, class_count: int) -> np.ndarray:
    """How often each class was predicted for each item.

    Args:
        items: (stimuli,) index of each stimulus's item.
        predicted: (..., stimuli) index of the class predicted for it, in each cell.
        item_count, class_count: how many there are, so that what never occurs has its place too.

    Returns:
        (..., items, classes) whole numbers.

    Raises:
        ValueError: an index is out of range, or there is not one item for each stimulus.
    """
    item, classes = np.asarray(items), np.asarray(predicted)
    if item.ndim != 1 or classes.shape[-1:] != item.shape:
        raise ValueError(f"items are {item.shape} for predictions of shape {classes.shape}")
    for name, values, count in (("item", item, item_count), ("class", classes, class_count)):
        if values.size and not 0 <= values.min() <= values.max() < count:
            raise ValueError(f"{name} indices {values.min()} to {values.max()} for {count}")
    flat = classes.reshape(-1, len(item))
    size = item_count * class_count
    places = np.arange(len(flat))[:, None] * size + item * class_count + flat
    found = np.bincount(places.ravel(), minlength=len(flat) * size)
    return found.reshape(*classes.shape[:-1], item_count, class_count)


def measure(
    counts: ArrayLike, class_sides: ArrayLike, item_sides: ArrayLike, *, names: Sequence[str] | None = None
) -> Concentration:
    """All measures of concentration, of all cells at once.

    Args:
        counts: (..., items, classes) stimuli of an item predicted to be of a class, whole numbers.
        class_sides: (classes,) of 0 or 1; both must occur.
        item_sides: (items,) of 0 or 1.
        names: (items,) what a message calls the items; their indices by default.

    Raises:
        StrataprobeError: items with fewer than two stimuli; names all of them and the reason.
        ValueError: arrays do not belong together.
    """
    table, classes, items = checked(counts, class_sides, item_sides, names=names)
    stimuli, marginal = table.sum(axis=-1), table.sum(axis=-2)
    total = stimuli.sum(axis=-1)
    p_top = table.max(axis=-1) / stimuli
    squares = (marginal**2).sum(axis=-1)
    return Concentration(
        coarse_accuracy=agreeing(table, classes, items).sum(axis=-1) / total,
        p_top=p_top,
        p_top_min=p_top.min(axis=-1),
        p_top_mean=p_top.mean(axis=-1),
        p_top_max=p_top.max(axis=-1),
        max_share=marginal.max(axis=-1) / total,
        top_class=marginal.argmax(axis=-1),
        hhi=squares / total**2,
        effective_targets=total**2 / squares,
        side_mass=(marginal @ classes) / total,
    )


def agreeing(counts: np.ndarray, class_sides: np.ndarray, item_sides: np.ndarray) -> np.ndarray:
    """(..., items) stimuli of each item predicted to a class on the side intended for the item."""
    second = counts @ class_sides
    return np.where(item_sides == 1, second, counts.sum(axis=-1) - second)


def checked(
    counts: ArrayLike, class_sides: ArrayLike, item_sides: ArrayLike, *, names: Sequence[str] | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts and sides as arrays of whole numbers that belong together.

    Raises:
        StrataprobeError, ValueError: as `measure`.
    """
    table, classes, items = (np.asarray(values) for values in (counts, class_sides, item_sides))
    if table.ndim < 2 or table.shape[-2:] != (len(items), len(classes)) or not len(items):
        raise ValueError(f"counts are {table.shape}, for {len(items)} items and {len(classes)} classes")
    if not np.issubdtype(table.dtype, np.integer) or (table < 0).any():
        raise ValueError(f"counts are numbers of stimuli, not {table.dtype} or negative")
    for name, sides in (("class", classes), ("item", items)):
        if not np.isin(sides, (0, 1)).all():
            raise ValueError(f"{name} sides are 0 or 1, not {np.unique(sides).tolist()}")
    if len(np.unique(classes)) < 2:
        raise ValueError("the classes are all on one side; coarse accuracy needs classes on both")
    _refuse_single(table, names)
    return table.astype(np.int64), classes.astype(np.int64), items.astype(np.int64)


def _refuse_single(counts: np.ndarray, names: Sequence[str] | None) -> None:
    """Refuse items with fewer than two stimuli in any cell."""
    fewest = counts.sum(axis=-1).reshape(-1, counts.shape[-2]).min(axis=0, initial=LEAST_STIMULI)
    few = np.flatnonzero(fewest < LEAST_STIMULI)
    called = [f"'{name}'" for name in names] if names else [str(place) for place in range(len(fewest))]
    faults = [
        f"item {called[place]} has a single stimulus: {WHY_TWO}"
        if fewest[place]
        else f"item {called[place]} has no stimulus; give 2 or more"
        for place in few
    ]
    if faults:
        raise StrataprobeError(listing("concentration of predictions", faults))
