"""The joint gate over coarse accuracy, marginal concentration and p_w,min, and the verdicts it gives.

Source: lucky-defaults paper, sections 3.2 and 3.4, Tables 2 and 4; thresholds as pre-registered.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from strataprobe.concentration.measures import Concentration

PASS = "pass"
LUCKY = "lucky default"
PROPERTY_ONLY = "property only"
FAIL = "fail"
VERDICTS = (PASS, LUCKY, PROPERTY_ONLY, FAIL)
"""Of a cell."""

RETRACTED = "retracted"
NOT_PASSED = "not passed"
PATHS = (PASS, RETRACTED, LUCKY, NOT_PASSED)
"""Of a cell over scopes."""


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of the gate; shares, all in [0, 1].

    Attributes:
        property_accuracy: least accuracy of the property on canonical words across notations.
        coarse_accuracy: least A_pi.
        hhi: the Herfindahl index is below it.
        max_share: largest share of one class.
        side_mass: least and largest share predicted to the second side.
        lucky: p_w,min is below it; from it on, a cell with enough A_pi is a lucky default.
    """

    property_accuracy: float = 0.65
    coarse_accuracy: float = 0.65
    hhi: float = 0.70
    max_share: float = 0.85
    side_mass: tuple[float, float] = (0.20, 0.80)
    lucky: float = 0.95

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Thresholds":
        """Those of a study's `concentration` section; its other keys are passed over."""
        own = {field.name: settings[field.name] for field in fields(cls)}
        return cls(**{**own, "side_mass": tuple(own["side_mass"])})


def conjuncts(
    found: Concentration, thresholds: Thresholds, property_accuracy: ArrayLike | None = None
) -> dict[str, np.ndarray]:
    """Which conditions of the gate each cell meets: name -> (...) booleans; a cell passes by all of them.

    Args:
        property_accuracy: (...) accuracy of the property on canonical words. None, or NaN in a cell, where
            nothing is known of it: the condition is then left out (None) or taken as met (NaN), so such a
            cell passes by fewer conditions.
    """
    low, high = thresholds.side_mass
    met = {
        "coarse_accuracy": found.coarse_accuracy >= thresholds.coarse_accuracy,
        "hhi": found.hhi < thresholds.hhi,
        "max_share": found.max_share <= thresholds.max_share,
        "side_mass": (low <= found.side_mass) & (found.side_mass <= high),
        "p_top_min": found.p_top_min < thresholds.lucky,
    }
    if property_accuracy is not None:
        known = np.asarray(property_accuracy, float)
        met["property_accuracy"] = (known >= thresholds.property_accuracy) | np.isnan(known)
    return met


def verdicts(
    found: Concentration, thresholds: Thresholds, property_accuracy: ArrayLike | None = None
) -> np.ndarray:
    """(...) verdict of each cell, one of `VERDICTS`.

    Lucky default: A_pi is high enough and p_w,min too high, whatever the marginal measures say. Otherwise
    pass: every condition of the gate is met. Otherwise property only: the canonical words' property accuracy
    is high enough. Otherwise fail, also where that accuracy is not known.
    """
    met = conjuncts(found, thresholds, property_accuracy)
    known = np.asarray(np.nan if property_accuracy is None else property_accuracy, float)
    return np.select(
        [
            met["coarse_accuracy"] & ~met["p_top_min"],
            np.logical_and.reduce([np.broadcast_to(one, found.hhi.shape) for one in met.values()]),
            np.broadcast_to(known >= thresholds.property_accuracy, found.hhi.shape),
        ],
        [LUCKY, PASS, PROPERTY_ONLY],
        FAIL,
    )


def paths(verdict: ArrayLike, p_top_min: ArrayLike, thresholds: Thresholds) -> np.ndarray:
    """(cells,) what becomes of each cell when the readout is expanded, one of `PATHS`.

    Only what passes at the first scope can be undone. It is a lucky default where p_w,min reaches the
    threshold at any later scope, whatever A_pi is there (the paper's Table 4 counts so: at full collapse A_pi
    falls to the share of one side), otherwise retracted where any later scope fails the gate.

    Args:
        verdict: (cells, scopes) verdicts, scopes from the smallest to the largest.
        p_top_min: (cells, scopes).
    """
    passes = np.asarray(verdict) == PASS
    collapsed = np.asarray(p_top_min) >= thresholds.lucky
    return np.select(
        [~passes[:, 0], collapsed[:, 1:].any(axis=1), ~passes[:, 1:].all(axis=1)],
        [NOT_PASSED, LUCKY, RETRACTED],
        PASS,
    )


def sensitivity(
    p_top_min: ArrayLike, passed_first: ArrayLike, levels: ArrayLike
) -> list[dict[str, float | int]]:
    """How many cells a threshold on p_w,min would flag, at each of several thresholds.

    Args:
        p_top_min: (cells, scopes).
        passed_first: (cells,) booleans: the cell passes at the first scope; others are not counted.
        levels: thresholds.

    Returns:
        One dict a level: `threshold`, `flagged` (cells whose p_w,min reaches it at any scope) and `passed`
        (cells that pass at the first scope, of which those are).
    """
    largest = np.asarray(p_top_min, float)[np.asarray(passed_first, bool)].max(axis=-1, initial=0.0)
    return [
        {"threshold": float(level), "flagged": int((largest >= level).sum()), "passed": len(largest)}
        for level in np.asarray(levels, float)
    ]
