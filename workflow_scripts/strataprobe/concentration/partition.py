"""A partition of a probe's classes into the two sides of a property, and what can be wrong with one."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strataprobe.errors import StrataprobeError, listing


@dataclass(frozen=True)
class Partition:
    """Which side of a property each class is on.

    Attributes:
        sides: the two sides by name; the share predicted to the second one is the side mass.
        of: class -> its side.
    """

    sides: tuple[str, str]
    of: Mapping[str, str]

    @classmethod
    def checked(
        cls, sides: Sequence[str], of: Mapping[str, str], classes: Sequence[str] | None = None
    ) -> "Partition":
        """A partition that can coarsen these classes (all of `of` by default).

        Raises:
            StrataprobeError: a class is missed, a side is unknown, or the classes are all on one side; one
                message lists all faults.
        """
        if faults := partition_faults(sides, of, classes):
            raise StrataprobeError(listing("partition of the classes", faults))
        first, second = sides
        return cls((first, second), dict(of))

    def numbers(self, classes: Iterable[str]) -> np.ndarray:
        """(classes,) of 0 (on the first side) or 1 (on the second)."""
        return np.array([self.sides.index(self.of[name]) for name in classes], np.int64)


def partition_faults(
    sides: Sequence[str], of: Mapping[str, str], classes: Sequence[str] | None = None, *, noun: str = "class"
) -> list[str]:
    """What keeps a partition from coarsening these classes (all of `of` by default), each called `noun`."""
    faults = []
    if len(set(sides)) != 2 or len(sides) != 2:
        faults.append(f"the sides are {quoted(sides)}; a property has two, with different names")
    wanted = list(of if classes is None else classes)
    spare = [name for name in of if name not in wanted]
    for name in wanted:
        if name not in of:
            faults.append(f"{noun} '{name}' is on no side{_instead(name, spare)}")
        elif of[name] not in sides:
            faults.append(f"{noun} '{name}' is on the side '{of[name]}'; the sides are {quoted(sides)}")
    used = {of[name] for name in wanted if name in of and of[name] in sides}
    for side in sides:
        if len(set(sides)) == 2 and side not in used:
            faults.append(f"no {noun} is on the side '{side}' (coarse accuracy needs some on both)")
    return faults


def quoted(names: Iterable[str]) -> str:
    """'a', 'b' and so on; "(none)" where there is none."""
    return ", ".join(f"'{name}'" for name in names) or "(none)"


def nearest(name: str, known: Iterable[str]) -> str:
    """What a name may have been meant to be: the nearest known one, or all of them where none is near."""
    names = list(known)
    near = difflib.get_close_matches(name.strip().lower(), names, n=1)
    return f"did you mean '{near[0]}'?" if near else f"known are {quoted(names)}"


def _instead(name: str, spare: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, spare, n=1)
    return f" (there is '{near[0]}': is it meant?)" if near else ""
