"""Probe recoverability of one checkpoint on one set of control items.

Source: levels paper, sections 3.2 and 4, appendices C, D, E and H; DEFINITIONS, levels paper.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from strataprobe.cache import ActivationCache
from strataprobe.datasets.answers import describe, splits_held
from strataprobe.datasets.control import ANCHORS, ControlDataset
from strataprobe.errors import DatasetError, numbered
from strataprobe.fragility import continuous_critical_noise
from strataprobe.recoverability.closed_form import closed_form
from strataprobe.recoverability.codings import Coding, coded
from strataprobe.recoverability.folds import TYPES, Folds, all_folds
from strataprobe.recoverability.leave_out import HeldOut, Key, leave_out
from strataprobe.recoverability.picks import as_texts, picks, profiles
from strataprobe.recoverability.verbs import balanced_accuracy, verb_table
from strataprobe.statistics import finite

_OF_TWINS = ("pair_out", "group_out")
_NOISED = ("item_out", "pair_out")


def read_states(acts: ActivationCache) -> tuple[dict[str, np.ndarray], int]:
    """Position -> (layers, items, hidden) float32, and the first layer's number in `hidden_states`.

    The embedding is number 0, and block k number k + 1; a cache without the embedding begins at 1.

    Raises:
        CacheError: a position is not stored, or the file is damaged.
    """
    if "embed" not in acts.layers:
        return {position: acts.stack(position) for position in ANCHORS}, 1
    return {p: np.concatenate([acts.embed(p)[None], acts.stack(p)]) for p in ANCHORS}, 0


def measure(
    states: Mapping[str, np.ndarray],
    dataset: ControlDataset,
    *,
    first_layer: int,
    settings: dict[str, Any],
) -> dict[str, Any]:
    """Leave-one-out probes of every layer and mode, and everything that says what their best is worth.

    Args:
        states: position -> (layers, items, hidden) float32, of positions a, b and v.
        dataset: the control items, in the same order.
        first_layer: the first layer's number in `hidden_states`, 0 for the embedding.
        settings: `seeds`, `codings`, `modes`, `learning_rate`, `epochs`, `permutations`, `ridge`,
            `noise_threshold`, and for verb-out `clean_gap`, `leak_gap`, `least_item_out`, `clean_window`.

    Returns:
        JSON-ready: `items`; `layers` (number in `hidden_states`, our block, depth); `modes`, `seeds`;
        `refused`: scheme -> why it could not be; `codings`: see `_coding`.

    Raises:
        DatasetError: a control type with fewer than two items, or states of another number of items.
    """
    items = dataset.controls
    layers, number, _ = states["v"].shape
    if number != len(items):
        raise DatasetError(f"the states are of {numbered(number, 'item')}, the dataset has {len(items)}")
    schemes, refused = all_folds(items)
    last = first_layer + layers - 1
    places = [_place(layer, last) for layer in range(first_layer, last + 1)]
    frame = _Frame(states, dataset, schemes, refused, places, settings)
    codings = [coded(items, name) for name in settings["codings"]]
    held_out = leave_out(
        states,
        codings,
        list(schemes.values()),
        settings=settings,
        first_layer=first_layer,
        modes=settings["modes"],
    )
    return {
        "items": describe(dataset),
        "layers": places,
        "modes": list(settings["modes"]),
        "seeds": list(settings["seeds"]),
        "refused": refused,
        "codings": {coding.name: _coding(frame, coding, held_out) for coding in codings},
    }


@dataclass(frozen=True)
class _Frame:
    """What all codings share."""

    states: Mapping[str, np.ndarray]
    dataset: ControlDataset
    schemes: Mapping[str, Folds]
    refused: Mapping[str, str]
    places: Sequence[dict[str, Any]]
    settings: dict[str, Any]

    @cached_property
    def masks(self) -> dict[str, np.ndarray]:
        return splits_held(describe(self.dataset))

    @cached_property
    def types(self) -> dict[str, np.ndarray]:
        return {kind: self.masks[kind] for kind in TYPES}


def _place(layer: int, last: int) -> dict[str, Any]:
    return {"layer": layer, "block": layer - 1 if layer else None, "depth": layer / last}


def _coding(frame: _Frame, coding: Coding, held_out: Mapping[Key, HeldOut]) -> dict[str, Any]:
    """Everything of one coding.

    `modes`, `pick`: of leave-one-out, see `profiles` and `picks`; `pair_out`, `group_out`: the same of these
    schemes; `verb_out`: see `verb_table`, with `balanced` folds; `critical_noise`; `ridge`, `nested`, `null`:
    see `closed_form`. A scheme that is not possible is {"refused": why}.
    """
    modes = frame.settings["modes"]
    correct = {
        name: np.stack([held_out[coding.name, name, mode].correct for mode in modes])
        for name in frame.schemes
    }
    subject = np.array([item.subject_controls for item in frame.dataset.controls])
    return {
        "labels": as_texts(coding.labels[None] > 0)[0],
        "swapped": as_texts(coding.swapped[None])[0],
        "label_is_subject_control": float((subject == (coding.labels > 0)).mean()),
        **_profiled(frame, correct["item_out"]),
        **{name: _beside(frame, coding, name, correct) for name in _OF_TWINS},
        "verb_out": _verb_out(frame, coding, correct),
        "critical_noise": {
            name: {mode: _noise(held_out[coding.name, name, mode], frame.settings) for mode in modes}
            for name in _NOISED
            if name in frame.schemes
        },
        **closed_form(
            frame.states,
            coding,
            frame.schemes,
            frame.dataset.controls,
            frame.masks,
            frame.places,
            frame.settings,
        ),
    }


def _profiled(frame: _Frame, correct: np.ndarray) -> dict[str, Any]:
    modes, seeds = frame.settings["modes"], frame.settings["seeds"]
    return {
        "modes": profiles(correct, frame.masks, modes, seeds),
        "pick": picks(correct, frame.masks, TYPES, frame.places, modes, seeds),
    }


def _beside(frame: _Frame, coding: Coding, name: str, correct: Mapping[str, np.ndarray]) -> dict[str, Any]:
    if name in frame.refused:
        return {"refused": frame.refused[name]}
    return _folds(frame.schemes[name], coding) | _profiled(frame, correct[name])


def _folds(folds: Folds, coding: Coding) -> dict[str, Any]:
    return {"refused": None, "folds": list(folds.names), "one_sided": folds.one_sided(coding.labels)}


def _verb_out(frame: _Frame, coding: Coding, correct: Mapping[str, np.ndarray]) -> dict[str, Any]:
    modes, seeds = frame.settings["modes"], frame.settings["seeds"]
    if "verb_out" in frame.refused:
        return {"refused": frame.refused["verb_out"]}
    found = _folds(frame.schemes["verb_out"], coding) | verb_table(
        correct["item_out"], correct["verb_out"], coding.labels, frame.types, frame.places, modes, seeds,
        frame.settings,
    )  # fmt: skip
    if "balanced" in frame.refused:
        return found | {"balanced": {"refused": frame.refused["balanced"]}}
    own = profiles(correct["balanced"], {"all": frame.masks["all"], **frame.types}, modes, seeds)
    for mode, rows in zip(modes, correct["balanced"], strict=True):
        own[mode]["balanced_accuracy"] = balanced_accuracy(rows, coding.labels)
    return found | {"balanced": _folds(frame.schemes["balanced"], coding) | {"modes": own}}


def _noise(held_out: HeldOut, settings: dict[str, Any]) -> dict[str, Any]:
    """Unit -> seed -> critical noise a layer: None where accuracy is below the threshold without any noise.

    Isotropic noise on all joined positions moves a logit by sd |w|, so the margin is y z / |w|: raw, or in
    units of the training features' root mean square. Each item's probe is the one that held it out.
    """
    margins = held_out.labels * held_out.logits.astype(np.float64) / held_out.norms
    units = {"raw": margins, "rms": margins / held_out.rms}
    return {
        unit: {
            str(seed): [
                finite(continuous_critical_noise(row, settings["noise_threshold"])[0]) for row in rows
            ]
            for seed, rows in zip(settings["seeds"], values, strict=True)
        }
        for unit, values in units.items()
    }
