"""Behaviour and readout of one checkpoint on one dataset of control items, from one pass over its prompts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from strataprobe import behavior
from strataprobe.datasets.answers import margins
from strataprobe.datasets.control import ControlDataset
from strataprobe.errors import ModelError, listing
from strataprobe.lm import LoadedLM, OutputMap
from strataprobe.readout.lens import DEFINITIONS, PAPER, TASKS, TUNED, Lens
from strataprobe.readout.null import item_flips, maximum_null
from strataprobe.readout.sentence import first_tokens, read_sentences
from strataprobe.readout.tuned import TunedLens

SENTENCE = "sentence"


def measure_levels(
    lm: LoadedLM,
    dataset: ControlDataset,
    settings: Mapping[str, Any],
    *,
    tuned: TunedLens | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]:
    """What the model deploys and what its output map reads, layer by layer, on the same items.

    Args:
        lm: the checkpoint, loaded.
        dataset: the items.
        settings: `chat`; of `capture` `batch_tokens` and `threads`; of `readout` `definitions` (some of
            `DEFINITIONS`), `flips` and `seed` of the null.
        tuned: the lens that the definition `tuned` needs.
        progress: called with the number of texts just done, and of all.

    Returns:
        Behaviour's summary and item-level rows (`behavior.measure`), and readout's summary: `items`, `layers`
        (both numbers of each), and `definitions`: name -> task -> `correct` (a text a layer) and `accuracy`
        (split -> a value a layer), with `best`, `null` and `collisions` over its tasks.

    Raises:
        ModelError: settings that cannot be used; see also `behavior.prepare` and `behavior.score`.
    """
    definitions, running = settings["readout"]["definitions"], settings["capture"]
    _check(definitions, tuned)
    output = OutputMap.of(lm)
    run = {"batch_tokens": running["batch_tokens"], "threads": running["threads"]}
    continuations = behavior.prepare(lm, dataset, chat=settings["chat"])
    lens = Lens(output, continuations, definitions, tuned)
    scores, parts = behavior.score(
        output, continuations, **run, layers=lens.layers, also=lens.read, progress=progress
    )
    count = len(dataset.controls)
    read = {
        name: {task: own for task, own in continuations.per_item(by_text, count).items() if task in TASKS}
        for name, by_text in lens.collected(parts).items()
    }
    left_out = dict.fromkeys(read, 0)
    if PAPER in definitions:
        firsts = first_tokens(lm, dataset)
        read[PAPER] = {SENTENCE: read_sentences(output, firsts, layers=lens.layers, **run)}
        left_out[PAPER] = int(firsts.collides.sum())
    return (
        behavior.summarise(dataset, continuations, scores),
        behavior.item_rows(lm, dataset, continuations, scores),
        _summary(dataset, {name: read[name] for name in definitions}, left_out, lm.n_layers, settings),
    )


def layer_rows(layers: int) -> list[dict[str, int | None]]:
    """Both numbers of a layer: `index` as in hidden_states[0..L], and our `block`, None for the embedding."""
    return [{"index": index, "block": index - 1 if index else None} for index in range(layers + 1)]


def _check(definitions: Sequence[str], tuned: TunedLens | None) -> None:
    faults = [
        f"definition {name!r} is unknown; known are {', '.join(DEFINITIONS)}"
        for name in definitions
        if name not in DEFINITIONS
    ]
    if TUNED in definitions and tuned is None:
        faults.append(f"definition {TUNED!r} needs a tuned lens, and none is given")
    if not definitions or len(set(definitions)) != len(definitions):
        faults.append("definitions: each once, and at least one, would be right")
    if faults:
        raise ModelError(listing("readout", faults))


def _summary(
    dataset: ControlDataset,
    read: Mapping[str, Mapping[str, np.ndarray]],
    left_out: Mapping[str, int],
    layers: int,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    items = behavior.describe(dataset)
    masks = behavior.splits(items)
    flips = item_flips(len(items["ids"]), settings["readout"]["flips"], settings["readout"]["seed"])
    return {
        "items": items,
        "layers": layer_rows(layers),
        "definitions": {
            name: {
                **summarise({task: margins(own, items["gold"]) for task, own in tasks.items()}, masks, flips),
                "collisions": left_out[name],
            }
            for name, tasks in read.items()
        },
    }


def summarise(
    tasks: Mapping[str, np.ndarray], masks: Mapping[str, np.ndarray], flips: np.ndarray
) -> dict[str, Any]:
    """Right and wrong of each task at every layer, the best of them all by split, and its null.

    Args:
        tasks: task -> (L+1, items) gold minus other, NaN where there is no answer.
        masks: split -> (items,) booleans.
        flips: (flips, items), from `item_flips`.
    """
    found: dict[str, Any] = {}
    for task, margin in tasks.items():
        correct = [behavior.written(own) for own in margin]
        by_layer = [behavior.by_split(own, masks) for own in correct]
        found[task] = {
            "correct": correct,
            "accuracy": {name: [own[name] for own in by_layer] for name in masks},
            "ties": int((margin == 0).sum()),
        }
    best = {name: _best({task: found[task]["accuracy"][name] for task in tasks}) for name in masks}
    found["best"] = {name: one for name, one in best.items() if one is not None}
    found["null"] = maximum_null(np.concatenate(list(tasks.values())), flips, masks)
    return found


def _best(accuracies: Mapping[str, Sequence[float | None]]) -> dict[str, Any] | None:
    """The best of all tasks and layers; of equals the lowest layer, then the first task."""
    places = [
        (-value, index, place)
        for place, own in enumerate(accuracies.values())
        for index, value in enumerate(own)
        if value is not None
    ]
    if not places:
        return None
    value, index, place = min(places)
    return {
        "accuracy": -value,
        "layer": index,
        "block": index - 1 if index else None,
        "task": list(accuracies)[place],
    }
