"""What is held out together: an item, its minimal pair, its translations, all items of a matrix verb.

Source: levels paper, section 3.2 and appendix H.2; DEFINITIONS, folds and verb-out.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from strataprobe.datasets.control import ControlItem
from strataprobe.errors import DatasetError, listing, numbered

TYPES = ("subject_control", "object_control")
_VERB_STRIDE = 13  # of the seed between folds of verbs (the authors' code)


@dataclass(frozen=True)
class Folds:
    """A partition of the items: each is held out once.

    Attributes:
        held: (items,) the fold that holds an item out.
        names: of each fold, for people.
        stride: fold k starts from the initial weights of seed + stride x k.
    """

    name: str
    held: np.ndarray
    names: tuple[str, ...]
    stride: int = 1

    @property
    def used(self) -> np.ndarray:
        """(folds, items) booleans: the items a fold's probe is trained on."""
        return self.held[None, :] != np.arange(len(self.names))[:, None]

    def seeds(self, seed: int) -> list[int]:
        """The seed of each fold's initial weights."""
        return [seed + self.stride * fold for fold in range(len(self.names))]

    def one_sided(self, labels: np.ndarray) -> list[str]:
        """Folds whose training items all have one label: what such a probe says follows from that alone."""
        positive = labels > 0
        return [
            name
            for name, used in zip(self.names, self.used, strict=True)
            if positive[used].all() or not positive[used].any()
        ]


def all_folds(items: Sequence[ControlItem]) -> tuple[dict[str, Folds], dict[str, str]]:
    """Every scheme these items allow, by name, and why the others are refused.

    Raises:
        DatasetError: a control type with fewer than two items: held out, there is none to learn from.
    """
    _refuse_lone_types(items)
    allowed, refused = {}, {}
    for name, make in SCHEMES.items():
        try:
            allowed[name] = make(items)
        except DatasetError as error:
            refused[name] = str(error)
    return allowed, refused


def _refuse_lone_types(items: Sequence[ControlItem]) -> None:
    counts = {
        kind: sum(item.control_type == kind for item in items)
        for kind in ("subject_control", "object_control")
    }
    faults = [
        f"{kind} has {numbered(count, 'item')} (2 or more are needed, so that one can be held out)"
        for kind, count in counts.items()
        if count < 2
    ]
    if faults:
        raise DatasetError(listing("recoverability", faults))


def item_out(items: Sequence[ControlItem]) -> Folds:
    """Leave one item out, as published: its twin of the other control type stays in training."""
    return Folds("item_out", np.arange(len(items)), tuple(item.id for item in items))


def pair_out(items: Sequence[ControlItem]) -> Folds:
    """Leave a minimal pair out, both members together.

    Raises:
        DatasetError: items without a pair, or one pair only.
    """
    bare = [item.id for item in items if item.pair is None]
    if bare:
        raise DatasetError(
            f"leave-pair-out: {len(bare)} of {numbered(len(items), 'item')} have no pair, the first is "
            f"'{bare[0]}' (give every item a 'pair')"
        )
    return _partition("pair_out", [(item.language, item.pair) for item in items], ":".join)


def group_out(items: Sequence[ControlItem]) -> Folds:
    """Leave an item out together with all its translations.

    Raises:
        DatasetError: one group only.
    """
    return _partition("group_out", [item.item_group for item in items], str)


def verb_out(items: Sequence[ControlItem]) -> Folds:
    """Leave all items of a matrix verb out, whatever their language; folds are sorted by verb.

    Raises:
        DatasetError: one verb only.
    """
    return _partition("verb_out", [item.verb for item in items], str, stride=_VERB_STRIDE, ordered=True)


def _partition(
    name: str,
    keys: Sequence[Hashable],
    named: Callable[..., str],
    *,
    stride: int = 1,
    ordered: bool = False,
) -> Folds:
    distinct = sorted(set(keys)) if ordered else list(dict.fromkeys(keys))  # type: ignore[type-var]
    if len(distinct) < 2:
        raise DatasetError(f"{name}: '{named(distinct[0])}' is the only fold; no item is left to train on")
    place = {key: fold for fold, key in enumerate(distinct)}
    held = np.array([place[key] for key in keys])
    return Folds(name, held, tuple(map(named, distinct)), stride)


def balanced(items: Sequence[ControlItem]) -> Folds:
    """Leave verbs of both control types out together, and their pairs whole: training stays balanced.

    Items that share a verb or a minimal pair, directly or by way of others, are held out together, so no twin
    and no verb of theirs is left in training. Such sets that are of one type alone (where items name no pair)
    are dealt to folds within their language, from the largest to the smallest: as many folds as the type with
    fewer sets has, and what the other type has over goes where it outweighs its opponents least.

    Raises:
        DatasetError: a language with verbs of one type alone, or one fold only; lists all.
    """
    sets = _linked(items)
    kinds = [{items[place].control_type for place in own} for own in sets]
    joined = [own for own, of_set in zip(sets, kinds, strict=True) if len(of_set) == 2]
    faults = []
    for language in dict.fromkeys(item.language for item in items):
        sides = [
            sorted(
                (
                    own
                    for own, of_set in zip(sets, kinds, strict=True)
                    if of_set == {kind} and items[own[0]].language == language
                ),
                key=lambda own: (-len(own), items[own[0]].verb),
            )
            for kind in TYPES
        ]
        if all(sides):
            joined += _dealt(*sides)
        elif any(sides):
            faults.append(f"{language}: no {TYPES[1 if sides[0] else 0]} verb to hold out beside the others")
    if len(joined) < 2 and not faults:
        faults.append("all items hang together by verbs and pairs; none is left to train on")
    if faults:
        raise DatasetError(listing("folds balanced in type", faults))
    held = np.empty(len(items), int)
    for fold, own in enumerate(joined):
        held[own] = fold
    names = [" + ".join(sorted({items[place].verb for place in own})) for own in joined]
    return Folds("balanced", held, tuple(names), _VERB_STRIDE)


def _linked(items: Sequence[ControlItem]) -> list[list[int]]:
    """Sets of items that share a verb or a minimal pair, directly or by way of others."""
    member = np.arange(len(items))
    keys = [("verb", item.verb) for item in items]
    keys += [("pair", item.language, item.pair or item.id) for item in items]  # type: ignore[misc]
    first: dict[Hashable, int] = {}
    for place, key in enumerate(keys):
        own, other = member[place % len(items)], member[first.setdefault(key, place % len(items))]
        member[member == max(own, other)] = min(own, other)
    return [np.flatnonzero(member == one).tolist() for one in np.unique(member)]


def _dealt(one: Sequence[list[int]], other: Sequence[list[int]]) -> list[list[int]]:
    """Unions of sets with at least one of either type; both are given from the largest to the smallest."""
    fewer, more = sorted((one, other), key=len)
    joined = [[*a, *b] for a, b in zip(fewer, more, strict=False)]
    excess = [len(b) - len(a) for a, b in zip(fewer, more, strict=False)]
    for own in more[len(fewer) :]:
        least = int(np.argmin(excess))
        joined[least] += own
        excess[least] += len(own)
    return joined


SCHEMES: dict[str, Callable[[Sequence[ControlItem]], Folds]] = {
    "item_out": item_out,
    "pair_out": pair_out,
    "group_out": group_out,
    "verb_out": verb_out,
    "balanced": balanced,
}
