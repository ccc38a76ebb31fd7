"""One block at a time: each is loaded once, and all batches pass it before the next one is.

The decoder's own forward pass runs anew for each batch and block, so that masks, positions and whatever else
a decoder hands to its blocks are its own. Blocks below the loaded one hand on what they are given, the loaded
one takes the state that waits, and nothing above it is run.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import local
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from strataprobe.lm.batches import Batches
from strataprobe.lm.loaded import LoadedLM, attached, first_tensor
from strataprobe.lm.offload import held
from strataprobe.lm.reading import EMBED, ReachedError, Reading, watch
from strataprobe.lm.rooms import Rooms
from strataprobe.lm.rows import Row
from strataprobe.logs import progress

T = TypeVar("T")

_FEW = 8  # batches: no progress is shown for so little


@dataclass
class _Waiting:
    """A batch between two blocks: its states, and what was kept of the layers below."""

    state: Tensor
    kept: Tensor | None = None


class _Running(local):
    """The batch that a thread is taking through a block."""

    state: Tensor | None = None
    reading: Reading | None = None
    kept: dict[int, Tensor] | None = None
    left: Tensor | None = None


def by_block(
    batches: Batches,
    groups: Sequence[list[Row]],
    layers: Sequence[int],
    begin: Callable[[list[Row]], Reading[T]],
) -> Iterator[tuple[list[Row], T]]:
    """As `run_layers`, for a model whose blocks are loaded one at a time."""
    lm = batches.lm
    planned = [chosen for rows in groups for chosen in batches.plan(rows)]
    with Rooms(lm.blockwise.states_mb << 20) as rooms:
        run = _Pass(batches, layers, begin, rooms)
        blocks = range(max(0, *layers) + 1)
        shown = progress(blocks, desc="blocks", unit="block") if len(planned) > _FEW else blocks
        for chosen in (batch for parts in run.through(planned, shown) for batch in parts):
            yield chosen, run.finish(chosen)


class _Pass:
    """All batches on their way through the blocks."""

    def __init__(
        self, batches: Batches, layers: Sequence[int], begin: Callable[[list[Row]], Reading], rooms: Rooms
    ) -> None:
        self.batches, self.lm, self.begin, self.rooms = batches, batches.lm, begin, rooms
        self.layers = list(layers)
        self.waiting: dict[Row, _Waiting] = {}  # by a batch's first row

    def through(self, planned: list[list[Row]], blocks: Sequence[int]) -> list[list[list[Row]]]:
        """Take batches through the first blocks.

        Returns:
            For each batch what it was cut into: itself, or smaller ones where memory ran out on it. These
            begin anew, since what was kept of a batch cannot be cut.
        """
        parts = [[chosen] for chosen in planned]
        for block in blocks:
            chosen = [batch for own in parts for batch in own]
            with self._open(block) as step:
                done = list(self.batches.each(chosen, step))
            failed = [batch for batch, result in zip(chosen, done, strict=True) if result is None]
            if not failed:
                continue
            smaller = [self.batches.smaller(batch) for batch in failed]
            again = iter(self.through([one for own in smaller for one in own], range(block + 1)))
            cut = {
                own[0]: [one for _ in new for one in next(again)]
                for own, new in zip(failed, smaller, strict=True)
            }
            parts = [[one for batch in own for one in cut.get(batch[0], [batch])] for own in parts]
        return parts

    def finish(self, chosen: list[Row]) -> Any:
        """A batch's result; what waited for it is gone then."""
        kept = self.waiting.pop(chosen[0]).kept
        with torch.inference_mode():
            return self.begin(chosen).finish(kept.to(self.lm.device))

    @contextmanager
    def _open(self, block: int) -> Iterator[Callable[[list[Row]], bool]]:
        """What takes a batch through a block, while the block is loaded."""
        lm, running = self.lm, _Running()
        layers = [layer for layer in self.layers if layer == block or (layer == EMBED and block == 0)]

        def take(layer: int, hidden: Tensor) -> None:
            if running.reading is not None:
                running.kept[layer] = running.reading.keep(hidden)

        def leave(_module: nn.Module, _args: tuple, output: Any) -> None:
            if running.reading is not None:
                running.left = first_tensor(output)
                raise ReachedError

        def step(chosen: list[Row]) -> bool:
            before = self.waiting.get(chosen[0]) if block else None
            with torch.inference_mode():
                running.reading, running.kept = self.begin(chosen), {}
                running.state = before and before.state.to(lm.device)
                try:
                    lm.run_decoder(running.reading.batch)
                except ReachedError:
                    pass
                finally:  # else they would stay, of a batch that memory ran out on
                    kept, left = running.kept, running.left
                    running.reading = running.state = running.kept = running.left = None
                self._store(chosen[0], before, left, kept)
            return True

        with held(lm, block), _only(lm, block, running):
            hooks = watch(lm.blocks, layers, take)
            # After those, since it ends the pass.
            with attached([*hooks, lm.blocks[block].register_forward_hook(leave)]):
                yield step

    def _store(self, key: Row, before: _Waiting | None, left: Tensor, kept: dict[int, Tensor]) -> None:
        """Let a batch wait for the next block, in the room it has had since the first one."""
        waiting = before or _Waiting(self.rooms.room(left.shape, left.dtype))
        waiting.state.copy_(left)
        for layer, own in kept.items():
            if waiting.kept is None:
                waiting.kept = self.rooms.room((len(self.layers), *own.shape), own.dtype)
            waiting.kept[self.layers.index(layer)].copy_(own)
        self.waiting[key] = waiting


@contextmanager
def _only(lm: LoadedLM, block: int, running: _Running) -> Iterator[None]:
    """Blocks below this one hand on what they are given, this one takes the state that waits.

    A pass that is not one of a batch of ours runs as ever.
    """

    def handing_on(place: int, forward: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*args: Any, **kwargs: Any) -> Any:
            if running.reading is None:
                return forward(*args, **kwargs)
            return _like(_entered(args, kwargs), lm.blockwise.returned[place])

        return instead

    def taking_over(forward: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*args: Any, **kwargs: Any) -> Any:
            if running.reading is None or running.state is None:
                return forward(*args, **kwargs)
            if args:
                return forward(running.state, *args[1:], **kwargs)
            return forward(**{**kwargs, "hidden_states": running.state})

        return instead

    before = [module.__dict__.get("forward") for module in lm.blocks[: block + 1]]
    for place, module in enumerate(lm.blocks[: block + 1]):
        module.forward = taking_over(module.forward) if place == block else handing_on(place, module.forward)
    try:
        yield
    finally:
        for module, own in zip(lm.blocks, before, strict=False):
            if own is None:
                del module.forward
            else:
                module.forward = own


def _entered(args: tuple, kwargs: dict[str, Any]) -> Any:
    return args[0] if args else kwargs["hidden_states"]


def _like(hidden: Any, returned: int | None) -> Any:
    """What a block returns: the state itself, or a tuple of so many entries that begins with it."""
    return hidden if returned is None else (hidden, *[None] * (returned - 1))
