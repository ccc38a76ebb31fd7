"""Plain numbers of each sentence, its length or its embedding: what the other floors read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from strataprobe.errors import DatasetError

# Newton steps end where the gradient is as small as this; the objective is 1-strongly convex in the weights.
_GRADIENT = 1e-8
# A number that varies this little among the training items, relative to its mean, is constant there.
_CONSTANT = 1e-12


@dataclass(frozen=True, eq=False)
class Vectors:
    """Plain numbers of each item.

    Attributes:
        values: (items, features).
        unit: what they are, for messages.
    """

    values: np.ndarray
    unit: str

    @classmethod
    def of(cls, values: np.ndarray, items: int, unit: str) -> Vectors:
        """Take (items,) or (items, features) numbers.

        Raises:
            DatasetError: another number of items, or numbers that are not finite.
        """
        values = np.asarray(values, dtype=np.float64)
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or len(values) != items or values.shape[1] == 0:
            raise DatasetError(
                f"{unit}: an array of shape {values.shape} is not one row for each of the {items} sentences"
            )
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(bad):
            raise DatasetError(f"{unit}: {len(bad)} of {items} sentences have numbers that are not finite")
        return cls(values=values, unit=unit)

    def fault(self, train: np.ndarray, min_df: int) -> str | None:
        """Numbers have no vocabulary that could be empty."""
        return None

    def decide(
        self, train: np.ndarray, test: np.ndarray, labels: np.ndarray, *, min_df: int, max_iter: int
    ) -> tuple[np.ndarray, int]:
        """Standardise by `train`, fit a logistic regression to it and read `test`; see `Bags.decide`.

        A logit of 0 is the negative class, for both halves of a pair: without evidence half is right.
        """
        known, mean = self.values[train], self.values[train].mean(axis=0)
        spread = known.std(axis=0)
        spread[spread <= _CONSTANT * np.abs(mean)] = 1.0
        weights, bias = fit_logistic((known - mean) / spread, labels[train], max_iter)
        logits = (self.values[test] - mean) / spread @ weights + bias
        return np.where(logits > 0, 1, -1), self.values.shape[1]


def fit_logistic(rows: np.ndarray, labels: np.ndarray, max_iter: int) -> tuple[np.ndarray, float]:
    """The minimum over w and b of |w|^2 / 2 + sum_i log(1 + exp(-y_i (w.x_i + b))), by Newton steps.

    scikit-learn's `LogisticRegression` (C = 1) taken to the end. Floors are fitted anew at each checkpoint,
    some fifty small fits a time, and there this is several times as fast.

    Args:
        rows: (items, features).
        labels: (items,) of -1 or +1.
        max_iter: most steps.

    Returns:
        (features,) weights, and the bias.
    """
    items, features = rows.shape
    if features > items:
        # The weights lie in the span of the rows: solve for their coordinates in an orthonormal basis of it.
        basis, triangle = np.linalg.qr(rows.T)
        weights, bias = fit_logistic(np.ascontiguousarray(triangle.T), labels, max_iter)
        return basis @ weights, bias
    signed = labels[:, None] * np.column_stack([rows, np.ones(items)])
    penalty = np.r_[np.ones(features), 0.0]
    found = np.zeros(features + 1)
    for _ in range(max_iter):
        wrong = 0.5 * (1 - np.tanh(signed @ found / 2))  # the probability of the other class
        gradient = penalty * found - wrong @ signed
        if np.linalg.norm(gradient) <= _GRADIENT:
            break
        hessian = signed.T @ ((wrong * (1 - wrong))[:, None] * signed)
        hessian[np.diag_indices_from(hessian)] += penalty
        found = _descended(signed, penalty, found, np.linalg.solve(hessian, gradient))
    return found[:-1], float(found[-1])


def _descended(signed: np.ndarray, penalty: np.ndarray, found: np.ndarray, step: np.ndarray) -> np.ndarray:
    """`found` less the step, or less as much of it as lowers the objective."""

    def objective(at: np.ndarray) -> float:
        return penalty @ at**2 / 2 + np.logaddexp(0.0, -(signed @ at)).sum()

    before, share = objective(found), 1.0
    while share > 1e-6 and objective(found - share * step) > before * (1 + 1e-12):
        share /= 2
    return found - share * step
