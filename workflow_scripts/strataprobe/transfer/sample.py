"""The pairs of a measure by group: how they are dealt to folds, drawn by a bootstrap, and counted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strataprobe import statistics
from strataprobe.probes.by_group import group_key


@dataclass(frozen=True)
class Sample:
    """Pairs, how they are dealt, and how often a bootstrap draws each.

    Attributes:
        labels: (items,).
        pair: (items,) place of the item's pair, 0 ... pairs - 1.
        group: (pairs,) each pair's group.
        fold: (pairs,) its fold.
        folds: how many folds.
        names: the groups, in the order in which they appear.
        sizes: (pairs,) items a pair.
        counts: (1 + replicates, pairs) float64; row 0 takes every pair once: the sample itself.
    """

    labels: np.ndarray
    pair: np.ndarray
    group: np.ndarray
    fold: np.ndarray
    folds: int
    names: list[str]
    sizes: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(
        cls, labels: np.ndarray, pairs: np.ndarray, groups: Sequence[str], settings: dict[str, Any]
    ) -> "Sample":
        _, first, pair = np.unique(pairs, return_index=True, return_inverse=True)
        group = np.asarray(groups, dtype=object)[first]
        fold = np.empty(len(group), int)
        counts = np.ones((1 + settings["bootstrap"], len(group)))
        names = list(dict.fromkeys(groups))
        for name in names:
            members = np.flatnonzero(group == name)
            fold[members] = np.arange(len(members)) % settings["folds"]
            drawn = statistics.cluster_counts(
                len(members), settings["bootstrap"], group_key(settings["seed"], name)
            )
            counts[1:, members] = drawn
        return cls(labels, pair, group, fold, settings["folds"], names, np.bincount(pair), counts)

    def members(self, name: str) -> np.ndarray:
        """(pairs,) booleans: in this group."""
        return self.group == name

    def only(self, name: str) -> "Sample":
        """One group's pairs, dealt and drawn as here."""
        members = self.members(name)
        items = members[self.pair]
        return Sample(
            labels=self.labels[items],
            pair=(np.cumsum(members) - 1)[self.pair[items]],
            group=self.group[members],
            fold=self.fold[members],
            folds=self.folds,
            names=[name],
            sizes=self.sizes[members],
            counts=self.counts[:, members],
        )

    def hits(self, logits: np.ndarray) -> np.ndarray:
        """(layers, fits, pairs): how many items of each pair have the right sign (z > 0 is positive)."""
        order = np.argsort(self.pair, kind="stable")
        right = ((logits > 0) == (self.labels > 0))[:, :, order]
        starts = np.searchsorted(self.pair[order], np.arange(len(self.sizes)))
        return np.add.reduceat(right, starts, axis=2, dtype=np.int64)

    def by_layer(self, hits: np.ndarray, chosen: np.ndarray) -> list[float]:
        """Accuracy of each layer over the chosen pairs; hits: (layers, pairs)."""
        return (hits[:, chosen].sum(axis=1) / self.sizes[chosen].sum()).tolist()

    def picked(
        self, choose: np.ndarray, chosen: np.ndarray, test: np.ndarray, tested: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The best layer of one set of pairs, and its hits on another, in every replicate.

        Args:
            choose, test: (layers, pairs) hits.
            chosen, tested: (pairs,) booleans, the pairs that count in each.

        Returns:
            (1 + replicates,) layers and hits. Hits are whole numbers, so equal layers are equal.
        """
        layer = (self.counts[:, chosen] @ choose[:, chosen].T).argmax(axis=1)
        found = self.counts[:, tested] @ test[:, tested].T
        return layer, found[np.arange(len(layer)), layer]

    def total(self, chosen: np.ndarray) -> np.ndarray:
        """(1 + replicates,) items drawn among the chosen pairs."""
        return self.counts[:, chosen] @ self.sizes[chosen]
