"""The residual stream at chosen tokens of many sequences, after chosen blocks, in one pass over them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import local

import numpy as np
import torch
from torch import Tensor, nn

from strataprobe.lm.batches import Batches
from strataprobe.lm.loaded import LoadedLM, attached, block_input, first_tensor
from strataprobe.lm.rows import Row, batch_rows, plan_rows

EMBED = -1
"""The layer that stands for what enters the first block."""


@dataclass(frozen=True)
class Selected:
    """States of one batch of sequences.

    Attributes:
        numbers: which sequences, in the order of `states`.
        states: for each of them (layers, places, hidden size), in the model's dtype, on its device.
    """

    numbers: list[int]
    states: list[Tensor]


def states_at(
    lm: LoadedLM,
    tokens: Sequence[Sequence[int]],
    places: Sequence[Sequence[int]],
    *,
    ids: Sequence[str],
    layers: Sequence[int] | None = None,
    batch_tokens: int,
    threads: int = 1,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Selected]:
    """States at the chosen tokens of every sequence, batch by batch.

    Two neighbours that begin alike share a row, so put a prompt's continuations beside each other.

    Args:
        tokens: n sequences.
        places: for each, which of its tokens.
        ids: n names, for errors.
        layers: blocks (0..L-1), or `EMBED`; all blocks by default. Before the final norm, as everywhere.
        batch_tokens: padded tokens in a batch.
        threads: batches at a time on a CPU.
        progress: called with the number of sequences just done.

    Raises:
        ModelError: a sequence that does not fit into memory by itself.
    """
    wanted = list(range(lm.n_layers)) if layers is None else list(layers)
    batches = Batches(lm, tokens, ids, batch_tokens, threads)
    rows = plan_rows(tokens, range(len(tokens)), lm.sharing_limit)
    collecting = _Collecting()

    def forward(chosen: list[Row]) -> Selected:
        return _forward(lm, tokens, places, wanted, collecting, chosen)

    with attached(_hooks(lm, wanted, collecting)):
        for _, found in batches.run(rows, forward):
            yield found
            if progress is not None:
                progress(len(found.numbers))


@dataclass
class _Collector:
    """Takes the chosen tokens out of each layer's states as they come, and keeps nothing else."""

    row: Tensor
    column: Tensor
    states: dict[int, Tensor] = field(default_factory=dict)

    def take(self, layer: int, hidden: Tensor) -> None:
        self.states[layer] = hidden[self.row.to(hidden.device), self.column.to(hidden.device)]


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
    row, column, counts, numbers = [], [], [], []
    for index, (held, own) in enumerate(zip(chosen, columns, strict=True)):
        for member, at in zip(held.members, own, strict=True):
            picked = at[np.asarray(places[member], dtype=np.int64)]
            row += [index] * len(picked)
            column += picked.tolist()
            counts.append(len(picked))
            numbers.append(member)
    collecting.collector = collector = _Collector(torch.tensor(row), torch.tensor(column))
    with torch.inference_mode():
        lm.run_decoder(batch)
        together = torch.stack([collector.states[layer].to(lm.device) for layer in layers])
    collecting.collector = None
    return Selected(numbers, list(together.split(counts, dim=1)))
