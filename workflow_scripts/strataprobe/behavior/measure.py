"""Behaviour of one checkpoint on one dataset of control items."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from strataprobe.behavior.continuations import Continuations, prepare
from strataprobe.behavior.measures import measures, variants
from strataprobe.behavior.rows import item_rows
from strataprobe.behavior.scoring import score
from strataprobe.datasets.answers import describe
from strataprobe.datasets.control import ControlDataset
from strataprobe.lm import LoadedLM, OutputMap


def measure(
    lm: LoadedLM,
    dataset: ControlDataset,
    settings: Mapping[str, Any],
    *,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Score every prompt variant of every item, and sum up.

    Args:
        lm: the checkpoint, loaded.
        dataset: the items.
        settings: `chat` (whether prompts go into the chat template), and of `capture` `batch_tokens` and
            `threads`.
        progress: called with the number of texts just done, and of all.

    Returns:
        The summary (`items`, `variants`, `measures`) and the item-level rows.

    Raises:
        ModelError: see `prepare` and `score`.
    """
    continuations = prepare(lm, dataset, chat=settings["chat"])
    scores, _ = score(
        OutputMap.of(lm),
        continuations,
        batch_tokens=settings["capture"]["batch_tokens"],
        threads=settings["capture"]["threads"],
        progress=progress,
    )
    return summarise(dataset, continuations, scores), item_rows(lm, dataset, continuations, scores)


def summarise(dataset: ControlDataset, continuations: Continuations, scores: np.ndarray) -> dict[str, Any]:
    """The summary of scores: `items`, `variants`, `measures`, and how many continuations span their border.

    Args:
        scores: (texts,) log-probabilities in nats.
    """
    items = describe(dataset)
    own = continuations.per_item(scores, len(dataset.controls))
    return {
        "items": items,
        "variants": variants(own, items["gold"]),
        "measures": measures(own, items),
        "borders": sum(continuations.borders[number] for number in continuations.numbers.values()),
    }
