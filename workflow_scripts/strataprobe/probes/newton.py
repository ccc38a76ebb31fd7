"""Newton's method for multinomial logistic regressions that share their items.

Steps are solved for by conjugate gradients. Unscaled states of a residual stream make that hard: a few
directions, and a few items, are a thousand times longer than the rest. Along each principal axis of the items
the classes' curvatures make a small matrix; these are inverted as the preconditioner. Each step centres the
items anew, on those that still matter to it, as a free intercept allows. Steps are solved for in single
precision, since the next one mends what is rough in one; gradients and objective are in double.

Source: Nocedal and Wright (2006), Numerical Optimization, section 7.1.
"""

import numpy as np

from strataprobe.probes.softmax import Pair, Point, Task, balanced, gradient_at, size_of, times

# What a step leaves of the gradient: this share, a smaller one where the objective has little left to fall,
_ROUGHLY = 0.3
# but nothing is gained by less than this share of the tolerance.
_BELOW = 0.5
_INNER_STEPS = 400
# A step must bring this share of the decrease that its slope promises, up to rounding.
_SUFFICIENT = 1e-4
_HALVINGS = 30
_TINY = 1e-30


def descend(
    axes: np.ndarray, task: Task, weights: np.ndarray, bias: np.ndarray, tolerance: float, max_iterations: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fits from where they start to their optimum; those that are there drop out.

    Args:
        axes: (problems, items, axes) the items.
        task: what the fits are to learn.
        weights, bias: (problems, classes, fits, axes) and (problems, classes, fits, 1).
        tolerance: largest gradient of scikit-learn's objective.
        max_iterations: Newton steps.

    Returns:
        Weights and bias, balanced; of classes not present 0 and -inf. (problems, fits) booleans: converged.
    """
    weights, bias = balanced(weights, task.present), balanced(bias, task.present)
    converged = np.zeros((len(weights), weights.shape[2]), bool)
    left, present = np.arange(weights.shape[2]), task.present
    point = Point.at(task, weights, bias, times(weights, axes.swapaxes(1, 2)) + bias)
    for _ in range(max_iterations):
        gradient = gradient_at(axes, task, point)
        live = size_of(*gradient) >= tolerance * task.scale
        converged[:, left] = ~live[:, 0, :, 0]
        kept = live.any(axis=0).ravel()
        if not kept.any():
            break
        left, task, point = left[kept], task.only(kept), point.only(kept)
        live, gradient = live[:, :, kept], tuple(part[:, :, kept] for part in gradient)
        step = _newton_step(axes, task, point, gradient, live, tolerance)
        point = _line_search(axes, task, point, gradient, step, live)
        weights[:, :, left], bias[:, :, left] = point.weights, point.bias
    return weights, np.where(present, bias, -np.inf), converged


def _line_search(
    axes: np.ndarray,
    task: Task,
    point: Point,
    gradient: Pair,
    step: Pair,
    live: np.ndarray,
) -> Point:
    """Where a step leads, or a half, a quarter of it ...; fits that are not live stay where they are."""
    weights, bias = step
    logits = times(weights, axes.swapaxes(1, 2)) + bias
    slope = (gradient[0] * weights).sum(axis=(1, 3), keepdims=True)
    slope += (gradient[1] * bias).sum(axis=(1, 3), keepdims=True)
    length = live.astype(float)
    for _ in range(_HALVINGS):
        reached = Point.at(
            task,
            point.weights + length * weights,
            point.bias + length * bias,
            point.logits + length * logits,
        )
        allowed = point.value + _SUFFICIENT * length * slope + point.rounding
        short = live & ~(reached.value <= allowed)
        if not short.any():
            break
        length = np.where(short, length / 2, length)
    return reached


class _Model:
    """The objective around a point, in coordinates centred on the items that matter there, in float32.

    Along axis j the classes' curvature is 1 + sum_i C z_ij^2 (diag(p_i) - p_i p_i'), z_i an item and p_i its
    probabilities. Fits share the centre and this: they differ in few of their items.

    Attributes:
        centre: (problems, 1, 1, axes) float64, the mean of the items weighted by their curvature.
    """

    def __init__(self, axes: np.ndarray, task: Task, point: Point, live: np.ndarray):
        # The mean over the fits that are still on their way.
        weighted = point.chance * (task.cost * live / np.maximum(live.sum(axis=2, keepdims=True), 1))
        matter = (weighted * (1 - point.chance)).sum(axis=(1, 2))[:, None]
        centre = matter @ axes / np.maximum(matter.sum(axis=-1, keepdims=True), _TINY)
        self.centre = centre[:, None]
        self._items = (axes - centre).astype(np.float32)
        self._inverse = _inverse_along_axes(self._items, point.chance, weighted)
        self._inverse_of_bias = _inverse_of_bias(task, point.chance)
        self._present = task.present
        self._chance = point.chance.astype(np.float32)
        self._likeliest = point.chance.argmax(axis=1, keepdims=True)
        self._weighted = (task.cost * point.chance).astype(np.float32)

    def curved(self, weights: np.ndarray, bias: np.ndarray) -> Pair:
        """The Hessian times a direction."""
        logits = times(weights, self._items.swapaxes(1, 2)) + bias
        # From the likeliest class on: its own part would else be a difference of nearly equal numbers.
        logits -= np.take_along_axis(logits, self._likeliest, axis=1)
        logits -= (self._chance * logits).sum(axis=1, keepdims=True)
        logits *= self._weighted
        return weights + times(logits, self._items), logits.sum(axis=-1, keepdims=True)

    def preconditioned(self, weights: np.ndarray, bias: np.ndarray) -> Pair:
        """About the inverse of the Hessian times a direction; both sum to 0 over the classes present."""
        along = np.einsum("pcdj,pdfj->pcfj", self._inverse, weights)
        shifted = np.einsum("pfcd,pdfj->pcfj", self._inverse_of_bias, bias)
        return balanced(along, self._present), balanced(shifted, self._present).astype(np.float32)

    def downhill(self, gradient: Pair) -> Pair:
        """The negative gradient in these coordinates."""
        weights, bias = gradient
        return (bias * self.centre - weights).astype(np.float32), (-bias).astype(np.float32)

    def size_outside(self, residual: Pair) -> np.ndarray:
        """(problems, 1, fits, 1) the size of a gradient in the coordinates that the tolerance is in."""
        weights, bias = residual
        return size_of(weights + bias * self.centre.astype(np.float32), bias)

    def outside(self, step: Pair) -> Pair:
        """A step in the coordinates of the gradient, in double."""
        weights, bias = (balanced(part.astype(np.float64), self._present) for part in step)
        return weights, bias - (weights * self.centre).sum(axis=-1, keepdims=True)


def _inverse_along_axes(items: np.ndarray, chance: np.ndarray, weighted: np.ndarray) -> np.ndarray:
    """(problems, classes, classes, axes) float32: the inverse of the classes' curvature along each axis.

    It is for directions that sum to 0 over classes. What it would do to others, curved by the penalty alone,
    is taken out: in single precision that would drown the rest.
    """
    classes = chance.shape[1]
    rows, columns = np.triu_indices(classes, 1)
    between = np.einsum("pcfi,pcfi->pci", weighted[:, rows], chance[:, columns]).astype(np.float32)
    blocks = np.zeros((len(items), items.shape[2], classes, classes))
    blocks[..., rows, columns] = -(between @ items**2).swapaxes(1, 2)
    blocks += blocks.swapaxes(2, 3)
    # p_c - p_c^2 is the sum of p_c p_d over the other classes d; so summed, rounding makes nothing negative.
    diagonal = np.arange(classes)
    blocks[..., diagonal, diagonal] = 1 - blocks.sum(axis=-1)
    inverse = np.linalg.inv(blocks) - 1 / classes
    return np.ascontiguousarray(inverse.transpose(0, 2, 3, 1)).astype(np.float32)


def _inverse_of_bias(task: Task, chance: np.ndarray) -> np.ndarray:
    """(problems, fits, classes, classes) the inverse curvature of the bias.

    Where there is none, for equal amounts to all classes and for classes that are not present, it is made as
    large as elsewhere: nothing goes there.
    """
    weighted = task.cost * chance
    curvature = -np.einsum("pcfi,pdfi->pfcd", weighted, chance)
    classes = range(chance.shape[1])
    curvature[..., classes, classes] += weighted.sum(axis=-1).swapaxes(1, 2)
    size = np.trace(curvature, axis1=-2, axis2=-1)[..., None] / len(classes) + _TINY
    absent = ~task.present[..., 0].swapaxes(1, 2)
    curvature[..., classes, classes] += size * (1e-9 + absent)
    return np.linalg.inv(curvature + size[..., None] / len(classes))


def _newton_step(
    axes: np.ndarray, task: Task, point: Point, gradient: Pair, live: np.ndarray, tolerance: float
) -> Pair:
    """A step after which little of the gradient would be left, were the objective as around this point.

    By preconditioned conjugate gradients; fits that are not live, or done, wait for the others.
    """
    model = _Model(axes, task, point, live)
    residual = model.downhill(gradient)
    direction = model.preconditioned(*residual)
    step = np.zeros_like(direction[0]), np.zeros_like(direction[1])
    before = size = _inner(residual, direction)
    share = np.minimum(_ROUGHLY, (np.maximum(size, 0) / (point.value + _TINY)) ** 0.25)
    going, enough = live & (size > 0), _BELOW * tolerance * task.scale
    for _ in range(_INNER_STEPS):
        image = model.curved(*direction)
        length = _quotient(size, _inner(direction, image), going)
        step, residual = _sum(step, length, direction), _sum(residual, -length, image)
        down = model.preconditioned(*residual)
        old, size = size, _inner(residual, down)
        going = going & (size > share**2 * before) & (model.size_outside(residual) > enough)
        if not going.any():
            break
        direction = _sum(down, _quotient(size, old, going), direction)
    return model.outside(step)


def _sum(one: Pair, length: np.ndarray, other: Pair) -> Pair:
    """one + length times other."""
    return one[0] + length * other[0], one[1] + length * other[1]


def _inner(one: Pair, other: Pair) -> np.ndarray:
    """(problems, 1, fits, 1) inner product of two directions, summed in double."""
    parts = zip(one, other, strict=True)
    found = sum(np.einsum("pcfj,pcfj->pf", a, b, dtype=np.float64) for a, b in parts)
    return found[:, None, :, None]


def _quotient(above: np.ndarray, below: np.ndarray, where: np.ndarray) -> np.ndarray:
    """above / below as float32, 0 where it is not asked for."""
    return np.divide(above, below, out=np.zeros_like(above), where=where & (below > 0)).astype(np.float32)
