"""The objective of multinomial logistic regressions that share their items, and its gradient.

Arrays are (problems, classes, fits, ...): sums over classes then run along the items, which is fast.
"""

from dataclasses import dataclass

import numpy as np

_ROUNDING = 1e-14

Pair = tuple[np.ndarray, np.ndarray]
"""Weights (problems, classes, fits, axes) and bias (problems, classes, fits, 1), or a gradient by them."""


@dataclass(frozen=True)
class Task:
    """What the fits are to learn.

    Attributes:
        target: (problems, classes, 1, items) 1 where an item is of a class.
        cost: (problems, 1, fits, items) weight of an item's loss, 0 where a fit does not use it.
        present: (problems, classes, fits, 1) booleans: a fit has items of the class.
        scale: (problems, 1, fits, 1) C times the items used: our objective over scikit-learn's.
    """

    target: np.ndarray
    cost: np.ndarray
    present: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, target: np.ndarray, used: np.ndarray, C: float) -> "Task":
        """From target (problems, classes, items) and used (problems, fits, items)."""
        cost = C * used[:, None]
        present = (target @ used.swapaxes(1, 2) > 0)[..., None]
        return cls(target[:, :, None], cost, present, cost.sum(axis=-1, keepdims=True))

    def only(self, fits: np.ndarray) -> "Task":
        """Some of the fits, given as (fits,) booleans."""
        return Task(self.target, self.cost[:, :, fits], self.present[:, :, fits], self.scale[:, :, fits])


@dataclass(frozen=True)
class Point:
    """Where the fits stand.

    Attributes:
        weights: (problems, classes, fits, axes), 0 for classes that are not present.
        bias: (problems, classes, fits, 1).
        logits: (problems, classes, fits, items).
        chance: the same shape, the classes' probabilities.
        value: (problems, 1, fits, 1) the objective.
        rounding: (problems, 1, fits, 1) how much of it may be rounding: a loss is a difference of logits.
    """

    weights: np.ndarray
    bias: np.ndarray
    logits: np.ndarray
    chance: np.ndarray
    value: np.ndarray
    rounding: np.ndarray

    @classmethod
    def at(cls, task: Task, weights: np.ndarray, bias: np.ndarray, logits: np.ndarray) -> "Point":
        open_to = np.where(task.present, logits, -np.inf)
        largest = open_to.max(axis=1, keepdims=True)
        chance = np.exp(open_to - largest)
        total = chance.sum(axis=1, keepdims=True)
        chance /= total
        loss = largest + np.log(total) - (logits * task.target).sum(axis=1, keepdims=True)
        penalty = (weights**2).sum(axis=(1, 3), keepdims=True) / 2
        value = (task.cost * loss).sum(axis=-1, keepdims=True) + penalty
        rounding = _ROUNDING * (value + (task.cost * np.abs(largest)).sum(axis=-1, keepdims=True))
        return cls(weights, bias, logits, chance, value, rounding)

    def only(self, fits: np.ndarray) -> "Point":
        parts = self.weights, self.bias, self.logits, self.chance, self.value, self.rounding
        return Point(*(part[:, :, fits] for part in parts))


def balanced(part: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Weights, a bias or directions with mean 0 over the classes present, and 0 elsewhere.

    Equal amounts for all classes change no probability, so at the optimum the penalty has made them 0.
    """
    present = present.astype(part.dtype)
    part = part * present
    return part - present * (part.sum(axis=1, keepdims=True) / present.sum(axis=1, keepdims=True))


def times(columns: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """(problems, classes, fits, b) from (problems, classes, fits, a) and (problems, a, b)."""
    problems, classes, fits, _ = columns.shape
    return (columns.reshape(problems, classes * fits, -1) @ matrix).reshape(problems, classes, fits, -1)


def gradient_at(axes: np.ndarray, task: Task, point: Point) -> Pair:
    """The gradient by weights and bias, 0 for classes that are not present."""
    residual = task.cost * (point.chance - task.target)
    weights = times(residual, axes) + point.weights
    bias = residual.sum(axis=-1, keepdims=True)
    return np.where(task.present, weights, 0.0), np.where(task.present, bias, 0.0)


def size_of(weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """(problems, 1, fits, 1) the longest gradient of a class: no entry of it, along any axes, is larger."""
    length = np.sqrt((weights**2).sum(axis=-1, keepdims=True))
    return np.maximum(length, np.abs(bias)).max(axis=1, keepdims=True)
