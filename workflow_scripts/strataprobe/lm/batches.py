"""Rows on their way through a model: in batches by a budget of tokens, smaller ones where memory runs out."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
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
        workers: batches run at a time, on a CPU each by one thread, so that their number changes no bit. One
            alone where the model's weights come and go with it.
    """

    lm: LoadedLM
    tokens: Sequence[Sequence[int]]
    ids: Sequence[str]
    budget: int
    workers: int

    def __post_init__(self) -> None:
        self.at_a_block = self.workers if self.lm.device == "cpu" else 1
        self.workers = 1 if self.lm.offloads else self.at_a_block

    def run(self, rows: list[Row], forward: Callable[[list[Row]], T]) -> Iterator[tuple[list[Row], T]]:
        """Each batch with what `forward` made of it.

        Raises:
            ModelError: a sequence does not fit into memory by itself.
        """
        waiting = deque(self.plan(rows))
        running: deque[tuple[list[Row], Future[T | None]]] = deque()
        threads = ThreadPoolExecutor(self.workers, initializer=torch.set_num_threads, initargs=(1,))
        try:
            while waiting or running:
                # One more than there are workers: none waits while the caller looks at a result.
                while waiting and len(running) <= self.workers:
                    chosen = waiting.popleft()
                    running.append((chosen, threads.submit(_try, forward, chosen)))
                chosen, future = running.popleft()
                result = future.result()
                if result is None:
                    left = [row for batch in waiting for row in batch]
                    waiting = deque(self.plan([*self._shrink(chosen), *left]))
                else:
                    yield chosen, result
        finally:
            threads.shutdown(cancel_futures=True)

    def each(self, planned: list[list[Row]], forward: Callable[[list[Row]], T]) -> Iterator[T | None]:
        """What `forward` makes of each batch while weights stay loaded; None if memory ran out."""
        initial = {"initializer": torch.set_num_threads, "initargs": (1,)}
        with ThreadPoolExecutor(self.at_a_block, **initial) as threads:
            yield from threads.map(lambda chosen: _try(forward, chosen), planned)

    def plan(self, rows: list[Row]) -> list[list[Row]]:
        """All batches, longest first, so that memory runs out early or never."""
        order = sorted(rows, key=lambda row: (-row.length, row.members))
        ends = batch_ends([row.length for row in order], self.budget)
        return [order[start:end] for start, end in pairwise([0, *ends])]

    def smaller(self, chosen: list[Row]) -> list[list[Row]]:
        """A batch that memory ran out on, in smaller ones.

        Raises:
            ModelError: it holds one sequence.
        """
        return self.plan(self._shrink(chosen))

    def _shrink(self, chosen: list[Row]) -> list[Row]:
        """Halve the batch; a row that does not fit by itself is taken apart. Returns what is to be done."""
        if self.lm.device == "cuda":
            torch.cuda.empty_cache()
        if len(chosen) > 1:
            self.budget = len(chosen) // 2 * chosen[0].length
            return chosen
        (row,) = chosen
        if len(row.members) > 1:
            return row.alone(self.tokens)
        raise ModelError(
            f"{self.lm.name}: memory ran out on {self.ids[row.members[0]]} alone ({row.length} tokens, "
            f"{self.lm.dtype}, {self.lm.device}); a smaller dtype, a shorter text or more memory would help"
        )


def batch_ends(lengths: Sequence[int], budget: int) -> list[int]:
    """Where to cut sequences into batches so that as few tokens as can be are computed.

    Args:
        lengths: of n sequences, longest first, in tokens.
        budget: padded tokens a batch, at most; a sequence longer than that is a batch by itself.

    Returns:
        The end of each batch, the last one n. The sum of padded tokens is least, where a batch counts as a
        sixteenth of the budget beside its tokens: small ones keep no device busy.
    """
    longest = np.array(lengths, dtype=np.int64)
    each = max(1, budget // 16)
    cost = np.zeros(len(lengths) + 1, dtype=np.int64)
    begin = np.zeros(len(lengths) + 1, dtype=np.int64)
    first = 0  # the earliest sequence that can share a batch with this one
    for end in range(1, len(lengths) + 1):
        while first < end - 1 and (end - first) * longest[first] > budget:
            first += 1
        starts = np.arange(first, end)
        costs = cost[first:end] + (end - starts) * longest[first:end] + each
        begin[end] = first + int(costs.argmin())
        cost[end] = costs.min()
    ends = [len(lengths)]
    while begin[ends[-1]]:
        ends.append(int(begin[ends[-1]]))
    return ends[::-1] if lengths else []


def _try(forward: Callable[[list[Row]], T], chosen: list[Row]) -> T | None:
    """What `forward` makes of a batch, or None if memory ran out."""
    try:
        return forward(chosen)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
    return None  # only here, out of the handler, is the traceback gone that held the batch's tensors


def out_of_memory(error: BaseException) -> bool:
    words = ("out of memory", "can't allocate memory", "not enough memory")
    known = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return known or any(word in str(error).lower() for word in words)
