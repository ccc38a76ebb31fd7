"""The best any linear rule could do under noise, without training a probe."""

import numpy as np
from scipy.special import ndtr, ndtri

from strataprobe.fragility.critical import Critical
from strataprobe.statistics import ledoit_wolf_shrinkage


class Ceiling:
    """Accuracy of the best linear rule for two Gaussian classes and isotropic Gaussian noise, by layer.

    A(s) = Phi(0.5 sqrt(d' (Sw + s^2 I)^-1 d)), d the difference of the class means and Sw the within-class
    covariance of the training items, shrunk towards the scaled identity (Ledoit and Wolf). Both are
    estimates from few items in many dimensions, so without noise the value is optimistic.

    Source: DEFINITIONS, ceiling without a probe.
    """

    def __init__(self, states: np.ndarray, labels: np.ndarray):
        """Decompose each layer once.

        Args:
            states: (layers, items, hidden) training activations.
            labels: (items,) of -1 or +1.
        """
        self._energy: list[np.ndarray] = []
        self._variance: list[np.ndarray] = []
        for layer in states:
            energy, variance = _spectrum(layer.astype(np.float64), labels)
            self._energy.append(energy)
            self._variance.append(variance)

    def accuracy(self, sigma: np.ndarray) -> np.ndarray:
        """(layers, levels) accuracy at noise levels sigma (levels,), in activation units."""
        return np.stack([self._at(layer, np.asarray(sigma, float)) for layer in range(len(self._energy))])

    def _at(self, layer: int, sigma: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):  # a difference without variance, and no noise: accuracy 1
            terms = self._energy[layer] / (self._variance[layer] + sigma[:, None] ** 2)
        return ndtr(0.5 * np.sqrt(terms.sum(axis=1)))

    def critical_noise(self, threshold: float) -> list[Critical]:
        """The noise at which each layer's ceiling falls to the threshold (it falls monotonically)."""
        return [self._critical(layer, threshold) for layer in range(len(self._energy))]

    def _critical(self, layer: int, threshold: float) -> Critical:
        if self._at(layer, np.zeros(1))[0] < threshold:
            return Critical(None, "below_threshold")
        # Without any class variance the accuracy at s is Phi(|d| / 2s): an upper bound of the crossing.
        high = np.sqrt(self._energy[layer].sum()) / (2 * ndtri(threshold)) * 1.0001
        low = 0.0
        for _ in range(100):
            middle = (low + high) / 2
            if self._at(layer, np.array([middle]))[0] < threshold:
                high = middle
            else:
                low = middle
        return Critical(float((low + high) / 2), "value")


def _spectrum(states: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared mean difference by eigendirection of Sw, and the variance there.

    Works in the smaller of items and hidden: what lies outside the span of the items has the shrinkage
    target's variance only, and is gathered in a last entry.
    """
    centred = states.copy()
    for label in (-1, 1):
        centred[labels == label] -= states[labels == label].mean(axis=0)
    difference = states[labels == 1].mean(axis=0) - states[labels == -1].mean(axis=0)
    items, hidden = centred.shape
    gram = centred @ centred.T if items < hidden else centred.T @ centred
    shrinkage = ledoit_wolf_shrinkage(centred, gram)
    floor = shrinkage * (centred**2).sum() / (items * hidden)
    if items < hidden:
        values, squares = spectral_measure(gram / items, centred @ difference)
        kept = values > values.max() * 1e-12
        values = values[kept]
        squares = squares[kept] / (values * items)
        rest = max(float(difference @ difference - squares.sum()), 0.0)
    else:
        values, squares = spectral_measure(gram / items, difference)
        values = np.maximum(values, 0.0)
        rest = 0.0  # the eigenvectors span everything; rounding would be divided by a tiny variance
    energy = np.concatenate([squares, [rest]])
    variance = np.concatenate([(1 - shrinkage) * values + floor, [floor]])
    return energy, np.maximum(variance, np.finfo(float).tiny)


def spectral_measure(matrix: np.ndarray, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of a symmetric matrix, and the square of the vector's component along each eigenvector.

    The matrix is turned so that the vector lies along the first axis, which its tridiagonal form keeps: the
    components then stand first in the eigenvectors of that form, in half the time of a full decomposition.

    Args:
        matrix: (n, n) symmetric, float64.
        vector: (n,).

    Returns:
        (n,) eigenvalues, rising, and (n,) squares that sum to |vector|^2.

    Source: Golub and Welsch, Calculation of Gauss quadrature rules (1969).
    """
    from scipy.linalg import eigh_tridiagonal
    from scipy.linalg.lapack import dsytrd

    length = np.linalg.norm(vector)
    mirror = vector.astype(np.float64)
    mirror[0] += np.copysign(length, mirror[0])
    size = mirror @ mirror
    if size > 0:
        image = matrix @ mirror * (2 / size)
        image -= mirror * (image @ mirror / size)
        turned = np.outer(mirror, image)
        matrix = matrix - turned - turned.T
    if len(vector) == 1:
        return matrix[0], np.array([length**2])
    _, diagonal, beside, _, _ = dsytrd(np.asfortranarray(matrix), lower=1, lwork=64 * len(vector))
    values, vectors = eigh_tridiagonal(diagonal, beside)
    return values, (length * vectors[0]) ** 2
