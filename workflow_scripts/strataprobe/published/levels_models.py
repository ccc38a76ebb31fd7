"""What the levels paper prints of several models together, to stand beside the same quantities of ours.

Its running text prints them, not a table: sections 4.1 (families, conditions, cells), 4.2 and 4.5 (base to
tuned). They belong to readout `code` and coding `paper` at seed 1729, so nothing stands beside a number of
another readout or probe; behaviour has one definition.
"""

from strataprobe.datasets.answers import ALL
from strataprobe.levels import CONVENTIONS, Quantity
from strataprobe.published.levels_results import Row
from strataprobe.published.levels_tables import known_models, published_model
from strataprobe.published.numbers import Number, Numbers

COLUMNS = (
    *("published_model", "published_place", "published", "difference"),
    *("published_status", "published_note"),
)

_PLACES = ("section 4.1", "section 4.2", "section 4.5")
_OVER_ALL = {
    "mean_surplus": "surplus_mean",
    "negative_surplus": "surplus_negative",
    "inverted_cells": "inverted_cells",
    "broken_cells": "broken_cells",
    "narrowest_interval": "interval_width_least",
    "widest_interval": "interval_width_most",
    "leave_family_out_least:mean_behavior": "leave_family_out_least",
    "leave_family_out_most:mean_behavior": "leave_family_out_most",
}
"""Our quantity over all models -> the published one."""
_CHANGES = ("change", "relative_change")
_LEVELS = {
    "mean_behavior": "behaviour",
    "readout": "lm_head",
    "recoverability": "probe",
    "surplus": "surplus",
}
_ENDS = ("-base", "-instruct")


def beside(one: Quantity, dataset: str, numbers: Numbers | None) -> Row:
    """The columns `COLUMNS` of a quantity: None, and "" for text, where the paper has no such number.

    A change of a model that the paper does not have stands beside that of its main pair, and
    `published_model` says so; datasets are compared by name. Percentages are given as fractions, as ours are.

    Args:
        numbers: all there is to stand beside; None: nothing.
    """
    number = None if numbers is None else _number(one, dataset, numbers)
    if number is None:
        return dict.fromkeys(COLUMNS, "") | dict.fromkeys(("published", "difference"))
    printed = number.value / 100 if number.unit == "percent" else number.value
    return {
        "published_model": number.model,
        "published_place": number.place,
        "published": printed,
        "difference": None if one.estimate.value is None else one.estimate.value - printed,
        "published_status": number.status,
        "published_note": number.note,
    }


def _number(one: Quantity, dataset: str, numbers: Numbers) -> Number | None:
    if one.definition not in ("", str(CONVENTIONS["published"])):
        return None
    kind, _, level = one.name.partition(":")
    if kind in _CHANGES and level in _LEVELS and one.split == ALL:
        pair = _pair(one.model, numbers)
        if pair is None:
            return None
        wanted = {"quantity": f"{kind}_{_LEVELS[level]}", "model": pair}
    elif one.name in _OVER_ALL:
        wanted = {"quantity": _OVER_ALL[one.name], "model": ""}
    else:
        return None
    found = (numbers.look_up(paper="levels", place=place, dataset=dataset, **wanted) for place in _PLACES)
    return next((number for number in found if number is not None), None)


def _pair(tuned: str, numbers: Numbers) -> str | None:
    """The published pair of base and tuned model to stand beside ours; its bare name is neither's."""
    changes = tuple(f"{kind}_" for kind in _CHANGES)
    pairs = {one.model for one in numbers.find(paper="levels") if one.quantity.startswith(changes)}
    there = {pair + end for pair in pairs for end in _ENDS}
    model = published_model(tuned, known_models(numbers), there, tuned=True)
    return None if model is None else next(pair for pair in pairs if model in (pair + end for end in _ENDS))
