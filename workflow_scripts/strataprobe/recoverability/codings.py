"""What a probe of a control item is asked, and from which states.

Source: levels paper, section 3.2 and appendix C; DEFINITIONS, probe coding.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strataprobe.datasets.control import ControlItem

CODINGS = ("paper", "decorrelated")
MODES = ("ab", "av", "bv", "abv", "v")
"""Feature modes: the positions whose states are joined (a, b: the candidates, v: the embedded predicate)."""


@dataclass(frozen=True)
class Coding:
    """Which candidate plays which role, and so what is to be told.

    Attributes:
        swapped: (items,) booleans: candidate b plays the role of a, and a that of b.
        labels: (items,) of -1 or +1: +1 where the candidate in role a is the controller.
    """

    name: str
    swapped: np.ndarray
    labels: np.ndarray


def coded(items: Sequence[ControlItem], name: str) -> Coding:
    """The items in a coding.

    `paper`: roles as the items name them. Candidate a is the matrix subject there, so the label is the
    control type. `decorrelated`: roles, and with them the label, exchanged in every second minimal pair of a
    language, in both its members alike: the label says nothing of the type, nor of the order of candidates.
    Items that name no pair are exchanged one by one, every second of a language and control type.
    """
    if name not in CODINGS:
        raise ValueError(f"coding {name!r}: the codings are {', '.join(CODINGS)}")
    swapped = np.zeros(len(items), bool) if name == "paper" else _every_second(items)
    gold = np.array([item.gold == "a" for item in items])
    return Coding(name, swapped, np.where(gold != swapped, 1, -1))


def _every_second(items: Sequence[ControlItem]) -> np.ndarray:
    """(items,) whether an item's unit is an odd one, counted through the languages one after another."""
    streams: dict[tuple[str, ...], dict[str, None]] = {}
    places = []
    for item in items:
        paired = item.pair is not None
        stream = (item.language,) if paired else (item.language, item.control_type)
        unit = item.pair if paired else item.id
        streams.setdefault(stream, {})[unit] = None
        places.append((stream, unit))
    units = [(stream, unit) for stream, members in streams.items() for unit in members]
    odd = {place: number % 2 == 1 for number, place in enumerate(units)}
    return np.array([odd[place] for place in places])


def features(states: Mapping[str, np.ndarray], mode: str, swapped: np.ndarray) -> np.ndarray:
    """(..., items, positions x hidden) the states a mode joins, in the order of its letters.

    Args:
        states: position -> (..., items, hidden).
        mode: of `MODES`.
        swapped: (items,) where the roles of a and b are exchanged.
    """
    other = {"a": "b", "b": "a"}
    return np.concatenate(
        [
            np.where(swapped[:, None], states[other[position]], states[position])
            if position in other
            else states[position]
            for position in mode
        ],
        axis=-1,
    )
