"""The published probes of every layer, mode, fold and seed, each on the items it did not see.

Source: levels paper, section 3.2 (logistic regression with bias, Adam at 1e-2 for 100 full-batch epochs,
binary cross-entropy, no weight decay, no normalisation).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from strataprobe.probes.solve import initial_columns, solve_adam
from strataprobe.recoverability.codings import MODES, Coding, features
from strataprobe.recoverability.folds import Folds

Key = tuple[str, str, str]
"""Coding, scheme of folds, mode."""


@dataclass(frozen=True)
class HeldOut:
    """What the probes of one coding, scheme and mode say of the items that each of them held out.

    Attributes:
        logits: (seeds, layers, items) float32.
        norms: (seeds, layers, items) float32, |w| of the probe that held the item out.
        rms: (layers, items) float32, root mean square of that probe's training features.
        labels: (items,) of -1 or +1.
    """

    logits: np.ndarray
    norms: np.ndarray
    rms: np.ndarray
    labels: np.ndarray

    @property
    def correct(self) -> np.ndarray:
        """(seeds, layers, items) booleans; the label is predicted to be +1 iff p >= 0.5, p in float32."""
        one = np.float32(1)
        with np.errstate(over="ignore"):
            chance = one / (one + np.exp(-self.logits))
        return (chance >= np.float32(0.5)) == (self.labels > 0)


@dataclass(frozen=True)
class _Columns:
    """All folds and seeds of all schemes, as the columns of one solve.

    Attributes:
        used: (columns, items) booleans, the items a column is trained on.
        seeds: (columns,) of the initial weights.
        held: scheme -> (seeds, items) the column that holds an item out.
    """

    used: np.ndarray
    seeds: list[int]
    held: dict[str, np.ndarray]

    @classmethod
    def of(cls, schemes: Sequence[Folds], seeds: Sequence[int]) -> "_Columns":
        used, starts, held = [], [], {}
        for folds in schemes:
            first = len(starts) + len(folds.names) * np.arange(len(seeds))
            held[folds.name] = first[:, None] + folds.held
            used += [folds.used] * len(seeds)
            starts += [start for seed in seeds for start in folds.seeds(seed)]
        return cls(np.concatenate(used), starts, held)


def leave_out(
    states: Mapping[str, np.ndarray],
    codings: Sequence[Coding],
    schemes: Sequence[Folds],
    *,
    settings: dict[str, Any],
    first_layer: int = 0,
    modes: Sequence[str] = MODES,
) -> dict[Key, HeldOut]:
    """Train and apply the probes of all codings, schemes, modes, layers, folds and seeds.

    All folds and seeds of a (layer, mode) are columns of one batched solve. Fold k of a scheme starts from
    the initial weights of seed + stride x k at this layer, whatever else is solved.

    Args:
        states: position -> (layers, items, hidden) float32.
        codings: roles and labels of the items.
        schemes: folds, each of the same items.
        settings: `seeds`, `learning_rate`, `epochs`.
        first_layer: the number of the first layer of `states`, which seeds its initial weights.
        modes: of `MODES`.

    Returns:
        (coding, scheme, mode) -> what is said of held-out items.
    """
    columns = _Columns.of(schemes, settings["seeds"])
    layers, items, hidden = next(iter(states.values())).shape
    shape = (len(settings["seeds"]), layers, items)
    found = {
        (coding.name, folds.name, mode): HeldOut(
            np.empty(shape, np.float32),
            np.empty(shape, np.float32),
            np.empty(shape[1:], np.float32),
            coding.labels,
        )
        for coding in codings
        for folds in schemes
        for mode in modes
    }
    for layer in range(layers):
        here = {position: values[layer] for position, values in states.items()}
        # Modes of equally many positions begin alike, as nn.Linear of one width does.
        for width, alike in groupby(sorted(modes, key=len), key=len):
            start = initial_columns([first_layer + layer], width * hidden, columns.seeds)
            for mode in alike:
                for coding in codings:
                    told = features(here, mode, coding.swapped)
                    solved = _solve(told, coding.labels, columns, start, settings)
                    for folds in schemes:
                        _keep(found[coding.name, folds.name, mode], layer, told, folds, columns, *solved)
    return found


def _solve(
    told: np.ndarray, labels: np.ndarray, columns: _Columns, start: np.ndarray, settings: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """(items, columns) logits of every probe on every item, and (columns,) |w|."""
    every = np.broadcast_to(labels, columns.used.shape)
    weights = solve_adam(told[None], every, columns.used, start, settings)[0]
    return told @ weights[:-1] + weights[-1], np.sqrt(np.einsum("dc,dc->c", weights[:-1], weights[:-1]))


def _keep(
    into: HeldOut,
    layer: int,
    told: np.ndarray,
    folds: Folds,
    columns: _Columns,
    logits: np.ndarray,
    norms: np.ndarray,
) -> None:
    """Write down a layer's held-out logits of one scheme."""
    held = columns.held[folds.name]
    into.logits[:, layer] = logits[np.arange(len(told)), held]
    into.norms[:, layer] = norms[held]
    squares = np.einsum("id,id->i", told, told, dtype=np.float64) / told.shape[1]
    into.rms[layer] = np.sqrt(folds.used @ squares / folds.used.sum(axis=1))[folds.held]
