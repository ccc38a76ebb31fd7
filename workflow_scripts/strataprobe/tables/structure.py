"""Rows of what a probe's accuracy rests on: onsets, transfer and lift, groups by themselves, controls."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from strataprobe.tables.columns import Row
from strataprobe.tables.datasets import ALL
from strataprobe.tables.measures import SEED_MEAN, keys_of

Summary = Mapping[str, Any]


def transfer_rows(summaries: Sequence[Summary]) -> list[Row]:
    """Transfer, its floor, accuracy and lift within groups: a row a quantity, selection and group.

    `selection` says how the layer was chosen: "default" on the training groups (for lift: where the whole set
    is read best), "published" on what is reported itself. `group` "all" is the mean over groups.

    Raises:
        StrataprobeError: a summary lacks a key field, or two are of the same checkpoint.
    """
    rows = []
    for summary, key in zip(summaries, keys_of(summaries, "transfer"), strict=True):
        for quantity, selection, group, layer, value, interval in _transfer(summary):
            low, high = interval or (None, None)
            rows.append(
                {
                    **key, "quantity": quantity, "selection": selection, "group": group, "layer": layer,
                    "value": value, "interval_low": low, "interval_high": high,
                }
            )  # fmt: skip
    return rows


def _transfer(summary: Summary) -> Iterable[tuple[str, str, str, int | None, float | None, Any]]:
    for selection in ("default", "published"):
        found = summary["transfer"][selection]
        yield "transfer", selection, ALL, None, found["mean"], found.get("interval")
        for group, one in found["groups"].items():
            yield "transfer", selection, group, one["layer"], one["accuracy"], one.get("interval")
    floor = summary["floors"]["transfer"]
    yield "transfer_floor", "", ALL, None, floor["mean_accuracy"], None
    for group, one in floor["groups"].items():
        yield "transfer_floor", "", group, None, one["accuracy"], one.get("interval")
    best = summary["in_distribution"]
    yield "in_distribution", "published", ALL, best["best_layer"], best["accuracy"], best["interval"]
    if nested := best["selected"]:  # None with two folds
        yield "in_distribution", "default", ALL, None, nested["accuracy"], nested["interval"]
    for selection, at in (("default", "whole_set_layer"), ("published", "best")):
        yield "lift", selection, ALL, None, summary["lift"]["mean"][at], None
        for group, one in summary["lift"]["groups"].items():
            yield "lift", selection, group, one[at]["layer"], one[at]["lift"], None


def foundations_rows(summaries: Sequence[Summary]) -> list[Row]:
    """Peak accuracy of each group's own probe, its onset layer, and the peak that chance gives.

    Without permutations, chance has no rows.

    Raises:
        StrataprobeError: a summary lacks a key field, or two are of the same probes.
    """
    rows = []
    for summary, key in zip(summaries, keys_of(summaries, "foundations"), strict=True):
        for group, found in summary["per_foundation_summary"].items():
            values = [
                ("peak_accuracy", found["peak_layer"], found["peak_accuracy"]),
                ("onset_layer", None, found["onset_layer"]),
            ]
            if chance := summary["chance_peak"][group]["permutation"]:
                values += [
                    ("chance_peak", None, chance["mean"]),
                    ("chance_peak_high", None, chance["quantile_95"]),
                ]
            for quantity, layer, value in values:
                rows.append(
                    {
                        **key, "group": group, "quantity": quantity, "layer": layer, "value": value,
                        "test_items": summary["chance_peak"][group]["test_items"],
                    }
                )  # fmt: skip
    return rows


def onset_rows(summaries: Sequence[Summary], threshold: float) -> list[Row]:
    """When mean accuracy over blocks reaches the threshold: a row a quantity and seed, and of the seed mean.

    Quantities: `onset_step`, `sustained_step` (from which no later checkpoint falls below), `onset_accuracy`,
    `plateau` (accuracy at the last checkpoint), `transition_steps` with `state` "sharp" or "gradual". A model
    with one checkpoint, or without steps, has no onset and no row.

    Raises:
        StrataprobeError: a summary lacks a key field, two are of the same probe, or of the same step.

    Source: fragility paper, section 4.1, Table 1; per seed and of the seed-mean curve: docs/methods.md.
    """
    studies: dict[tuple[Any, ...], list[tuple[Row, float | None]]] = {}
    for summary, key in zip(summaries, keys_of(summaries, "probe"), strict=True):
        if key["step"] is not None:
            study = tuple(key[name] for name in ("model", "dataset", "conventions", "pooling"))
            studies.setdefault(study, []).append((key, summary["mean_accuracy"]))
    return [row for found in studies.values() for row in _onsets_of(found, threshold)]


def _onsets_of(found: Sequence[tuple[Row, float | None]], threshold: float) -> list[Row]:
    """Rows of one study, whose key is that of its last checkpoint."""
    from strataprobe import onsets  # numpy comes with it, which no other table needs

    if len({key["step"] for key, _ in found}) < 2:
        return []
    curves: dict[Any, list[tuple[int, float | None]]] = {}
    for key, accuracy in found:
        curves.setdefault(key["seed"], []).append((int(key["step"]), accuracy))
    each: dict[Any, list[tuple[int, float]]] = {seed: onsets.clean(curve) for seed, curve in curves.items()}
    each[SEED_MEAN] = onsets.mean_curve(each.values())
    last = max((key for key, _ in found), key=lambda key: key["step"])
    return [
        {
            **last, "seed": seed, "quantity": quantity, "value": value, "state": state,
            "interval_low": None, "interval_high": None,
        }
        for seed, curve in each.items()
        for quantity, value, state in _onset(curve, threshold)
    ]  # fmt: skip


def _onset(points: Sequence[tuple[int, float]], threshold: float) -> Iterable[tuple[str, float | None, str]]:
    from strataprobe import onsets

    first, sustained = onsets.onset_step(points, threshold)
    yield "onset_step", first, ""
    yield "sustained_step", sustained, ""
    yield "onset_accuracy", dict(points).get(first), ""
    plateau = onsets.plateau(points)
    yield "plateau", plateau, ""
    transition = onsets.transition(points, plateau)
    yield "transition_steps", transition["steps"], transition["kind"] or ""


def controls_rows(summaries: Sequence[Summary]) -> list[Row]:
    """Controls of each layer's probe, and its accuracy on other sets: a row a layer and quantity.

    Quantities: `accuracy`, `control_accuracy`, `selectivity`, `null_mean`, `null_high`, `p`, `q`,
    `codelength_bits`, `compression`, and `accuracy_on:{dataset}`. Empty `layer`: the largest over layers.

    Raises:
        StrataprobeError: a summary lacks a key field, or two are of the same probes.
    """
    rows = []
    for summary, key in zip(summaries, keys_of(summaries, "controls"), strict=True):
        for layer, quantity, value, interval in _controls(summary):
            low, high = interval or (None, None)
            rows.append(
                {
                    **key, "layer": layer, "quantity": quantity, "value": value,
                    "interval_low": low, "interval_high": high,
                }
            )  # fmt: skip
    return rows


_OF_A_LAYER = (
    "accuracy", "control_accuracy", "selectivity", "null_mean", "null_high", "p", "q",
    "codelength_bits", "compression",
)  # fmt: skip


def _controls(summary: Summary) -> Iterable[tuple[int | None, str, float | None, Any]]:
    for found in summary["layers"]:
        for quantity in _OF_A_LAYER:
            yield found["layer"], quantity, found.get(quantity), None
    yield None, "p", summary["max"]["p"], None
    for dataset, tried in summary["validity"].items():
        for found in tried["layers"]:
            yield found["layer"], f"accuracy_on:{dataset}", found["accuracy"], found["accuracy_interval"]
