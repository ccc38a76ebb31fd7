"""Rows of what a probe's accuracy rests on: transfer and lift, groups by themselves, controls."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from strataprobe.tables.measures import keys_of
from strataprobe.tabular import ALL
from strataprobe.tabular.columns import Row

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
    gate = summary["validation_gate"]
    yield "gate_floor", "", ALL, None, gate["floor"], None
    yield "gate_margin", "", ALL, None, gate["margin"], None
    yield "gate_lift", "", ALL, None, gate["lift"], None
    yield "gate_passed", "", ALL, None, float(gate["passed"]), None


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


def controls_rows(summaries: Sequence[Summary]) -> list[Row]:
    """Controls of the probes, and their accuracy on other sets: a row a layer and quantity.

    `over` says of what: "layer" (one layer), "mean" or "max" over layers. `tested_on` is empty for the
    probes' own test pairs, "lexeme_split" for pairs whose contrast words the probe has not seen, else a
    dataset that tests these probes; `group` is "all" or one of that dataset's groups. Quantities of the own
    test pairs: `accuracy`, `control_accuracy`, `selectivity`, `null_mean`, `null_high`, `p`, of a layer also
    `q`, `codelength_bits`, `compression`; of other sets `accuracy` and `difference` (from the own test
    pairs), of paraphrases `agreement` too.

    Raises:
        StrataprobeError: a summary lacks a key field, or two are of the same probes.
    """
    rows = []
    for summary, key in zip(summaries, keys_of(summaries, "controls"), strict=True):
        for place, quantity, value, interval in _controls(summary):
            low, high = interval or (None, None)
            over, layer, tested_on, group = place
            rows.append(
                {
                    **key, "over": over, "layer": layer, "tested_on": tested_on, "group": group,
                    "quantity": quantity, "value": value, "interval_low": low, "interval_high": high,
                }
            )  # fmt: skip
    return rows


_OVER_LAYERS = ("accuracy", "control_accuracy", "selectivity", "null_mean", "null_high", "p")
_OF_A_LAYER = (*_OVER_LAYERS, "q", "codelength_bits", "compression")

Control = tuple[tuple[str, int | None, str, str], str, float | None, Any]


def _controls(summary: Summary) -> Iterable[Control]:
    for found in summary["layers"]:
        for quantity in _OF_A_LAYER:
            yield ("layer", found["layer"], "", ALL), quantity, found.get(quantity), None
    for over in ("mean", "max"):
        for quantity in _OVER_LAYERS:
            yield (over, None, "", ALL), quantity, summary[over].get(quantity), None
    split = summary["lexeme_split"]
    if split["accuracy"] is not None:
        for layer, (value, interval) in enumerate(zip(split["accuracy"], split["interval"], strict=True)):
            yield ("layer", layer, "lexeme_split", ALL), "accuracy", value, interval
        yield ("mean", None, "lexeme_split", ALL), "accuracy", split["mean_accuracy"], split["mean_interval"]
    for dataset, tried in summary["validity"].items():
        for group, found in ((ALL, tried), *tried.get("groups", {}).items()):
            for one in found["layers"]:
                yield from _tried(("layer", one["layer"], dataset, group), one)
            yield from _tried(("mean", None, dataset, group), found["mean"])


def _tried(place: tuple[str, int | None, str, str], found: Mapping[str, Any]) -> Iterable[Control]:
    for quantity in ("accuracy", "difference", "agreement"):
        if quantity in found:
            yield place, quantity, found[quantity], found.get(f"{quantity}_interval")
