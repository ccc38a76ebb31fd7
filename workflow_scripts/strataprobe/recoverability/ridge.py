"""Ridge regression on the labels, with every fold's held-out predictions in closed form.

What selection and permutations ask for, thousands of leave-one-outs, the published solver cannot give in a
lifetime of a study. Results of this solver say so by name (`ridge`).

For a penalty alpha |w|^2 and a free intercept, residuals of the full fit are M y with
M = alpha (K_c + alpha I)^-1 - 11'/n, K_c the centred Gram matrix. Held-out residuals of a set S are
M_SS^-1 (M y)_S, exactly those of a fit without S; and a fit without S has the residual matrix
M_TT - M_TS M_SS^-1 M_ST on the rest T (M is alpha times a block of an inverse, and leaving rows out is a
Schur complement). Features enter by K alone, so their number costs nothing.

Source: Allen (1974), PRESS; Hastie, Tibshirani and Friedman (2009), section 7.10.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strataprobe.recoverability.codings import MODES
from strataprobe.recoverability.folds import Folds

_ALIKE = 1e-12


def gram_matrices(
    states: Mapping[str, np.ndarray], swapped: np.ndarray, modes: Sequence[str] = MODES
) -> np.ndarray:
    """(layers, modes, items, items) float64 Gram matrices: a mode's is the sum of its positions'.

    Args:
        states: position -> (layers, items, hidden).
        swapped: (items,) where the roles of a and b are exchanged.
    """
    a, b, v = (states[position].astype(np.float64) for position in "abv")
    turned = swapped[:, None]
    roles = {"a": np.where(turned, b, a), "b": np.where(turned, a, b), "v": v}
    of = {position: values @ values.transpose(0, 2, 1) for position, values in roles.items()}
    return np.stack([sum(of[position] for position in mode) for mode in modes], axis=1)


def residual_matrices(grams: np.ndarray, ridge: float) -> np.ndarray:
    """(..., items, items) M of the module's formula.

    Args:
        grams: (..., items, items).
        ridge: the penalty alpha, in units of the mean squared distance of the features from their mean. It
            depends on no label.
    """
    items = grams.shape[-1]
    centring = np.eye(items) - 1 / items
    centred = centring @ grams @ centring
    size, spread = (np.trace(one, axis1=-2, axis2=-1) / items for one in (grams, centred))
    # Features that are all alike, up to rounding, are worth nothing at any penalty.
    alpha = (ridge * np.where(spread > _ALIKE * size, spread, size + 1))[..., None, None]
    return alpha * np.linalg.inv(centred + alpha * np.eye(items)) - 1 / items


def held_out_predictions(residuals: np.ndarray, labels: np.ndarray, folds: Folds) -> np.ndarray:
    """(..., items, labellings) predictions of each item by the fit that held its fold out.

    Args:
        residuals: (..., items, items) of `residual_matrices`.
        labels: (items, labellings) of -1 or +1.
    """
    left = residuals @ labels
    predicted = np.empty(left.shape)
    for fold in range(len(folds.names)):
        (own,) = np.nonzero(folds.held == fold)
        inside = residuals[..., own[:, None], own]
        predicted[..., own, :] = labels[own] - np.linalg.solve(inside, left[..., own, :])
    return predicted


def right(predicted: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Whether a prediction has its label's sign; 0 is the positive class, as p >= 0.5 is."""
    return (predicted >= 0) == (labels > 0)


@dataclass(frozen=True)
class Nested:
    """Held-out items judged at a (layer, mode) that was chosen without them.

    Attributes:
        correct: (items,) booleans.
        layers, modes: (folds,) what the rest of the items chose.
    """

    correct: np.ndarray
    layers: np.ndarray
    modes: np.ndarray


def nested_selection(residuals: np.ndarray, labels: np.ndarray, folds: Folds) -> Nested:
    """Choose layer and mode by held-out accuracy within the rest of the items, for each fold anew.

    The inner folds are the outer ones that are left, so nothing that is held out together is parted. Of equal
    (layer, mode) the first is taken: the lowest layer, then the first mode.

    Args:
        residuals: (layers, modes, items, items) of `residual_matrices`.
        labels: (items,) of -1 or +1.
    """
    signs = labels[:, None].astype(float)
    outer = right(held_out_predictions(residuals, signs, folds), signs)[..., 0]  # (layers, modes, items)
    correct = np.empty(len(labels), bool)
    picks = []
    for fold in range(len(folds.names)):
        out = folds.held == fold
        own, rest = np.flatnonzero(out), np.flatnonzero(~out)
        across = residuals[..., own[:, None], rest]
        inside = np.linalg.solve(residuals[..., own[:, None], own], across)
        without = residuals[..., rest[:, None], rest] - across.swapaxes(-1, -2) @ inside
        kept, inner_held = np.unique(folds.held[rest], return_inverse=True)
        inner = Folds(folds.name, inner_held, tuple(folds.names[k] for k in kept.tolist()))
        if len(kept) > 1:
            predicted = held_out_predictions(without, signs[rest], inner)
            score = right(predicted, signs[rest])[..., 0].sum(axis=-1)
        else:
            score = np.zeros(residuals.shape[:2])  # nothing to choose by
        layer, mode = np.unravel_index(np.argmax(score), score.shape)
        picks.append((layer, mode))
        correct[own] = outer[layer, mode, own]
    layers, modes = np.array(picks).T
    return Nested(correct, layers, modes)


def null_counts(residuals: np.ndarray, labels: np.ndarray, folds: Folds) -> tuple[np.ndarray, np.ndarray]:
    """Right held-out items under many labellings: the most of any (layer, mode), and the mean of each.

    Args:
        residuals: (layers, modes, items, items).
        labels: (labellings, items) of -1 or +1.

    Returns:
        (labellings,) the maximum over layers and modes, and (layers, modes) the mean over labellings.
    """
    signs = labels.T.astype(float)
    best, mean = [], []
    for of_layer in residuals:  # a layer at a time: predictions of all would not fit into memory
        counts = right(held_out_predictions(of_layer, signs, folds), signs).sum(axis=1)  # (modes, labellings)
        best.append(counts.max(axis=0))
        mean.append(counts.mean(axis=1))
    return np.max(best, axis=0), np.array(mean)
