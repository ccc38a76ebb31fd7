"""Long, tidy tables from the summaries of probes and fragility: one row an observation.

Rows are plain dicts, in the order of the summaries given; what is not there has no row. Nothing is
estimated here but the mean and the standard deviation over seeds.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from strataprobe.errors import StrataprobeError, listing
from strataprobe.tables.twins import twin_column
from strataprobe.tabular.columns import GEOMETRY, KEY, SCORES, SEED_MEAN, WHICH, Row

Summary = Mapping[str, Any]

_WHOSE = tuple(name for name in KEY if name != "twin_of")
"""What a summary says of itself; its twins are found among the others."""

CONTROLS = ("raw", "rms_before", "rms_after", "within_class")
STATISTICS = ("grid_sampled", "grid_exact", "continuous")
BANDS = ("all", "early", "mid", "late")
MEANS = ("capped", "dropped")


def probing_rows(summaries: Sequence[Summary]) -> list[Row]:
    """One row a layer and seed: the probe's scores on its test pairs.

    `interval_low` and `interval_high` bound the accuracy (95 % pair bootstrap) where the summary
    gives `accuracy_interval`, and are empty otherwise.

    Raises:
        StrataprobeError: a summary lacks a key field, or two summaries are of the same probe.
    """
    rows = []
    for summary, key in zip(summaries, keys_of(summaries, "probe"), strict=True):
        metadata = summary["metadata"]
        for score in summary["layer_scores"]:
            low, high = _interval(score.get("accuracy_interval"))
            rows.append(
                {
                    **key,
                    **{name: score.get(name) for name in ("layer", "depth", *SCORES)},
                    "train_pairs": metadata.get("train_pairs"),
                    "test_pairs": metadata.get("test_pairs"),
                    "interval_low": low,
                    "interval_high": high,
                }
            )
    return rows


def curves_of(rows: Iterable[Row], **equal: Any) -> dict[str, list[tuple[int, float]]]:
    """Seed -> (step, value) by rising step, of the single seeds' rows whose columns have these values.

    Rows without a step or without a value are left out.
    """
    curves: dict[str, dict[int, float]] = {}
    for row in rows:
        wanted = all(row[name] == value for name, value in equal.items()) and row["seed"] != SEED_MEAN
        if wanted and row["step"] is not None and row["value"] is not None:
            curves.setdefault(str(row["seed"]), {})[int(row["step"])] = float(row["value"])
    return {seed: sorted(curve.items()) for seed, curve in curves.items()}


def fragility_rows(summaries: Sequence[Summary]) -> list[Row]:
    """One row a layer, seed, control and statistic: the critical noise, its state and interval.

    Raw critical noise is in activation units, `rms_*` in units of the layer's training RMS,
    `within_class` in units of the root mean within-class variance. Only the continuous statistic
    has an interval (95 % pair bootstrap).

    Raises:
        StrataprobeError: a summary lacks a key field, or two summaries are of the same probe.
    """
    rows = []
    for summary, key in zip(summaries, keys_of(summaries, "fragility"), strict=True):
        for score in summary["layer_scores"]:
            place = {name: score[name] for name in ("layer", "depth", "band", "baseline_accuracy")}
            for control, statistic in _pairs(score["controls"]):
                found = score["controls"][control][statistic]
                low, high = _interval(found.get("interval"))
                rows.append(
                    {
                        **key,
                        **place,
                        "control": control,
                        "statistic": statistic,
                        "critical_noise": found["value"],
                        "state": found["state"],
                        "interval_low": low,
                        "interval_high": high,
                    }
                )
    return rows


def scale_rows(summaries: Sequence[Summary]) -> list[Row]:
    """One row a layer and seed: activation scale, geometric margin and the ceiling without a probe.

    Args:
        summaries: fragility summaries.

    Raises:
        StrataprobeError: a summary lacks a key field, or two summaries are of the same probe.
    """
    rows = []
    for summary, key in zip(summaries, keys_of(summaries, "fragility"), strict=True):
        for score in summary["layer_scores"]:
            if "ceiling" not in score:  # published files have neither geometry nor ceiling
                continue
            ceiling = score["ceiling"]["continuous"]
            rows.append(
                {
                    **key,
                    "layer": score["layer"],
                    "depth": score["depth"],
                    **{name: score["geometry"].get(name) for name in GEOMETRY},
                    "ceiling_critical_noise": ceiling["value"],
                    "ceiling_state": ceiling["state"],
                }
            )
    return rows


def trajectory_rows(probe_summaries: Sequence[Summary], fragility_summaries: Sequence[Summary]) -> list[Row]:
    """Means over layers, a row a seed, then a row `mean` over the seeds that are there.

    A seed's interval is the 95 % pair bootstrap. A `mean` row's interval is mean +- the standard
    deviation over seeds (ddof 1), empty with one seed; seeds without a value (every layer below
    the threshold, no onset) do not enter it, and its `counted` is the mean of theirs.

    Raises:
        StrataprobeError: a summary lacks a key field, or two summaries are of the same probe.

    Source: fragility paper, section 4.2; the two means over layers in docs/methods.md.
    """
    seen: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for summaries, kind, read in (
        (probe_summaries, "probe", _probe_trajectory),
        (fragility_summaries, "fragility", _fragility_trajectory),
    ):
        for summary, key in zip(summaries, keys_of(summaries, kind), strict=True):
            group = tuple(key[name] for name in _WHOSE if name != "seed")
            seen[group] += [{**key, **row} for row in read(summary)]
    return [row for rows in seen.values() for row in (*rows, *_seed_means(rows))]


def _probe_trajectory(summary: Summary) -> Iterable[Row]:
    layers = len(summary["layer_scores"])
    for quantity in ("mean_accuracy", "peak_accuracy", "onset_layer"):
        interval = summary.get("mean_accuracy_interval") if quantity == "mean_accuracy" else None
        yield _observation(quantity, summary[quantity], interval, layers=layers, counted=layers)


def _fragility_trajectory(summary: Summary) -> Iterable[Row]:
    for control, statistic in _pairs(summary["means"]):
        for band in BANDS:
            mean = summary["means"][control][statistic].get(band)
            if mean is None:
                continue
            for means in MEANS:
                # The bootstrap is of the mean over the layers that have a value; where censored
                # layers make the capped mean another number, it does not belong to that one.
                own = means == "dropped" or mean["capped"] == mean["dropped"]
                bounded = statistic == "continuous" and band == "all" and own
                yield _observation(
                    "mean_critical_noise",
                    mean[means],
                    summary.get("mean_intervals", {}).get(control) if bounded else None,
                    which=(control, statistic, band, means),
                    layers=mean["layers"],
                    counted=mean["counted"],
                )


def _observation(
    quantity: str,
    value: float | None,
    interval: Sequence[float | None] | None,
    *,
    which: tuple[str, str, str, str] = ("", "", "all", ""),
    layers: float | None,
    counted: float | None,
) -> Row:
    low, high = _interval(interval)
    names = dict(zip(WHICH, (quantity, *which), strict=True))
    bounds = {"interval_low": low, "interval_high": high}
    return {**names, "value": value, **bounds, "layers": layers, "counted": counted}


def _seed_means(rows: Sequence[Row]) -> Iterable[Row]:
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in WHICH)].append(row)
    for group in groups.values():
        values = [row["value"] for row in group if row["value"] is not None]
        mean = statistics.fmean(values) if values else None
        spread = statistics.stdev(values) if len(values) > 1 else None
        yield {
            **group[0],
            "seed": SEED_MEAN,
            "value": mean,
            "interval_low": None if spread is None else mean - spread,
            "interval_high": None if spread is None else mean + spread,
            "counted": statistics.fmean(row["counted"] for row in group),
        }


def keys_of(summaries: Sequence[Summary], kind: str) -> list[Row]:
    """The key columns of each summary; all that is missing or there twice is listed at once.

    `twin_of` names the other revisions among these summaries whose weights are byte for byte the same.
    """
    keys: list[Row] = []
    faults = []
    seen: set[tuple[Any, ...]] = set()
    for index, (summary, twins) in enumerate(zip(summaries, twin_column(summaries), strict=True)):
        merged = {**summary.get("metadata", {}), **summary}
        if missing := [name for name in _WHOSE if name not in merged]:
            faults.append(f"{kind} summary {index}: missing {', '.join(missing)}")
            continue
        key = {name: merged[name] for name in _WHOSE}
        identity = tuple(key.values())
        if identity in seen:
            said = ", ".join(f"{name} {value}" for name, value in key.items())
            faults.append(f"{kind} summary {index}: there twice ({said})")
        seen.add(identity)
        keys.append({**key, "twin_of": twins})
    if faults:
        raise StrataprobeError(listing(f"{kind} summaries", faults))
    return keys


def _pairs(controls: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """The controls and statistics that are there, always in the same order."""
    for control in CONTROLS:
        for statistic in STATISTICS:
            if statistic in controls.get(control, {}):
                yield control, statistic


def _interval(bounds: Sequence[float | None] | None) -> tuple[float | None, float | None]:
    return (None, None) if bounds is None else (bounds[0], bounds[1])
