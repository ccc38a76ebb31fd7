"""The amnesic check: what told the classes apart is erased from states, by LEACE.

Source: Elazar et al. (2021), amnesic probing; Belrose et al. (2023), LEACE, from concept-erasure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from strataprobe.statistics import ledoit_wolf_shrinkage

# Singular values of the items' states below this share of the largest are rounding.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Eraser:
    """x -> x - (x - centre) right left: what it takes off an item's state at one position.

    Attributes:
        centre: (hidden,) mean of the items it was fitted on.
        right: (hidden, rank) and left: (rank, hidden).
    """

    centre: np.ndarray
    right: np.ndarray
    left: np.ndarray

    @property
    def rank(self) -> int:
        """0 where states tell nothing linear of the classes; else 1."""
        return int(np.linalg.matrix_rank(self.right @ self.left)) if self.left.any() else 0

    def __call__(self, states: np.ndarray) -> np.ndarray:
        """(..., hidden) states without the concept, float32."""
        states = states.astype(np.float64)
        return (states - ((states - self.centre) @ self.right) @ self.left).astype(np.float32)


def fit(states: np.ndarray, labels: np.ndarray) -> Eraser:
    """LEACE of two classes: afterwards no linear probe tells these items apart better than a constant.

    It is fitted in the span of the items, outside of which they do not vary, so that its cost is by items and
    not by the model's width. Their covariance is shrunk as Ledoit and Wolf do, at the full width: the
    library's own shrinkage can leave no covariance at all where items are as few as here, and then nothing is
    erased. The trace of the covariance is not held down, which would leave some of the concept.

    Args:
        states: (items, hidden).
        labels: (items,) of -1 or +1.
    """
    from concept_erasure import LeaceFitter

    states = states.astype(np.float64)
    hidden = states.shape[1]
    if len(states) < 2:
        return Eraser(np.zeros(hidden), np.zeros((hidden, 1)), np.zeros((1, hidden)))
    centre = states.mean(axis=0)
    _, sizes, axes = np.linalg.svd(states - centre, full_matrices=False)
    axes = axes[sizes > _ROUNDING * sizes[0]]
    if not len(axes):
        return Eraser(centre, np.zeros((hidden, 1)), np.zeros((1, hidden)))
    inside = torch.from_numpy((states - centre) @ axes.T)
    fitter = LeaceFitter(len(axes), 1, dtype=torch.float64, shrinkage=False, constrain_cov_trace=False)
    fitter.update(inside, torch.from_numpy((labels > 0).astype(np.float64)))
    shrunk = ledoit_wolf_shrinkage(states - centre)
    even = torch.eye(len(axes), dtype=torch.float64) * fitter.sigma_xx_.trace() / hidden
    fitter.sigma_xx_ = (1 - shrunk) * fitter.sigma_xx_ + shrunk * even
    found = fitter.eraser
    return Eraser(centre, axes.T @ found.proj_right.numpy().T, found.proj_left.numpy().T @ axes)


def fit_all(states: np.ndarray, labels: np.ndarray, heeded: np.ndarray) -> list[Eraser]:
    """One eraser a position; classes with equal means at each position have equal means of them all joined.

    Args:
        states: (items, positions, hidden).
        labels: (items,) of -1 or +1.
        heeded: (items, positions) booleans: the states that it is fitted on.
    """
    return [fit(states[own, position], labels[own]) for position, own in enumerate(heeded.T)]


def erase(erasers: Sequence[Eraser], states: np.ndarray, heeded: np.ndarray) -> np.ndarray:
    """(items, positions, hidden) float32: each position by its own eraser, where it is heeded."""
    erased = [eraser(states[:, position]) for position, eraser in enumerate(erasers)]
    return np.where(heeded[..., None], np.stack(erased, axis=1), states)


def dealt_anew(labels: np.ndarray, number: int, *, seed: int) -> np.ndarray:
    """The labels in another order: a concept of the same size that means nothing."""
    return np.random.Generator(np.random.Philox(key=[seed, number])).permutation(labels)
