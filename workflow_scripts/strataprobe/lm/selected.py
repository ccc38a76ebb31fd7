"""The residual stream at chosen tokens of many sequences, after chosen blocks, in one pass over them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import local
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from strataprobe.lm.batches import Batches
from strataprobe.lm.loaded import LoadedLM, attached, block_input, first_tensor
from strataprobe.lm.rows import Row, batch_rows
from strataprobe.lm.trees import LONGEST, plan_trees

T = TypeVar("T")


class _ReachedError(Exception):
    """The last of the layers that are wanted has been run: what lies above it need not be."""


EMBED = -1
"""The layer that stands for what enters the first block."""


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
    collecting = _Collecting()

    def forward(chosen: list[Row]) -> T:
        with torch.inference_mode():
            return then(_forward(lm, tokens, places, wanted, collecting, chosen))

    with attached(_hooks(lm, wanted, collecting)):
        for chosen, found in batches.run(rows, forward):
            yield found
            if progress is not None:
                progress(sum(len(row.members) for row in chosen))


@dataclass
class _Collector:
    """Takes the chosen tokens out of each layer's states as they come, and keeps nothing else."""

    row: Tensor
    column: Tensor
    last: int | None
    states: dict[int, Tensor] = field(default_factory=dict)

    def take(self, layer: int, hidden: Tensor) -> None:
        self.states[layer] = hidden[self.row.to(hidden.device), self.column.to(hidden.device)]
        if layer == self.last:
            raise _ReachedError


class _Collecting(local):
    """The collector of the batch that a thread is running."""

    collector: _Collector | None = None


def _hooks(lm: LoadedLM, layers: Sequence[int], collecting: _Collecting) -> list:
    def before(_module: nn.Module, args: tuple, kwargs: dict) -> None:
        collecting.collector.take(EMBED, block_input(args, kwargs))

    handles = []
    for layer in layers:
        if layer == EMBED:
            handles.append(lm.blocks[0].register_forward_pre_hook(before, with_kwargs=True))
            continue

        def after(_module: nn.Module, _args: tuple, output: object, layer: int = layer) -> None:
            collecting.collector.take(layer, first_tensor(output))

        handles.append(lm.blocks[layer].register_forward_hook(after))
    return handles


def _forward(
    lm: LoadedLM,
    tokens: Sequence[Sequence[int]],
    places: Sequence[Sequence[int]],
    layers: Sequence[int],
    collecting: _Collecting,
    chosen: list[Row],
) -> Selected:
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
    highest = max(layers)
    last = highest if highest < lm.n_layers - 1 else None
    collecting.collector = collector = _Collector(row, column, last)
    try:
        lm.run_decoder(batch)
    except _ReachedError:
        pass
    finally:
        collecting.collector = None  # else it would keep the states of a batch that memory ran out on
    together = torch.stack([collector.states[layer].to(lm.device) for layer in layers])
    return Selected(numbers, together, np.split(inverse, ends))
