"""Which answers a push turns, and whether more than any push would.

Source: levels paper, appendix G.2 (Q1, Q2, flips, McNemar's test).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import bdtr

from strataprobe.datasets.answers import OBJECT, SUBJECT
from strataprobe.statistics import cluster_counts, finite, percentile_interval

Q1, Q2 = "q1", "q2"


@dataclass(frozen=True)
class Answers:
    """The items that are steered, as far as their answers are counted.

    Attributes:
        types: (items,) control types.
        first_is_gold: (items,) booleans: the gold candidate is named before the other one.
        clean: (items,) margins (nats) of the gold candidate without a push.
        cluster: (items,) number of each item's translation group.
        draws: (replicates, clusters) how often each is drawn.
    """

    types: np.ndarray
    first_is_gold: np.ndarray
    clean: np.ndarray
    cluster: np.ndarray
    draws: np.ndarray

    @classmethod
    def of(
        cls,
        items: Mapping[str, Sequence],
        first_is_gold: np.ndarray,
        clean: np.ndarray,
        *,
        replicates: int,
        seed: int,
    ) -> "Answers":
        """Args:
        items: as `answers.describe` gives them.
        """
        names = dict.fromkeys(items["item_groups"])
        numbers = {name: number for number, name in enumerate(names)}
        cluster = np.array([numbers[name] for name in items["item_groups"]], np.int64)
        draws = cluster_counts(len(numbers), replicates, seed).astype(float)
        return cls(np.array(items["control_types"]), first_is_gold, clean, cluster, draws)

    @property
    def sets(self) -> dict[str, np.ndarray]:
        """Q1: subject control answered wrong without a push; Q2: object control answered right."""
        right = self.clean > 0
        return {Q1: (self.types == SUBJECT) & ~right, Q2: (self.types == OBJECT) & right}

    @property
    def splits(self) -> dict[str, np.ndarray]:
        """All items, and each control type that there is."""
        own = {kind: self.types == kind for kind in (OBJECT, SUBJECT)}
        return {"all": np.ones(len(self.types), bool), **{k: mask for k, mask in own.items() if mask.any()}}

    def mean(self, values: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
        """Mean over chosen items with its 95 % cluster-bootstrap interval; None of an empty set.

        Returns:
            `n`, `clusters`, `value`, `interval`.
        """
        clusters = len(np.unique(self.cluster[mask]))
        if not mask.any():
            return {"n": 0, "clusters": 0, "value": None, "interval": [None, None]}
        size = self.draws.shape[1]
        totals = np.bincount(self.cluster[mask], values[mask].astype(float), size)
        counts = np.bincount(self.cluster[mask], minlength=size)
        drawn = self.draws @ counts
        with np.errstate(invalid="ignore", divide="ignore"):
            replicates = np.where(drawn > 0, (self.draws @ totals) / drawn, np.nan)
        return {
            "n": int(mask.sum()),
            "clusters": clusters,
            "value": float(values[mask].mean()),
            "interval": percentile_interval(replicates) if len(replicates) else [None, None],
        }

    def changed(self, margin: np.ndarray) -> dict[str, Any]:
        """What a change of states did to the answers.

        Args:
            margin: (items,) margins of the gold candidate under it.

        Returns:
            `sets`: Q1 and Q2 with their share of flips; `mcnemar`: split -> `gained` (wrong, now right),
            `lost`, exact two-sided p; `accuracy` and `margin_shift` (nats) by split.
        """
        right, before = margin > 0, self.clean > 0
        return {
            "sets": {
                name: {**self.mean(right != before, mask), "flips": int((right != before)[mask].sum())}
                for name, mask in self.sets.items()
            },
            "mcnemar": {
                name: mcnemar(int((right & ~before)[mask].sum()), int((before & ~right)[mask].sum()))
                for name, mask in self.splits.items()
            },
            "accuracy": {name: self.mean(right, mask) for name, mask in self.splits.items()},
            "margin_shift": {
                name: self.mean(margin - self.clean, mask) for name, mask in self.splits.items()
            },
        }

    def first_named(self, margin: np.ndarray, alpha: float) -> dict[str, Any]:
        """Share of items that answer the candidate named first, by where the push goes.

        A push towards the gold candidate is towards the first-named one where that is gold. Where a push
        moves answers, the shares of both golds part; where it makes for a place, they move together.

        Returns:
            `towards`, `away` (of the first-named one; None at strength 0), `gold_first`, `gold_second`,
            `all`.
        """
        says_first = (margin > 0) == self.first_is_gold
        towards = self.first_is_gold == (alpha > 0)
        ways = {"towards": towards, "away": ~towards} if alpha else {}
        golds = {"gold_first": self.first_is_gold, "gold_second": ~self.first_is_gold}
        masks = {**ways, **golds, "all": np.ones(len(margin), bool)}
        return dict.fromkeys(("towards", "away")) | {
            name: self.mean(says_first, mask) for name, mask in masks.items()
        }


def mcnemar(gained: int, lost: int) -> dict[str, Any]:
    """Exact two-sided McNemar test: of the items that change, either way is as likely.

    p = min(1, 2 P(X <= min(gained, lost))), X binomial(gained + lost, 1/2); 1 where none changes.
    """
    count = gained + lost
    p = min(1.0, 2 * float(bdtr(min(gained, lost), count, 0.5))) if count else 1.0
    return {"gained": gained, "lost": lost, "p": p}


def against_random(value: float | None, random: np.ndarray) -> float | None:
    """Share of directions, the own one among them, that do at least as much: one-sided, never 0.

    Args:
        random: (directions,) the same quantity of random directions; NaN where it does not exist.
    """
    if value is None or not len(random) or not np.isfinite(random).all():
        return None
    return float((1 + (random >= value - 1e-12).sum()) / (1 + len(random)))


def spread(values: np.ndarray) -> dict[str, Any]:
    """Of several random directions: their number, mean, least, greatest, and the middle 95 %."""
    there = values[np.isfinite(values)]
    if not len(there):
        return {"count": 0, "mean": None, "least": None, "greatest": None, "range": [None, None]}
    low, high = np.percentile(there, [2.5, 97.5])
    return {
        "count": len(there),
        "mean": finite(there.mean()),
        "least": finite(there.min()),
        "greatest": finite(there.max()),
        "range": [float(low), float(high)],
    }
