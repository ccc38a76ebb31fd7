"""Behaviour apart from bias, with intervals: d', criterion, and minimal pairs with both members right.

The definitions are those of the behaviour's own measures; here they are taken of all replicates at once.

Source: levels paper has accuracy alone; signal detection after Green and Swets (1966), Hautus (1995).
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from strataprobe.bootstrap import Draws, Estimate, estimate
from strataprobe.datasets.answers import ALL
from strataprobe.levels.measured import ORDERED, ORDERS, Measured
from strataprobe.levels.reading import Items


def parts(measured: Measured) -> dict[str, tuple[str, ...]]:
    """Measure -> the variants whose answers it pools: one, or one an order of the options."""
    known = measured.checkpoint.behavior
    ordered = {name: tuple(f"{name}:{order}" for order in ORDERS) for name in ORDERED}
    single = {name: (name,) for name in known if ":" not in name}
    return single | {name: own for name, own in ordered.items() if all(one in known for one in own)}


def detection(
    measured: Measured, variants: Sequence[str], split: str
) -> tuple[np.ndarray, np.ndarray] | None:
    """(rows,) of d' and of the criterion, over the two types of a split; None where it lacks one.

    With H the rate of right answers on object control, F that of wrong ones on subject control, both
    log-linear, (count + 1/2) / (answers + 1): d' = z(H) - z(F), c = -(z(H) + z(F)) / 2. A criterion below 0
    leans to the matrix object.
    """
    within = measured.checkpoint.items.types_within(split)
    if within is None:
        return None
    scores = []
    for name, wanted in zip(within, (1.0, 0.0), strict=True):
        counts = [
            measured.draws.totals(
                _share(measured.checkpoint.behavior[variant], wanted), measured.splits[name]
            )
            for variant in variants
        ]
        hits, answers = (sum(each) for each in zip(*counts, strict=True))
        with np.errstate(invalid="ignore"):
            scores.append(np.where(answers > 0, ndtri((hits + 0.5) / (answers + 1)), np.nan))
    hit, false_alarm = scores
    return hit - false_alarm, -(hit + false_alarm) / 2


def both_right(measured: Measured, variants: Sequence[str]) -> dict[str, tuple[Estimate, int, int]]:
    """Share of minimal pairs with all members right, the mean over variants.

    A pair's members are in different translation groups, so what is drawn with replacement is a pair with all
    its translations: the groups that pairs link.

    Returns:
        Split ("all" and languages that have both types) -> estimate, pairs, clusters.
    """
    items = measured.checkpoint.items
    pairs = _pairs(items)
    if not pairs:
        return {}
    linked = _linked(items, pairs)
    draws = Draws.of(linked, measured.settings["bootstrap"], measured.settings["seed"])
    values = np.array(
        [[measured.checkpoint.behavior[variant][own].min() for own in pairs] for variant in variants]
    )
    languages = np.array([items.languages[own[0]] for own in pairs])
    found = {}
    for split in items.splits:
        if items.types_within(split) is not None and (split == ALL or split in items.languages):
            mask = np.ones(len(pairs), bool) if split == ALL else languages == split
            known = np.isfinite(values).all(axis=0) & mask
            shares = np.mean([draws.mean(own, mask) for own in values], axis=0)
            found[split] = estimate(shares), int(known.sum()), draws.clusters(mask)
    return found


def _pairs(items: Items) -> list[list[int]]:
    """The items of each minimal pair; a pair is named within its language, and has two members or more."""
    members: dict[tuple[str, str], list[int]] = {}
    for place, (language, pair) in enumerate(zip(items.languages, items.pairs, strict=True)):
        if pair is not None:
            members.setdefault((language, pair), []).append(place)
    return [own for own in members.values() if len(own) > 1]


def _linked(items: Items, pairs: Sequence[Sequence[int]]) -> list[str]:
    """Of each pair, the name of the set of translation groups that it is linked to by any pair."""
    leader = {group: group for group in items.item_groups}

    def root(group: str) -> str:
        while leader[group] != group:
            group = leader[group]
        return group

    for own in pairs:
        for place in own[1:]:
            leader[root(items.item_groups[place])] = root(items.item_groups[own[0]])
    return [root(items.item_groups[own[0]]) for own in pairs]


def _share(values: np.ndarray, wanted: float) -> np.ndarray:
    return np.where(np.isfinite(values), values == wanted, np.nan)
