"""The numbers of one checkpoint's patching, one by one, as tables want them."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from strataprobe.bootstrap import Draws, Estimate, estimate
from strataprobe.datasets.answers import ALL, splits_held
from strataprobe.patching.donors import CORRECT, KINDS, WRONG
from strataprobe.patching.effects import Effects, read_effects
from strataprobe.patching.peaks import null_of_largest, peak

LIFTS = ("lift", "lift_pooled")


class Observation(NamedTuple):
    """One number: of which task, source of states, window, layer and items.

    Attributes:
        layer: number in `hidden_states` of the window's first layer; None where it is of no layer or of all.
        n, pairs, clusters: targets that count, their runs, and the translation groups they belong to.
    """

    task: str
    states: str
    window: int
    layer: int | None
    measure: str
    split: str
    estimate: Estimate
    n: int | None = None
    pairs: int | None = None
    clusters: int | None = None
    note: str = ""


def observations(summary: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[Observation]:
    """Rescue, lift and harm of every layer, then where lift is largest and what that is worth.

    Args:
        summary: of one checkpoint.
        settings: `bootstrap` (replicates), `permutations` and `seed`.
    """
    masks = splits_held(summary["items"])
    draws = Draws.of(summary["items"]["item_groups"], settings["bootstrap"], settings["seed"])
    for effects in read_effects(summary):
        yield from _counts(effects, masks)
        for split, mask in masks.items():
            yield from _by_layer(effects, draws, split, mask)
        yield from _peaks(effects, draws, masks, summary, settings)


def drawn_peaks(effects: Effects, draws: Draws, mask: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Lift as we average it, and as published -> its largest layer and size, (1 + replicates,) each."""
    drawn = {"lift": effects.lift(draws, mask), "lift_pooled": effects.lift_pooled(draws, mask)}
    return {name: peak(rows, effects.layers) for name, rows in drawn.items()}


def _counts(effects: Effects, masks: Mapping[str, np.ndarray]) -> Iterator[Observation]:
    key = effects.task, effects.states, effects.window, None
    for split, mask in masks.items():
        for name, which in (("wrong_targets", effects.wrong), ("right_targets", effects.right == 1)):
            yield Observation(*key, name, split, Estimate(float((which & mask).sum())))
    for kind in KINDS:
        pairs = len(effects.targets[kind])
        yield Observation(*key, f"unequal:{kind}", ALL, Estimate(float(effects.unequal[kind])), pairs=pairs)


def _by_layer(effects: Effects, draws: Draws, split: str, mask: np.ndarray) -> Iterator[Observation]:
    both = effects.both_kinds(mask)
    counts = {kind: effects.donor_counts(kind) for kind in KINDS}
    wrong, right = mask & effects.wrong, mask & (effects.right == 1)
    of_both = counts[CORRECT] + counts[WRONG]
    found = [("lift", effects.lift(draws, mask), both, of_both)]
    found.append(("lift_pooled", effects.lift_pooled(draws, mask), wrong & (of_both > 0), of_both))
    for kind, count in counts.items():
        given = count > 0
        found.append((f"rescue:{kind}", effects.rescue(draws, kind, mask), wrong & given, count))
        found.append((f"broken:{kind}", effects.broken(draws, kind, mask), right & given, count))
    for kind in (CORRECT, WRONG):
        pooled = effects.rescue_pooled(draws, kind, mask)
        found.append((f"rescue_pooled:{kind}", pooled, wrong & (counts[kind] > 0), counts[kind]))
    for place, layer in enumerate(effects.layers.tolist()):
        for measure, drawn, chosen, count in found:
            yield Observation(
                effects.task, effects.states, effects.window, layer, measure, split,
                estimate(drawn[:, place]), int(chosen.sum()), int(count[chosen].sum()),
                draws.clusters(chosen),
            )  # fmt: skip


def _peaks(
    effects: Effects,
    draws: Draws,
    masks: Mapping[str, np.ndarray],
    summary: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> Iterator[Observation]:
    """Where lift is largest; its interval and the layer's are picked anew in every replicate."""
    key, probe, items = (effects.task, effects.states, effects.window), summary["peak"], summary["items"]
    told = f"{probe['scheme']}:{probe['coding']} {probe['mode']}"
    yield Observation(*key, probe["layer"], "probe_peak", ALL, Estimate(float(probe["layer"])), note=told)
    groups = [f"{one}:{two}" for one, two in zip(items["languages"], items["control_types"], strict=True)]
    nulls = null_of_largest(
        effects, groups, masks, permutations=settings["permutations"], seed=settings["seed"]
    )
    for split, mask in masks.items():
        n, clusters = int(effects.both_kinds(mask).sum()), draws.clusters(effects.both_kinds(mask))
        for name, (layers, sizes) in drawn_peaks(effects, draws, mask).items():
            at = int(layers[0]) if np.isfinite(layers[0]) else None
            for what, drawn in (
                ("peak_layer", layers), ("peak", sizes), ("shift", layers - probe["layer"])
            ):  # fmt: skip
                yield Observation(*key, at, f"{what}:{name}", split, estimate(drawn), n, None, clusters)
        for what, name in (("mean", "null_mean"), ("quantile_95", "null_high"), ("p", "p")):
            tried = f"{nulls[split]['permutations']} permutations"
            yield Observation(*key, None, f"{name}:lift", split, Estimate(nulls[split][what]), n, note=tried)
