"""One cluster bootstrap behind every number: accuracies of the sample and of all its replicates at once.

A replicate draws translation groups with replacement, so accuracies are ratios of weighted sums by group:
one matrix product gives them all. Row 0 of every array is the sample itself (each group once), the rows after
it are the replicates, so that an interval always belongs to the very estimator that its value comes from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from strataprobe.statistics import cluster_counts, percentile_interval

_ROWS = 2048
"""Replicates that are compared at a time: their scores stay in a processor's cache."""


@dataclass(frozen=True)
class Estimate:
    """A value, None where it does not exist, and the ends of its 95 % interval, None where there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Draws:
    """How often each cluster counts in the sample (row 0, always once) and in each replicate.

    Attributes:
        weights: (1 + replicates, clusters).
        cluster: (items,) number of each item's cluster.
    """

    weights: np.ndarray
    cluster: np.ndarray

    @classmethod
    def of(cls, names: Sequence[str], replicates: int, seed: int) -> "Draws":
        """Draws of the clusters that items are named to belong to, numbered as they first occur.

        Two sets of items whose clusters are as many and in the same order are drawn alike: models that are
        measured on the same items can be compared draw by draw.
        """
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        cluster = np.array([numbers[name] for name in names], dtype=np.int64)
        return cls(_weights(len(numbers), replicates, seed), cluster)

    def totals(self, values: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sum of the values of chosen items, and how many have one: two (1 + replicates,) arrays.

        Args:
            values: (items,); NaN is left out.
            mask: (items,) the items that count.
        """
        total, count = self._by_cluster(values[None], mask)
        return self.weights @ total[0], self.weights @ count[0]

    def mean(self, values: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """(1 + replicates,) mean of the values of chosen items, NaN where none has one."""
        return _divided(*self.totals(values, mask))

    def ratio(self, total: np.ndarray, count: np.ndarray) -> np.ndarray:
        """(1 + replicates, layers) sum of totals over sum of counts; NaN where nothing counts.

        Args:
            total: (layers, items).
            count: (items,).
        """
        groups = np.zeros((len(self.cluster), self.weights.shape[1]))
        groups[np.arange(len(groups)), self.cluster] = 1
        return _divided(self.weights @ (total @ groups).T, (self.weights @ (count @ groups))[:, None])

    def best(self, values: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """(1 + replicates,) the first of the cells with the largest mean over chosen items, row by row.

        Args:
            values: (cells, items) of whole numbers and NaN.
            mask: (items,) the items that count.
        """
        total, count = (part.astype(np.float32).T for part in self._by_cluster(values, mask))
        alike = (count == count[:, :1]).all()
        found = np.empty(len(self.weights), np.int64)
        for start in range(0, len(found), _ROWS):
            weights = self.weights[start : start + _ROWS].astype(np.float32)
            # Whole numbers far below 2^24: their float32 sums are exact, so equal means are equal here too.
            scores = weights @ total
            if not alike:
                answered = weights @ count
                with np.errstate(invalid="ignore", divide="ignore"):
                    scores = np.where(answered > 0, scores / answered, -np.inf)
            found[start : start + _ROWS] = scores.argmax(axis=1)
        return found

    def mean_at(self, values: np.ndarray, mask: np.ndarray, cells: np.ndarray) -> np.ndarray:
        """(1 + replicates,) mean over chosen items of one cell a row.

        Args:
            values: (cells, items).
            cells: (1 + replicates,) as `best` gives them.
        """
        total, count = self._by_cluster(values, mask)
        return _divided(*(np.einsum("rc,rc->r", self.weights, part[cells]) for part in (total, count)))

    def clusters(self, mask: np.ndarray) -> int:
        """How many clusters the chosen items belong to."""
        return len(np.unique(self.cluster[mask]))

    def _by_cluster(self, values: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(cells, clusters) sums of the values of chosen items, and how many have one."""
        chosen = values[:, mask]
        groups = np.zeros((chosen.shape[1], self.weights.shape[1]))
        groups[np.arange(len(groups)), self.cluster[mask]] = 1
        known = np.isfinite(chosen)
        return np.where(known, chosen, 0.0) @ groups, known @ groups


def estimate(drawn: np.ndarray) -> Estimate:
    """Value and 95 % percentile interval of a (1 + replicates,) array; no interval without replicates."""
    value = float(drawn[0]) if np.isfinite(drawn[0]) else None
    if value is None or len(drawn) < 2:
        return Estimate(value)
    return Estimate(value, *percentile_interval(drawn[1:]))


def _divided(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return total / count


@lru_cache(maxsize=8)
def _weights(clusters: int, replicates: int, seed: int) -> np.ndarray:
    counts = cluster_counts(clusters, replicates, seed).astype(np.float64)
    weights = np.concatenate([np.ones((1, clusters)), counts])
    weights.flags.writeable = False
    return weights
