"""Rows of steering: what every push does to answers, and what is left after an erasure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from strataprobe.errors import StrataprobeError, listing
from strataprobe.tables.twins import twin_column
from strataprobe.tabular.columns import Row

if TYPE_CHECKING:
    from strataprobe.published import Number, Numbers

Summary = Mapping[str, Any]

_NOTHING = dict.fromkeys(("value", "interval_low", "interval_high", "n", "clusters", "p"))
_UNPRINTED = {
    **dict.fromkeys(("published_model", "published_place", "published_status", "published_note"), ""),
    **dict.fromkeys(("published", "difference")),
}
_PLACE = "appendix G.2"
_GROUPS = {"q1": "subject", "q2": "object"}


def steering_rows(
    summaries: Sequence[Summary], numbers: "Numbers | None" = None, *, tuned: bool = False
) -> list[Row]:
    """Flips, accuracy, shift of margins and place bias of every push and erasure, with intervals.

    The published numbers are of directions fitted on bare sentences, so they stand beside such alone.

    Args:
        summaries: one a checkpoint.
        numbers: the published ones; without them nothing stands beside ours.
        tuned: whether the model was tuned from another one of the study.

    Raises:
        StrataprobeError: a checkpoint is there twice.

    Source: levels paper, appendix G.2.
    """
    _refuse_twice(summaries)
    rows = []
    for summary, twins in zip(summaries, twin_column(summaries), strict=True):
        key = {name: summary[name] for name in ("model", "revision", "step", "dataset")}
        key |= {"twin_of": twins, "conventions": summary["metadata"]["conventions"]}
        printed = _Printed(numbers, summary["model"], summary["dataset"], tuned)
        for task, found in summary["tasks"].items():
            places = {(fit["states"], fit["layer"]): fit for fit in found["fits"]}
            for one in _observed(found):
                place = places.get((one["states"], one["layer"]), {})
                named = {
                    "task": task,
                    "states": one.pop("states"),
                    "hidden_state": one.pop("layer"),
                    "layer": place.get("block"),
                    "depth": place.get("depth"),
                }
                rows.append({**key, **named, **one, **printed.beside(task, named["states"], one)})
    return rows


def _observed(found: Mapping[str, Any]) -> Iterator[Row]:
    """All that one task's summary says, a row each."""
    for fit in found["fits"]:
        where = {"states": fit["states"], "layer": fit["layer"], "method": "none", "alpha": None}
        for name in ("sigma", "norm", "cosine"):
            for role, value in zip(fit["roles"], fit[name], strict=True):
                yield where | _NOTHING | {"measure": name, "split": role, "value": value}
        for name, one in found["clean"]["accuracy"].items():
            yield where | {"measure": "accuracy", "split": name} | _estimated(one)
        for name, count in found["clean"]["sets"].items():
            yield where | _NOTHING | {"measure": "candidates", "split": name, "value": count, "n": count}
    for cell in found["cells"]:
        where = {name: cell[name] for name in ("states", "layer", "method", "alpha")}
        yield from _of_change(where, cell)
        firsts = {"all": cell["first_named"]} if cell["method"] == "random" else cell["first_named"]
        for name, one in firsts.items():
            if one is not None:
                yield where | {"measure": "first_named", "split": name} | _estimated(one)
    yield from _of_erasure(found["erasure"])


def _of_erasure(erasure: Mapping[str, Any]) -> Iterator[Row]:
    where = {"states": "own_prompt", "layer": erasure["layer"], "method": "erased", "alpha": None}
    yield from _of_change(where, erasure)
    random = erasure["random"]
    yield from _of_change({**where, "method": "erased_random"}, random)
    for role, left in zip(erasure["roles"], erasure["difference_left"], strict=True):
        yield where | _NOTHING | {"measure": "difference_left", "split": role, "value": left}
    probe = erasure["probe"]
    for method, name in (("none", "before"), ("erased", "erased"), ("erased_random", "random")):
        one = probe[name]
        value = _estimated(one) if isinstance(one, Mapping) else _NOTHING | {"value": one}
        yield {**where, "method": method, "measure": "probe_accuracy", "split": probe["scheme"]} | value


def _of_change(where: Row, changed: Mapping[str, Any]) -> Iterator[Row]:
    """Flips, accuracy, shift and size of one change, or their spread over random ones."""
    beyond = changed.get("p_random") or {"sets": {}, "margin_shift": {}}
    size = changed["relative_size"]
    spread = _estimated(size) if isinstance(size, Mapping) else _NOTHING | {"value": size}
    yield where | {"measure": "relative_size", "split": "all"} | spread
    for name, one in changed["sets"].items():
        if "flips" in one:
            yield where | _NOTHING | {
                "measure": "flips", "split": name, "value": one["flips"] if one["n"] else None, "n": one["n"],
            }  # fmt: skip
        yield where | {"measure": "flip_rate", "split": name} | _estimated(one, beyond["sets"].get(name))
    for name, one in changed["accuracy"].items():
        yield where | {"measure": "accuracy", "split": name} | _estimated(one)
    for name, one in changed["margin_shift"].items():
        p = beyond["margin_shift"].get(name)
        yield where | {"measure": "margin_shift", "split": name} | _estimated(one, p)
    for name, one in changed.get("mcnemar", {}).items():
        for measure in ("gained", "lost"):
            yield where | _NOTHING | {
                "measure": measure, "split": name, "value": one[measure], "p": one["p"],
            }  # fmt: skip


def _estimated(one: Mapping[str, Any], p: float | None = None) -> Row:
    """A mean over items with its interval, or over random directions with the middle 95 % of them."""
    if "mean" in one:
        low, high = one["range"]
        return _NOTHING | {
            "value": one["mean"], "interval_low": low, "interval_high": high, "n": one["count"],
        }  # fmt: skip
    low, high = one["interval"]
    return {
        "value": one["value"], "interval_low": low, "interval_high": high, "n": one["n"],
        "clusters": one["clusters"], "p": p,
    }  # fmt: skip


class _Printed:
    """What the paper prints of steering, for one of our models."""

    def __init__(self, numbers: "Numbers | None", model: str, dataset: str, tuned: bool) -> None:
        self.found: list[Number] = []
        if numbers is None:
            return
        from strataprobe.published.levels_tables import known_models, published_model

        there = [one for one in numbers.find(paper="levels", place=_PLACE) if one.dataset == dataset]
        own = published_model(model, known_models(numbers), {one.model for one in there}, tuned=tuned)
        self.found = [one for one in there if one.model == own]

    def beside(self, task: str, states: str, row: Row) -> Row:
        """The published columns of a row: None, and "" for text, where the paper has no such number."""
        number = self._number(task, row) if states == "bare" else None
        if number is None:
            return dict(_UNPRINTED)
        ours = row["p"] if number.quantity == "mcnemar_p" else row["value"]
        return {
            "published_model": number.model,
            "published_place": number.place,
            "published": number.value,
            "difference": None if ours is None else ours - number.value,
            "published_status": number.status,
            "published_note": number.note,
        }

    def _number(self, task: str, row: Row) -> "Number | None":
        measure, split = row["measure"], row["split"]
        if measure in ("flips", "candidates") and row["method"] in ("none", "probe", "means"):
            quantity, group = f"steering_{measure}", f"{task}/{_GROUPS[split]}"
        elif measure == "gained" and split == "all" and abs(row["alpha"] or 0) == 5 and task == "qa":
            quantity, group = "mcnemar_p", ""
        else:
            return None
        return next((one for one in self.found if (one.quantity, one.group) == (quantity, group)), None)


def _refuse_twice(summaries: Sequence[Summary]) -> None:
    keys = [tuple(one[name] for name in ("model", "revision", "dataset")) for one in summaries]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise StrataprobeError(listing("steering", [f"there twice: {', '.join(key)}" for key in twice]))
