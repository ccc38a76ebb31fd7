"""When a property appears over training: onsets, plateaus, the shape of the rise, and a test of a decline.

A curve is a list of (step, value), the value a mean accuracy over blocks (or any other number a checkpoint
has). Step 0 is a step like any other; points without a value (None, NaN) are left out; order does not
matter.

Source: fragility paper, sections 4.1 and 4.2, Tables 1 and 3.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from strataprobe.errors import StrataprobeError, listing
from strataprobe.statistics import cluster_counts, percentile_interval

Point = tuple[int, float | None]
Curve = Sequence[Point]

ONSET = 0.70
GAIN_FROM, PLATEAU_TO = 0.6, 0.9


def clean(points: Iterable[Point]) -> list[tuple[int, float]]:
    """The points that have a value, by rising step.

    Raises:
        StrataprobeError: a step is there twice.
    """
    kept = sorted((int(step), float(value)) for step, value in points if value is not None and value == value)
    steps = [step for step, _ in kept]
    if twice := sorted({step for step in steps if steps.count(step) > 1}):
        raise StrataprobeError(
            f"a curve has two values at step {', '.join(map(str, twice))}; give one a step"
        )
    return kept


def onset_step(points: Iterable[Point], threshold: float = ONSET) -> tuple[int | None, int | None]:
    """First step at or above the threshold, and first step from which no later one falls below it.

    Returns:
        (first, sustained), each None where there is none.

    Source: fragility paper, section 4.1, Table 1; `sustained` in docs/methods.md.
    """
    first = sustained = None
    for step, value in clean(points):
        if value < threshold:
            sustained = None
            continue
        first = step if first is None else first
        sustained = step if sustained is None else sustained
    return first, sustained


def mean_curve(curves: Iterable[Curve]) -> list[tuple[int, float]]:
    """Mean over seeds at the steps that every seed has: the mean of fewer seeds is another curve."""
    each = [dict(clean(curve)) for curve in curves]
    if not each:
        return []
    shared = sorted(set.intersection(*(set(curve) for curve in each)))
    return [(step, float(np.mean([curve[step] for curve in each]))) for step in shared]


def plateau(points: Iterable[Point], last: int = 1) -> float | None:
    """Mean of the last checkpoints, as many as asked for or as there are; None for an empty curve.

    The paper's plateau is the last checkpoint alone (Table 1, step 36K).
    """
    if last < 1:
        raise ValueError("a plateau needs at least one checkpoint")
    values = [value for _, value in clean(points)[-last:]]
    return float(np.mean(values)) if values else None


def transition(
    points: Iterable[Point], level: float | None, *, chance: float | None = None
) -> dict[str, Any]:
    """How many steps the rise takes, from 0.6 of the gain to 0.9 of the plateau, and whether that is sharp.

    The gain is what the curve rises above where it starts: gain = plateau - chance, chance being the first
    checkpoint's value unless given. The rise starts at the first checkpoint with value >= chance + 0.6 gain
    and is over at the first one, from there on, with value >= 0.9 plateau; `steps` is the distance between
    them. It is `sharp` where one checkpoint is both (`steps` 0: the rise lies within one interval between
    checkpoints, and the sampling resolves no more), else `gradual`. So the kind belongs to the sampling too:
    `resolution` is the interval that ends at `start`.

    Args:
        level: the plateau, e.g. `plateau(points)`.

    Returns:
        `start` and `end` (steps), `steps`, `kind` ("sharp", "gradual" or None), `gain`, `resolution`.
        `kind` is None without a rise (plateau at or below chance), with one that does not end, and with
        one that has begun by the first checkpoint.

    Source: fragility paper, section 4.1 (2); the two levels are ours (docs/methods.md).
    """
    curve = clean(points)
    found: dict[str, Any] = dict.fromkeys(("start", "end", "steps", "kind", "gain", "resolution"))
    if not curve or level is None:
        return found
    low = curve[0][1] if chance is None else chance
    found["gain"] = level - low
    risen = [place for place, (_, value) in enumerate(curve) if value >= low + GAIN_FROM * (level - low)]
    if level <= low or not risen or risen[0] == 0:
        return found
    start = curve[risen[0]][0]
    found |= {"start": start, "resolution": start - curve[risen[0] - 1][0]}
    end = next((step for step, value in curve[risen[0] :] if value >= PLATEAU_TO * level), None)
    if end is None:
        return found
    return {**found, "end": end, "steps": end - start, "kind": "sharp" if end == start else "gradual"}


def onset_intervals(
    steps: Sequence[int], replicates: np.ndarray, *, threshold: float = ONSET, level: float = 0.95
) -> dict[str, Any]:
    """Pair-bootstrap intervals of both onsets, from replicates of the whole curve.

    Args:
        steps: (checkpoints,) rising.
        replicates: (replicates, checkpoints) curves; in one replicate the same drawn pairs stand behind
            every checkpoint (`statistics.cluster_counts` with one seed), else the interval is too wide. For
            the seed-mean curve, (seeds, replicates, checkpoints): averaged over seeds first.

    Returns:
        `first` and `sustained`, each [low, high] in steps (percentiles that are checkpoints, not
        between two), [None, None] where more than half of the replicates have none; `without`, the share of
        replicates that never reach the threshold.

    Raises:
        ValueError: the shapes do not fit, or the steps do not rise.
    """
    curves = np.asarray(replicates, float)
    curves = curves.mean(axis=0) if curves.ndim == 3 else curves
    at = np.asarray(steps, float)
    if curves.ndim != 2 or curves.shape[1] != len(at) or not len(at):
        raise ValueError(f"replicates of {curves.shape} do not fit {len(at)} checkpoints")
    if (np.diff(at) <= 0).any():
        raise ValueError("steps do not rise")
    above = curves >= threshold
    first = np.where(above.any(axis=1), at[above.argmax(axis=1)], np.nan)
    # From the end backwards, the run of checkpoints that stay above.
    run = np.logical_and.accumulate(above[:, ::-1], axis=1).sum(axis=1)
    sustained = np.where(run > 0, at[np.minimum(len(at) - run, len(at) - 1)], np.nan)
    return {
        "first": _on_checkpoints(percentile_interval(first, level), at),
        "sustained": _on_checkpoints(percentile_interval(sustained, level), at),
        "without": float(np.isnan(first).mean()),
    }


def curve_replicates(
    accuracy: Mapping[Any, Sequence[Mapping[str, Sequence[float]]]], replicates: int, seed: int
) -> dict[Any, np.ndarray]:
    """Curves of mean accuracy when the dataset's pairs are drawn with replacement.

    One draw stands behind every checkpoint and every seed: a pair that is held out under two seeds is drawn
    for both, so that what seeds share is not taken for precision.

    Args:
        accuracy: seed -> one `{"pairs": places in the dataset, "accuracy": one a pair}` a checkpoint.

    Returns:
        Seed -> (replicates, checkpoints); NaN where none of a seed's test pairs was drawn.
    """
    places = sorted({place for each in accuracy.values() for one in each for place in one["pairs"]})
    index = {place: column for column, place in enumerate(places)}
    counts = cluster_counts(len(places), replicates, seed).astype(np.float64)
    drawn = {}
    for name, checkpoints in accuracy.items():
        columns = []
        for one in checkpoints:
            own = counts[:, [index[place] for place in one["pairs"]]]
            with np.errstate(invalid="ignore", divide="ignore"):
                columns.append(own @ np.asarray(one["accuracy"], float) / own.sum(axis=1))
        drawn[name] = np.stack(columns, axis=1)
    return drawn


def interval_of(
    points: Curve, replicates: np.ndarray | None, threshold: float = ONSET
) -> dict[str, list[Any]]:
    """Intervals of `onset_step`, `sustained_step`, `onset_accuracy` and `plateau` of one curve.

    Args:
        points: the curve itself.
        replicates: (replicates, checkpoints) of it; None gives no intervals.
    """
    curve = clean(points)
    if replicates is None or not curve:
        return {}
    steps = [step for step, _ in curve]
    found = onset_intervals(steps, replicates, threshold=threshold)
    intervals = {
        "onset_step": found["first"],
        "sustained_step": found["sustained"],
        "plateau": percentile_interval(replicates[:, -1]),
    }
    first, _ = onset_step(curve, threshold)
    if first is not None:
        intervals["onset_accuracy"] = percentile_interval(replicates[:, steps.index(first)])
    return intervals


def onsets(
    curves: Mapping[Any, Curve],
    *,
    threshold: float = ONSET,
    last: int = 1,
    replicates: tuple[Sequence[int], np.ndarray] | None = None,
) -> dict[str, Any]:
    """Everything about when one dataset's curves rise.

    Args:
        curves: seed -> curve.
        last: checkpoints in the plateau.
        replicates: (steps, array) as `onset_intervals` takes them, for the seed-mean curve.

    Returns:
        `seeds`: one dict a seed with `seed`, `onset`, `sustained`, `onset_accuracy`, `plateau`, `transition`.
        `mean`: the same of the seed-mean curve, with `onset_sd` and `plateau_sd` (over seeds, ddof 1, at the
        mean curve's onset and plateau; None with one seed), `n`, and `intervals` where replicates are given.
    """
    described = [
        {"seed": seed, **_described(curve, threshold, last)} for seed, curve in curves.items() if clean(curve)
    ]
    whole = mean_curve(curves.values())
    mean = _described(whole, threshold, last)
    at_onset = [dict(clean(curve)).get(mean["onset"]) for curve in curves.values()]
    ends = [
        plateau([point for point in clean(curve) if point[0] in dict(whole)], last)
        for curve in curves.values()
    ]
    mean |= {"onset_sd": spread(at_onset), "plateau_sd": spread(ends), "n": len(described)}
    if replicates is not None:
        mean["intervals"] = onset_intervals(*replicates, threshold=threshold)
    return {"threshold": threshold, "seeds": described, "mean": mean}


def decision_rule(
    values_a: Sequence[float | None], values_b: Sequence[float | None], *, least_drop: float = 1.0
) -> dict[str, Any]:
    """Is a fall between two checkpoints more than what seeds differ by?

    It counts as real if the mean over seeds falls by at least `least_drop` from a to b, and the standard
    deviation over seeds (ddof 1) at both is smaller than that fall.

    Args:
        values_a, values_b: one value a seed at the earlier and at the later checkpoint; None is left out.

    Returns:
        `real`, and its parts `falls` and `above_spread`; `mean_a`, `mean_b`, `sd_a`, `sd_b`, `gap`,
        `largest_sd`, `least_drop`, `n_a`, `n_b`.

    Raises:
        StrataprobeError: fewer than two seeds with a value at either checkpoint.

    Source: fragility paper, section 4.2.
    """
    kept = [[float(v) for v in values if v is not None and v == v] for values in (values_a, values_b)]
    faults = [
        f"{name}: {len(values)} of {len(given)} seeds have a value; a spread needs at least 2"
        for name, values, given in zip(("first step", "second step"), kept, (values_a, values_b), strict=True)
        if len(values) < 2
    ]
    if faults:
        raise StrataprobeError(listing("decision rule", faults))
    (mean_a, mean_b), (sd_a, sd_b) = (
        [float(np.mean(v)) for v in kept],
        [float(np.std(v, ddof=1)) for v in kept],
    )
    gap, largest = mean_a - mean_b, max(sd_a, sd_b)
    return {
        "real": gap >= least_drop and largest < gap,
        "falls": gap >= least_drop,
        "above_spread": largest < gap,
        "mean_a": mean_a,
        "mean_b": mean_b,
        "sd_a": sd_a,
        "sd_b": sd_b,
        "gap": gap,
        "largest_sd": largest,
        "least_drop": least_drop,
        "n_a": len(kept[0]),
        "n_b": len(kept[1]),
    }


def spread(values: Iterable[float | None]) -> float | None:
    """Standard deviation over seeds, ddof 1; None where a seed has no value, or there is one seed."""
    kept = list(values)
    if len(kept) < 2 or any(value is None or math.isnan(value) for value in kept):
        return None
    return float(np.std(np.array(kept, float), ddof=1))


def _described(points: Curve, threshold: float, last: int) -> dict[str, Any]:
    curve = clean(points)
    first, sustained = onset_step(curve, threshold)
    level = plateau(curve, last)
    return {
        "onset": first,
        "sustained": sustained,
        "onset_accuracy": None if first is None else dict(curve)[first],
        "plateau": level,
        "last_step": curve[-1][0] if curve else None,
        "transition": transition(curve, None if first is None else level),
    }


def _on_checkpoints(bounds: Sequence[float | None], at: np.ndarray) -> list[int | None]:
    """Percentiles moved outwards onto checkpoints: an onset is one of them."""
    low, high = bounds
    if low is None or high is None:
        return [None, None]
    return [int(at[at <= low].max()), int(at[at >= high].min())]
