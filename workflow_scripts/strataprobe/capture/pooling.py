"""Pooling inside the forward pass: weights over tokens, applied to each layer's states as they come."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

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


@dataclass(frozen=True)
class Pooling:
    """Turns each layer's states into pooled vectors as they come, and keeps nothing else of them.

    Attributes:
        batch: what the decoder takes.
        weights: (rows, texts a row at most x positions, tokens), of `pooling_weights`.
        padding: (rows, tokens, 1), or None where there is none.
        held: (rows, texts a row at most), whether there is such a text.
    """

    batch: dict[str, Tensor]
    weights: Tensor
    padding: Tensor | None
    held: np.ndarray

    def keep(self, hidden: Tensor) -> Tensor:
        """(rows, vectors, hidden) float32 of the states (rows, tokens, hidden) of one layer."""
        hidden = hidden.to(self.weights.device, torch.float32)
        # 0 x NaN is NaN: what stands at padding must be gone, not just weigh nothing.
        if self.padding is not None:
            hidden = hidden.masked_fill(self.padding, 0.0)
        return torch.bmm(self.weights, hidden)

    def finish(self, kept: Tensor) -> np.ndarray:
        """(layers, texts, positions, hidden) float32, texts in the order of the rows."""
        layers, rows, _, hidden = kept.shape
        vectors = kept.cpu().numpy().reshape(layers, rows, self.held.shape[1], -1, hidden)
        return vectors[:, self.held]
