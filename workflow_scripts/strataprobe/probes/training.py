"""Training: the paper's Adam probe for all layers in one batched solve, and a converged second solver.

Source: fragility paper, section 3.3 (nn.Linear(hidden, 1), BCE with logits, Adam at 1e-2, 50 full-batch
epochs, no weight decay, no early stopping, fp32).
"""

from typing import Any

import numpy as np

from strataprobe.errors import ProbeError
from strataprobe.probes.store import VARIANTS, Trained

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8  # torch.optim.Adam's defaults
# Activations solved at once: what the caches of a core hold beside the weights.
_CACHED_BYTES = 2**20


def train(states: np.ndarray, labels: np.ndarray, *, seed: int, settings: dict[str, Any]) -> Trained:
    """Train two probes a layer: on the activations as they are, and divided by the layer's RMS.

    The second is the scale control `rms_before` (DEFINITIONS, scale controls): Adam at a fixed rate is not
    scale-equivariant, so dividing before training differs from dividing the noise afterwards.

    Args:
        states: (layers, items, hidden) float32 training activations.
        labels: (items,) of -1 or +1.
        seed: seeds the initial weights.
        settings: `solver` ("adam" or "logistic"), `learning_rate`, `epochs`.

    Returns:
        Weights, biases and divisors of both variants.

    Raises:
        ProbeError: only one class, or a layer whose activations are all zero.
    """
    if len(set(np.sign(labels))) != 2:
        raise ProbeError("a probe needs both classes among its training items")
    rms = root_mean_square(states)
    if (rms == 0).any():
        raise ProbeError(f"layers {np.flatnonzero(rms == 0).tolist()}: all activations are zero")
    divisors = np.stack([np.ones_like(rms), rms])
    solve = {"adam": _adam, "logistic": _logistic}[settings["solver"]]
    weights, biases, train_loss = solve(states, labels, divisors, seed, settings)
    return Trained(
        weights=weights, biases=biases, divisors=divisors.astype(np.float32), train_loss=train_loss
    )


def root_mean_square(states: np.ndarray) -> np.ndarray:
    """(layers,) root mean square over items and coordinates, summed in float64."""
    squares = np.einsum("lnd,lnd->l", states, states, dtype=np.float64)
    return np.sqrt(squares / (states.shape[1] * states.shape[2]))


def initial_weights(layers: int, hidden: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights (layers, hidden) and biases (layers,), as `initial_probe` draws them."""
    drawn = np.stack([initial_probe(layer, hidden, seed) for layer in range(layers)])
    return drawn[:, :hidden], drawn[:, hidden]


def initial_probe(layer: int, hidden: int, seed: int) -> np.ndarray:
    """(hidden + 1,) float32, the bias last: distributed as torch's nn.Linear(hidden, 1).

    Uniform within +-1/sqrt(hidden). A counter-based generator keyed by (seed, layer) makes a layer's start
    independent of how many layers there are.
    """
    bound = 1 / np.sqrt(hidden)
    rng = np.random.Generator(np.random.Philox(key=[seed, layer]))
    return rng.uniform(-bound, bound, hidden + 1).astype(np.float32)


def _adam(
    states: np.ndarray, labels: np.ndarray, divisors: np.ndarray, seed: int, settings: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Blocks of layers that fit into a processor's cache, each solved at once.

    An epoch reads the activations twice, so from memory all layers at once would wait for it.
    """
    layers, items, hidden = states.shape
    start, offset = initial_weights(layers, hidden, seed)
    size = max(1, _CACHED_BYTES // (items * hidden * states.itemsize))
    blocks = [slice(first, first + size) for first in range(0, layers, size)]
    solved = [_adam_block(states[b], labels, divisors[:, b], start[b], offset[b], settings) for b in blocks]
    weights, biases, train_loss = (np.concatenate(parts, axis=1) for parts in zip(*solved, strict=True))
    return weights, biases, train_loss


def _adam_block(
    states: np.ndarray,
    labels: np.ndarray,
    divisors: np.ndarray,
    start: np.ndarray,
    offset: np.ndarray,
    settings: dict[str, Any],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """These layers and both variants in one loop over epochs: two batched matrix products a step."""
    items = states.shape[1]
    weights = np.repeat(start[:, :, None], len(VARIANTS), axis=2)  # (layers, hidden, variants)
    biases = np.repeat(offset[:, None, None], len(VARIANTS), axis=2)  # (layers, 1, variants)
    scale = (1 / divisors).T[:, None, :].astype(np.float32)  # (layers, 1, variants)
    target = (labels > 0).astype(np.float32)[None, :, None]
    transposed = states.transpose(0, 2, 1)
    moments = [np.zeros_like(part) for part in (weights, weights, biases, biases)]
    for step in range(1, settings["epochs"] + 1):
        residual = (_sigmoid((states @ weights) * scale + biases) - target) / np.float32(items)
        gradients = (transposed @ residual) * scale, residual.sum(axis=1, keepdims=True)
        _adam_step(weights, gradients[0], moments[0], moments[1], step, settings["learning_rate"])
        _adam_step(biases, gradients[1], moments[2], moments[3], step, settings["learning_rate"])
    logits = (states @ weights) * scale + biases
    signed = np.where(target > 0, logits, -logits).astype(np.float64)
    train_loss = np.logaddexp(0.0, -signed).mean(axis=1)
    return weights.transpose(2, 0, 1).copy(), biases[:, 0, :].T.copy(), train_loss.T.copy()


def _adam_step(
    values: np.ndarray, gradient: np.ndarray, first: np.ndarray, second: np.ndarray, step: int, rate: float
) -> None:
    """One Adam update in place, in torch's order of operations (bias-corrected moments, epsilon outside)."""
    first += np.float32(1 - _BETA1) * (gradient - first)
    second *= np.float32(_BETA2)
    second += np.float32(1 - _BETA2) * gradient * gradient
    denominator = np.sqrt(second) / np.float32(np.sqrt(1 - _BETA2**step)) + np.float32(_EPSILON)
    values -= np.float32(rate / (1 - _BETA1**step)) * (first / denominator)


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-z)), as torch computes it: exact relative to itself also where it is tiny.

    Adam divides gradients by their own size, so an absolute error of 1e-8 (by way of tanh) would show in the
    weights of a layer that is all but solved. For very negative z, exp overflows to infinity and 0 is right.
    """
    one = np.float32(1)
    with np.errstate(over="ignore"):
        return one / (one + np.exp(-logits))


def _logistic(
    states: np.ndarray, labels: np.ndarray, divisors: np.ndarray, seed: int, settings: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """scikit-learn's logistic regression, converged, on features scaled by the training items.

    The scaling is folded back into the weights, so that they act on activations and noise has its meaning.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    layers, _, hidden = states.shape
    weights = np.empty((len(VARIANTS), layers, hidden), np.float32)
    biases = np.empty((len(VARIANTS), layers), np.float32)
    train_loss = np.empty((len(VARIANTS), layers))
    for layer in range(layers):
        scaler = StandardScaler()
        scaled = scaler.fit_transform(states[layer].astype(np.float64))
        model = LogisticRegression(max_iter=10_000, tol=1e-6).fit(scaled, labels > 0)
        raw = model.coef_[0] / scaler.scale_
        bias = model.intercept_[0] - raw @ scaler.mean_
        logits = model.decision_function(scaled)
        for variant, divisor in enumerate(divisors[:, layer]):
            # Scaled features do not change when activations are divided, so only the weights' unit does.
            weights[variant, layer], biases[variant, layer] = raw * divisor, bias
            train_loss[variant, layer] = np.logaddexp(0.0, -labels * logits).mean()
    return weights, biases, train_loss
