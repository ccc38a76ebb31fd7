"""Rows of a batch in which sequences with one beginning share it, so that it is computed once.

In a causal decoder a token's state depends on the tokens before it alone. The two halves of a minimal pair
are alike up to the contrast, so one row holds their common beginning once, then each half's own rest; an
attention mask hides the rests from each other, and positions are counted anew in each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import torch
from torch import Tensor

from strataprobe.lm.loaded import LoadedLM

# A sequence joins the row of its neighbour where that spares at least this share of its tokens.
_SPARED = 1 / 8


@dataclass(frozen=True)
class Row:
    """Which sequences (by their numbers) a row holds, and how many tokens at their beginning are held once.

    `length` counts the row's tokens.
    """

    members: tuple[int, ...]
    shared: int
    length: int

    def alone(self, tokens: Sequence[Sequence[int]]) -> list["Row"]:
        """A row for each member."""
        return [Row((member,), 0, len(tokens[member])) for member in self.members]

    def columns(self, tokens: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Where each member's tokens stand: the shared ones first, then the members' rests in turn."""
        found, start = [], self.shared
        for member in self.members:
            rest = len(tokens[member]) - self.shared
            found.append(np.r_[0 : self.shared, start : start + rest])
            start += rest
        return found


def plan_rows(tokens: Sequence[Sequence[int]], numbers: Sequence[int], limit: int) -> list[Row]:
    """Join each two neighbours that begin alike.

    Args:
        tokens: all sequences.
        numbers: which of them are to be placed; neighbours in this order may share a row.
        limit: of tokens a sequence. One longer one, and all stay alone, since a batch has one kind of mask.
    """
    rows: list[Row] = []
    joins = max((len(tokens[number]) for number in numbers), default=0) <= limit
    for number in numbers:
        sequence, last = tokens[number], rows[-1] if rows else None
        if joins and last is not None and len(last.members) == 1:
            pairs = zip(tokens[last.members[0]], sequence, strict=False)
            shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            if shared and shared >= _SPARED * len(sequence):
                length = last.length + len(sequence) - shared
                rows[-1] = Row((*last.members, number), shared, length)
                continue
        rows.append(Row((number,), 0, len(sequence)))
    return rows


def batch_rows(
    lm: LoadedLM, tokens: Sequence[Sequence[int]], rows: Sequence[Row]
) -> tuple[dict[str, Tensor], list[list[np.ndarray]]]:
    """What the decoder takes for these rows, and where each member's tokens stand in its row.

    Returns:
        The batch: input_ids and position_ids (rows, longest), and an attention mask, (rows, longest) of 0
        and 1 where no row is shared, else (rows, 1, longest, longest) to be added to attention scores;
        and for each row, for each member, the column of each of its tokens.
    """
    if all(len(row.members) == 1 for row in rows):
        batch = lm.batch([tokens[row.members[0]] for row in rows])
        columns = [list(np.flatnonzero(mask)[None]) for mask in batch["attention_mask"].cpu().numpy()]
        return batch, columns
    longest = max(row.length for row in rows)
    ids = np.full((len(rows), longest), lm.pad_id, dtype=np.int64)
    positions = np.zeros_like(ids)
    # Padding sees itself: a query that sees nothing would be NaN.
    seen = np.broadcast_to(np.eye(longest, dtype=bool), (len(rows), longest, longest)).copy()
    columns = []
    for place, row in enumerate(rows):
        columns.append(row.columns(tokens))
        for member, own in zip(row.members, columns[-1], strict=True):
            ids[place, own], positions[place, own] = tokens[member], np.arange(len(own))
            seen[place, own[:, None], own] |= np.tri(len(own), dtype=bool)
    dtype = lm.embedding.weight.dtype
    mask = torch.zeros(seen.shape, dtype=dtype).masked_fill_(torch.from_numpy(~seen), torch.finfo(dtype).min)
    batch = {
        "input_ids": torch.from_numpy(ids),
        "attention_mask": mask[:, None],
        "position_ids": torch.from_numpy(positions),
    }
    return {name: part.to(lm.device) for name, part in batch.items()}, columns
