"""What only several models show: how far behind the probe peak patching has its effect, and after tuning."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strataprobe.bootstrap import Draws, Estimate, estimate
from strataprobe.datasets.answers import splits_held
from strataprobe.errors import StrataprobeError, listing
from strataprobe.patching.effects import Effects, read_effects
from strataprobe.patching.observed import drawn_peaks

Summary = Mapping[str, Any]


@dataclass(frozen=True)
class Quantity:
    """A number of one model, or of a tuned model against its base (`other`).

    Attributes:
        layer: number in `hidden_states` of which it is, where it is of one.
    """

    name: str
    model: str
    other: str
    task: str
    states: str
    window: int
    split: str
    layer: int | None
    estimate: Estimate
    n: int


def over_models(
    summaries: Mapping[str, Summary], bases: Mapping[str, str], settings: Mapping[str, Any]
) -> Iterator[Quantity]:
    """Probe peak, largest lift, its layer and shift of each model; and what tuning changes in the last three.

    Args:
        summaries: model -> its summary, at the checkpoint that stands for it.
        bases: tuned model -> the model it was tuned from.
        settings: `bootstrap` (replicates) and `seed`.

    Raises:
        StrataprobeError: two models were patched on different items.

    Source: levels paper, appendices G.3 and G.4.
    """
    _same_items(summaries)
    found = {name: list(_drawn(summary, settings)) for name, summary in summaries.items()}
    for name, rows in found.items():
        yield from (one.told(name) for one in rows)
    for tuned, base in bases.items():
        before = {one.key: one for one in found.get(base, ())}
        for one in found.get(tuned, ()):
            if one.key in before and one.name != "probe_peak":
                yield one.less(before[one.key]).told(tuned, base)


@dataclass(frozen=True)
class _Drawn:
    """A number of the sample and of all replicates."""

    name: str
    effects: Effects
    split: str
    drawn: np.ndarray
    n: int

    @property
    def key(self) -> tuple[str, str, str, int, str]:
        return self.name, self.effects.task, self.effects.states, self.effects.window, self.split

    def less(self, other: "_Drawn") -> "_Drawn":
        drawn = self.drawn - other.drawn
        return _Drawn(f"change:{self.name}", self.effects, self.split, drawn, min(self.n, other.n))

    def told(self, model: str, other: str = "") -> Quantity:
        own = self.effects
        return Quantity(
            self.name, model, other, own.task, own.states, own.window, self.split, None,
            estimate(self.drawn), self.n,
        )  # fmt: skip


def _drawn(summary: Summary, settings: Mapping[str, Any]) -> Iterator[_Drawn]:
    draws = Draws.of(summary["items"]["item_groups"], settings["bootstrap"], settings["seed"])
    probe = summary["peak"]["layer"]
    for effects in read_effects(summary):
        for split, mask in splits_held(summary["items"]).items():
            n = int(effects.both_kinds(mask).sum())
            yield _Drawn("probe_peak", effects, split, np.array([float(probe)]), n)
            for name, (layers, sizes) in drawn_peaks(effects, draws, mask).items():
                for what, drawn in (
                    ("peak_layer", layers), ("peak", sizes), ("shift", layers - probe)
                ):  # fmt: skip
                    yield _Drawn(f"{what}:{name}", effects, split, drawn, n)


def pooled_at(
    model: str, summary: Summary, settings: Mapping[str, Any], wanted: Sequence[tuple[str, int]]
) -> Iterator[Quantity]:
    """Lift as published, at chosen (split, layer)s, of donors' states from bare sentences."""
    draws = Draws.of(summary["items"]["item_groups"], settings["bootstrap"], settings["seed"])
    masks = splits_held(summary["items"])
    for effects in read_effects(summary):
        if effects.states != "bare" or effects.window != 1:
            continue
        places = effects.layers.tolist()
        for split, layer in wanted:
            if split in masks and layer in places:
                drawn = effects.lift_pooled(draws, masks[split])[:, places.index(layer)]
                n = int((masks[split] & effects.wrong).sum())
                yield Quantity(
                    "lift_pooled", model, "", effects.task, effects.states, 1, split, layer,
                    estimate(drawn), n,
                )  # fmt: skip


def _same_items(summaries: Mapping[str, Summary]) -> None:
    first, *rest = summaries.items() or [("", {"items": {"ids": []}})]
    faults = [
        f"{name}: its items are not those of {first[0]}"
        for name, summary in rest
        if summary["items"]["ids"] != first[1]["items"]["ids"]
    ]
    if faults:
        raise StrataprobeError(listing("patching over models", faults))
