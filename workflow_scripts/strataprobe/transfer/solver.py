"""Many logistic regressions over the same items, solved at once, without scikit-learn.

A fit is scikit-learn's `StandardScaler` and `LogisticRegression` on some of the items: features
standardised by the training items, then the minimum over w and b of

    |w|^2 / 2 + C sum_i log(1 + exp(-y_i (w.x_i + b)))

Fits differ only in which items they train on, so a layer's fits read the same matrix: a step of all of them
is a few matrix products. They go down by nonlinear conjugate gradients in the metric of one Hessian H that a
layer's fits share (rebuilt as they advance), first in single precision, then in double. Logits are linear in
the step, so a line search costs no matrix product. The end is where sqrt(g' H^-1 g) is small, g a fit's
gradient: with the fit's own Hessian, which is at least 1, that bounds the distance to the optimal weights.
"""

from dataclasses import dataclass

import numpy as np

from strataprobe.errors import ProbeError
from strataprobe.transfer.features import Features, Metric, dot

# Activations solved at once: what the caches of a core hold beside the weights.
_CACHED_BYTES = 2**20
# Steps at which the shared Hessian is built anew: often at first, when the curvature of the items changes.
_REBUILT = frozenset({0, 2, 6, 16})
# Single precision goes down to this gradient in the metric, or for so many steps; double goes on from there.
_ROUGH = 1e-3
_ROUGH_STEPS = 60
# A line search ends where the slope is this share of the slope it began with.
_SLOPE_LEFT = 0.1
# Steps of a line search; near the end of single precision its slope is rounding.
_SEARCHES = 10
_TINY = 1e-30


@dataclass(frozen=True)
class Solution:
    """Solved fits.

    Attributes:
        weights: (layers, fits, hidden) float64, on features standardised by the fit's training items.
        biases: (layers, fits) float64.
        logits: (layers, fits, items) float64 of all items, held-out ones too.
    """

    weights: np.ndarray
    biases: np.ndarray
    logits: np.ndarray


def solve(
    states: np.ndarray,
    labels: np.ndarray,
    train: np.ndarray,
    *,
    C: float = 1.0,
    tolerance: float = 1e-5,
    max_iterations: int = 1000,
) -> Solution:
    """All fits of all layers.

    Args:
        states: (layers, items, hidden) activations.
        labels: (items,) of -1 or +1.
        train: (fits, items) booleans, the items each fit trains on.
        C: weight of the data against the penalty, as in scikit-learn.
        tolerance: where sqrt(g' H^-1 g) ends; about the weights' distance to the optimum.
        max_iterations: steps before giving up.

    Raises:
        ProbeError: non-finite activations, a fit with one class only, or no convergence.
    """
    refuse_infinite(states)
    positive = labels > 0
    one_class = np.flatnonzero(~((train & positive).any(axis=1) & (train & ~positive).any(axis=1)))
    if len(one_class):
        raise ProbeError(f"fits {one_class.tolist()} have one class only among their training items")
    layers, items, hidden = states.shape
    size = max(1, _CACHED_BYTES // (8 * items * hidden))
    solved = [
        _solve_block(states[first : first + size], positive, train, C, tolerance, max_iterations)
        for first in range(0, layers, size)
    ]
    weights, biases, logits = (np.concatenate(parts) for parts in zip(*solved, strict=True))
    return Solution(weights.transpose(0, 2, 1), biases[:, 0, :], logits.transpose(0, 2, 1))


def refuse_infinite(states: np.ndarray) -> None:
    """Refuse activations that hold NaN or an infinity.

    Raises:
        ProbeError: names the layers and how many items each.
    """
    bad = ~np.isfinite(states).all(axis=2)
    if bad.any():
        counts = {layer: int(count) for layer, count in enumerate(bad.sum(axis=1)) if count}
        named = ", ".join(
            f"layer {layer}: {count} of {bad.shape[1]} items" for layer, count in counts.items()
        )
        raise ProbeError(f"activations are not finite ({named}); capture them again in float32 or bfloat16")


@dataclass(frozen=True)
class _Task:
    """What the fits are to learn.

    Attributes:
        cost: (1, items, fits) weight of each item's loss, 0 where it is held out.
        target: (1, items, 1) 1 for the positive class, 0 for the other.
        trained: (items,) how many fits train on an item, at least 1.
    """

    cost: np.ndarray
    target: np.ndarray
    trained: np.ndarray

    def single(self) -> "_Task":
        return _Task(*(part.astype(np.float32) for part in (self.cost, self.target, self.trained)))


@dataclass(frozen=True)
class _Point:
    """Where the fits stand, or a step.

    Attributes:
        weights: (layers, hidden, fits).
        bias: (layers, 1, fits).
        image: (layers, items, fits) features times weights.
    """

    weights: np.ndarray
    bias: np.ndarray
    image: np.ndarray

    def plus(self, length: np.ndarray, step: "_Point") -> "_Point":
        return _Point(
            self.weights + length * step.weights,
            self.bias + length * step.bias,
            self.image + length * step.image,
        )

    @property
    def logits(self) -> np.ndarray:
        """(layers, items, fits), or their change along a step."""
        return self.image + self.bias


def _solve_block(
    states: np.ndarray,
    positive: np.ndarray,
    train: np.ndarray,
    C: float,
    tolerance: float,
    max_iterations: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights (layers, hidden, fits), biases (layers, 1, fits) and logits (layers, items, fits)."""
    features = Features.of(states, train)
    layers, items, hidden = states.shape
    task = _Task(
        np.where(train.T, C, 0.0)[None],
        positive.astype(float)[None, :, None],
        np.maximum(train.sum(axis=0), 1).astype(float),
    )
    zeros = [np.zeros((layers, size, len(train)), np.float32) for size in (hidden, 1, items)]
    rough, steps = features.single(), min(_ROUGH_STEPS, max_iterations)
    metric = Metric(features, rough)
    point, _ = _descend(rough, metric, _Point(*zeros), task.single(), max(_ROUGH, tolerance), steps, _REBUILT)
    weights = point.weights.astype(float)
    point = _Point(weights, point.bias.astype(float), features.image(weights))
    point, left = _descend(features, metric, point, task, tolerance, max_iterations)
    if left:
        raise ProbeError(f"{left} logistic regressions did not converge in {max_iterations} steps")
    return point.weights, point.bias, point.logits


def _descend(
    features: Features,
    metric: Metric,
    point: _Point,
    task: _Task,
    tolerance: float,
    max_iterations: int,
    rebuilt: frozenset[int] = frozenset(),
) -> tuple[_Point, int]:
    """Where the fits end, and how many are not there yet; the metric is rebuilt at the steps given."""
    chance = _sigmoid(point.logits)
    before = None
    for step in range(max_iterations):
        residual = task.cost * (chance - task.target)
        curvature = task.cost * chance * (1 - chance)
        if step in rebuilt:
            metric.rebuild(curvature.sum(axis=2) / task.trained)
            before = None
        gradient = features.back(residual) + point.weights, residual.sum(axis=1, keepdims=True)
        weights = -metric.apply(gradient[0])
        # The bias has a Hessian of its own, since a fit's features are centred.
        bias = -gradient[1] / np.maximum(curvature.sum(axis=1, keepdims=True), _TINY)
        down = _Point(weights, bias, features.image(weights))
        size = -_inner(gradient, down)
        live = size > tolerance**2
        if not live.any():
            return point, 0
        direction = _conjugate(gradient, down, size, before)
        before = gradient, size, direction
        length, chance = _line_search(point, direction, chance, task, live)
        point = point.plus(length, direction)
    return point, int(live.sum())


def _conjugate(
    gradient: tuple[np.ndarray, np.ndarray],
    down: _Point,
    size: np.ndarray,
    before: tuple | None,
) -> _Point:
    """The next direction (Polak and Ribiere, never negative); plain descent where that is no way down."""
    if before is None:
        return down
    old_gradient, old_size, old = before
    keep = np.maximum(0, (size + _inner(old_gradient, down)) / np.maximum(old_size, _TINY))
    slope = keep * _inner(gradient, old) - size
    return down.plus(np.where(slope < 0, keep, 0), old)


def _line_search(
    point: _Point,
    step: _Point,
    chance: np.ndarray,
    task: _Task,
    live: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """How far to go (layers, 1, fits), and the probabilities there (layers, items, fits).

    Newton's method on the slope, which only rises along a line; a step out of the bracket found so far is
    replaced by its middle. Fits that are not live stay where they are.
    """
    linear = dot(point.weights, step.weights)
    square = dot(step.weights, step.weights)
    logits, along = point.logits, step.logits
    weighted = task.cost * along

    def slope(length: np.ndarray, chance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first = linear + length * square + dot(weighted, chance - task.target)
        second = square + dot(weighted * along, chance * (1 - chance))
        return first, np.maximum(second, _TINY)

    low = np.zeros_like(linear)
    high = np.full_like(linear, np.inf)
    start, second = slope(low, chance)
    length = np.where(live, -start / second, 0)
    for _ in range(_SEARCHES):
        chance = _sigmoid(logits + length * along)
        first, second = slope(length, chance)
        todo = live & (np.abs(first) > _SLOPE_LEFT * np.abs(start))
        if not todo.any():
            break
        low, high = np.where(first < 0, length, low), np.where(first > 0, length, high)
        newton = length - first / second
        inside = (newton > low) & (newton < high)
        middle = np.where(np.isfinite(high), (low + high) / 2, 2 * low)
        length = np.where(todo, np.where(inside, newton, middle), length)
    else:
        chance = _sigmoid(logits + length * along)
    return length, chance


def _inner(gradient: tuple[np.ndarray, np.ndarray], step: _Point) -> np.ndarray:
    """(layers, 1, fits): how fast the objective changes along a step."""
    return dot(gradient[0], step.weights) + gradient[1] * step.bias


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # exp of a very negative logit's negative is infinite, and 0 is right
        return 1 / (1 + np.exp(-logits))
