"""One lexical floor: a classifier on surface features, pair-disjoint, scored once and with its interval.

Source: fragility paper, section 3.2 and appendix D.2; what is fitted where: docs/methods.md.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from strataprobe import statistics
from strataprobe.datasets.bags import Bags
from strataprobe.datasets.vectors import Vectors
from strataprobe.errors import DatasetError, listing

Features = Bags | Vectors
Fold = tuple[np.ndarray, np.ndarray]

# Raw accuracy below this is called below chance even where its interval is wide.
_FAR_BELOW = 0.45


@dataclass(frozen=True, eq=False)
class Task:
    """One floor to be found: what is read, and which items are trained on and tested.

    Attributes:
        name: the part of the dataset, for messages, such as "group 'care_harm'".
        features: what is read of all items of the dataset.
        labels: (all items,) of -1 or +1.
        pairs: (all items,) the pair of each item.
        folds: (train items, test items) each; predictions of all folds are pooled.
        min_df: in how many training items a form must stand.
        by: (all items,) names to report the tested items by as well, or None.
    """

    name: str
    features: Features
    labels: np.ndarray
    pairs: np.ndarray
    folds: Sequence[Fold]
    min_df: int
    by: np.ndarray | None = None

    def faults(self) -> list[str]:
        """What forbids this floor; empty when nothing does."""
        for train, _ in self.folds:
            if len(np.unique(self.labels[train])) < 2:
                return [f"{self.name}: only one class to train on (a floor needs both sides)"]
            if fault := self.features.fault(train, self.min_df):
                return [f"{self.name}: {fault}"]
        return []


def pair_folds(pairs: np.ndarray, rows: np.ndarray, folds: int) -> list[Fold]:
    """GroupKFold by pair: both halves of a pair are tested in the same fold.

    Args:
        pairs: (all items,) the pair of each item.
        rows: the items to be divided.
        folds: how many; `rows` must hold at least as many pairs.
    """
    from sklearn.model_selection import GroupKFold

    divided = GroupKFold(folds).split(rows, groups=pairs[rows])
    return [(rows[train], rows[test]) for train, test in divided]


def floor(task: Task, *, settings: dict[str, Any], cause: Callable[[], str] | None = None) -> dict[str, Any]:
    """The floor of one task: predictions of all folds pooled, then scored once.

    Args:
        settings: `bootstrap` (replicates) and `max_iter`.
        cause: says the likely cause, asked should raw accuracy be below chance.

    Returns:
        `accuracy`: raw, pooled over folds; `floor`: max(accuracy, 1 - accuracy); `floor_at_chance`: the
        floor to be expected if each pair were told apart by a coin; `interval`, `floor_interval`: 95 %
        bootstrap over pairs, the second turned over exactly where the floor is; `pairs`; `decided_pairs`
        (both halves right or both wrong); `features` (mean over folds, rounded); `min_df` (None where
        nothing is counted); `below_chance`, `likely_cause`; `groups` where the task says by what.

    Raises:
        DatasetError: one class, or an empty vocabulary.
    """
    if faults := task.faults():
        raise DatasetError(listing("no lexical floor", faults))
    found = [
        task.features.decide(train, test, task.labels, min_df=task.min_df, max_iter=settings["max_iter"])
        for train, test in task.folds
    ]
    rows = np.concatenate([test for _, test in task.folds])
    correct = np.concatenate([predicted for predicted, _ in found]) == task.labels[rows]
    scored = score(correct, task.pairs[rows], replicates=settings["bootstrap"], name=task.name)
    below, why = _below_chance(scored, cause)
    result = scored | {
        "features": round(float(np.mean([count for _, count in found]))),
        "min_df": task.min_df if isinstance(task.features, Bags) else None,
        "below_chance": below,
        "likely_cause": why,
    }
    if task.by is not None:
        result["groups"] = {
            name: _group_score(task, rows, correct, name, scored["accuracy"] < 0.5, settings)
            for name in dict.fromkeys(task.by[rows].tolist())
        }
    return result


def _group_score(
    task: Task, rows: np.ndarray, correct: np.ndarray, name: str, turned: bool, settings: dict[str, Any]
) -> dict[str, Any]:
    """One group of a task's tested items, with the orientation of all of them: it is chosen only once."""
    mine = task.by[rows] == name
    scored = score(
        correct[mine],
        task.pairs[rows][mine],
        replicates=settings["bootstrap"],
        name=f"{task.name}, {name}",
        turned=turned,
    )
    del scored["floor_at_chance"]  # holds only for an orientation chosen on these items
    return scored


def score(
    correct: np.ndarray, pairs: np.ndarray, *, replicates: int, name: str, turned: bool | None = None
) -> dict[str, Any]:
    """Accuracy of pooled predictions, its floor, and their bootstrap intervals over pairs.

    Args:
        correct: (items,) booleans; two items a pair.
        pairs: (items,) the pair of each item.
        replicates: bootstrap replicates.
        name: keys the bootstrap's draws, so that no two parts share them.
        turned: whether the floor is 1 - accuracy; None: where that is the larger.

    Returns:
        The first entries that `floor` gives, to `decided_pairs`.
    """
    _, member = np.unique(pairs, return_inverse=True)
    size, right = np.bincount(member), np.bincount(member, weights=correct)
    counts = drawn_pairs(len(size), replicates, name)
    low, high = statistics.percentile_interval((counts @ right) / (counts @ size))
    accuracy = float(right.sum() / size.sum())
    turned = accuracy < 0.5 if turned is None else turned
    decided = int(((right == 0) | (right == size)).sum())
    return {
        "accuracy": accuracy,
        "floor": 1 - accuracy if turned else accuracy,
        "floor_at_chance": floor_at_chance(decided, len(size)),
        "interval": [low, high],
        "floor_interval": [1 - high, 1 - low] if turned and low is not None else [low, high],
        "pairs": len(size),
        "decided_pairs": decided,
    }


def floor_at_chance(decided: int, pairs: int) -> float:
    """Expected max(accuracy, 1 - accuracy) where a coin decides `decided` of `pairs` pairs, the rest halves.

    A sum S of m coins of +-1 has E|S| = m C(m - 1, floor(m / 2)) / 2^(m - 1), and accuracy is
    1/2 + S / (2 pairs).
    """
    if decided == 0:
        return 0.5
    distance = decided * math.comb(decided - 1, decided // 2) / 2 ** (decided - 1)
    return 0.5 + distance / (2 * pairs)


def _below_chance(scored: dict[str, Any], cause: Callable[[], str] | None) -> tuple[bool, str | None]:
    surely = scored["interval"][1] is not None and scored["interval"][1] < 0.5
    if not surely and scored["accuracy"] >= _FAR_BELOW:
        return False, None
    if cause is None:
        return True, None
    return True, cause() + ("" if surely else "; the interval reaches 0.5, so chance alone may do")


@lru_cache(maxsize=16)  # every checkpoint's floors of one part draw the same pairs
def drawn_pairs(pairs: int, replicates: int, name: str) -> np.ndarray:
    """(replicates, pairs) how often each pair is drawn, keyed by the part's name."""
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    counts = statistics.cluster_counts(pairs, replicates, key).astype(np.float64)
    counts.flags.writeable = False
    return counts
