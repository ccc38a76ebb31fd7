"""What is read from a batch while it runs: layer by layer, through hooks on the blocks."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from torch import Tensor, nn

from strataprobe.lm.loaded import block_input, first_tensor

T = TypeVar("T", covariant=True)

EMBED = -1
"""The layer that stands for what enters the first block."""


class Reading(Protocol[T]):
    """One batch and what is read from it.

    Attributes:
        batch: what the decoder takes.
    """

    batch: dict[str, Tensor]

    def keep(self, hidden: Tensor) -> Tensor:
        """What is kept of one layer's states, (rows, tokens, hidden): of one shape at every layer."""
        ...

    def finish(self, kept: Tensor) -> T:
        """The batch's result from what was kept, (layers, ...), on the model's device."""
        ...


class ReachedError(Exception):
    """The last of the blocks that are wanted has been run: what lies above it need not be."""


def watch(blocks: nn.ModuleList, layers: Sequence[int], take: Callable[[int, Tensor], None]) -> list:
    """Hooks that hand each layer's states to `take` as they come; whoever asks for them removes them."""

    def before(_module: nn.Module, args: tuple, kwargs: dict) -> None:
        take(EMBED, block_input(args, kwargs))

    handles = []
    for layer in layers:
        if layer == EMBED:
            handles.append(blocks[0].register_forward_pre_hook(before, with_kwargs=True))
            continue

        def after(_module: nn.Module, _args: tuple, output: object, layer: int = layer) -> None:
            take(layer, first_tensor(output))

        handles.append(blocks[layer].register_forward_hook(after))
    return handles
