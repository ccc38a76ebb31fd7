"""What a training leaves behind, and its file `weights.h5`."""

import json
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import h5py
import numpy as np

from strataprobe.cache import ActivationCache
from strataprobe.datasets.splits import split_pairs
from strataprobe.errors import ProbeError
from strataprobe.files import atomic, canonical_json, sha256_json

VARIANTS = ("raw", "rms_before")
"""Probes of a layer: on activations as they are, and on activations divided by the layer's training RMS."""


@dataclass(frozen=True)
class Trained:
    """Trained probes of all layers.

    Attributes:
        weights: (variants, layers, hidden) float32, acting on activations divided by `divisors`.
        biases: (variants, layers) float32.
        divisors: (variants, layers) float32; 1 for `raw`, the training RMS for `rms_before`.
        train_loss: (variants, layers) mean cross-entropy (nats) on the training items at the end.
    """

    weights: np.ndarray
    biases: np.ndarray
    divisors: np.ndarray
    train_loss: np.ndarray

    def logits(self, variant: str, states: np.ndarray) -> np.ndarray:
        """(layers, items) float32 logits of (layers, items, hidden) activations."""
        place = VARIANTS.index(variant)
        projected = np.matmul(states, self.weights[place][:, :, None])[:, :, 0]
        return projected / self.divisors[place][:, None] + self.biases[place][:, None]


@dataclass(frozen=True)
class Problem:
    """One dataset's activations, split by pair for one seed.

    Attributes:
        states: (layers, items, hidden) float32, pooled as `pooling` says.
        labels: (items,) int, -1 or +1.
        pairs: (items,) index of each item's pair.
        ids: one text an item.
        train, test: item indices; both halves of a pair stand on the same side.
        activations_sha256: identity of the cache the states came from.
    """

    states: np.ndarray
    labels: np.ndarray
    pairs: np.ndarray
    ids: list[str]
    train: np.ndarray
    test: np.ndarray
    pooling: str
    activations_sha256: str

    @classmethod
    def of(cls, cache: ActivationCache, *, seed: int, pooling: str, test_fraction: float) -> "Problem":
        """Read what a probe needs from a cache and split it by pair, stratified by group.

        Raises:
            DatasetError: too few pairs in a group for the split.
            CacheError: the pooling is not stored, or the file is damaged.
        """
        first = {int(pair): place for place, pair in reversed(list(enumerate(cache.pairs)))}
        pairs = np.array(sorted(first))
        groups = [cache.groups[first[pair]] for pair in pairs.tolist()]
        train_pairs, test_pairs = (pairs[side] for side in split_pairs(groups, seed, test_fraction))
        return cls(
            states=cache.stack(pooling),
            labels=cache.labels.astype(int),
            pairs=cache.pairs,
            ids=cache.ids,
            train=np.flatnonzero(np.isin(cache.pairs, train_pairs)),
            test=np.flatnonzero(np.isin(cache.pairs, test_pairs)),
            pooling=pooling,
            activations_sha256=activations_sha256(cache),
        )

    @cached_property
    def train_states(self) -> np.ndarray:
        """(layers, training items, hidden): a copy, made once, not to be written to."""
        return self.states[:, self.train]

    @cached_property
    def test_states(self) -> np.ndarray:
        """(layers, test items, hidden): a copy, made once, not to be written to."""
        return self.states[:, self.test]


def activations_sha256(cache: ActivationCache) -> str:
    """Identity of a cache: the checksum of its provenance."""
    return sha256_json(cache.provenance)


def save(path: str | os.PathLike[str], trained: Trained, problem: Problem, settings: dict[str, Any]) -> None:
    """Write probes with their split and settings, atomically; equal input gives equal bytes."""
    with atomic(path) as place, h5py.File(place, "w", libver="latest", track_order=True) as file:
        arrays = {
            "weights": trained.weights,
            "biases": trained.biases,
            "divisors": trained.divisors,
            "train_loss": trained.train_loss,
            "train_items": problem.train.astype("i4"),
            "test_items": problem.test.astype("i4"),
        }
        for name, values in arrays.items():
            file.create_dataset(name, data=values, chunks=values.shape, fletcher32=True, track_times=False)
        file.attrs["variants"] = json.dumps(VARIANTS)
        file.attrs["activations_sha256"] = problem.activations_sha256
        file.attrs["settings"] = canonical_json(settings)


def load(path: str | os.PathLike[str], cache: ActivationCache) -> tuple[Trained, Problem, dict[str, Any]]:
    """Read probes back, with the activations they were trained on.

    Raises:
        ProbeError: the file is damaged, or belongs to another activation cache.
    """
    try:
        with h5py.File(path, "r", locking=False) as file:
            trained = Trained(*(file[name][:] for name in ("weights", "biases", "divisors", "train_loss")))
            train, test = file["train_items"][:], file["test_items"][:]
            settings = json.loads(file.attrs["settings"])
            made_from = file.attrs["activations_sha256"]
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        raise ProbeError(
            f"{path} is damaged ({error}); delete it and the probes are trained again"
        ) from error
    if made_from != (current := activations_sha256(cache)):
        raise ProbeError(
            f"{path} was trained on another activation cache ({made_from[:12]}) than {cache.path} "
            f"({current[:12]}); delete it and the probes are trained again"
        )
    pooling = settings["pooling"]
    problem = Problem(
        cache.stack(pooling), cache.labels.astype(int), cache.pairs, cache.ids, train, test, pooling, current
    )
    return trained, problem, settings
