"""Probe accuracy under Gaussian activation noise: exact, and by sampling as published."""

import hashlib
import struct
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr


def exact_accuracy(margins: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """Exact accuracy of a linear probe under Gaussian activation noise.

    Under noise e ~ N(0, sigma^2 S) the logit of item i is N(z_i, sigma^2 w'Sw), so it keeps its sign with
    probability Phi(y_i z_i / (sigma sqrt(w'Sw))). No sampling is needed.

    Args:
        margins: (layers, items) y_i z_i / sqrt(w'Sw), in the unit of sigma.
        sigma: (levels,) or (layers, levels) noise levels, > 0.

    Returns:
        (layers, levels) expected accuracy.

    Source: fragility paper, section 3.4; the closed form is in docs/methods.md.
    """
    levels = np.broadcast_to(sigma, (len(margins), np.shape(sigma)[-1]))
    return ndtr(margins[:, None, :] / levels[:, :, None]).mean(axis=-1)


def sampled_accuracy(
    logits: np.ndarray,
    positive: np.ndarray,
    projections: np.ndarray,
    ids: Sequence[str],
    sigma: Sequence[float],
    *,
    draws: int,
    seed: int,
) -> np.ndarray:
    """Accuracy when noise is drawn and added, as the paper does it.

    An item's noise at a level depends on (seed, item id, level) alone: not on the order of items or
    levels, nor on how many there are. All layers see the same draws.

    Args:
        logits: (probes, items) clean logits.
        positive: (items,) booleans.
        projections: (probes, width) what a unit of noise in each coordinate adds to a logit.
        ids: one text an item.
        sigma: noise levels, > 0.
        draws: noise vectors an item and level; accuracy is averaged over them before any threshold.
        seed: seeds the draws.

    Returns:
        (probes, levels) accuracy.

    Source: fragility paper, section 3.4 (one unseeded draw there: DEFINITIONS, noise).
    """
    width = projections.shape[1]
    accuracy = np.empty((len(logits), len(sigma)))
    for place, level in enumerate(sigma):
        drawn = np.stack(
            [item_noise(seed, name, level, draws, width) for name in ids]
        )  # (items, draws, width)
        added = (drawn.reshape(-1, width) @ projections.T).reshape(len(ids), draws, -1)
        noisy = logits.T[:, None, :] + np.float32(level) * added
        accuracy[:, place] = ((noisy > 0) == positive[:, None, None]).mean(axis=(0, 1))
    return accuracy


def item_noise(seed: int, name: str, level: float, draws: int, width: int) -> np.ndarray:
    """(draws, width) float32 standard normal noise of one item at one level (counter-based).

    A wider noise begins with the narrower one.
    """
    digest = hashlib.sha256(struct.pack("<qd", seed, level) + name.encode()).digest()
    key = np.frombuffer(digest[:16], "<u8")
    rng = np.random.Generator(np.random.Philox(key=key))
    return rng.standard_normal((width, draws), dtype=np.float32).T


def sampled_grid_distribution(probabilities: np.ndarray, threshold: float, *, draws: int) -> np.ndarray:
    """Where a sampled critical noise falls on the grid, and how likely.

    The number of right answers at a level is Poisson-binomial over items (each drawn `draws` times), and
    levels are independent; so the expected sampled grid value is not the exact grid value.

    Args:
        probabilities: (levels, items) chance that each item is still right at each level.
        threshold: accuracy below which the probe counts as collapsed.
        draws: noise vectors an item and level.

    Returns:
        (levels + 1,) probability that the first level below the threshold is each level; last, none is.

    Source: DEFINITIONS, noise.
    """
    below = np.array([_chance_below(np.repeat(row, draws), threshold) for row in probabilities])
    survived = np.concatenate([[1.0], np.cumprod(1 - below)])
    return np.concatenate([survived[:-1] * below, survived[-1:]])


def _chance_below(probabilities: np.ndarray, threshold: float) -> float:
    """P(share of successes < threshold) of independent Bernoulli trials, by their characteristic function."""
    count = len(probabilities)
    turns = np.exp(-2j * np.pi * np.arange(count + 1) / (count + 1))
    characteristic = np.ones(count + 1, complex)
    for probability in probabilities:
        characteristic *= 1 - probability + probability * turns
    mass = np.fft.ifft(characteristic).real
    return float(np.clip(mass[np.arange(count + 1) / count < threshold].sum(), 0.0, 1.0))
