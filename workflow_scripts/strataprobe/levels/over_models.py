"""What only several models show: a family left out, a base model against its tuned one, cells out of order.

All models are measured on the same items, so one draw of translation groups serves them all, and a difference
between two models has the interval of a difference.

Source: levels paper, sections 4.1, 4.2 and 4.5.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from strataprobe.bootstrap import Estimate, estimate
from strataprobe.datasets.answers import ALL
from strataprobe.errors import StrataprobeError, listing
from strataprobe.levels import summary
from strataprobe.levels.measured import Measured
from strataprobe.levels.reading import TASKS

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Quantity:
    """A number of one model, or of several (`model` is then empty).

    Attributes:
        said: how many models or conditions it is over, or which cells.
        definition: of which readout and probe it is; empty for behaviour alone.
    """

    name: str
    model: str
    other: str
    split: str
    estimate: Estimate
    said: str = ""
    definition: str = ""

    @property
    def note(self) -> str:
        """What else there is to say, and which readout and probe were compared."""
        return "; ".join(filter(None, (self.said, self.definition)))


def over_models(measured: Mapping[str, Measured], models: Sequence[Mapping[str, Any]]) -> list[Quantity]:
    """Everything that several models on the same items show.

    Args:
        measured: model -> its levels, at the checkpoint that stands for it.
        models: `name`, and where there is one `base` (the model it was tuned from) and `family`.

    Raises:
        StrataprobeError: two models were measured on different items.
    """
    _same_items(measured)
    measured = {name: one for name, one in measured.items() if one.comparable}
    families = {entry["name"]: entry.get("family") or entry["name"] for entry in models}
    bases = {entry["name"]: entry["base"] for entry in models if entry.get("base") in measured}
    return [
        *leave_family_out(measured, families),
        *(
            quantity
            for name, base in bases.items()
            if name in measured
            for quantity in changes(name, measured[name], base, measured[base])
        ),
        *conditions(measured),
        *cells(measured),
    ]


def leave_family_out(measured: Mapping[str, Measured], families: Mapping[str, str]) -> Iterator[Quantity]:
    """Mean behaviour, averaged over the models that are left when a family is not counted, and its range.

    The range is of every replicate anew, like any choice here. Nothing with one family alone.

    Args:
        families: model -> family.
    """
    drawn = {name: one.mean_behavior(ALL) for name, one in measured.items()}
    names = list(dict.fromkeys(families.get(name, name) for name in measured))
    if len(names) < 2:
        return
    whole = np.mean(list(drawn.values()), axis=0)
    yield Quantity("mean_behavior", "", "", ALL, estimate(whole), f"{len(drawn)} models")
    means = []
    for family in names:
        left = [rows for name, rows in drawn.items() if families.get(name, name) != family]
        means.append(np.mean(left, axis=0))
        said = f"{len(left)} models left"
        yield Quantity("leave_family_out:mean_behavior", "", family, ALL, estimate(means[-1]), said)
    of_all, said = np.array(means), f"of {len(names)} families"
    for end, ends, which in (("least", np.min, np.argmin), ("most", np.max, np.argmax)):
        name, family = f"leave_family_out_{end}:mean_behavior", names[which(of_all[:, 0])]
        yield Quantity(name, "", family, ALL, estimate(ends(of_all, axis=0)), said)


def changes(name: str, tuned: Measured, base_name: str, base: Measured) -> Iterator[Quantity]:
    """From base to tuned model at each level: the difference, and that as a share of the base's value."""
    for split in tuned.splits:
        for level, read in _LEVELS.items():
            after, before = read(tuned, split), read(base, split)
            of = {"definition": "" if level in ("mean_behavior", *TASKS) else _definition((tuned, base))}
            yield Quantity(f"change:{level}", name, base_name, split, estimate(after - before), **of)
            if level == "surplus":
                continue  # of a difference that may be 0, no share
            with np.errstate(invalid="ignore", divide="ignore"):
                share = np.where(before > 0, (after - before) / before, np.nan)
            yield Quantity(f"relative_change:{level}", name, base_name, split, estimate(share), **of)


def _behavior(task: str, measured: Measured, split: str) -> np.ndarray:
    return measured.accuracy(task, split)


_LEVELS = {
    **{task: partial(_behavior, task) for task in TASKS},
    "mean_behavior": Measured.mean_behavior,
    "readout": Measured.readout_at_pick,
    "recoverability": Measured.probe_at_pick,
    "surplus": summary.surplus,
}


def conditions(measured: Mapping[str, Measured]) -> Iterator[Quantity]:
    """Mean and least surplus over (model, task) conditions, and how many are negative (section 4.1)."""
    drawn = {
        (name, task): summary.surplus(one, ALL, task) for name, one in measured.items() for task in TASKS
    }
    if not drawn:
        return
    said, definition = f"{len(drawn)} conditions", _definition(measured.values())
    mean = estimate(np.mean(list(drawn.values()), axis=0))
    yield Quantity("mean_surplus", "", "", ALL, mean, said, definition)
    (name, task), rows = min(drawn.items(), key=lambda entry: entry[1][0])
    yield Quantity("least_surplus", name, "", ALL, estimate(rows), task, definition)
    below = Estimate(float(sum(rows[0] < -_ROUNDING for rows in drawn.values())))
    yield Quantity("negative_surplus", "", "", ALL, below, f"of {said}", definition)


def cells(measured: Mapping[str, Measured]) -> Iterator[Quantity]:
    """(model, language) cells whose levels are not in order: at all, and by more than one item (section 4.1).

    And the narrowest and widest interval of mean behaviour among them.
    """
    orders, widths = {}, {}
    for name, one in measured.items():
        for language in dict.fromkeys(one.checkpoint.items.languages):
            if (order := summary.ordering_of(one, language)) is not None:
                orders[name, language] = order
            bounds = estimate(one.mean_behavior(language))
            if bounds.low is not None and bounds.high is not None:
                widths[name, language] = bounds.high - bounds.low
    for quantity, wrong in (
        ("inverted_cells", [cell for cell, order in orders.items() if order.inverted]),
        ("broken_cells", [cell for cell, order in orders.items() if not order.holds]),
    ):
        said = "; ".join([f"of {len(orders)}", *(" ".join(cell) for cell in wrong)])
        definition = _definition(measured.values())
        yield Quantity(quantity, "", "", ALL, Estimate(float(len(wrong))), said, definition)
    for quantity, pick in (("narrowest_interval", min), ("widest_interval", max)):
        if widths:
            name, language = pick(widths, key=widths.__getitem__)
            yield Quantity(
                quantity, name, "", language, Estimate(widths[name, language]), "of mean behaviour"
            )


def _definition(measured: Iterable[Measured]) -> str:
    """Which readout and probe stand for their levels, of all these models alike."""
    return " / ".join(dict.fromkeys(str(one.choice) for one in measured))


def _same_items(measured: Mapping[str, Measured]) -> None:
    faults = []
    first: tuple[str, Iterable[str]] | None = None
    for name, one in measured.items():
        ids = one.checkpoint.items.ids
        if first is None:
            first = name, ids
        elif ids != first[1]:
            faults.append(f"{name}: its items are not those of {first[0]}")
    if faults:
        raise StrataprobeError(listing("levels over models", faults))
