"""What the three levels wrote of one checkpoint, as arrays of right and wrong over the same items."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from strataprobe.datasets.answers import ALL, OBJECT, SUBJECT, splits_held, vector
from strataprobe.errors import StrataprobeError, listing

Summary = Mapping[str, Any]

TASKS = ("qa", "paraphrase")
"""The two formats whose mean is mean behaviour, and that are read out."""
DEFINITIONS = ("default", "code", "paper", "tuned")
CODINGS = ("paper", "decorrelated")
LEVELS = ("behavior", "readout", "recoverability")
BESIDE_ITEM_OUT = ("pair_out", "group_out")
"""Schemes of held-out items whose probes stand beside those of leave-one-out, as "pair_out:paper"."""


@dataclass(frozen=True)
class Items:
    """The items of a control dataset as far as splits and clusters need them, each field (items,) long."""

    ids: tuple[str, ...]
    languages: tuple[str, ...]
    control_types: tuple[str, ...]
    item_groups: tuple[str, ...]
    pairs: tuple[str | None, ...]

    @cached_property
    def splits(self) -> dict[str, np.ndarray]:
        """Name -> (items,) booleans: "all", each language, each control type, both ("en:object_control")."""
        return splits_held({"languages": self.languages, "control_types": self.control_types})

    @cached_property
    def simple_splits(self) -> list[str]:
        """The splits by one thing alone: all, each language, each type."""
        return [name for name in self.splits if ":" not in name]

    def types_within(self, split: str) -> tuple[str, str] | None:
        """The object-control and the subject-control split within one that holds both, else None."""
        names = tuple(kind if split == ALL else f"{split}:{kind}" for kind in (OBJECT, SUBJECT))
        return (names[0], names[1]) if all(name in self.splits for name in names) else None


@dataclass(frozen=True)
class Checkpoint:
    """Right (1), wrong (0) and unanswered (NaN) of one checkpoint at every level.

    Attributes:
        behavior: variant or measure -> (items,).
        readout: definition -> (hidden states, tasks, items), index 0 being the embedding.
        tasks: definition -> names of its tasks, in order.
        recoverability: coding, or scheme and coding ("pair_out:paper") -> (seeds, hidden states, modes,
            items).
        nested: the same names -> (items,), each item at the layer and mode chosen without it.
        first: index of the first hidden state that was probed: 0, or 1 without the embedding.
        seeds, modes: names along those axes.
        summaries: level -> what it wrote.
    """

    items: Items
    behavior: Mapping[str, np.ndarray]
    readout: Mapping[str, np.ndarray]
    tasks: Mapping[str, tuple[str, ...]]
    recoverability: Mapping[str, np.ndarray]
    nested: Mapping[str, np.ndarray]
    first: int
    seeds: tuple[int, ...]
    modes: tuple[str, ...]
    summaries: Mapping[str, Summary]

    @property
    def codings(self) -> tuple[str, ...]:
        return tuple(sorted(self.summaries["recoverability"]["codings"], key=_rank(CODINGS)))


def read_checkpoint(behavior: Summary, readout: Summary, recoverability: Summary) -> Checkpoint:
    """The three levels of one checkpoint, joined item by item.

    Raises:
        StrataprobeError: they are of different checkpoints, datasets or items, or a vector of right and wrong
            is not as long as the items are many; lists all.
    """
    summaries = dict(zip(LEVELS, (behavior, readout, recoverability), strict=True))
    if faults := list(_apart(summaries)):
        raise StrataprobeError(listing("the three levels of a checkpoint", faults))
    described = behavior["items"]
    items = Items(**{name: tuple(described[name]) for name in Items.__dataclass_fields__})
    reader = _Reader(len(items.ids), f"{behavior['model']} {behavior['revision']}, {behavior['dataset']}", [])
    tasks = {
        name: _by_task(readout["definitions"][name])
        for name in sorted(readout["definitions"], key=_rank(DEFINITIONS))
    }
    checkpoint = Checkpoint(
        items=items,
        behavior=reader.behavior(behavior),
        readout={name: reader.stack(f"readout {name}", own) for name, own in tasks.items() if own},
        tasks={name: tuple(own) for name, own in tasks.items() if own},
        recoverability=dict(reader.probes(recoverability)),
        nested=dict(reader.nested(recoverability)),
        first=recoverability["layers"][0]["layer"],
        seeds=tuple(recoverability["seeds"]),
        modes=tuple(recoverability["modes"]),
        summaries=summaries,
    )
    if reader.faults:
        raise StrataprobeError(listing(reader.name, reader.faults))
    return checkpoint


@dataclass(frozen=True)
class _Reader:
    """Reads vectors of right and wrong; what is wrong with them is collected."""

    items: int
    name: str
    faults: list[str]

    def vector(self, text: str, place: str) -> np.ndarray:
        values = vector(text)
        if len(values) != self.items:
            self.faults.append(f"{place}: {len(values)} answers for {self.items} items")
        elif np.isinf(values).any():
            self.faults.append(f"{place}: answers are written as 1, 0 and '.', not as in {text!r}")
        else:
            return values
        return np.full(self.items, np.nan)

    def behavior(self, summary: Summary) -> dict[str, np.ndarray]:
        """Of each prompt variant, and of each measure that has answers of its own (PMI)."""
        own = {name: one for name, one in summary["measures"].items() if "correct" in one}
        found = own | summary["variants"]
        return {name: self.vector(one["correct"], f"behavior {name}") for name, one in found.items()}

    def stack(self, place: str, texts: Mapping[str, Sequence[str]]) -> np.ndarray:
        """(layers, names, items) of name -> one text a layer."""
        each = [
            [self.vector(text, f"{place} {name}, layer {layer}") for layer, text in enumerate(layers)]
            for name, layers in texts.items()
        ]
        return np.array(each).swapaxes(0, 1)

    def probes(self, summary: Summary) -> Iterator[tuple[str, np.ndarray]]:
        """(coding, or scheme and coding; (seeds, layers, modes, items))."""
        for coding in sorted(summary["codings"], key=_rank(CODINGS)):
            found = summary["codings"][coding]
            schemes = {scheme: found.get(scheme, {}) for scheme in BESIDE_ITEM_OUT}
            named = {coding: found} | {f"{scheme}:{coding}": one for scheme, one in schemes.items()}
            for name, one in named.items():
                if "modes" not in one:  # refused: the items do not allow the scheme
                    continue
                by_seed = [
                    {mode: one["modes"][mode]["correct"][str(seed)] for mode in summary["modes"]}
                    for seed in summary["seeds"]
                ]
                yield name, np.stack([self.stack(f"recoverability {name}", texts) for texts in by_seed])

    def nested(self, summary: Summary) -> Iterator[tuple[str, np.ndarray]]:
        """(coding, or scheme and coding; (items,)) of layer and mode chosen without the item."""
        for coding, found in summary["codings"].items():
            for scheme, one in found["nested"].items():
                name = coding if scheme == "item_out" else f"{scheme}:{coding}"
                yield name, self.vector(one["correct"], f"recoverability nested {name}")


def _by_task(definition: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Task -> one text a layer, in the order in which the first of equally good tasks is taken."""
    found = [task for task, one in definition.items() if isinstance(one, Mapping) and "correct" in one]
    return {task: definition[task]["correct"] for task in sorted(found, key=_rank(TASKS))}


def _rank(known: Sequence[str]) -> Callable[[str], tuple[int, str]]:
    """Known names in their own order, others after them; keys of JSON are in that of the alphabet."""
    return lambda name: (known.index(name) if name in known else len(known), name)


def _apart(summaries: Mapping[str, Summary]) -> Iterator[str]:
    """What the levels do not share: their checkpoint, and the items."""
    first = summaries[LEVELS[0]]
    for level in LEVELS[1:]:
        own = summaries[level]
        for name in ("model", "revision", "dataset"):
            if own[name] != first[name]:
                yield f"{level}: its {name} is {own[name]!r}, that of {LEVELS[0]} {first[name]!r}"
        ids, others = own["items"]["ids"], first["items"]["ids"]
        if ids != others:
            differ = [one for one, other in zip(ids, others, strict=False) if one != other]
            said = f"the first that differs is {differ[0]!r}" if differ else f"{len(ids)}, not {len(others)}"
            yield f"{level}: its items are not those of {LEVELS[0]} in the same order ({said})"
