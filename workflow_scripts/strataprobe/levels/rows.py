"""The numbers of one checkpoint, one by one, as tables want them."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from strataprobe.bootstrap import Estimate, estimate
from strataprobe.datasets.answers import ALL
from strataprobe.levels import summary
from strataprobe.levels.detected import both_right, detection, parts
from strataprobe.levels.measured import ORDERED, Measured
from strataprobe.levels.reading import TASKS

_SOLVER = "ridge"
"""Selection and permutations are by this solver, not the published one."""


class Observation(NamedTuple):
    """One number: at which level, what of it, of which items.

    Attributes:
        n, clusters: items that have an answer, and the translation groups of the split; None where the number
            is of no items (a layer).
    """

    level: str
    measure: str
    split: str
    estimate: Estimate
    n: int | None
    clusters: int | None
    note: str = ""


def observations(measured: Measured) -> Iterator[Observation]:
    """Behaviour, readout, recoverability, and what they say together."""
    yield from _behavior(measured)
    yield from _readout(measured)
    yield from _recoverability(measured)
    if measured.comparable:
        yield from _summary(measured)


def _behavior(measured: Measured) -> Iterator[Observation]:
    pooled = parts(measured)
    for split in measured.splits:
        for name, variants in pooled.items():
            debiased = measured.debiased if name in ORDERED else measured.accuracy
            size = _size(measured, split, [measured.checkpoint.behavior[variant] for variant in variants])
            yield Observation("behavior", name, split, estimate(debiased(name, split)), *size)
            if name in ORDERED:
                gap = estimate(measured.order_gap(name, split))
                yield Observation("behavior", f"order_gap:{name}", split, gap, *size)
                for variant in variants:
                    raw = estimate(measured.accuracy(variant, split))
                    yield Observation("behavior", variant, split, raw, *size)
            if (found := detection(measured, variants, split)) is not None:
                for what, drawn in zip(("d_prime", "criterion"), found, strict=True):
                    yield Observation("behavior", f"{what}:{name}", split, estimate(drawn), *size)
        if all(task in pooled for task in TASKS):
            size = _size(measured, split, [measured.checkpoint.behavior[task] for task in TASKS])
            drawn = estimate(measured.mean_behavior(split))
            yield Observation("behavior", "mean_behavior", split, drawn, *size)
    for name, variants in pooled.items():
        for split, (found, pairs, clusters) in both_right(measured, variants).items():
            yield Observation("behavior", f"both_right:{name}", split, found, pairs, clusters, "n is pairs")


def _readout(measured: Measured) -> Iterator[Observation]:
    definitions = measured.checkpoint.summaries["readout"]["definitions"]
    for name, values in measured.checkpoint.readout.items():
        found = definitions[name]
        for split in measured.splits:
            size = _size(measured, split, [values])
            best, picked = measured.readout(split, name), measured.readout_at_pick(split, name)
            yield Observation("readout", name, split, estimate(best), *size)
            yield Observation("readout", f"at_pick:{name}", split, estimate(picked), *size)
            if np.isfinite(best[0]):
                layer, task = measured.place_of_readout(name, split)
                yield _fact("readout", f"layer:{name}", split, layer, task)
        for split, null in found["null"].items():
            if null is not None:  # None where nothing is answered
                yield from _null("readout", name, split, null)
        yield _fact("readout", f"collisions:{name}", ALL, found["collisions"])


def _recoverability(measured: Measured) -> Iterator[Observation]:
    checkpoint = measured.checkpoint
    for name, values in checkpoint.recoverability.items():
        seeds = checkpoint.seeds if name in checkpoint.codings else ()
        for seed in (None, *seeds):
            of = name if seed is None else f"{name}:seed{seed}"
            for split in measured.splits if seed is None else checkpoint.items.simple_splits:
                size = _size(measured, split, [values])
                best, picked = (how(split, name, seed) for how in (measured.probe, measured.probe_at_pick))
                yield Observation("recoverability", of, split, estimate(best), *size)
                yield Observation("recoverability", f"at_pick:{of}", split, estimate(picked), *size)
                yield _fact(
                    "recoverability", f"layer:{of}", split, *measured.place_of_probe(name, split, seed)
                )
                if seed is not None:
                    drawn = measured.probe_at_mean_pick(split, name, seed)
                    yield Observation("recoverability", f"at_mean:{of}", split, estimate(drawn), *size)
        if seeds:
            each = [measured.probe_at_mean_pick(ALL, name, seed)[0] for seed in seeds]
            yield _fact("recoverability", f"sd:{name}", ALL, float(np.std(each)), "over seeds, ddof 0")
    for coding in checkpoint.codings:
        yield from _selected(measured, coding, checkpoint.summaries["recoverability"]["codings"][coding])


def _selected(measured: Measured, coding: str, found: Mapping[str, Any]) -> Iterator[Observation]:
    """What selection and chance are worth, and the window in which verb-out is clean."""
    for scheme, null in found["null"].items():
        name = coding if scheme == "item_out" else f"{scheme}:{coding}"
        values = measured.checkpoint.nested[name]
        for split, mask in measured.splits.items():
            drawn = estimate(measured.draws.mean(values, mask))
            size = _size(measured, split, [values])
            yield Observation("recoverability", f"nested:{name}", split, drawn, *size, _SOLVER)
        if "p" in null:  # else refused
            yield from _null("recoverability", name, ALL, null, _SOLVER)
    for kind, modes in found["verb_out"].get("clean_window", {}).items():
        for mode, window in modes.items():
            for end, layer in zip(("first", "last"), (window or {}).get("layers", ()), strict=False):
                yield _fact("recoverability", f"clean_{end}:{coding}:{mode}", kind, layer, mode)


def _summary(measured: Measured) -> Iterator[Observation]:
    choice = str(measured.choice)
    for split in measured.splits:
        drawn = {"surplus": summary.surplus(measured, split)}
        drawn |= {f"surplus:{task}": summary.surplus(measured, split, task) for task in TASKS}
        drawn |= {"ratio": summary.ratio(measured, split), "erasure": summary.erasure(measured, split)}
        found = {name: estimate(rows) for name, rows in drawn.items()}
        notes = dict.fromkeys(found, choice)
        verdict = summary.erasure_verdict(found["erasure"].low, found["erasure"].high)
        notes["erasure"] = _joined(verdict, choice)
        if (lacking := summary.deficit(measured, split)) is not None:
            found["deficit"], notes["deficit"] = estimate(lacking), ""
        if (order := summary.ordering_of(measured, split)) is not None:
            found["ordering"] = Estimate(float(order.holds))
            notes["ordering"] = _joined(order.note, choice)
        for name, one in found.items():
            yield Observation("summary", name, split, one, *measured.size(split), notes[name])


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))


def _null(
    level: str, name: str, split: str, null: Mapping[str, Any], note: str = ""
) -> Iterator[Observation]:
    """The null of a maximum: its mean, its 95 % quantile, and how often it reaches the observed one."""
    for what, key in (("null_mean", "mean"), ("null_high", "quantile_95"), ("p", "p")):
        yield _fact(level, f"{what}:{name}", split, null[key], note)


def _fact(level: str, measure: str, split: str, value: float | None, note: str = "") -> Observation:
    return Observation(
        level, measure, split, Estimate(None if value is None else float(value)), None, None, note
    )


def _size(measured: Measured, split: str, values: list[np.ndarray]) -> tuple[int, int]:
    """Items of a split that have an answer anywhere, and its translation groups."""
    mask = measured.splits[split]
    known = np.any([np.isfinite(one).reshape(-1, len(mask)).any(axis=0) for one in values], axis=0)
    return int((known & mask).sum()), measured.draws.clusters(mask)
