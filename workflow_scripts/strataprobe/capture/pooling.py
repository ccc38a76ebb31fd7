"""Pooling inside the forward pass: weights over tokens, and the hooks that apply them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from strataprobe.lm import block_input, first_tensor

MEAN, MEAN_REST, LAST = "mean", "mean_rest", "last"


def pooling_weights(mask: Tensor, positions: Sequence[str], places: Tensor) -> Tensor:
    """The weight of every token in every position's vector; padding has weight 0.

    Args:
        mask: (texts, tokens), 1 at real tokens, which stand side by side.
        positions: p names.
        places: (texts, named) for the names other than mean and mean_rest, in their order: which of the
            text's own tokens it is, counted from its first.

    Returns:
        (texts, p, tokens) float32, each row summing to 1.
    """
    rank = mask.cumsum(dim=1) * mask - 1  # a real token's number within its text; -1 at padding
    real = (rank >= 0).float()
    rest = (rank >= 1).float()
    columns = iter(places.to(mask.device).unbind(dim=1))
    weights = {
        MEAN: real / real.sum(1, keepdim=True),
        MEAN_REST: rest / rest.sum(1, keepdim=True).clamp(min=1),
    }
    rows = [weights[n] if n in weights else (rank == next(columns)[:, None]).float() for n in positions]
    return torch.stack(rows, dim=1)


@dataclass
class Pooler:
    """Turns each block's output into pooled vectors as it comes, and keeps nothing else of it.

    `weights` is (texts, positions, tokens); `padding` (texts, tokens, 1) is None where there is none.
    """

    layers: int
    weights: Tensor
    padding: Tensor | None
    hidden_size: int
    pooled: Tensor = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.layers, *self.weights.shape[:2], self.hidden_size)
        self.pooled = torch.empty(shape, dtype=torch.float32, device=self.weights.device)

    def hooks(self, blocks: nn.ModuleList, embed: bool) -> list:
        """Hooks on the blocks; whoever asks for them removes them."""
        handles = []
        if embed:

            def before(_module: nn.Module, args: tuple, kwargs: dict) -> None:
                self._pool(0, block_input(args, kwargs))

            handles.append(blocks[0].register_forward_pre_hook(before, with_kwargs=True))
        for row, block in enumerate(blocks, start=int(embed)):

            def after(_module: nn.Module, _args: tuple, output: object, row: int = row) -> None:
                self._pool(row, first_tensor(output))

            handles.append(block.register_forward_hook(after))
        return handles

    def _pool(self, row: int, hidden: Tensor) -> None:
        hidden = hidden.to(self.weights.device, torch.float32)
        # 0 x NaN is NaN: what stands at padding must be gone, not just weigh nothing.
        if self.padding is not None:
            hidden = hidden.masked_fill(self.padding, 0.0)
        torch.bmm(self.weights, hidden, out=self.pooled[row])
