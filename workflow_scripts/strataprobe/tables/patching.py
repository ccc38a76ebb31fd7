"""Rows of activation patching: every rate at every layer, where it peaks, and what several models show."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from strataprobe.errors import StrataprobeError, listing
from strataprobe.tables.twins import twin_column
from strataprobe.tabular.columns import Row

if TYPE_CHECKING:
    from strataprobe.patching.over_models import Quantity
    from strataprobe.published import Numbers
    from strataprobe.published.numbers import Number

Summary = Mapping[str, Any]

_PLACE = "appendix G.3"
_PUBLISHED = {"peak_layer:lift_pooled": "patching_peak_layer", "probe_peak": "probe_peak_layer"}
"""Our quantity -> the published one; lift itself stands at its layer, `lift_pooled`."""
_TYPES = {"subject_control": "subject", "object_control": "object"}


def patching_rows(summaries: Sequence[Summary], settings: Mapping[str, Any]) -> list[Row]:
    """Rescue, lift and harm of every layer with intervals, and where lift is largest.

    Args:
        summaries: one a checkpoint.
        settings: `bootstrap` (replicates), `permutations` (of the null of the largest lift), `seed`.

    Raises:
        StrataprobeError: a checkpoint is there twice.

    Source: levels paper, appendix G.3.
    """
    from strataprobe.patching.observed import observations  # numpy comes with it

    _refuse_twice(summaries)
    rows = []
    for summary, twins in zip(summaries, twin_column(summaries), strict=True):
        key = {name: summary[name] for name in ("model", "revision", "step", "dataset")}
        key |= {"twin_of": twins, "conventions": settings["conventions"]}
        for one in observations(summary, settings):
            rows.append(
                {
                    **key, "task": one.task, "states": one.states, "window": one.window,
                    "hidden_state": one.layer, "layer": one.layer - 1 if one.layer else None,
                    "depth": None if one.layer is None else one.layer / summary["blocks"],
                    "measure": one.measure, "split": one.split, "value": one.estimate.value,
                    "interval_low": one.estimate.low, "interval_high": one.estimate.high,
                    "n": one.n, "pairs": one.pairs, "clusters": one.clusters, "note": one.note,
                }
            )  # fmt: skip
    return rows


def patching_models_rows(
    summaries: Sequence[Summary],
    models: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
    numbers: "Numbers | None" = None,
) -> list[Row]:
    """Where lift peaks in each model at its last checkpoint, what tuning changes, and what the paper prints.

    Published numbers are of bare donors and pooled rates, so they stand beside such alone.

    Args:
        summaries, settings: as `patching_rows`.
        models: `name`, and where there is one `base` (the model it was tuned from).
        numbers: the published ones; without them nothing stands beside ours.

    Raises:
        StrataprobeError: as `patching_rows`; or two models were patched on different items of a dataset.

    Source: levels paper, appendices G.3 and G.4.
    """
    from strataprobe.patching.over_models import over_models

    _refuse_twice(summaries)
    tuned = {entry["name"]: entry["base"] for entry in models if entry.get("base")}
    rows = []
    for dataset, last in _last(summaries).items():
        for one in [*over_models(last, tuned, settings), *_printed(last, tuned, settings, numbers)]:
            number = _number(one, dataset, tuned, numbers, settings["conventions"])
            rows.append(
                {
                    "quantity": one.name, "model": one.model, "other": one.other, "dataset": dataset,
                    "task": one.task, "states": one.states, "window": one.window, "split": one.split,
                    "hidden_state": one.layer, "value": one.estimate.value,
                    "interval_low": one.estimate.low, "interval_high": one.estimate.high, "n": one.n,
                    **_beside(one.estimate.value, number),
                }
            )  # fmt: skip
    return rows


def _last(summaries: Sequence[Summary]) -> dict[str, dict[str, Summary]]:
    """Dataset -> model -> its summary at the last checkpoint."""
    last: dict[str, dict[str, Summary]] = {}
    for summary in summaries:
        known = last.setdefault(summary["dataset"], {})
        before = known.get(summary["model"])
        if before is None or (summary["step"] or 0) >= (before["step"] or 0):
            known[summary["model"]] = summary
    return last


def _printed(
    last: Mapping[str, Summary],
    tuned: Mapping[str, str],
    settings: Mapping[str, Any],
    numbers: "Numbers | None",
) -> Iterator["Quantity"]:
    """Our pooled lift at every layer of which the paper prints it."""
    from strataprobe.patching.over_models import pooled_at

    for model, summary in last.items():
        found = _of_model(model, tuned, numbers)
        layers = {
            (split, number.layer)
            for number in found
            for split, own in _TYPES.items()
            if number.quantity == "patching_lift" and number.group == f"qa/{own}"
        }
        yield from pooled_at(model, summary, settings, sorted(layers))


def _of_model(model: str, tuned: Mapping[str, str], numbers: "Numbers | None") -> list["Number"]:
    """What the paper prints of patching this model; nothing of one that it does not have."""
    if numbers is None:
        return []
    from strataprobe.published.levels_tables import known_models, published_model

    known = known_models(numbers)
    name = published_model(model, known, known, tuned=model in tuned)
    # A model that the paper lacks has other layers: no other one's stand beside them.
    if name is None or not name.startswith(model.removesuffix("-it").removesuffix("-instruct")):
        return []
    return numbers.find(paper="levels", place=_PLACE, model=name)


def _number(
    one: "Quantity",
    dataset: str,
    tuned: Mapping[str, str],
    numbers: "Numbers | None",
    conventions: str,
) -> "Number | None":
    """What the paper prints of the same thing; its probe peak is that of its own probes alone."""
    name = "patching_lift" if one.name == "lift_pooled" else _PUBLISHED.get(one.name)
    if one.name == "probe_peak" and conventions != "published":
        name = None
    if name is None or one.states != "bare" or one.window != 1:
        return None
    layer = one.layer if one.name == "lift_pooled" else None
    wanted = name, f"{one.task}/{_TYPES.get(one.split)}", layer, dataset
    return next(
        (
            number
            for number in _of_model(one.model, tuned, numbers)
            if (number.quantity, number.group, number.layer, number.dataset) == wanted
        ),
        None,
    )


def _beside(value: float | None, number: "Number | None") -> Row:
    if number is None:
        text = dict.fromkeys(("published_model", "published_place", "published_status", "published_note"), "")
        return text | {"published": None, "difference": None}
    return {
        "published_model": number.model,
        "published_place": number.place,
        "published": number.value,
        "difference": None if value is None else value - number.value,
        "published_status": number.status,
        "published_note": number.note,
    }


def _refuse_twice(summaries: Sequence[Summary]) -> None:
    keys = [tuple(one[name] for name in ("model", "revision", "dataset")) for one in summaries]
    if twice := [key for place, key in enumerate(keys) if key in keys[:place]]:
        raise StrataprobeError(listing("patching", [f"there twice: {', '.join(key)}" for key in twice]))
