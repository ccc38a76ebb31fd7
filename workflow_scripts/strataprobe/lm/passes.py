"""One pass of a model over rows: what is kept of each layer's states, batch by batch or block by block."""

from collections.abc import Callable, Iterator, Sequence
from threading import local
from typing import TypeVar

import torch
from torch import Tensor

from strataprobe.lm.batches import Batches
from strataprobe.lm.blockwise import by_block
from strataprobe.lm.loaded import attached
from strataprobe.lm.reading import ReachedError, Reading, watch
from strataprobe.lm.rows import Row

T = TypeVar("T")


def run_layers(
    batches: Batches,
    groups: Sequence[list[Row]],
    layers: Sequence[int],
    begin: Callable[[list[Row]], Reading[T]],
) -> Iterator[tuple[list[Row], T]]:
    """Each batch with what was read from it.

    Where weights are loaded block by block, all groups' batches pass a block before any goes on to the next,
    so that each block is loaded once; else a batch passes the whole model before the next one does.

    Args:
        batches: cuts rows into batches and runs them.
        groups: rows that may share a batch, group by group; results come in the groups' order.
        layers: blocks (0..L-1), or `EMBED`. Blocks above the highest are not run.
        begin: makes a batch's reading, where the batch runs; block by block it does so again at each block.

    Raises:
        ModelError: a sequence that does not fit into memory by itself.
    """
    if batches.lm.blockwise is not None:
        yield from by_block(batches, groups, layers, begin)
        return
    for rows in groups:
        yield from _by_batch(batches, rows, layers, begin)


class _Running(local):
    """The batch that a thread is running: several threads run one model, and its hooks."""

    reading: Reading | None = None
    kept: dict[int, Tensor] | None = None


def _by_batch(
    batches: Batches, rows: list[Row], layers: Sequence[int], begin: Callable[[list[Row]], Reading[T]]
) -> Iterator[tuple[list[Row], T]]:
    lm, running = batches.lm, _Running()
    highest = max(layers)

    def take(layer: int, hidden: Tensor) -> None:
        running.kept[layer] = running.reading.keep(hidden)
        if layer == highest < lm.n_layers - 1:
            raise ReachedError

    def forward(chosen: list[Row]) -> T:
        with torch.inference_mode():
            running.reading, running.kept = begin(chosen), {}
            try:
                lm.run_decoder(running.reading.batch)
            except ReachedError:
                pass
            finally:  # else they would stay, of a batch that memory ran out on
                reading, kept = running.reading, running.kept
                running.reading = running.kept = None
            return reading.finish(torch.stack([kept[layer].to(lm.device) for layer in layers]))

    with attached(watch(lm.blocks, layers, take)):
        yield from batches.run(rows, forward)
