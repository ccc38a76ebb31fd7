"""The permutation null of a probe, of the same scheme, and false discoveries over layers."""

import numpy as np

from strataprobe.datasets.lexemes import keyed_draws

_ROUNDING = 1e-12


def pair_flips(pairs: int, permutations: int, seed: int) -> np.ndarray:
    """(permutations, pairs) of -1 or +1: in which pairs the two labels change places.

    A minimal pair fixes the exchange: were the property not encoded, either half could have been the
    positive one, and nothing else would change. Pairs stay pairs and classes stay balanced, so a permuted
    dataset is split, trained and tested as the real one is. Permutation k does not depend on how many
    there are.
    """
    bits = keyed_draws("permutation null", seed, permutations * pairs).reshape(permutations, pairs)
    return np.where(bits >> np.uint64(63), 1, -1)


def p_values(observed: np.ndarray, null: np.ndarray) -> np.ndarray:
    """(1 + permutations at least as good) / (permutations + 1) along the first axis of `null`.

    The observed labelling counts as one of its own permutations, so p is never 0 and the test is exact.

    Args:
        observed: (...) statistic, larger is more.
        null: (permutations, ...) the same statistic under permuted labels.

    Source: Phipson and Smyth (2010).
    """
    # Means over layers that are equal may differ in the last bit.
    return (1 + (null >= observed - _ROUNDING).sum(axis=0)) / (len(null) + 1)


def benjamini_hochberg(p: np.ndarray) -> np.ndarray:
    """(tests,) adjusted p: the smallest false-discovery rate at which a test is among the discoveries.

    q of the i-th smallest p is min over j >= i of p_(j) m / j, at most 1.

    Source: Benjamini and Hochberg (1995).
    """
    order = np.argsort(p, kind="stable")
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    q = np.empty(len(p))
    q[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return q
