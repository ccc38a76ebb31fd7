"""Readout and recoverability layer by layer, as tables want them: the sample's own values, no intervals."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from strataprobe.datasets.answers import ALL
from strataprobe.levels.reading import Checkpoint


class LayerObservation(NamedTuple):
    """One number of one hidden state (0 is the embedding, k our block k - 1)."""

    level: str
    measure: str
    mode: str
    split: str
    hidden_state: int
    value: float | None
    sd: float | None = None
    note: str = ""


def layer_observations(checkpoint: Checkpoint) -> Iterator[LayerObservation]:
    """Every layer by definition and task, by coding and mode; verb-out and its gap; critical noise."""
    for name, values in checkpoint.readout.items():
        for split in checkpoint.items.simple_splits:
            accuracies = _mean(values, checkpoint.items.splits[split])
            for place, task in enumerate(checkpoint.tasks[name]):
                for layer, value in enumerate(accuracies[:, place].tolist()):
                    yield LayerObservation("readout", name, task, split, layer, _finite(value))
    for name, values in checkpoint.recoverability.items():
        for split in checkpoint.items.simple_splits:
            yield from _probes(checkpoint, name, values, split)
    for coding in checkpoint.codings:
        found = checkpoint.summaries["recoverability"]["codings"][coding]
        yield from _verbs(checkpoint, coding, found["verb_out"])
        yield from _null(checkpoint, coding, found)
        yield from _noise(checkpoint, coding, found["critical_noise"])


def _probes(checkpoint: Checkpoint, name: str, values: np.ndarray, split: str) -> Iterator[LayerObservation]:
    """Mean over seeds and its sd (ddof 1)."""
    by_seed = _mean(values, checkpoint.items.splits[split])  # (seeds, layers, modes)
    spread = by_seed.std(axis=0, ddof=1) if len(by_seed) > 1 else np.full(by_seed.shape[1:], np.nan)
    means = by_seed.mean(axis=0)
    for place, mode in enumerate(checkpoint.modes):
        for layer, (value, sd) in enumerate(
            zip(means[:, place].tolist(), spread[:, place].tolist(), strict=True)
        ):
            where = layer + checkpoint.first
            yield LayerObservation("recoverability", name, mode, split, where, _finite(value), _finite(sd))


def _verbs(checkpoint: Checkpoint, coding: str, found: Mapping[str, Any]) -> Iterator[LayerObservation]:
    """Verb-out by type, its gap to item-out with the verdict on it, and folds that are balanced in type."""
    for mode, table in _by_mode(checkpoint, found.get("modes")):
        for kind, rows in table["types"].items():
            for layer, value in enumerate(rows["verb_out"], start=checkpoint.first):
                place = layer - checkpoint.first
                own = ("recoverability", f"verb_out:{coding}", mode, kind, layer)
                yield LayerObservation(*own, value, rows["verb_out_sd"][place])
                own = ("recoverability", f"gap:{coding}", mode, kind, layer)
                yield LayerObservation(*own, rows["gap"][place], None, rows["verdict"][place])
        yield from _listed(
            checkpoint, f"verb_out_balanced_accuracy:{coding}", mode, table["balanced_accuracy"]
        )
    for mode, table in _by_mode(checkpoint, found.get("balanced", {}).get("modes")):
        for kind, values in table["accuracy"].items():
            for layer, value in enumerate(values, start=checkpoint.first):
                yield LayerObservation("recoverability", f"balanced:{coding}", mode, kind, layer, value)


def _null(checkpoint: Checkpoint, coding: str, found: Mapping[str, Any]) -> Iterator[LayerObservation]:
    """Mean accuracy of leave-one-out under permuted labels, and of the same solver under the true ones."""
    for mode, values in _by_mode(checkpoint, found["null"].get("item_out", {}).get("single")):
        yield from _listed(checkpoint, f"null_mean:{coding}", mode, values, note="ridge")
    for mode, values in _by_mode(checkpoint, found["ridge"].get("item_out")):
        yield from _listed(checkpoint, f"ridge:{coding}", mode, values, note="ridge")


def _noise(checkpoint: Checkpoint, coding: str, found: Mapping[str, Any]) -> Iterator[LayerObservation]:
    """Critical noise, mean and sd over the seeds that have one: none where accuracy is below the threshold.

    In activation units, which differ from layer to layer, and in those of the training features' RMS.
    """
    for scheme, modes in found.items():
        name = coding if scheme == "item_out" else f"{scheme}:{coding}"
        for mode, units in _by_mode(checkpoint, modes):
            for unit, seeds in units.items():
                measure = f"critical_noise{'' if unit == 'raw' else f'_{unit}'}:{name}"
                for layer, values in enumerate(zip(*seeds.values(), strict=True), start=checkpoint.first):
                    known = [value for value in values if value is not None]
                    mean = float(np.mean(known)) if known else None
                    sd = float(np.std(known, ddof=1)) if len(known) > 1 else None
                    note = "" if len(known) == len(values) else f"{len(known)} of {len(values)} seeds"
                    own = ("recoverability", measure, mode, ALL, layer)
                    yield LayerObservation(*own, mean, sd, note)


def _listed(
    checkpoint: Checkpoint, measure: str, mode: str, values: Sequence[float | None], note: str = ""
) -> Iterator[LayerObservation]:
    for layer, value in enumerate(values, start=checkpoint.first):
        yield LayerObservation("recoverability", measure, mode, ALL, layer, value, None, note)


def _by_mode(checkpoint: Checkpoint, found: Mapping[str, Any] | None) -> Iterator[tuple[str, Any]]:
    """What there is of each mode, in the order of modes; nothing of what was refused."""
    return ((mode, found[mode]) for mode in checkpoint.modes if found is not None)


def _mean(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Mean over the chosen items that have an answer, NaN where none has."""
    chosen = values[..., mask]
    known = np.isfinite(chosen)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(known, chosen, 0.0).sum(axis=-1) / known.sum(axis=-1)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
