"""What a model makes of a changed residual stream: only the blocks above the change are run again.

A row is run once, and what enters and leaves every block is kept. A change at block i leaves all below it as
it was, so it is put into the kept state and only the blocks above run on; many changes of one row are one
batch, which grows from block to block by those that begin there.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import local
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from strataprobe.errors import ModelError
from strataprobe.lm.batches import out_of_memory
from strataprobe.lm.loaded import LoadedLM, attached, block_input, first_tensor
from strataprobe.lm.rows import Row, batch_rows

T = TypeVar("T")
J = TypeVar("J")


@dataclass(frozen=True)
class Edit:
    """A change of the residual stream at some tokens of a row, after one block.

    Attributes:
        layer: block (0..L-1), or `lm.EMBED` (-1) for what enters the first.
        columns: (n,) places in the row.
        states: (n, hidden size), in place of what stands there, or added to it.
        add: whether they are added.
    """

    layer: int
    columns: np.ndarray
    states: Tensor
    add: bool = False

    def apply(self, states: Tensor) -> None:
        """Change one row's (length, hidden size) states in place."""
        columns = torch.from_numpy(np.asarray(self.columns, np.int64)).to(states.device)
        new = self.states.to(states.device, states.dtype)
        states[columns] = states[columns] + new if self.add else new


Condition = Sequence[Edit]
"""Edits that are made together in one run of a row; at several blocks, each sees what those below it made."""


@dataclass
class Kept:
    """A row as the model runs it, with every state.

    Attributes:
        columns: for each of the row's sequences, the column of each of its tokens.
        states: (length, hidden size) by layer: what enters the first block, then what leaves each block.
        calls: what each block is called with beside its state.
    """

    lm: LoadedLM
    columns: list[np.ndarray]
    states: list[Tensor] = field(default_factory=list)
    calls: list[tuple[tuple, dict[str, Any]]] = field(default_factory=list)

    @property
    def length(self) -> int:
        return self.states[0].shape[0]

    def after(self, layer: int) -> Tensor:
        """(length, hidden size) states after a block, or `lm.EMBED`."""
        return self.states[layer + 1]

    def at(self, layers: Sequence[int], columns: np.ndarray) -> Tensor:
        """(layers, n, hidden size) states after these blocks at n places, a copy."""
        places = torch.from_numpy(np.asarray(columns, np.int64)).to(self.states[0].device)
        return torch.stack([self.after(layer)[places] for layer in layers])

    def changed(self, edits: Condition) -> "Kept":
        """The same row run anew with these edits, every state kept: what further edits can start from."""
        first = min((edit.layer for edit in edits), default=self.lm.n_layers)
        states = list(self.states[: first + 1])
        with torch.inference_mode():
            for layer in range(first, self.lm.n_layers):
                entering = self.after(first) if layer == first else self._block(layer, states[-1][None])[0]
                states.append(_edited(entering, [edit for edit in edits if edit.layer == layer]))
        return Kept(self.lm, self.columns, states + self.states[len(states) :], self.calls)

    def run(self, conditions: Sequence[Condition], read: np.ndarray, *, batch_tokens: int) -> Tensor:
        """States before the final norm, at chosen places, under each condition.

        A condition that changes no bit of a state has the kept states, exactly.

        Args:
            conditions: n conditions.
            read: (places,) columns.
            batch_tokens: tokens in a batch of conditions; fewer where memory runs out.

        Returns:
            (n, places, hidden size).

        Raises:
            ModelError: one condition alone does not fit into memory.
        """
        places = torch.from_numpy(np.asarray(read, np.int64)).to(self.states[0].device)
        found = self.states[-1][places].repeat(len(conditions), 1, 1)
        order = sorted(
            (number for number, edits in enumerate(conditions) if self._changes(edits)),
            key=lambda number: (min(edit.layer for edit in conditions[number]), number),
        )
        size = max(1, batch_tokens // self.length)
        while order:
            chosen, left = order[:size], order[size:]
            result = _try(
                lambda chosen=chosen: self._together([conditions[number] for number in chosen], places)
            )
            if result is not None:
                found[chosen] = result
                order = left
            elif size == 1:
                raise ModelError(f"{self.lm.name}: memory ran out on one changed row of {self.length} tokens")
            else:
                size = (len(chosen) + 1) // 2
        return found

    def _changes(self, edits: Condition) -> bool:
        """Whether any edit, in the kept states, would change one; where one does, all are run."""
        for edit in edits:
            before = self.after(edit.layer)
            after = before.clone()
            edit.apply(after)
            if not torch.equal(before, after):
                return True
        return False

    def _together(self, conditions: Sequence[Condition], places: Tensor) -> Tensor:
        """Final states of conditions in one batch that grows; they are in the order of their first blocks."""
        firsts = [min(edit.layer for edit in edits) for edits in conditions]
        running = self.states[0][None][:0]
        with torch.inference_mode():
            for layer in range(firsts[0], self.lm.n_layers):
                if len(running):
                    running = self._block(layer, running)
                joining = firsts.count(layer)
                if joining:
                    running = torch.cat([running, self.after(layer).repeat(joining, 1, 1)])
                elif layer in {edit.layer for edits in conditions for edit in edits}:
                    running = running.clone()
                for row, edits in zip(running, conditions, strict=False):
                    for edit in edits:
                        if edit.layer == layer:
                            edit.apply(row)
            return running[:, places]

    def _block(self, layer: int, states: Tensor) -> Tensor:
        args, kwargs = self.calls[layer]
        return first_tensor(self.lm.blocks[layer](states, *args, **kwargs))


@contextmanager
def keeping(lm: LoadedLM) -> Iterator[None]:
    """While the block runs, `keep` works, in every thread; then the model is as it was."""
    with attached(_hooks(lm)):
        yield


def keep(lm: LoadedLM, tokens: Sequence[Sequence[int]], row: Row) -> Kept:
    """Run one row, with nothing in a batch beside it, and keep what stands in it after every block.

    Works within `keeping` only.

    Args:
        tokens: all sequences.
        row: which of them it holds (`plan_trees`, `plan_rows`).

    Raises:
        ModelError: run block by block it is not what the model makes of it.
    """
    batch, (columns,) = batch_rows(lm, tokens, [row])
    kept = Kept(lm, columns)
    _KEEPING.kept = kept
    try:
        with torch.inference_mode():
            lm.run_decoder(batch)
    finally:
        _KEEPING.kept = None
    if len(kept.states) != lm.n_layers + 1:
        raise RuntimeError("states are kept within `keeping` only")
    with torch.inference_mode():
        again = kept._block(lm.n_layers - 1, kept.after(lm.n_layers - 2)[None])[0]
    if not torch.allclose(
        again.float(), kept.after(lm.n_layers - 1).float(), rtol=1e-3, atol=1e-4, equal_nan=True
    ):
        raise ModelError(
            f"{lm.name}: {type(lm.model).__name__} makes something else of a state than its blocks by "
            "themselves; it cannot be run on from a changed state"
        )
    return kept


def over(jobs: Sequence[J], work: Callable[[J], T], *, lm: LoadedLM, threads: int) -> Iterator[T]:
    """What `work` makes of each job, in their order; on a CPU several at a time.

    Each runs on one thread of torch, so that their number changes no bit.
    """
    # Hooks that load a part when it is needed are not made for several threads.
    workers = threads if lm.device == "cpu" and not lm.offloads else 1
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield from pool.map(work, jobs)


class _Keeping(local):
    """What a thread is keeping."""

    kept: Kept | None = None


_KEEPING = _Keeping()


def _hooks(lm: LoadedLM) -> list:
    """Hooks that keep, in the thread that is keeping, what each block is called with and what it returns."""

    def before(_module: nn.Module, args: tuple, kwargs: dict) -> None:
        kept = _KEEPING.kept
        if kept is None:
            return
        if not kept.states:
            kept.states.append(block_input(args, kwargs)[0].clone())
        rest = {name: value for name, value in kwargs.items() if name != "hidden_states"}
        kept.calls.append((args[1:] if args else (), rest))

    def after(_module: nn.Module, _args: tuple, output: object) -> None:
        kept = _KEEPING.kept
        if kept is not None:
            kept.states.append(first_tensor(output)[0].clone())

    handles = []
    for block in lm.blocks:
        handles.append(block.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(block.register_forward_hook(after))
    return handles


def _edited(states: Tensor, edits: Condition) -> Tensor:
    states = states.clone()
    for edit in edits:
        edit.apply(states)
    return states


def _try(work: Callable[[], Tensor]) -> Tensor | None:
    try:
        return work()
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
    return None
