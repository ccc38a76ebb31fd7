"""The residual stream at chosen tokens of many sequences, after chosen blocks, in one pass over them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from strataprobe.lm.batches import Batches
from strataprobe.lm.loaded import LoadedLM
from strataprobe.lm.passes import run_layers
from strataprobe.lm.rows import Row, batch_rows
from strataprobe.lm.trees import LONGEST, plan_trees

T = TypeVar("T")


@dataclass(frozen=True)
class Selected:
    """States of one batch of sequences.

    Attributes:
        numbers: which sequences.
        states: (layers, distinct tokens, hidden size), in the model's dtype, on its device. A token that
            several sequences share is there once.
        places: for each of `numbers`, which of the distinct tokens stand at its chosen places.
    """

    numbers: list[int]
    states: Tensor
    places: list[np.ndarray]

    def each(self) -> Iterator[tuple[int, Tensor]]:
        """Each sequence with its states, (layers, places, hidden size)."""
        for number, places in zip(self.numbers, self.places, strict=True):
            yield number, self.states[:, torch.from_numpy(places).to(self.states.device)]


def states_at(
    lm: LoadedLM,
    tokens: Sequence[Sequence[int]],
    places: Sequence[Sequence[int]],
    *,
    ids: Sequence[str],
    layers: Sequence[int] | None = None,
    batch_tokens: int,
    threads: int = 1,
    then: Callable[[Selected], T] = lambda selected: selected,
    progress: Callable[[int], object] | None = None,
) -> Iterator[T]:
    """States at the chosen tokens of every sequence, batch by batch, or what `then` makes of them.

    Neighbours that begin alike share a row (`lm.trees`), so put what has one beginning side by side. Blocks
    above the highest of `layers` are not run.

    Args:
        tokens: n sequences.
        places: for each, which of its tokens.
        ids: n names, for errors.
        layers: blocks (0..L-1), or `EMBED`; all blocks by default. Before the final norm, as everywhere.
        batch_tokens: padded tokens in a batch.
        threads: batches at a time on a CPU.
        then: runs where the batch ran: in its thread, and again on smaller batches where memory runs out.
        progress: called with the number of sequences just done.

    Raises:
        ModelError: a sequence that does not fit into memory by itself.
    """
    wanted = list(range(lm.n_layers)) if layers is None else list(layers)
    batches = Batches(lm, tokens, ids, batch_tokens, threads)
    rows = plan_trees(tokens, range(len(tokens)), lm.sharing_limit, min(batch_tokens, LONGEST))

    def begin(chosen: list[Row]) -> _Picking[T]:
        return _Picking.of(lm, tokens, places, then, chosen)

    for chosen, found in run_layers(batches, [rows], wanted, begin):
        yield found
        if progress is not None:
            progress(sum(len(row.members) for row in chosen))


@dataclass(frozen=True)
class _Picking(Generic[T]):
    """Takes the chosen tokens out of each layer's states as they come, and keeps nothing else."""

    batch: dict[str, Tensor]
    numbers: list[int]
    row: Tensor
    column: Tensor
    places: list[np.ndarray]
    then: Callable[[Selected], T]

    @classmethod
    def of(
        cls,
        lm: LoadedLM,
        tokens: Sequence[Sequence[int]],
        places: Sequence[Sequence[int]],
        then: Callable[[Selected], T],
        chosen: list[Row],
    ) -> "_Picking[T]":
        batch, columns = batch_rows(lm, tokens, chosen)
        width = batch["input_ids"].shape[1]
        numbers = [member for row in chosen for member in row.members]
        picked = [
            index * width + at[np.asarray(places[member], dtype=np.int64)]
            for index, (row, own) in enumerate(zip(chosen, columns, strict=True))
            for member, at in zip(row.members, own, strict=True)
        ]
        cells, inverse = np.unique(np.concatenate(picked), return_inverse=True)
        ends = np.cumsum([len(own) for own in picked])[:-1]
        row, column = (torch.from_numpy(part) for part in np.divmod(cells, width))
        return cls(batch, numbers, row, column, np.split(inverse, ends), then)

    def keep(self, hidden: Tensor) -> Tensor:
        return hidden[self.row.to(hidden.device), self.column.to(hidden.device)]

    def finish(self, kept: Tensor) -> T:
        return self.then(Selected(self.numbers, kept, self.places))
