"""Our cells as the lucky-defaults paper's tables need them: one model's last checkpoint, cell by cell."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strataprobe.concentration import NOT_PASSED
from strataprobe.concentration.scopes import scopes_of
from strataprobe.published.numbers import Number

Row = dict[str, Any]
Cell = tuple[str, str, str, int | None]  # direction, anchor trained on, anchor tested on, layer

_SIZE = re.compile(r"\d+x\d+")
_NOTATIONS = {"N": "mention", "F": "call"}
_CELL = ("direction", "train_anchor", "test_anchor", "layer")


@dataclass(frozen=True)
class Cells:
    """The cells of one model's last checkpoint on one dataset.

    Attributes:
        scopes: from the fewest classes and words to the most.
        rows: cell -> scope -> row of the table `routing_cells`, cells in the order of the table.
    """

    model: str
    revision: str
    dataset: str
    scopes: tuple[str, ...]
    rows: Mapping[Cell, Mapping[str, Mapping[str, Any]]]

    @classmethod
    def last(cls, rows: Iterable[Mapping[str, Any]]) -> list["Cells"]:
        """Of each (model, dataset) there is, at its last checkpoint, or the one listed last without steps."""
        revisions: dict[tuple[str, str], tuple[float, str]] = {}
        own: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
        for row in rows:
            of, step = (row["model"], row["dataset"]), _step(row["step"])
            if of not in revisions or step >= revisions[of][0]:
                revisions[of] = step, row["revision"]
            own.setdefault((*of, row["revision"]), []).append(row)
        return [
            cls(model, revision, dataset, scopes_of(found), _by_cell(found))
            for (model, dataset), (_, revision) in revisions.items()
            for found in [own[model, dataset, revision]]
        ]

    @property
    def first(self) -> str:
        """The scope at which a cell must pass for its path to be followed."""
        return self.scopes[0]

    @property
    def passing(self) -> list[Cell]:
        """The cells that pass at the first scope."""
        return [cell for cell in self.rows if self.path(cell) != NOT_PASSED]

    def path(self, cell: Cell) -> str:
        """What becomes of a cell over the scopes, as its rows say."""
        return next((str(row["path"]) for row in self.rows[cell].values() if row["path"]), NOT_PASSED)

    def at(self, cell: Cell, scope: str) -> Mapping[str, Any] | None:
        return self.rows.get(cell, {}).get(scope)

    def best(self) -> tuple[Cell, bool] | None:
        """The cell with the highest A_pi at the first scope among those that pass there, else among all.

        Of equal ones the first of the table. None where no cell has a value there.

        Returns:
            The cell, and whether it passes.
        """
        for cells, passes in ((self.passing, True), (list(self.rows), False)):
            valued = [cell for cell in cells if self._coarse(cell) is not None]
            if valued:
                return max(valued, key=self._coarse), passes
        return None

    def matching(self, number: Number) -> Cell | None:
        """Our cell that a published number is of, where ours is the same model and has it.

        Layers are compared as blocks, see `block_of`.
        """
        named = re.fullmatch(r"([NF])>([NF])/(\w+)>(\w+)", number.group)
        if named is None or bare(number.model) != bare(self.model):
            return None
        direction = "->".join(_NOTATIONS[side] for side in named.group(1, 2))
        for cell in self.rows:
            anchors = zip(cell[1:3], named.group(3, 4), strict=True)
            here = cell[0] == direction and cell[3] == block_of(number)
            if here and all(ours.startswith(theirs) for ours, theirs in anchors):
                return cell
        return None

    def _coarse(self, cell: Cell) -> float | None:
        row = self.at(cell, self.first)
        value = None if row is None else row["coarse_accuracy"]
        return None if value is None or value != value else float(value)


def block_of(number: Number) -> int | None:
    """Our block that a published layer is: the paper counts hidden states, of which 0 are the embeddings."""
    return None if number.layer is None else number.layer - 1


def quoted(scope: str) -> str:
    """A scope's name in a sentence: a size such as 5x5 as it is, any other text in quotation marks."""
    return scope if _SIZE.fullmatch(scope) else f"'{scope}'"


def at_scope(scope: str, scopes: Sequence[str]) -> str:
    """Put behind a verb, ` at 5x5`; nothing where there is no other scope."""
    return f" at {quoted(scope)}" if len(scopes) > 1 else ""


def cell_name(cell: Cell, layer: str = "layer ") -> str:
    """`mention -> call, operator-after -> close-paren, layer 10`, with arrows.

    Predictions made elsewhere may lack any of it.
    """
    direction, train, test, block = cell
    parts = [direction.replace("->", " → "), f"{train} → {test}" if train and test else train or test]
    parts += [] if block is None else [f"{layer}{block}"]
    return ", ".join(filter(None, parts)) or "all predictions"


def layer_of(value: Any) -> int | None:
    """A layer as a whole number; None where there is none, however a table says so."""
    return None if value is None or value != value else int(value)


def bare(model: str) -> str:
    """A model's name without what is spelt in several ways: `olmo-2-7b-base` as `olmo2-7b`."""
    lower = re.sub(r"-(deduped|base|hf)$", "", model.lower())
    return re.sub(r"^([a-z]+)-(\d+(?:\.\d+)?)-", r"\1\2-", lower)


def _by_cell(rows: Iterable[Mapping[str, Any]]) -> dict[Cell, dict[str, Mapping[str, Any]]]:
    found: dict[Cell, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        cell = (*(str(row[name]) for name in _CELL[:3]), layer_of(row["layer"]))
        found.setdefault(cell, {})[str(row["scope"])] = row
    return found


def _step(step: Any) -> float:
    """No step, however a table says so, as 0."""
    return 0.0 if step is None or step != step else float(step)
