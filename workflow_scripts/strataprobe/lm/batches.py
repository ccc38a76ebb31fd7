"""Rows on their way through a model: in batches by a budget of tokens, smaller ones where memory runs out."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch

from strataprobe.errors import ModelError
from strataprobe.lm.loaded import LoadedLM
from strataprobe.lm.rows import Row

T = TypeVar("T")


@dataclass
class Batches:
    """Runs rows, longest first; `budget` (padded tokens a batch) shrinks when memory runs out.

    Attributes:
        tokens, ids: of every sequence; rows name them by number.
        workers: batches run at a time, on a CPU each by one thread, so that their number changes no bit.
    """

    lm: LoadedLM
    tokens: Sequence[Sequence[int]]
    ids: Sequence[str]
    budget: int
    workers: int

    def __post_init__(self) -> None:
        self.workers = self.workers if self.lm.device == "cpu" else 1

    def run(self, rows: list[Row], forward: Callable[[list[Row]], T]) -> Iterator[tuple[list[Row], T]]:
        """Each batch with what `forward` made of it.

        Raises:
            ModelError: a sequence does not fit into memory by itself.
        """
        order = longest_first(rows)
        threads = ThreadPoolExecutor(self.workers, initializer=torch.set_num_threads, initargs=(1,))
        with threads:
            while order:
                batches, order = self._next(order)
                tried = threads.map(lambda chosen: _try(forward, chosen), batches)
                for chosen, result in zip(batches, tried, strict=True):
                    if result is None:
                        order = longest_first([*self._shrink(chosen), *order])
                    else:
                        yield chosen, result

    def _next(self, order: list[Row]) -> tuple[list[list[Row]], list[Row]]:
        """A batch for each worker, and the rows that are left."""
        batches: list[list[Row]] = []
        while order and len(batches) < self.workers:
            size = max(1, self.budget // order[0].length)
            batches.append(order[:size])
            order = order[size:]
        return batches, order

    def _shrink(self, chosen: list[Row]) -> list[Row]:
        """Halve the batch; a row that does not fit by itself is taken apart. Returns what is to be done."""
        if self.lm.device == "cuda":
            torch.cuda.empty_cache()
        if len(chosen) > 1:
            self.budget = len(chosen) // 2 * chosen[0].length
            return chosen
        (row,) = chosen
        if len(row.members) > 1:
            return longest_first(row.alone(self.tokens))
        raise ModelError(
            f"{self.lm.name}: memory ran out on {self.ids[row.members[0]]} alone ({row.length} tokens, "
            f"{self.lm.dtype}, {self.lm.device}); a smaller dtype, a shorter text or more memory would help"
        )


def longest_first(rows: list[Row]) -> list[Row]:
    """The order in which rows are run, so that memory runs out early or never."""
    return sorted(rows, key=lambda row: (-row.length, row.members))


def _try(forward: Callable[[list[Row]], T], chosen: list[Row]) -> T | None:
    """What `forward` makes of a batch, or None if memory ran out."""
    try:
        return forward(chosen)
    except (RuntimeError, MemoryError) as error:
        if not _is_out_of_memory(error):
            raise
    return None  # only here, out of the handler, is the traceback gone that held the batch's tensors


def _is_out_of_memory(error: BaseException) -> bool:
    words = ("out of memory", "can't allocate memory", "not enough memory")
    known = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return known or any(word in str(error).lower() for word in words)
