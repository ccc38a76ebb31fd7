"""Conditions compared at the same accuracy, and what a comparison says once scale is taken out.

Source: DEFINITIONS, LoRA comparison: mean accuracy over layers differs between conditions even where the peak
does not, so that conditions are also compared at matched accuracy; scale controls.
"""

from collections.abc import Mapping

import numpy as np

Bounds = tuple[float | None, float | None]

APART, NOT_APART = "apart", "not apart"
SURVIVES, IN_PART, UNDERCUT, NO_SEPARATION = "survives", "in part", "undercut", "no separation"

_ROUNDING = 1e-12
"""Accuracies are ratios of counts: what differs by less is the same."""


def matched_layers(a: np.ndarray, b: np.ndarray, within: float) -> np.ndarray:
    """Layers at which two conditions are as accurate, as indices.

    Args:
        a, b: (layers,) accuracy of each condition, averaged over runs and seeds.
        within: how far they may be apart.
    """
    return np.flatnonzero(np.abs(a - b) <= within + _ROUNDING)


def alike(a: float, b: float, within: float) -> bool:
    """Whether two accuracies count as matched."""
    return abs(a - b) <= within + _ROUNDING


def nearest_step(wanted: float, accuracy: Mapping[int, float]) -> int | None:
    """The step whose mean accuracy is nearest to the wanted one, however far off; of several the latest.

    Step 0 is not one of them, since nothing is trained there. None where there is no other.
    """
    off = {step: abs(found - wanted) for step, found in accuracy.items() if step > 0}
    if not off:
        return None
    return max(step for step, own in off.items() if own <= min(off.values()) + _ROUNDING)


def side(bounds: Bounds) -> int | None:
    """1 or -1 where an interval lies above or below 0, 0 where it holds it, None where there is none."""
    low, high = bounds
    if low is None or high is None:
        return None
    return 1 if low > 0 else -1 if high < 0 else 0


def verdict(bounds: Bounds) -> str:
    """Whether the interval of a difference leaves out 0; "" without an interval."""
    found = side(bounds)
    return "" if found is None else APART if found else NOT_APART


def undercutting(raw: Bounds, scaled: Mapping[str, Bounds]) -> tuple[str, str]:
    """Whether a difference in raw critical noise stands once noise is measured in units of scale.

    Args:
        raw: interval of the difference in raw critical noise.
        scaled: scale control -> interval of the difference measured so.

    Returns:
        `survives` where every control is apart with the sign of raw, `in part` where some are, `undercut`
        where none is, `no separation` where raw itself is not apart, "" where raw has no interval; and a note
        on which controls say what, "" where there is nothing to add.
    """
    found = side(raw)
    if found is None:
        return "", "raw critical noise has no interval"
    if found == 0:
        return NO_SEPARATION, ""
    sides = {name: side(bounds) for name, bounds in scaled.items()}
    same = [name for name, own in sides.items() if own == found]
    said = {
        "apart with the same sign": same,
        "apart with the other sign": [name for name, own in sides.items() if own == -found],
        "without an interval": [name for name, own in sides.items() if own is None],
    }
    note = "; ".join(f"{words}: {', '.join(names)}" for words, names in said.items() if names)
    return SURVIVES if len(same) == len(sides) else IN_PART if same else UNDERCUT, note
