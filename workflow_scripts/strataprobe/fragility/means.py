"""Means over layers, whole and by band, in both of the ways the published numbers use.

Source: DEFINITIONS, means over layers and bands.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from strataprobe.fragility.critical import Critical

BANDS = ("early", "mid", "late")


def bands(layers: int) -> list[str]:
    """Band of each block: the outer floor(L/3) blocks are early and late, the rest mid (16: 5, 6, 5)."""
    outer = layers // 3
    return ["early"] * outer + ["mid"] * (layers - 2 * outer) + ["late"] * outer


def capped_and_dropped(values: Sequence[Critical], cap: float | None) -> dict[str, Any]:
    """Both means of some layers' critical noise.

    capped: a censored layer counts as the grid's maximum (paper, 3.4). dropped: it is left out (the
    authors' code). A layer below the threshold without noise has, on a grid, the level the grid gives it, as
    published; without a grid (`cap` None) it counts as 0 in `capped` and is left out of `dropped`.
    `undefined` layers are in neither.
    """
    defined = [value for value in values if value.state != "undefined"]
    given = [value.value for value in defined if value.value is not None]
    missing = len(defined) - len(given)
    filled = given + [0.0 if cap is None else cap] * missing
    return {
        "capped": float(np.mean(filled)) if filled else None,
        "dropped": float(np.mean(given)) if given else None,
        "layers": len(values),
        "counted": len(given),
    }


def means(values: Sequence[Critical], cap: float | None) -> dict[str, dict[str, Any]]:
    """Means over all layers and over each band: {"all": {...}, "early": {...}, ...}."""
    member = bands(len(values))
    result = {"all": capped_and_dropped(values, cap)}
    for band in BANDS:
        chosen = [value for value, name in zip(values, member, strict=True) if name == band]
        if chosen:
            result[band] = capped_and_dropped(chosen, cap)
    return result


def extremes(values: Sequence[Critical], cap: float | None) -> tuple[list[int], list[int]]:
    """The most fragile and the most robust layers: sets, since layers tie on a grid.

    A censored layer counts as infinitely robust where there is a grid; layers without a number are left out.
    """
    scores = [
        np.inf if value.state == "censored" else (np.nan if value.value is None else value.value)
        for value in values
    ]
    if np.isnan(scores).all():
        return [], []
    low, high = np.nanmin(scores), np.nanmax(scores)
    return [i for i, s in enumerate(scores) if s == low], [i for i, s in enumerate(scores) if s == high]
