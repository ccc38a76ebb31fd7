"""Pooling inside the forward pass: weights over tokens, and the hooks that apply them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import local

import numpy as np
import torch
from torch import Tensor, nn

from strataprobe.lm import block_input, first_tensor

MEAN, MEAN_REST, LAST = "mean", "mean_rest", "last"


def pooling_weights(
    columns: Sequence[Sequence[np.ndarray]], width: int, positions: Sequence[str], places: np.ndarray
) -> np.ndarray:
    """The weight of every token in every position's vector; what is no token of the text has weight 0.

    Args:
        columns: for each row of a batch, for each text in it, the column of each of the text's tokens.
        width: columns of the batch.
        positions: p names.
        places: (texts, named) for the names other than mean and mean_rest, in their order: which of the
            text's own tokens it is, counted from its first; below 0 where the text has none. Texts are in
            the order of the rows.

    Returns:
        (rows, texts a row at most x p, width) float32. Each text's p rows sum to 1, or to 0 where it has
        no such token; a row that holds fewer texts than another ends in zeros.
    """
    most = max(map(len, columns))
    weights = np.zeros((len(columns), most, len(positions), width), dtype=np.float32)
    texts = iter(places)
    for row, members in enumerate(columns):
        for member, own in enumerate(members):
            named = iter(next(texts))
            for position, name in enumerate(positions):
                if name in (MEAN, MEAN_REST):
                    chosen = own[int(name == MEAN_REST) :]
                else:
                    place = next(named)
                    chosen = own[[place]] if place >= 0 else own[:0]
                weights[row, member, position, chosen] = 1 / max(1, len(chosen))
    return weights.reshape(len(columns), most * len(positions), width)


@dataclass
class Pooler:
    """Turns each block's output into pooled vectors as it comes, and keeps nothing else of it.

    `weights` is (rows, vectors, tokens); `padding` (rows, tokens, 1) is None where there is none.
    """

    layers: int
    weights: Tensor
    padding: Tensor | None
    hidden_size: int
    pooled: Tensor = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.layers, *self.weights.shape[:2], self.hidden_size)
        self.pooled = torch.empty(shape, dtype=torch.float32, device=self.weights.device)

    def pool(self, row: int, hidden: Tensor) -> None:
        """Take in the states (rows, tokens, hidden) of one layer."""
        hidden = hidden.to(self.weights.device, torch.float32)
        # 0 x NaN is NaN: what stands at padding must be gone, not just weigh nothing.
        if self.padding is not None:
            hidden = hidden.masked_fill(self.padding, 0.0)
        torch.bmm(self.weights, hidden, out=self.pooled[row])


class Pooling(local):
    """The pooler of the batch that a thread is running: several threads run one model, and its hooks."""

    pooler: Pooler | None = None


def hooks(pooling: Pooling, blocks: nn.ModuleList, embed: bool) -> list:
    """Hooks on the blocks that pool for whoever runs them; whoever asks for them removes them."""

    def before(_module: nn.Module, args: tuple, kwargs: dict) -> None:
        pooling.pooler.pool(0, block_input(args, kwargs))

    handles = [blocks[0].register_forward_pre_hook(before, with_kwargs=True)] if embed else []
    for row, block in enumerate(blocks, start=int(embed)):

        def after(_module: nn.Module, _args: tuple, output: object, row: int = row) -> None:
            pooling.pooler.pool(row, first_tensor(output))

        handles.append(block.register_forward_hook(after))
    return handles
