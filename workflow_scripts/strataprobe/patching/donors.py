"""Which items give their states to which: drawn by their ids and a seed, whatever else a file holds."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from strataprobe.datasets.control import ControlItem

CORRECT, WRONG, RANDOM, NORM = "correct", "wrong", "random", "norm"
KINDS = (CORRECT, WRONG, RANDOM, NORM)
"""Kinds of donors: of the target's language and type, right or wrong by themselves; any of its language; and
instead of one, a random direction as long as the way from target to donor."""

Pair = tuple[int, int]
"""Target and donor, by their places in the dataset."""


def choose(
    items: Sequence[ControlItem], right: np.ndarray, settings: Mapping[str, Any]
) -> dict[str, list[Pair]]:
    """The donors of every target, by kind; an item never gives to itself.

    Args:
        items: the control items.
        right: (items,) 1 where the item's own answer is right in this task, 0 where wrong, NaN where it has
            none: then it is neither target nor donor.
        settings: `donors` of each of the first two kinds a target has (None: all), `random_donors` of the
            third, `norm_matched` of the fourth (first of its correct and wrong donors in turn), `seed`.

    Returns:
        Kind -> pairs, by target.

    Source: levels paper, appendix G.3; DEFINITIONS, patching.
    """
    found: dict[str, list[Pair]] = {kind: [] for kind in KINDS}
    answered = [place for place, value in enumerate(right) if np.isfinite(value)]
    for target in answered:
        others = [d for d in answered if d != target and items[d].language == items[target].language]
        alike = [d for d in others if items[d].control_type == items[target].control_type]
        by_kind = {CORRECT: [d for d in alike if right[d] == 1], WRONG: [d for d in alike if right[d] == 0]}
        for kind, candidates in by_kind.items():
            by_kind[kind] = _first(items, target, candidates, settings["donors"], settings["seed"])
        of_norm = _in_turn(by_kind[CORRECT], by_kind[WRONG])[: settings["norm_matched"]]
        drawn = _first(items, target, others, settings["random_donors"], settings["seed"], RANDOM)
        for kind, donors in {**by_kind, RANDOM: drawn, NORM: of_norm}.items():
            found[kind] += [(target, donor) for donor in donors]
    return found


def direction(seed: int, target: str, donor: str, role: str, size: int) -> np.ndarray:
    """(size,) float64 unit vector of any direction, drawn for this pair of ids and this role alone."""
    rng = np.random.Generator(np.random.Philox(key=_key(seed, NORM, target, donor, role)))
    drawn = rng.standard_normal(size)
    return drawn / np.linalg.norm(drawn)


def _first(
    items: Sequence[ControlItem],
    target: int,
    donors: Sequence[int],
    count: int | None,
    seed: int,
    purpose: str = "",
) -> list[int]:
    """The first of the donors in an order drawn for this target; without a count all, as they stand."""
    if count is None:
        return list(donors)
    own = items[target].id
    return sorted(donors, key=lambda donor: _key(seed, purpose, own, items[donor].id))[:count]


def _in_turn(one: Sequence[int], other: Sequence[int]) -> list[int]:
    longest = max(len(one), len(other))
    return [own[place] for place in range(longest) for own in (one, other) if place < len(own)]


def _key(seed: int, *names: str) -> int:
    """A number drawn from names: 128 bits."""
    text = "\0".join([str(seed), *names])
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16], "little")
