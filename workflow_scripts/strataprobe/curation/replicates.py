"""Probe statistics of the sample and of all its bootstrap replicates at once, layer by layer and over layers.

Row 0 of every array is the sample itself (each pair once), the rows after it are the replicates: a value and
its interval come from the same code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from strataprobe.curation.margins import Margins
from strataprobe.fragility.controls import CONTROLS
from strataprobe.fragility.critical import continuous_critical_noise


class Quantity(NamedTuple):
    """A statistic over layers, named as in the tables."""

    quantity: str
    control: str = ""
    statistic: str = ""
    means: str = ""


QUANTITIES = (
    Quantity("peak_accuracy"),
    Quantity("mean_accuracy"),
    *(Quantity("mean_critical_noise", control, "continuous", "dropped") for control in CONTROLS),
    Quantity("mean_critical_noise", "raw", "grid_exact", "capped"),
    Quantity("fragile_layers", "raw", "grid_exact"),
)


@dataclass(frozen=True)
class ByLayer:
    """Statistics of each layer of one checkpoint and seed, each (1 + replicates, layers).

    Attributes:
        accuracy: of the probe on activations as they are; NaN where no test pair was drawn.
        noise: control -> continuous critical noise, NaN below the threshold and where it is undefined.
        grid: raw critical noise on the grid by exact accuracy, censored layers at the grid's largest level;
            NaN where it is undefined.
        fragile: 1 where a layer is fragile, else 0.
    """

    accuracy: np.ndarray
    noise: dict[str, np.ndarray]
    grid: np.ndarray
    fragile: np.ndarray


def by_layer(margins: Margins, weights: np.ndarray, levels: Sequence[float], threshold: float) -> ByLayer:
    """Statistics of each layer.

    Args:
        margins: of one checkpoint and seed.
        weights: (1 + replicates, pairs of the dataset) how often each pair counts.
        levels: rising levels of the raw grid.
        threshold: accuracy below which a probe counts as collapsed.

    Source: fragility paper, sections 3.4 and 4.3; DEFINITIONS, noise and fragile layer.
    """
    own = weights[:, margins.pairs]
    with np.errstate(invalid="ignore", divide="ignore"):  # in small datasets no test pair may be drawn
        accuracy = own @ margins.correct.T / own.sum(axis=1, keepdims=True)
        crossing = {
            variant: np.stack([continuous_critical_noise(row, threshold, own) for row in signed], axis=1)
            for variant, signed in margins.signed.items()
        }
        # A control without a probe of its own disturbs the raw one.
        noise = {
            control: np.where(reach > 0, crossing.get(control, crossing["raw"]) / reach, np.nan)
            for control, reach in margins.reach.items()
        }
        grid = _on_grid(margins, own, np.asarray(levels, float), threshold)
    unknown = np.isnan(grid)
    fragile = np.where(unknown, 0.0, (accuracy < threshold) | (grid < levels[-1]))
    fragile[np.isnan(accuracy)] = np.nan
    return ByLayer(accuracy, noise, grid, fragile)


def over_layers(found: ByLayer, layers: np.ndarray) -> np.ndarray:
    """(quantities, 1 + replicates) of `QUANTITIES` over chosen layers; NaN where none of them has a value.

    Args:
        layers: indices, at least one.
    """
    accuracy = found.accuracy[:, layers]
    return np.stack(
        [
            accuracy.max(axis=1),
            accuracy.mean(axis=1),
            *(known_mean(found.noise[control][:, layers], axis=1) for control in CONTROLS),
            known_mean(found.grid[:, layers], axis=1),
            found.fragile[:, layers].sum(axis=1),
        ]
    )


def known_mean(values: np.ndarray, axis: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Mean along an axis of the values that are not NaN, weighted where weights are given; NaN of none."""
    known = ~np.isnan(values)
    counted = known * (1.0 if weights is None else weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (np.where(known, values, 0.0) * counted).sum(axis=axis) / counted.sum(axis=axis)


def _on_grid(margins: Margins, own: np.ndarray, levels: np.ndarray, threshold: float) -> np.ndarray:
    """(1 + replicates, layers) first level of the raw grid below the threshold, the largest where none is.

    So is the capped mean: a layer below the threshold without noise has the level that the grid gives it.
    NaN where noise reaches nothing, or no pair was drawn.
    """
    layers, items = margins.correct.shape
    sd = (margins.reach["raw"][:, None] * levels)[:, :, None]
    right = ndtr(margins.signed["raw"][:, None, :] / sd).reshape(-1, items)
    total = own.sum(axis=1)
    accuracy = (own @ right.T / total[:, None]).reshape(len(own), layers, len(levels))
    below = accuracy < threshold
    first = np.where(below.any(axis=2), levels[below.argmax(axis=2)], levels[-1])
    return np.where((margins.reach["raw"] > 0) & (total[:, None] > 0), first, np.nan)
