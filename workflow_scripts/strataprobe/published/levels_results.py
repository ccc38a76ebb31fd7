"""Our results as the levels paper's tables need them: one model's last checkpoint, its numbers by name."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]

TYPES = {"object_control": "object", "subject_control": "subject"}
BEHAVIOR, READOUT, PROBES = "behavior", "readout", "recoverability"


@dataclass(frozen=True)
class Results:
    """The rows of one model's last checkpoint on one dataset, found by what they are.

    Attributes:
        levels: (level, measure, split) -> row of the table `levels`.
        layers: (measure, mode, split) -> rows of probes in the table `levels_layers`, by rising hidden state.
    """

    model: str
    revision: str
    dataset: str
    levels: Mapping[tuple[str, str, str], Mapping[str, Any]]
    layers: Mapping[tuple[str, str, str], Sequence[Mapping[str, Any]]]

    @classmethod
    def last(
        cls, levels: Iterable[Mapping[str, Any]], layers: Iterable[Mapping[str, Any]]
    ) -> list["Results"]:
        """Of each (model, dataset) there is, at its last checkpoint, or the one listed last without steps."""
        revisions: dict[tuple[str, str], tuple[int, str]] = {}
        own_levels: dict[tuple[str, str, str], dict[tuple[str, str, str], Mapping[str, Any]]] = {}
        for row in levels:
            own, step = (row["model"], row["dataset"]), row["step"] or 0
            if own not in revisions or step >= revisions[own][0]:
                revisions[own] = step, row["revision"]
            own_levels.setdefault(_checkpoint(row), {})[row["level"], row["measure"], row["split"]] = row
        own_layers: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
        for row in layers:
            if row["level"] == PROBES:
                own_layers.setdefault(_checkpoint(row), []).append(row)
        at = [(model, revision, dataset) for (model, dataset), (_, revision) in revisions.items()]
        return [cls(*one, own_levels[one], _by_layer(own_layers.get(one, ()))) for one in at]

    @property
    def languages(self) -> list[str]:
        splits = dict.fromkeys(split for _, _, split in self.levels)
        return [split for split in splits if split != "all" and ":" not in split and split not in TYPES]

    @property
    def seeds(self) -> list[str]:
        """Names of the probes' seeds."""
        start = "at_mean:paper:seed"
        names = [name for _, name, split in self.levels if split == "all"]
        return [name.removeprefix(start) for name in names if name.startswith(start)]

    def value(self, level: str, measure: str, split: str = "all") -> float | None:
        row = self.levels.get((level, measure, split))
        return None if row is None else row["value"]

    def row(self, quantity: str, group: str, value: float | None, **given: Any) -> Row:
        """A row of a paper's table, without what stands beside it."""
        own = {"model": self.model, "revision": self.revision, "dataset": self.dataset}
        text = dict.fromkeys(("definition", "mode", "note"), "")
        made = own | text | dict.fromkeys(("hidden_state", "spread", "n")) | given
        made |= {"quantity": quantity, "group": group, "value": value}
        return made | {"layer": block_of(made["hidden_state"])}

    def told(
        self, quantity: str, group: str, level: str, measure: str, split: str = "all", **given: Any
    ) -> list[Row]:
        """The row of a measure of the table `levels`; none where it was not taken."""
        found = self.levels.get((level, measure, split))
        if found is None:
            return []
        return [self.row(quantity, group, found["value"], n=found["n"], **given)]

    def place(self, level: str, measure: str, split: str = "all") -> Row:
        """Hidden state and mode (or task) of a maximum."""
        found = self.levels.get((level, f"layer:{measure}", split))
        if found is None or found["value"] is None:
            return {}
        return {"hidden_state": int(found["value"]), "mode": found["note"]}

    def peak(self, measure: str, mode: str, split: str) -> Mapping[str, Any] | None:
        """The first layer with the largest value, as a row of the table `levels_layers`."""
        rows = [row for row in self.layers.get((measure, mode, split), ()) if row["value"] is not None]
        return max(rows, key=lambda row: (row["value"], -row["hidden_state"])) if rows else None

    def at(self, measure: str, mode: str, split: str, hidden_state: int) -> Mapping[str, Any] | None:
        rows = self.layers.get((measure, mode, split), ())
        return next((row for row in rows if row["hidden_state"] == hidden_state), None)


def block_of(hidden_state: int | None) -> int | None:
    """Our block of the paper's layer k: k - 1; None for the embedding, k = 0."""
    return hidden_state - 1 if hidden_state else None


def _checkpoint(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["model"], row["revision"], row["dataset"]


def _by_layer(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str], list[Mapping[str, Any]]]:
    found: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["hidden_state"]):
        found.setdefault((row["measure"], row["mode"], row["split"]), []).append(row)
    return found
