"""Scale controls: the same probe's margins in units that activation size cannot move.

Source: DEFINITIONS, scale controls (`rms_before`, `rms_after`, `within_class`).
"""

from dataclasses import dataclass

import numpy as np

from strataprobe.probes.store import Problem, Trained
from strataprobe.probes.training import root_mean_square

_ROUNDING = 1e-12
CONTROLS = ("raw", "rms_before", "rms_after", "within_class")


@dataclass(frozen=True)
class Control:
    """One way of measuring noise, for all layers.

    Attributes:
        variant: which trained probe is disturbed ("raw" or "rms_before").
        unit: (layers,) size of one unit of this control's noise in the probe's input space.
        reach: (layers,) sd that one unit of noise gives the logit; 0 where noise cannot reach the probe.
        projections: (layers, width) what unit normal noise adds to the logit, coordinate by coordinate.
    """

    name: str
    variant: str
    unit: np.ndarray
    reach: np.ndarray
    projections: np.ndarray


def controls(trained: Trained, problem: Problem) -> dict[str, Control]:
    """All four ways of measuring noise.

    raw: sigma in activation units. rms_after: sigma in units of the layer's training RMS, same probe.
    rms_before: the probe trained on activations divided by that RMS. within_class: noise shaped like the
    within-class training covariance S (trace-normalised to d), sigma in units of sqrt(tr S / d), so that a
    unit of noise is exactly N(0, S).
    """
    raw, before = (weights.astype(np.float64) for weights in trained.weights)
    rms = root_mean_square(problem.train_states)
    ones = np.ones_like(rms)
    spread = within_class_projections(raw, problem)
    return {
        "raw": Control("raw", "raw", ones, _norm(raw), raw),
        "rms_before": Control("rms_before", "rms_before", ones, _norm(before), before),
        "rms_after": Control("rms_after", "raw", rms, _norm(raw) * rms, raw * rms[:, None]),
        "within_class": Control("within_class", "raw", ones, _norm(spread), spread),
    }


def within_class_projections(weights: np.ndarray, problem: Problem) -> np.ndarray:
    """(layers, training items) projections p with p'p = w'Sw, S the within-class training covariance.

    S = A'A for A the class-centred training items over sqrt(items), so noise A'u with u ~ N(0, I) has
    covariance S, and adds (A w)'u to a logit: no (d, d) matrix is ever formed.
    """
    labels = problem.labels[problem.train]
    # A layer at a time, since all of them in float64 would fill no processor's cache.
    projected = np.stack(
        [
            states.astype(np.float64) @ weight
            for states, weight in zip(problem.train_states, weights, strict=True)
        ]
    )
    size = np.abs(projected).max(axis=1)
    for label in (-1, 1):
        members = labels == label
        projected[:, members] -= projected[:, members].mean(axis=1, keepdims=True)
    # What is left of equal states is rounding, not variance: such a probe's noise is undefined, not tiny.
    projected[np.abs(projected).max(axis=1) <= _ROUNDING * size] = 0.0
    return projected / np.sqrt(len(labels))


def _norm(vectors: np.ndarray) -> np.ndarray:
    return np.linalg.norm(vectors, axis=1)
