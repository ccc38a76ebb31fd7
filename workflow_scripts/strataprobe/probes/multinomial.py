"""Many multinomial logistic regressions solved at once, without scikit-learn.

A fit is scikit-learn's `LogisticRegression(C=C)` on some of a problem's items: the minimum over W and b of

    |W|^2 / 2 + C sum_i ( log sum_c exp(w_c.x_i + b_c) - w_y.x_i - b_y )

Items are turned into their own principal axes first: no solution changes, fewer items than dimensions span
fewer axes, and the curvature is nearly diagonal there. `newton` does the rest.
"""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from strataprobe.errors import ProbeError, listing, numbered
from strataprobe.probes.newton import descend
from strataprobe.probes.softmax import Task

# Features solved together: what the caches of a core hold.
_CACHED_BYTES = 2**21


def solve_multinomial(
    features: np.ndarray,
    labels: np.ndarray,
    *,
    classes: int,
    C: float,
    tolerance: float,
    max_iterations: int,
    weights: np.ndarray | None = None,
    workers: int = 1,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All problems, each with one fit or several.

    Fits of one problem share its features; they start from the solution on all items that any of them uses.
    Results are the same bits for any number of workers.

    Args:
        features: (problems, items, d), of any scale.
        labels: (items,) or (problems, items) whole numbers from 0 to classes - 1.
        classes: how many. One that a fit has no item of is left out of that fit.
        C: weight of the data against the penalty, as in scikit-learn.
        tolerance: where the gradient of scikit-learn's objective (ours over C times the items used) ends; no
            entry of it is larger.
        max_iterations: Newton steps before giving up.
        weights: (problems, items), or (problems, fits, items) for several fits a problem: 1 for the items
            that a fit uses, 0 for the others. None: all items.
        workers: problems solved at a time, each by one thread.

    Returns:
        Coefficients (problems, classes, d) and intercepts (problems, classes), float64, and (problems,)
        booleans, whether they converged; with several fits a problem, the fits are the second axis of each.
        Of a class left out of a fit the coefficients are 0 and the intercept is -inf.

    Raises:
        ProbeError: non-finite features, labels out of range, or a fit with items of one class only; names
            all.
    """
    from threadpoolctl import threadpool_limits

    problems, items, size = features.shape
    used = np.ones((problems, 1, items)) if weights is None else np.asarray(weights, float)
    several = used.ndim == 3 and weights is not None
    used = used if used.ndim == 3 else used[:, None]
    labels = np.broadcast_to(labels, (problems, items))
    _refuse(features, labels, used, classes)
    each = max(1, _CACHED_BYTES // (8 * items * min(items, size)))

    def solve(first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        block = slice(first, first + each)
        return _solve_block(
            features[block], labels[block], used[block], classes, C, tolerance, max_iterations
        )

    # A product's last bits depend on how many threads share it: one each, and the workers are ours.
    with threadpool_limits(1), ThreadPoolExecutor(workers) as pool:
        solved = list(pool.map(solve, range(0, problems, each)))
    parts = [np.concatenate(part) for part in zip(*solved, strict=True)]
    coefficients, intercepts, converged = parts if several else (part[:, 0] for part in parts)
    return coefficients, intercepts, converged


def predict(features: np.ndarray, coefficients: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """(..., items) index of the class with the largest logit, the first of equal ones.

    Args:
        features: (problems, items, d).
        coefficients, intercepts: (..., problems, classes, d) and (..., problems, classes): a probe a problem,
            or many, all asked about the same items.
    """
    *probes, problems, classes, size = coefficients.shape
    each, items = math.prod(probes), features.shape[1]
    columns = coefficients.reshape(each, problems, classes, size).swapaxes(0, 1).reshape(problems, -1, size)
    logits = features.astype(np.float64) @ columns.swapaxes(1, 2)
    logits = np.moveaxis(logits.reshape(problems, items, each, classes), 2, 0)
    logits = logits + intercepts.reshape(each, problems, 1, classes)
    return logits.argmax(axis=-1).reshape(*probes, problems, items)


def _solve_block(
    features: np.ndarray,
    labels: np.ndarray,
    used: np.ndarray,
    classes: int,
    C: float,
    tolerance: float,
    max_iterations: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What `solve_multinomial` returns, for fits given as used (problems, fits, items)."""
    mean = features.mean(axis=1, keepdims=True, dtype=np.float64)
    axes, rotation = principal_axes(features - mean)
    target = _one_hot(labels, classes)
    either = used.max(axis=1, keepdims=True)
    start = [np.zeros((len(axes), classes, 1, width)) for width in (axes.shape[2], 1)]
    found = descend(axes, Task.of(target, either, C), *start, tolerance, max_iterations)
    if not np.array_equal(used, either):
        start = [np.repeat(part, used.shape[1], axis=2) for part in found[:2]]
        found = descend(axes, Task.of(target, used, C), *start, tolerance, max_iterations)
    weights, bias, converged = found
    fits = weights.swapaxes(1, 2)
    coefficients = fits @ rotation.swapaxes(1, 2)[:, None]
    intercepts = bias.swapaxes(1, 2)[..., 0] - (coefficients @ mean.swapaxes(1, 2)[:, None])[..., 0]
    return coefficients, intercepts, converged


def principal_axes(centred: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Items in coordinates along their principal axes, and the axes.

    Args:
        centred: (problems, items, d).

    Returns:
        (problems, items, r) and (problems, d, r), r the smaller of items and d: the first is `centred` times
        the second, whose columns are orthonormal and span the items.
    """
    span = None
    if centred.shape[1] < centred.shape[2]:
        span, triangle = np.linalg.qr(centred.swapaxes(1, 2))
        centred = triangle.swapaxes(1, 2)
    _, axes = np.linalg.eigh(centred.swapaxes(1, 2) @ centred)
    return centred @ axes, axes if span is None else span @ axes


def _refuse(features: np.ndarray, labels: np.ndarray, used: np.ndarray, classes: int) -> None:
    faults = []
    bad = ~np.isfinite(features).all(axis=2)
    if bad.any():
        faults.append(
            f"features of {numbered(int(bad.sum()), 'item')} are not finite, in problems "
            f"{np.flatnonzero(bad.any(axis=1)).tolist()} (capture them again in float32 or bfloat16)"
        )
    if labels.size and not 0 <= labels.min() <= labels.max() < classes:
        faults.append(f"labels are {labels.min()} to {labels.max()}, for {classes} classes")
    else:
        present = (_one_hot(labels, classes) @ (used > 0).swapaxes(1, 2)) > 0  # (problems, classes, fits)
        lone = np.argwhere(present.sum(axis=1) < 2).tolist()
        if lone:
            places = ", ".join(f"fit {fit} of problem {problem}" for problem, fit in lone)
            faults.append(f"items of two classes or more are needed, there are fewer in {places}")
    if faults:
        raise ProbeError(listing("multinomial probes", faults))


def _one_hot(labels: np.ndarray, classes: int) -> np.ndarray:
    """(problems, classes, items) 1 where an item is of a class."""
    return (labels[:, None, :] == np.arange(classes)[:, None]).astype(float)
