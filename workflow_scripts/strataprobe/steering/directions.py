"""Directions along which states are pushed: what a probe reads, how the classes' means differ, and none.

Source: levels paper, appendix G.2; docs/methods.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from strataprobe.probes.solve import initial_columns, solve_adam

PROBE, MEANS, RANDOM = "probe", "means", "random"
METHODS = (PROBE, MEANS)

# Of the states' own length: a difference of class means below this is rounding.
_ROUNDING = 1e-6
# Items of each class without which a position's first tokens are not left out.
_LEAST = 2


@dataclass(frozen=True)
class Fitted:
    """What is added at strength 1 to an item whose gold candidate plays role A.

    Attributes:
        sigma: (positions,) of each position the mean over dimensions of the sd over items (ddof 1).
        units: method -> (positions, hidden) float32 parts of unit length that point to role A; all zeros
            where a method finds no direction.
    """

    sigma: np.ndarray
    units: Mapping[str, np.ndarray]

    def push(self, units: np.ndarray) -> np.ndarray:
        """(positions, hidden) float32: sigma_p d_p."""
        return (self.sigma[:, None] * units).astype(np.float32)


def fit(
    states: np.ndarray,
    labels: np.ndarray,
    heeded: np.ndarray,
    *,
    layer: int,
    seed: int,
    training: Mapping[str, Any],
) -> Fitted:
    """Both directions, from all items.

    Args:
        states: (items, positions, hidden) float32, in the order of roles.
        labels: (items,) of -1 or +1: +1 where role A is the controller's.
        heeded: (items, positions) booleans: the states that sigma and the class means are of. The probe sees
            all, as the published one does.
        layer: its number in hidden_states; with the seed it gives the probe's initial weights.
        training: `learning_rate`, `epochs` of the probe.
    """
    sigmas, differences = [], []
    for position in range(states.shape[1]):
        own = enough(heeded[:, position], labels)
        here = states[own, position].astype(np.float64)
        sigmas.append(here.std(axis=0, ddof=1).mean())
        differences.append(_difference(here, labels[own]))
    difference = np.stack(differences)
    weights = probe_weights(states, labels, layer=layer, seed=seed, training=training)
    # The sign is that of the class means, whatever a training came to.
    if np.vdot(weights, difference) < 0:
        weights = -weights
    return Fitted(np.array(sigmas), {PROBE: _units(weights), MEANS: _units(difference)})


def enough(heeded: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(items,) those that are heeded; all, where too few of a class would be left."""
    counts = [int((heeded & (labels == label)).sum()) for label in (-1, 1)]
    return heeded if min(counts) >= _LEAST else np.ones(len(labels), bool)


def _difference(states: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(hidden,) mean of the items labelled +1 minus that of the others; 0 where it is rounding.

    A candidate named before the matrix verb has one state in both members of a minimal pair: nothing is left
    of the difference, and what is left must not be blown up to unit length.
    """
    found = states[labels > 0].mean(axis=0) - states[labels < 0].mean(axis=0)
    rounding = np.linalg.norm(found) <= _ROUNDING * np.linalg.norm(states, axis=-1).mean()
    return np.zeros_like(found) if rounding else found


def probe_weights(
    states: np.ndarray, labels: np.ndarray, *, layer: int, seed: int, training: Mapping[str, Any]
) -> np.ndarray:
    """(positions, hidden) weights of the published probe, trained on all items."""
    items, positions, hidden = states.shape
    start = initial_columns([layer], positions * hidden, [seed])
    every = np.ones((1, items), bool)
    told = np.ascontiguousarray(states.reshape(1, items, -1), np.float32)
    weights = solve_adam(told, labels[None], every, start, dict(training))
    return weights[0, :-1, 0].reshape(positions, hidden)


def random_units(count: int, positions: int, hidden: int, *, seed: int, layer: int) -> np.ndarray:
    """(count, positions, hidden) float32 random unit parts; direction k is the same in any count."""
    drawn = [
        np.random.Generator(np.random.Philox(key=[seed, (layer << 32) + number])).standard_normal(
            (positions, hidden)
        )
        for number in range(count)
    ]
    return np.stack([_units(one) for one in drawn]) if drawn else np.zeros((0, positions, hidden), np.float32)


def cosines(fitted: Fitted) -> list[float | None]:
    """Of each position, between both directions; None where one is none."""
    found: list[float | None] = []
    for one, other in zip(fitted.units[PROBE], fitted.units[MEANS], strict=True):
        there = one.any() and other.any()
        found.append(float(np.vdot(one.astype(np.float64), other)) if there else None)
    return found


def _units(parts: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(parts.astype(np.float64), axis=-1, keepdims=True)
    return np.divide(parts, norms, out=np.zeros(parts.shape), where=norms > 0).astype(np.float32)
