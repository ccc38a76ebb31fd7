"""Rows of causal tracing: the effect of every block, where it peaks, and where the probe of it does."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from strataprobe.errors import StrataprobeError, listing
from strataprobe.tables.twins import twin_column
from strataprobe.tabular.columns import Row

if TYPE_CHECKING:
    from strataprobe.published import Number, Numbers

Summary = Mapping[str, Any]

PROBE = "probe"
"""The design of rows that say where a linear probe is best."""

_NOTHING = dict.fromkeys(
    ("layer", "depth", "value", "interval_low", "interval_high", "draw_sd", "n", "draws")
)
_PLACE, _PAPER_MODEL = "Table B", "olmo3-7b"
_PUBLISHED = {
    ("published", "positive", "expected", "peak_layer"): "peak_causal_layer",
    ("published", "positive", "expected", "mean_effect"): "mean_indirect_effect",
    (PROBE, "", "accuracy", "peak_layer"): "peak_layer",
}
"""What the paper prints: (design, side, score, measure) -> quantity."""


def tracing_rows(
    summaries: Sequence[Summary], probes: Sequence[Summary] = (), numbers: "Numbers | None" = None
) -> list[Row]:
    """One row a measure of each checkpoint, design, side and score, and where the probe peaks.

    Measures: `clean` score, `indirect_effect` of each block, its mean over blocks (`mean_effect`),
    `total_effect` of the corruption (restoration), `peak_layer` and `peak_effect`, `draw_agreement` (share of
    draws that alone have the same peak), and `gap`: peak of the effect less peak of the probe, in blocks.
    Intervals are 95 % bootstrap over pairs; of the probe's peak, the range over seeds; of the gap, the
    effect's alone.

    Args:
        summaries: one a checkpoint.
        probes: summaries of probes of the same checkpoints and dataset, of any seeds; others are passed over.
        numbers: the published ones; without them nothing stands beside ours.

    Raises:
        StrataprobeError: a checkpoint is there twice.

    Source: fragility paper, appendix B.
    """
    keys = [tuple(one[name] for name in ("model", "revision", "dataset")) for one in summaries]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise StrataprobeError(listing("tracing", [f"there twice: {', '.join(key)}" for key in twice]))
    of_checkpoint = defaultdict(list)
    for probe in probes:
        of_checkpoint[probe["model"], probe["revision"], probe["dataset"]].append(probe)
    rows = []
    for key, summary, twins in zip(keys, summaries, twin_column(summaries), strict=True):
        named = {name: summary[name] for name in ("model", "revision", "step", "dataset")}
        named |= {"twin_of": twins, "conventions": summary["metadata"]["conventions"]}
        peak = ProbePeak.of(of_checkpoint[key]) if of_checkpoint[key] else None
        rows += [{**named, **row, **_beside(numbers, summary, row)} for row in _observed(summary, peak)]
    return rows


@dataclass(frozen=True)
class ProbePeak:
    """Where probes of a checkpoint are best: by the mean over seeds, and the range of their own peaks."""

    layer: int
    layers: int
    low: int
    high: int
    seeds: int
    tied: int

    @classmethod
    def of(cls, probes: Sequence[Summary]) -> "ProbePeak":
        accuracies = [[score["accuracy"] for score in probe["layer_scores"]] for probe in probes]
        mean = [fmean(values) for values in zip(*accuracies, strict=True)]
        own = [values.index(max(values)) for values in accuracies]
        return cls(mean.index(max(mean)), len(mean), min(own), max(own), len(own), mean.count(max(mean)))

    def row(self) -> Row:
        note = f"the first of {self.tied} blocks with the same accuracy" if self.tied > 1 else ""
        return _NOTHING | {
            "design": PROBE, "side": "", "score": "accuracy", "measure": "peak_layer", "layer": self.layer,
            "depth": self.layer / self.layers, "value": self.layer, "interval_low": self.low,
            "interval_high": self.high, "n": self.seeds, "note": note,
        }  # fmt: skip


def _observed(summary: Summary, probe: ProbePeak | None) -> Iterator[Row]:
    """All that one checkpoint's summary says, a row each."""
    for one in summary["clean"]:
        yield _row("none", one, "clean", **_estimated(one))
    if probe is not None:
        yield probe.row()
    for found in summary["results"]:
        yield from _of_result(found, summary, probe)


def _of_result(found: Summary, summary: Summary, probe: ProbePeak | None) -> Iterator[Row]:
    design, draws = found["design"], summary["draws"]
    blocks = summary["model_info"]["n_layers"]
    for one in found["layer_scores"]:
        low, high = one["interval"]
        yield _row(
            design, found, "indirect_effect", draws=draws, layer=one["layer"], depth=one["depth"],
            value=one["mean_indirect_effect"], interval_low=low, interval_high=high, draw_sd=one["draw_sd"],
        )  # fmt: skip
    yield _row(design, found, "mean_effect", draws=draws, **_estimated(found["mean_effect"]))
    if "total_effect" in found:
        yield _row(design, found, "total_effect", draws=draws, **_estimated(found["total_effect"]))
    peak = found["peak_layer"]
    at = {"layer": peak["value"], "depth": peak["value"] / blocks, "draws": draws}
    yield _row(design, found, "peak_layer", **at, **_estimated(peak))
    yield _row(design, found, "peak_effect", **at, value=found["peak_effect"])
    yield _row(design, found, "draw_agreement", **at, value=found["draw_agreement"])
    if probe is not None:
        gap = {
            name: None if value is None else value - probe.layer for name, value in _estimated(peak).items()
        }
        yield _row(design, found, "gap", draws=draws, **gap)


def _row(design: str, named: Mapping[str, Any], measure: str, **given: Any) -> Row:
    place = {"design": design, "side": named["side"], "score": named["score"], "measure": measure}
    return {**_NOTHING, **place, "n": named["n"], "note": "", **given}


def _estimated(one: Mapping[str, Any]) -> Row:
    low, high = one["interval"]
    return {"value": one["value"], "interval_low": low, "interval_high": high}


def _beside(numbers: "Numbers | None", summary: Summary, row: Row) -> Row:
    """What the paper prints of the same quantity at the same step, of its own model."""
    number = _number(numbers, summary, row)
    if number is None:
        said = dict.fromkeys(("published_model", "published_place", "published_status", "published_note"), "")
        return said | {"published": None, "difference": None}
    return {
        "published_model": number.model,
        "published_place": number.place,
        "published": number.value,
        "difference": row["value"] - number.value,
        "published_status": number.status,
        "published_note": number.note,
    }


def _number(numbers: "Numbers | None", summary: Summary, row: Row) -> "Number | None":
    quantity = _PUBLISHED.get(tuple(row[name] for name in ("design", "side", "score", "measure")))
    if numbers is None or quantity is None or summary["step"] is None:
        return None
    # The paper prints steps in thousands, and its last one (1,413,814) is no whole number of them.
    printed = round(summary["step"], -3) if summary["step"] >= 1000 else summary["step"]
    return numbers.look_up(
        paper="fragility", place=_PLACE, model=_PAPER_MODEL, dataset=summary["dataset"], quantity=quantity,
        step=printed,
    )  # fmt: skip
