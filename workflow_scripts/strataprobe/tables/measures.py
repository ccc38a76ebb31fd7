"""Long, tidy tables from the summaries of probes and fragility: one row an observation.

Rows are plain dicts, in the order of the summaries given; what is not there has no row. Nothing is
estimated here but the mean and the standard deviation over seeds.
"""

import csv
import math
import os
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strataprobe.errors import StrataprobeError, listing
from strataprobe.files import atomic

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]
Summary = Mapping[str, Any]

CONTROLS = ("raw", "rms_before", "rms_after", "within_class")
STATISTICS = ("grid_sampled", "grid_exact", "continuous")
BANDS = ("all", "early", "mid", "late")
MEANS = ("capped", "dropped")
SEED_MEAN = "mean"

KEY = ("model", "revision", "step", "dataset", "conventions", "pooling", "seed")
_GEOMETRY = (
    "activation_rms",
    "mean_norm",
    "first_token_share",
    "weight_norm",
    "margin_mean",
    "margin_sd",
    "margin_over_rms",
    "gaussian_critical_noise",
)
_SCORES = ("accuracy", "loss", "auc", "d_prime", "log_loss")
_WHICH = ("quantity", "control", "statistic", "band", "means")

COLUMNS: dict[str, tuple[str, ...]] = {
    "probing": (
        *(*KEY, "layer", "depth", *_SCORES, "train_pairs", "test_pairs"),
        *("interval_low", "interval_high"),
    ),
    "fragility": (
        *(*KEY, "layer", "depth", "band", "baseline_accuracy", "control", "statistic"),
        *("critical_noise", "state", "interval_low", "interval_high"),
    ),
    "trajectory": (*KEY, *_WHICH, "value", "interval_low", "interval_high", "layers", "counted"),
    "scale": (*KEY, "layer", "depth", *_GEOMETRY, "ceiling_critical_noise", "ceiling_state"),
}

_TEXT = frozenset(
    (*KEY, *_WHICH, "state", "ceiling_state", "band"),
) - {"step"}


def probing_rows(summaries: Sequence[Summary]) -> list[Row]:
    """One row a layer and seed: the probe's scores on its test pairs.

    `interval_low` and `interval_high` bound the accuracy (95 % pair bootstrap) where the summary
    gives `accuracy_interval`, and are empty otherwise.

    Raises:
        StrataprobeError: a summary lacks a key field, or two summaries are of the same probe.
    """
    rows = []
    for summary, key in zip(summaries, _keys(summaries, "probe"), strict=True):
        metadata = summary["metadata"]
        for score in summary["layer_scores"]:
            low, high = _interval(score.get("accuracy_interval"))
            rows.append(
                {
                    **key,
                    **{name: score.get(name) for name in ("layer", "depth", *_SCORES)},
                    "train_pairs": metadata.get("train_pairs"),
                    "test_pairs": metadata.get("test_pairs"),
                    "interval_low": low,
                    "interval_high": high,
                }
            )
    return rows


def fragility_rows(summaries: Sequence[Summary]) -> list[Row]:
    """One row a layer, seed, control and statistic: the critical noise, its state and interval.

    Raw critical noise is in activation units, `rms_*` in units of the layer's training RMS,
    `within_class` in units of the root mean within-class variance. Only the continuous statistic
    has an interval (95 % pair bootstrap).

    Raises:
        StrataprobeError: a summary lacks a key field, or two summaries are of the same probe.
    """
    rows = []
    for summary, key in zip(summaries, _keys(summaries, "fragility"), strict=True):
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
    for summary, key in zip(summaries, _keys(summaries, "fragility"), strict=True):
        for score in summary["layer_scores"]:
            ceiling = score["ceiling"]["continuous"]
            rows.append(
                {
                    **key,
                    "layer": score["layer"],
                    "depth": score["depth"],
                    **{name: score["geometry"].get(name) for name in _GEOMETRY},
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
        for summary, key in zip(summaries, _keys(summaries, kind), strict=True):
            group = tuple(key[name] for name in KEY[:-1])
            seen[group] += [{**key, **row} for row in read(summary)]
    return [row for rows in seen.values() for row in (*rows, *_seed_means(rows))]


def onset_step(points: Iterable[tuple[int, float]], threshold: float = 0.70) -> tuple[int | None, int | None]:
    """First step at or above the threshold, and first step from which no later one falls below it.

    Args:
        points: (step, mean accuracy over blocks); NaN values are left out.

    Returns:
        (first, sustained), each None where there is none.

    Source: fragility paper, section 4.1, Table 1; `sustained` in docs/methods.md.
    """
    first = sustained = None
    for step, value in sorted((step, value) for step, value in points if not math.isnan(value)):
        if value < threshold:
            sustained = None
            continue
        first = step if first is None else first
        sustained = step if sustained is None else sustained
    return first, sustained


def write_csv(path: str | os.PathLike[str], rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Write rows as csv: floats with six digits, None as nothing, "\\n" line ends, atomically.

    Raises:
        StrataprobeError: a row has other fields than `columns`, or a number is not finite.
    """
    faults = []
    for index, row in enumerate(rows, start=1):
        if wrong := sorted(set(row) ^ set(columns)):
            faults.append(f"row {index}: fields missing or not in the table: {', '.join(wrong)}")
        for name, value in row.items():
            if isinstance(value, float) and not math.isfinite(value):
                faults.append(f"row {index}: '{name}' is {value}, not a finite number (leave it empty)")
    if faults:
        raise StrataprobeError(listing(str(path), faults))
    with atomic(path) as place, place.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(row[name]) for name in columns] for row in rows)


def concatenate(paths: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> None:
    """Put parts with the same header under one header, in the order given.

    Raises:
        StrataprobeError: there is no part, or headers differ from the first one's; names the files.
    """
    if not paths:
        raise StrataprobeError(f"{out}: there is no part to concatenate; a table needs at least one")
    texts = [Path(path).read_text(encoding="utf-8").splitlines(keepends=True) or [""] for path in paths]
    header = texts[0][0]
    faults = [
        f"{path}: its header differs from that of {paths[0]} ({lines[0].strip() or 'empty file'})"
        for path, lines in zip(paths, texts, strict=True)
        if lines[0] != header or not header.strip()
    ]
    if faults:
        raise StrataprobeError(listing(str(out), faults))
    with atomic(out) as place, place.open("w", encoding="utf-8", newline="") as handle:
        handle.write(header)
        for lines in texts:
            handle.writelines(lines[1:])


def read_table(path: str | os.PathLike[str]) -> "pd.DataFrame":
    """Read a table: names, seeds and states as text (empty stays ""), everything else as numbers.

    A revision that is called "NA" or a model "none" stays what it is.

    Raises:
        StrataprobeError: the file cannot be read, or a number column holds something else.
    """
    import pandas as pd

    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, na_filter=False)
    except (OSError, ValueError) as error:
        raise StrataprobeError(f"cannot read the table {path}: {error}") from error
    faults = []
    for name in frame.columns:
        if name not in _TEXT:
            numbers = pd.to_numeric(frame[name].where(frame[name] != ""), errors="coerce")
            wrong = frame.index[numbers.isna() & (frame[name] != "")]
            faults += [f"{path}:{row + 2}: '{name}' is not a number: '{frame[name][row]}'" for row in wrong]
            frame[name] = numbers
    if faults:
        raise StrataprobeError(listing(str(path), faults))
    return frame


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
    names = dict(zip(_WHICH, (quantity, *which), strict=True))
    bounds = {"interval_low": low, "interval_high": high}
    return {**names, "value": value, **bounds, "layers": layers, "counted": counted}


def _seed_means(rows: Sequence[Row]) -> Iterable[Row]:
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in _WHICH)].append(row)
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


def _keys(summaries: Sequence[Summary], kind: str) -> list[Row]:
    """The key columns of each summary; all that is missing or there twice is listed at once."""
    keys: list[Row] = []
    faults = []
    seen: set[tuple[Any, ...]] = set()
    for index, summary in enumerate(summaries):
        merged = {**summary.get("metadata", {}), **summary}
        if missing := [name for name in KEY if name not in merged]:
            faults.append(f"{kind} summary {index}: missing {', '.join(missing)}")
            continue
        key = {name: merged[name] for name in KEY}
        identity = tuple(key.values())
        if identity in seen:
            said = ", ".join(f"{name} {value}" for name, value in key.items())
            faults.append(f"{kind} summary {index}: there twice ({said})")
        seen.add(identity)
        keys.append(key)
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


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
