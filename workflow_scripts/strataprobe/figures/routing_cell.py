"""One cell of the routing tables for its matrix: words, classes, and where each word's stimuli go."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from strataprobe.concentration.scopes import scopes_of
from strataprobe.errors import StrataprobeError
from strataprobe.figures.frames import where
from strataprobe.figures.routing_frames import of_models
from strataprobe.published.lucky_results import Cells, at_scope, cell_name

Asked = tuple[str | None, str | None, str | None, int | None]  # direction, both anchors, layer; None: any


@dataclass(frozen=True)
class Word:
    """A row or a column: a word, the side it is meant to have, and whether it is one of the readout's."""

    name: str
    side: str
    canonical: bool


@dataclass(frozen=True)
class OneCell:
    """One cell's counts and measures over its scopes.

    Attributes:
        passes: whether it passes at the first scope.
        chosen: whether it is the one of the highest A_pi there, since not all of it was asked for.
        path: what becomes of it over the scopes.
        counts: its rows of routing_counts, `canonical` as bool.
        rows: scope -> its row of routing_cells.
        sides: the two values of the property, in the order of the table.
    """

    name: str
    passes: bool
    chosen: bool
    path: str
    first: str
    model: str
    dataset: str
    counts: pd.DataFrame
    rows: Mapping[str, Mapping[str, Any]]
    scopes: tuple[str, ...]
    sides: tuple[str, ...]

    @classmethod
    def of(
        cls, counts: pd.DataFrame, cells: pd.DataFrame, models: Sequence[Sequence[str]], asked: Asked
    ) -> "OneCell":
        """
        Raises:
            StrataprobeError: no rows, several models, datasets or revisions, no such cell, or one that
                routing_counts has no row of.
        """
        found = Cells.last(of_models(cells, models).to_dict("records"))
        if len(found) > 1:
            names = ", ".join(one.model for one in found)
            raise StrataprobeError(f"a matrix shows one model; the table has {names}; choose one")
        (own,) = found
        fits = {
            cell: by_scope
            for cell, by_scope in own.rows.items()
            if all(want is None or want == has for want, has in zip(asked, cell, strict=True))
        }
        best = Cells(own.model, own.revision, own.dataset, own.scopes, fits).best()
        if best is None:
            said = ", ".join("any" if want is None else str(want) for want in asked)
            raise StrataprobeError(
                f"no cell of {own.model} with a value{at_scope(own.first, own.scopes)} is of {said} "
                "(direction, anchor trained on, anchor tested on, layer); one that there is: "
                f"{cell_name(next(iter(own.rows)))}"
            )
        cell, passes = best
        names = ("direction", "train_anchor", "test_anchor", "layer")
        same = {"model": own.model, "revision": own.revision, "dataset": own.dataset}
        rows = where(counts, **same, **dict(zip(names[:3], cell[:3], strict=True)))
        layers = rows["layer"].astype(float)
        rows = rows[layers.isna() if cell[3] is None else layers == cell[3]]
        if rows.empty:
            raise StrataprobeError(
                f"routing_counts has no row of {cell_name(cell)}; there is nothing to draw"
            )
        rows = rows.assign(canonical=rows["canonical"].astype(str).str.lower().isin(("yes", "true")))
        scopes = scopes_of(list(fits[cell].values()))
        return cls(
            cell_name(cell), passes, None in asked, own.path(cell), own.first, own.model, own.dataset, rows,
            fits[cell], scopes, _sides(rows),
        )  # fmt: skip

    def items(self, scopes: Sequence[str], canonical: bool) -> list[Word]:
        """Words of any of these scopes: invented ones, then canonical ones if wanted; each by side."""
        rows = self.counts[self.counts["scope"].astype(str).isin(scopes)]
        names = rows[["item", "item_property", "canonical"]].drop_duplicates()
        every = [Word(str(name), str(side), bool(own)) for name, side, own in names.itertuples(index=False)]
        every = [one for one in every if canonical or not one.canonical]
        return sorted(every, key=lambda one: (one.canonical, self.sides.index(one.side)))

    def classes(self, scope: str) -> list[Word]:
        """The classes of a scope by side: its canonical words, and whatever else is predicted."""
        rows = where(self.counts, scope=scope)
        own = rows[rows["canonical"]]
        known = dict(zip(own["item"].astype(str), own["item_property"].astype(str), strict=True))
        predicted = zip(rows["predicted"].astype(str), rows["predicted_property"].astype(str), strict=True)
        for name, side in predicted:
            known.setdefault(name, side)
        every = [Word(name, side, True) for name, side in known.items()]
        return sorted(every, key=lambda one: self.sides.index(one.side))

    def shares(self, scope: str, items: Sequence[Word], classes: Sequence[Word]) -> np.ndarray:
        """(items, classes) shares of an item's stimuli; NaN where the scope has not the item.

        A class of the readout that no word goes to has no row in the table: its shares are 0.
        """
        rows = where(self.counts, scope=scope)
        table = rows.pivot_table(
            index=["item", "canonical"], columns="predicted", values="count", aggfunc="sum", fill_value=0
        )
        wanted = pd.MultiIndex.from_tuples([(one.name, one.canonical) for one in items])
        table = table.reindex(columns=[one.name for one in classes], fill_value=0)
        counts = table.reindex(index=wanted).to_numpy(dtype=float)
        return counts / counts.sum(axis=1, keepdims=True)


def _sides(counts: pd.DataFrame) -> tuple[str, ...]:
    """Both sides, in the order in which the invented words name them."""
    own = counts[~counts["canonical"]]
    named = [*own["item_property"].astype(str), *counts["item_property"].astype(str)]
    named += list(counts["predicted_property"].astype(str))
    return tuple(dict.fromkeys(named))
