"""Steering and the amnesic check of one checkpoint on one set of control items.

Source: levels paper, appendix G.2; DEFINITIONS, steering.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strataprobe.datasets.answers import describe
from strataprobe.datasets.control import ControlDataset
from strataprobe.errors import DatasetError, ModelError, listing
from strataprobe.lm import LoadedLM
from strataprobe.lm.edited import keeping, over
from strataprobe.recoverability.codings import coded
from strataprobe.recoverability.peak import probe_peak
from strataprobe.steering.amnesia import Amnesia
from strataprobe.steering.cells import clean_summary, erased_summary, pushed_cells
from strataprobe.steering.passes import Asking
from strataprobe.steering.pushes import Pushes
from strataprobe.steering.rows import item_rows

Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class Task:
    """One task's items and everything that is done to them.

    Attributes:
        items: which of the dataset's items are steered.
        pushes, amnesia: what is tried on each; the push at strength 0 is among them.
    """

    name: str
    items: list[int]
    pushes: Pushes
    amnesia: Amnesia


def measure(
    lm: LoadedLM,
    dataset: ControlDataset,
    recoverability: Mapping[str, Any],
    settings: Mapping[str, Any],
    *,
    progress: Progress | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Push the states that a probe reads along its direction, or erase what it reads, and ask again.

    Args:
        lm: the checkpoint, loaded.
        dataset: the items; directions are fitted on all of them, of whatever language.
        recoverability: the checkpoint's summary: where the best probe stands.
        settings: `chat`; of `capture` `batch_tokens` and `threads`; of `probe` `learning_rate` and `epochs`;
            of `steering` as `config.interventions.Steering`, with `conventions`.
        progress: called with the number of items just done, and of all.

    Returns:
        The summary (`probe`, `alphas`, `methods`, `tasks`: see `cells`), and the rows of `rows.COLUMNS`.

    Raises:
        ModelError, DatasetError: prompts that cannot be asked, languages or layers that are not there.
    """
    asked = settings["steering"]
    peak = probe_peak(recoverability, asked["conventions"])
    coding = coded(dataset.controls, peak["coding"])
    layers = _layers(asked, peak["layer"], lm.n_layers)
    asking = Asking.of(
        lm, dataset, asked["tasks"], chat=settings["chat"],
        batch_tokens=settings["capture"]["batch_tokens"], threads=settings["capture"]["threads"],
    )  # fmt: skip
    tasks = []
    for name in asked["tasks"]:
        steered = _steered(asking, name, asked["languages"])
        pushes = Pushes.fit(asking, name, layers, peak["mode"], coding, asked, settings["probe"])
        amnesia = Amnesia.fit(pushes, asking.dataset.controls, layers[0], asked, settings["probe"])
        tasks.append(Task(name, steered, pushes, amnesia))
    scores = _scored(asking, tasks, progress)
    summary = {
        "probe": peak,
        "alphas": list(asked["alphas"]),
        "layers": [{"layer": layer, "block": layer - 1 if layer else None} for layer in layers],
        "tasks": {task.name: _summary(asking, task, scores[task.name], asked) for task in tasks},
    }
    rows = [
        row
        for task in tasks
        for row in item_rows(
            dataset, task.name, task.items, task.pushes.keys, scores[task.name], erased_at=layers[0]
        )
    ]
    return summary, rows


def _layers(asked: Mapping[str, Any], peak: int, last: int) -> list[int]:
    """Numbers in `hidden_states`: the first layer, and where asked for every so many up to the last."""
    first = peak if asked["first_layer"] == "peak" else asked["first_layer"]
    if not 0 <= first <= last:
        raise ModelError(f"steering.first_layer: {first} is not one of the hidden states 0 to {last}")
    return [first] if asked["every"] is None else list(range(first, last + 1, asked["every"]))


def _steered(asking: Asking, task: str, languages: Sequence[str] | None) -> list[int]:
    controls = asking.dataset.controls
    there = list(asking.dataset.languages)
    unknown = [name for name in languages or () if name not in there]
    if unknown:
        faults = [
            f"{name!r} is no language of '{asking.dataset.name}' ({', '.join(there)})" for name in unknown
        ]
        raise DatasetError(listing("steering.languages", faults))
    chosen = [
        index for index in asking.items(task) if languages is None or controls[index].language in languages
    ]
    if not chosen:
        spoken = f" in {', '.join(languages)}" if languages else ""
        raise DatasetError(f"steering: no item of '{asking.dataset.name}'{spoken} has the prompt {task!r}")
    return chosen


def _scored(asking: Asking, tasks: Sequence[Task], progress: Progress | None) -> dict[str, np.ndarray]:
    """Task -> (conditions, items, 2) log-probabilities of both candidates; the unchanged ones first."""
    jobs = [(task, index) for task in tasks for index in task.items]

    def score(job: tuple[Task, int]) -> np.ndarray:
        task, index = job
        return asking.scored(
            index,
            task.name,
            lambda kept, columns: [
                *task.pushes.conditions(index, columns),
                *task.amnesia.conditions(index, kept, columns),
            ],
        )

    found: dict[str, list[np.ndarray]] = {task.name: [] for task in tasks}
    with keeping(asking.lm):
        for (task, _), own in zip(jobs, over(jobs, score, lm=asking.lm, threads=asking.threads), strict=True):
            found[task.name].append(own)
            if progress is not None:
                progress(1, len(jobs))
    return {name: np.stack(own, axis=1) for name, own in found.items()}


def _summary(asking: Asking, task: Task, scores: np.ndarray, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that one task's scores say."""
    chosen = [asking.dataset.controls[index] for index in task.items]
    items = describe(ControlDataset(asking.dataset.name, "", tuple(chosen), ""))
    sign = np.array([1.0 if item.gold == "a" else -1.0 for item in chosen])
    margins = (scores[..., 0] - scores[..., 1]) * sign
    first = np.array([(item.spans["a"] < item.spans["b"]) == (item.gold == "a") for item in chosen])
    pushed = len(task.pushes.keys)
    tested, clean = clean_summary(items, first, margins[0], asked)
    return {
        "items": items,
        "clean": clean,
        "fits": task.pushes.described(task.items),
        "cells": pushed_cells(tested, task.pushes, task.items, margins[1 : 1 + pushed]),
        "erasure": erased_summary(tested, task.amnesia, task.items, margins[1 + pushed :]),
    }
