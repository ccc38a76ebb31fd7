"""Made-up activations of known make, for tests of everything after capture."""

from contextlib import contextmanager

import numpy as np

from strataprobe import cache
from strataprobe.probes import Problem

PROBE = {
    "bootstrap": 200,
    "conventions": "default",
    "epochs": 50,
    "learning_rate": 0.01,
    "onset_threshold": 0.6,
    "pooling": "mean_rest",
    "solver": "adam",
    "test_fraction": 0.25,
}
FRAGILITY = {
    "bootstrap": 100,
    "conventions": "default",
    "draws": 10,
    "noise_levels": [0.1, 0.3, 1.0, 3.0, 10.0],
    "pooling": "mean_rest",
    "rms_noise_levels": [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0],
    "threshold": 0.6,
}
PROVENANCE = {"weights_sha256": "a" * 64, "dataset_sha256": "b" * 64, "settings": {"dtype": "float32"}}
POSITIONS = ["mean", "mean_rest"]


def make_states(layers=4, pairs=40, hidden=16, signal=1.0, seed=0):
    """(layers, items, hidden) float32 and labels: two Gaussian classes, later layers larger."""
    rng = np.random.default_rng(seed)
    labels = np.tile([1, -1], pairs)
    states = rng.standard_normal((layers, 2 * pairs, hidden)) + rng.standard_normal((layers, 1, hidden))
    directions = rng.standard_normal((layers, 1, hidden))
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    states += signal * labels[None, :, None] * directions
    return (states * (1 + np.arange(layers))[:, None, None]).astype(np.float32), labels


def make_problem(test_pairs=10, **how) -> Problem:
    """The states of `make_states`, the last pairs held out."""
    states, labels = make_states(**how)
    items = len(labels)
    return Problem(
        states=states,
        labels=labels,
        pairs=np.arange(items) // 2,
        ids=make_ids(items),
        train=np.arange(items - 2 * test_pairs),
        test=np.arange(items - 2 * test_pairs, items),
        pooling="mean_rest",
        activations_sha256="0" * 64,
    )


def make_ids(items):
    return [f"p{item // 2:03d}:{'negative' if item % 2 else 'positive'}" for item in range(items)]


def make_windows(states, size=None):
    """The states as a capture would hand them over: both positions, `size` items at a time."""
    items = states.shape[1]
    size = size or items
    for start in range(0, items, size):
        part = states[:, start : start + size]
        layers = {
            f"layer_{layer:02d}": np.stack([2 * values, values], axis=1) for layer, values in enumerate(part)
        }
        yield start, layers, np.arange(start, start + part.shape[1], dtype=np.int32) + 3


@contextmanager
def writing(path, states, labels, *, provenance=PROVENANCE, groups=2):
    items = len(labels)
    with cache.create(
        path,
        ids=make_ids(items),
        labels=labels,
        groups=[f"g{item // 2 % groups}" for item in range(items)],
        pairs=np.arange(items) // 2,
        layers=cache.layer_names(len(states)),
        positions=POSITIONS,
        hidden_size=states.shape[2],
        provenance=provenance,
    ) as writer:
        yield writer


def write_cache(path, *, window=None, provenance=PROVENANCE, **how):
    """A finished cache file; its states are returned."""
    states, labels = make_states(**how)
    with writing(path, states, labels, provenance=provenance) as writer:
        for part in make_windows(states, window):
            writer.write(*part)
    return states
