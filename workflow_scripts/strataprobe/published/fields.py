"""Reading JSON that others wrote: every field is checked, and every fault says its file and field."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_NAMES = {dict: "an object", list: "a list", str: "a text"}


@dataclass(frozen=True)
class Fields:
    """One JSON object and its place in a file. Faults are collected; a wrong field reads as None or empty."""

    obj: dict[str, Any]
    file: str
    place: str = ""
    faults: list[str] = field(default_factory=list)

    def fault(self, name: str, said: str) -> None:
        where = f"{self.place}.{name}" if self.place and name else self.place or name
        self.faults.append(f"{self.file}: {f'field {where!r}' if where else 'the file'} {said}")

    def number(
        self, name: str, low: float = -math.inf, high: float = math.inf, *, required: bool = True
    ) -> float | None:
        """A finite number in [low, high]; None where it is null or missing, or wrong.

        Args:
            required: whether null or missing is a fault.
        """
        value = self.obj.get(name)
        if value is None:
            if required:
                self.fault(name, "is null" if name in self.obj else "is missing")
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.fault(name, f"is {value!r}, not a finite number")
            return None
        if not low <= value <= high:
            self.fault(name, f"is {value!r}, not in [{low:g}, {high:g}]")
            return None
        return float(value)

    def whole(self, name: str, *, required: bool = True) -> int | None:
        """A whole number of at least 0 (0 is one like any other: step 0, layer 0)."""
        value = self.number(name, 0, required=required)
        if value is not None and value != int(value):
            self.fault(name, f"is {value!r}, not a whole number")
            return None
        return None if value is None else int(value)

    def of(self, name: str, kind: type, *, required: bool = True) -> Any:
        """A field that is an object, a list or a text; an empty one where it is not."""
        value = self.obj.get(name)
        if not isinstance(value, kind):
            if required or value is not None:
                said = "is missing" if name not in self.obj else f"is {value!r:.40}, not {_NAMES[kind]}"
                self.fault(name, said)
            return kind()
        return value

    def inner(self, name: str, *, required: bool = True) -> "Fields":
        """The object in a field; an empty one where there is none."""
        return self._at(self.of(name, dict, required=required), name)

    def each(self, name: str, *, required: bool = True) -> Iterator["Fields"]:
        """The objects of a list; an entry that is no object is a fault and left out."""
        values = self.of(name, list, required=required)
        if required and not values and isinstance(self.obj.get(name), list):
            self.fault(name, "is empty")
        for index, value in enumerate(values):
            if isinstance(value, dict):
                yield self._at(value, f"{name}[{index}]")
            else:
                self.fault(f"{name}[{index}]", "is not an object")

    def _at(self, obj: dict[str, Any], name: str) -> "Fields":
        return Fields(obj, self.file, f"{self.place}.{name}" if self.place else name, self.faults)
