"""Small estimators that several measures share. Checked against scipy and scikit-learn in the tests."""

import numpy as np
from numpy.typing import ArrayLike


def finite(value: float) -> float | None:
    """A float for JSON, None where it is not finite."""
    return float(value) if np.isfinite(value) else None


def rank_average(values: np.ndarray) -> np.ndarray:
    """Ranks from 1 along the last axis, ties given their mean rank."""
    order = np.argsort(values, axis=-1, kind="stable")
    ranked = np.take_along_axis(values, order, axis=-1)
    count = values.shape[-1]
    new = np.ones(values.shape, bool)
    new[..., 1:] = ranked[..., 1:] != ranked[..., :-1]
    place = np.broadcast_to(np.arange(count), values.shape)
    first = np.maximum.accumulate(np.where(new, place, 0), axis=-1)
    last_new = np.ones(values.shape, bool)
    last_new[..., :-1] = new[..., 1:]
    last = np.flip(np.minimum.accumulate(np.flip(np.where(last_new, place, count), -1), axis=-1), -1)
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=-1)
    return ranks


def auc(scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Area under the ROC curve along the last axis; ties count one half.

    Args:
        scores: (..., items).
        positive: (items,) booleans; both classes must occur.
    """
    ranks = rank_average(scores)
    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    if n_positive == 0 or n_negative == 0:
        raise ValueError("AUC needs both classes")
    total = ranks[..., positive].sum(axis=-1)
    return (total - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative)


def d_prime(scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Distance of the two classes' mean scores in units of their pooled sd (ddof 1), along the last axis.

    NaN where the pooled sd is 0.
    """
    a, b = scores[..., positive], scores[..., ~positive]
    pooled = np.sqrt((a.var(axis=-1, ddof=1) + b.var(axis=-1, ddof=1)) / 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(pooled > 0, (a.mean(axis=-1) - b.mean(axis=-1)) / pooled, np.nan)


def log_loss(logits: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Mean binary cross-entropy (nats) of sigmoid(logits) along the last axis; stable for large logits."""
    signed = np.where(positive, logits, -logits).astype(np.float64)
    return np.logaddexp(0.0, -signed).mean(axis=-1)


def spearman(a: ArrayLike, b: ArrayLike) -> float | None:
    """Rank correlation over the entries where both are given; None with fewer than 3, or no spread."""
    x, y = np.asarray(a, float), np.asarray(b, float)
    both = np.isfinite(x) & np.isfinite(y)
    if both.sum() < 3:
        return None
    x, y = rank_average(x[both]), rank_average(y[both])
    if x.std() == 0 or y.std() == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def cluster_counts(clusters: int, replicates: int, seed: int) -> np.ndarray:
    """How often each cluster is drawn in each bootstrap replicate: (replicates, clusters) int.

    Drawn with a counter-based generator, so replicate r does not depend on how many there are.
    """
    rng = np.random.Generator(np.random.Philox(key=seed))
    drawn = rng.integers(clusters, size=(replicates, clusters))
    counts = np.zeros((replicates, clusters), np.int64)
    np.add.at(counts, (np.arange(replicates)[:, None], drawn), 1)
    return counts


def percentile_interval(replicates: np.ndarray, level: float = 0.95) -> list[float | None]:
    """[low, high] percentile interval of bootstrap replicates; replicates that are NaN are left out.

    [None, None] when more than half of them are NaN: the interval would describe another sample.
    """
    kept = replicates[np.isfinite(replicates)]
    if len(kept) * 2 < len(replicates) or len(kept) == 0:
        return [None, None]
    tail = (1 - level) / 2 * 100
    return [float(value) for value in np.percentile(kept, [tail, 100 - tail])]


def ledoit_wolf_shrinkage(centred: np.ndarray, gram: np.ndarray | None = None) -> float:
    """Shrinkage intensity towards the scaled identity (Ledoit and Wolf, 2004), in [0, 1].

    Args:
        centred: (items, features) rows with their mean removed.
        gram: centred @ centred.T or centred.T @ centred, where it is at hand already.
    """
    count, features = centred.shape
    squared = centred**2
    trace = squared.sum() / count
    mean_variance = trace / features
    if gram is None:
        gram = centred.T @ centred if features <= count else centred @ centred.T
    frobenius = (gram.astype(np.float64) ** 2).sum() / count**2
    beta = ((squared.sum(axis=1).astype(np.float64) ** 2).sum() / count - frobenius) / count
    delta = frobenius - mean_variance**2 * features
    return 0.0 if delta <= 0 else float(np.clip(min(beta, delta) / delta, 0.0, 1.0))
