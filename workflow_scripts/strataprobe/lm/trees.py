"""Rows that hold many sequences as a tree: whatever several of them begin with is computed once.

The prompts of one item share its sentence, and each prompt's continuations share the prompt.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from strataprobe.lm.rows import Row

# A sequence joins a row where that spares at least this share of its tokens.
_SPARED = 1 / 8
# Attention also computes the scores that its mask then hides, the square of a row's length in all: beyond
# this many tokens a row would lose so what its sharing spares.
LONGEST = 512


@dataclass(frozen=True)
class Tree(Row):
    """A row of any number of sequences.

    Attributes:
        branches: for each member, which earlier member (by its place among them) it leaves, and after how
            many tokens; the first leaves itself after none.
    """

    branches: tuple[tuple[int, int], ...] = ((0, 0),)

    def columns(self, tokens: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Where each member's tokens stand: those it shares with an earlier member, then its own rest."""
        found: list[np.ndarray] = []
        start = 0
        for member, (parent, shared) in zip(self.members, self.branches, strict=True):
            rest = len(tokens[member]) - shared
            common = found[parent][:shared] if found else np.empty(0, np.int64)
            found.append(np.concatenate([common, np.arange(start, start + rest)]))
            start += rest
        return found

    def grown(self, number: int, sequence: Sequence[int], tokens: Sequence[Sequence[int]]) -> "Tree":
        """This row with one sequence more, which leaves the member with which it goes farthest."""
        shared = [_common(tokens[member], sequence) for member in self.members]
        parent = int(np.argmax(shared))
        return Tree(
            (*self.members, number),
            0,
            self.length + len(sequence) - shared[parent],
            (*self.branches, (parent, shared[parent])),
        )


def plan_trees(
    tokens: Sequence[Sequence[int]], numbers: Sequence[int], limit: int, longest: int = LONGEST
) -> list[Row]:
    """Join neighbours that begin alike into rows.

    Args:
        tokens: all sequences.
        numbers: which of them are to be placed; runs of neighbours in this order may share a row.
        limit: of tokens a sequence. One longer one, and all stay alone, since a batch has one kind of mask.
        longest: of tokens a row.
    """
    if max((len(tokens[number]) for number in numbers), default=0) > limit:
        return [Row((number,), 0, len(tokens[number])) for number in numbers]
    rows: list[Row] = []
    for number in numbers:
        sequence = tokens[number]
        tree = rows[-1].grown(number, sequence, tokens) if rows else None
        if tree and tree.length <= longest and 0 < tree.branches[-1][1] >= _SPARED * len(sequence):
            rows[-1] = tree
        else:
            rows.append(Tree((number,), 0, len(sequence)))
    return rows


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
