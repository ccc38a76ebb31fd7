"""What many logistic regressions on the same items share: their features and a Hessian."""

from dataclasses import dataclass

import numpy as np

# A coordinate that varies this little among a fit's training items, relative to all items, is constant there.
_CONSTANT = 1e-12


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(layers, 1, fits): sums of the products over the middle axis."""
    return np.einsum("lkf,lkf->lf", a, b)[:, None, :]


@dataclass(frozen=True)
class Features:
    """Activations standardised by all items, and what each fit's own scaler makes of them.

    Standardising by all items only sets the coordinates of the computation. A fit's features are
    states * stretch - shift, of mean 0 and variance 1 over its own training items.

    Attributes:
        states, transposed: (layers, items, hidden) and (layers, hidden, items) float64.
        stretch, shift: (layers, hidden, fits).
    """

    states: np.ndarray
    transposed: np.ndarray
    stretch: np.ndarray
    shift: np.ndarray

    @classmethod
    def of(cls, raw: np.ndarray, train: np.ndarray) -> "Features":
        states = raw.astype(np.float64)
        states -= states.mean(axis=1, keepdims=True)
        spread = np.sqrt((states**2).mean(axis=1, keepdims=True))
        states /= np.where(spread > 0, spread, 1.0)
        transposed = states.transpose(0, 2, 1)
        share = (train / train.sum(axis=1, keepdims=True)).T  # (items, fits)
        mean = transposed @ share
        variance = (transposed**2) @ share - mean**2
        # Of a coordinate that is constant among the training items, the penalty makes the weight 0.
        stretch = 1 / np.sqrt(np.where(variance > _CONSTANT, variance, 1.0))
        return cls(states, transposed, stretch, mean * stretch)

    def image(self, weights: np.ndarray) -> np.ndarray:
        """(layers, items, fits): the features times weights (layers, hidden, fits)."""
        return self.states @ (self.stretch * weights) - dot(self.shift, weights)

    def back(self, values: np.ndarray) -> np.ndarray:
        """(layers, hidden, fits): the features' transpose times values (layers, items, fits)."""
        total = values.sum(axis=1, keepdims=True)
        return self.stretch * (self.transposed @ values) - self.shift * total

    def single(self) -> "Features":
        """The same in float32."""
        states = self.states.astype(np.float32)
        return Features(
            states,
            states.transpose(0, 2, 1),
            self.stretch.astype(np.float32),
            self.shift.astype(np.float32),
        )


class Metric:
    """The inverse of I + X' diag(v) X, one a layer, X the activations standardised by all items.

    With far fewer items than coordinates it stays a product of small matrices. That form subtracts two nearly
    equal numbers, so it is kept in double precision; the other is good enough in single.
    """

    def __init__(self, exact: Features, rough: Features):
        _, items, hidden = exact.states.shape
        few_items = 2 * items < hidden
        self._features = exact if few_items else rough
        self._gram = exact.states @ exact.transposed if few_items else None

    def rebuild(self, value: np.ndarray) -> None:
        """Weigh items by v = value (layers, items)."""
        if self._gram is not None:
            root = np.sqrt(value)
            inner = root[:, :, None] * self._gram * root[:, None, :] + np.eye(value.shape[1])
            self._inverse = root[:, :, None] * _inverse(inner) * root[:, None, :]
            return
        states = self._features.states
        hessian = (self._features.transposed * value[:, None, :].astype(states.dtype)) @ states
        self._inverse = _inverse(hessian + np.eye(states.shape[2], dtype=hessian.dtype))

    def apply(self, gradient: np.ndarray) -> np.ndarray:
        """The inverse times (layers, hidden, fits)."""
        if self._gram is None:
            return (self._inverse @ gradient.astype(self._inverse.dtype)).astype(gradient.dtype)
        states, transposed = self._features.states, self._features.transposed
        return (gradient - transposed @ (self._inverse @ (states @ gradient))).astype(gradient.dtype)


def _inverse(matrices: np.ndarray) -> np.ndarray:
    """Of symmetric positive definite matrices (layers, n, n), by Cholesky (faster than numpy's by LU)."""
    from scipy.linalg import lapack

    factor, invert = (
        (lapack.spotrf, lapack.spotri) if matrices.dtype == np.float32 else (lapack.dpotrf, lapack.dpotri)
    )
    inverses = np.empty_like(matrices)
    for layer, matrix in enumerate(matrices):
        half = np.tril(invert(factor(matrix, lower=1)[0], lower=1)[0])
        inverses[layer] = half + np.tril(half, -1).T
    return inverses
