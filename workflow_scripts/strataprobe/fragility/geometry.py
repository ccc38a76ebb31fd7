"""Where a critical noise comes from: activation size, the first token's share of it, and the probe's margins.

Source: DEFINITIONS, what it measures; DESIGN section 4 (geometric margin and activation norm).
"""

from typing import Any

import numpy as np
from scipy.special import ndtri

from strataprobe.cache import ActivationCache
from strataprobe.probes.store import Problem
from strataprobe.probes.training import root_mean_square
from strataprobe.statistics import finite


def geometry(
    problem: Problem, margins: np.ndarray, weight_norm: np.ndarray, share: np.ndarray, threshold: float
) -> list[dict[str, Any]]:
    """One dict a layer. `raw critical noise = activation_rms x (the same in RMS units)`, exactly.

    Args:
        problem: activations and split.
        margins: (layers, test items) geometric margins y_i z_i / |w|, in activation units.
        weight_norm: (layers,) |w|.
        share: (layers,) see `first_token_share`.
        threshold: the fragility threshold.

    Returns:
        activation_rms (training items), mean_norm (all items), first_token_share, weight_norm, margin_mean
        and margin_sd (population) over test items, margin_over_rms, and gaussian_critical_noise: what the
        critical noise would be for Gaussian margins, sqrt(mean^2 / Phi^-1(threshold)^2 - variance).
    """
    rms = root_mean_square(problem.train_states)
    norms = np.sqrt(np.einsum("lnd,lnd->ln", problem.states, problem.states)).mean(axis=1)
    mean, sd = margins.mean(axis=1), margins.std(axis=1)
    squared = (mean / ndtri(threshold)) ** 2 - sd**2
    return [
        {
            "activation_rms": float(rms[layer]),
            "mean_norm": float(norms[layer]),
            "first_token_share": float(share[layer]),
            "weight_norm": float(weight_norm[layer]),
            "margin_mean": finite(mean[layer]),
            "margin_sd": finite(sd[layer]),
            "margin_over_rms": finite(mean[layer] / rms[layer]),
            "gaussian_critical_noise": (
                float(np.sqrt(squared[layer])) if mean[layer] > 0 and squared[layer] > 0 else None
            ),
        }
        for layer in range(len(rms))
    ]


def first_token_share(cache: ActivationCache) -> np.ndarray:
    """(layers,) share of the pooled mean that the first token contributes, averaged over items.

    With h_1 the first token's state and m the mean over all n tokens, the share is (h_1 / n).m / |m|^2: the
    tokens' shares add up to 1, and 1/n is what an ordinary token has. In many models the first token is a
    sink whose state outweighs all others.
    """
    mean, rest = cache.stack("mean"), cache.stack("mean_rest")
    counts = cache.token_counts[None, :].astype(np.float64)
    squared = np.einsum("lnd,lnd->ln", mean, mean).astype(np.float64)
    along = np.einsum("lnd,lnd->ln", rest, mean).astype(np.float64)
    # h_1 / n = m - r (n - 1) / n, for r the mean of the other tokens.
    others = np.divide(along * (counts - 1) / counts, squared, out=np.ones_like(along), where=squared > 0)
    return (1 - others).mean(axis=1)
