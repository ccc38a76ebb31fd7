"""Minimum description length of the labels given the activations: online code, in bits.

Source: Voita and Titov (2020), Information-Theoretic Probing with Minimum Description Length, section 3.2.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from strataprobe.datasets.lexemes import keyed_draws
from strataprobe.probes.solve import solve_many

FRACTIONS = (0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
"""Ends of the blocks, as shares of the pairs: the paper's, from 0.8 % on (less is no whole pair here)."""
TEMPERATURES = (0.0, *(2.0**power for power in range(-3, 5)))
"""Factors on the logits, divided by their size in training, that the code mixes; 0 is the uniform code."""


def block_ends(pairs: int) -> list[int]:
    """Pairs before the end of each block: whole numbers, at least 1, each once."""
    return sorted({max(1, round(fraction * pairs)) for fraction in FRACTIONS})


def codelengths(
    states: np.ndarray,
    labels: np.ndarray,
    pairs: np.ndarray,
    *,
    orders: int,
    seed: int,
    settings: dict[str, Any],
) -> tuple[np.ndarray, np.ndarray]:
    """Bits that send all labels to someone who has the activations, block by block.

    The first block costs 1 bit an item. Every later one is coded by the study's probe (its solver, its
    settings) trained on all blocks before it. Both halves of a pair are in one block; pairs come in seeded
    orders, and lengths are means over these.

    A probe of 50 Adam epochs is no calibrated coder: its logits are as large as the activations make them,
    and labels it cannot predict may cost it several bits each. So the code that counts mixes the probe at M
    fixed temperatures, the uniform code among them, as a Bayesian would who first holds all equally likely:

        L = -log2( (1/M) sum_t 2^-L_t ),    L_t = -sum_i log2 sigmoid(t y_i z_i / s),

    where s is the root mean square of the probe's logits on the items it was trained on. It is a valid online
    code: at most log2 M = 3.2 bits longer than its best member, and than the n bits of no knowledge at all.

    Args:
        states: (layers, items, hidden) float32 activations.
        labels: (items,) of -1 or +1.
        pairs: (items,) index of each item's pair.
        orders: how many orders of the pairs.
        seed: seeds the orders and the probes' initial weights.
        settings: `solver`, `learning_rate`, `epochs`.

    Returns:
        (layers,) code length L, and (layers,) that of the probe's own probabilities, sigmoid(y_i z_i), as in
        the paper; both in bits.
    """
    _, member = np.unique(pairs, return_inverse=True)
    count = int(member.max()) + 1
    ends = block_ends(count)
    ranks = np.stack([_ranks(count, seed, order)[member] for order in range(orders)])  # (orders, items)
    if len(ends) == 1:  # one pair: there is nothing to learn from
        bits = np.full(len(states), float(len(labels)))
        return bits, bits
    used = np.stack([ranks < end for end in ends[:-1]], axis=1).reshape(-1, len(labels))
    coded = np.stack([(ranks >= end) & (ranks < after) for end, after in pairwise(ends)], axis=1).reshape(
        used.shape
    )
    repeated = np.broadcast_to(labels, used.shape)
    weights, biases = solve_many(states, repeated, used, seed=seed, settings=settings)
    first = len(labels) - int(coded.sum()) // orders  # items of the first block, 1 bit each
    rows = [
        _layer_bits((state @ weight + bias).T.astype(np.float64), labels, used, coded, orders)
        for state, weight, bias in zip(states, weights, biases, strict=True)
    ]
    mixed, own = np.array(rows).T
    return first + mixed, first + own


def _layer_bits(
    logits: np.ndarray, labels: np.ndarray, used: np.ndarray, coded: np.ndarray, orders: int
) -> tuple[float, float]:
    """Bits of all but the first block in one layer, mixed and by the probe's own probabilities.

    Args:
        logits: (columns, items) of the probes; columns are orders times blocks.
        used, coded: (columns, items) which items each was trained on, and which it codes.
    """
    squares = np.where(used, logits**2, 0).sum(axis=1) / used.sum(axis=1)
    size = np.sqrt(np.where(squares > 0, squares, 1))[:, None]
    scaled = (labels * logits / size)[coded].reshape(orders, -1)
    lengths = np.stack([np.logaddexp(0.0, -t * scaled).sum(axis=1) for t in TEMPERATURES])
    mixed = np.log(len(TEMPERATURES)) - np.logaddexp.reduce(-lengths, axis=0)
    own = np.logaddexp(0.0, -(labels * logits)[coded]).sum() / orders
    return float(mixed.mean() / np.log(2)), float(own / np.log(2))


def _ranks(pairs: int, seed: int, order: int) -> np.ndarray:
    """(pairs,) the place of each pair in a seeded order."""
    keys = keyed_draws(f"online code, order {order}", seed, pairs)
    ranks = np.empty(pairs, np.int64)
    ranks[np.argsort(keys, kind="stable")] = np.arange(pairs)
    return ranks
