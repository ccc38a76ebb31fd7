"""Exact accuracy under noise against a simulation that adds noise to activations."""

import numpy as np

from bench.outcome import Outcome, best_of
from strataprobe.fragility import exact_accuracy

NAME = "exact"
QUESTION = (
    "Accuracy of a linear probe under Gaussian activation noise: the closed form against 100,000 noise draws "
    "an item, added to the activations (32 items, 16 dimensions, 5 levels)."
)
REQUIRED = "agreement within 4 standard errors of the simulation"
LEVELS = np.array([0.1, 0.3, 1.0, 3.0, 10.0])


def measure(draws: int = 100_000, items: int = 32, hidden: int = 16) -> Outcome:
    """Compare one layer at every level of the published grid."""
    rng = np.random.default_rng(0)
    labels = np.tile([1, -1], items // 2)
    weights, bias = rng.standard_normal(hidden), 0.1
    states = rng.standard_normal((items, hidden)) + 0.1 * labels[:, None] * weights
    margins = labels * (states @ weights + bias) / np.linalg.norm(weights)
    exact = exact_accuracy(margins[None], LEVELS)[0]
    simulated: dict[str, np.ndarray] = {}

    def simulate() -> None:
        seeded = np.random.default_rng(1)
        simulated["share"] = np.array(
            [share_right(states, labels, weights, bias, s, draws, seeded) for s in LEVELS]
        )

    slow = best_of(1, {"simulation": simulate})["simulation"]
    fast = best_of(20, {"closed form": lambda: exact_accuracy(margins[None], LEVELS)})["closed form"]
    share = simulated["share"]  # (levels, items)
    error = np.sqrt((share * (1 - share) / draws).sum(axis=1)) / items
    # Where no draw changed a sign the estimated error is 0; one draw's weight is the least it can resolve.
    off = np.abs(share.mean(axis=1) - exact) / np.maximum(error, 1 / (draws * items))
    numbers = {
        f"simulation, {draws:,} draws an item": f"{slow:.1f} s",
        "closed form": f"{fast * 1e6:.0f} us",
        "times as fast": f"{slow / fast:,.0f}",
        "largest difference": f"{off.max():.2f} standard errors",
    }
    return Outcome(NAME, QUESTION, REQUIRED, bool(off.max() <= 4), numbers)


def share_right(
    states: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    bias: float,
    sigma: float,
    draws: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """(items,) share of draws in which the noisy activation lies on its label's side."""
    right = np.empty(len(states))
    for item, state in enumerate(states):
        noise = rng.standard_normal((draws, states.shape[1]), dtype=np.float32)
        logits = (state + sigma * noise) @ weights + bias
        right[item] = ((logits > 0) == (labels[item] > 0)).mean()
    return right
