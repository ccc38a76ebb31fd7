"""States at the anchors of a vocabulary's stimuli, after chosen blocks, in a cache of their own kind.

A study of words reads a few blocks at a few tokens of thousands of texts that begin alike: what several of
them begin with is computed once, and no block above the highest that is read.

Source: lucky-defaults paper, section 4 (anchors and layers of the pre-registered design).
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from strataprobe import cache
from strataprobe.capture.caching import capture_provenance
from strataprobe.capture.items import NOWHERE, Items, prepare
from strataprobe.capture.windows import Settings, check_settings
from strataprobe.datasets.vocabulary import VocabularyDataset
from strataprobe.errors import ModelError
from strataprobe.lm import LoadedLM, states_at


def capture_vocabulary(
    lm: LoadedLM,
    dataset: VocabularyDataset,
    path: str | os.PathLike[str],
    *,
    layers: Sequence[int],
    identity: dict[str, Any],
    settings: Settings,
    progress: Callable[[int], object] | None = None,
) -> None:
    """Capture every stimulus and write its cache, whose positions are the dataset's anchors.

    Where a stimulus has no anchor of a name (its notation lacks it), the state there is all zeros.

    Args:
        layers: the blocks to store (0..L-1).
        settings: how; `embed` is not used.
        progress: called with the number of stimuli just done.

    Raises:
        ModelError: a block that the model has not, texts or spans that cannot be captured, states that are
            not finite.
        StrataprobeError: see `cache.create`.
    """
    check_settings(lm, settings)
    chosen = sorted(layers)
    if not chosen or chosen[-1] >= lm.n_layers:
        raise ModelError(
            f"{lm.name}: layers {', '.join(map(str, layers))} are asked for; the model has the blocks "
            f"0 to {lm.n_layers - 1}"
        )
    items = dataset.items()
    positions = tuple(items.anchors)
    prepared = prepare(lm, items.texts, items.ids, positions, items.anchors)
    counts = np.array([len(sequence) for sequence in prepared.tokens], np.int32)
    names = [cache.layer_names(layer + 1)[layer] for layer in chosen]
    provenance = capture_provenance(lm, dataset, identity, settings)
    with cache.create(
        path,
        ids=items.ids,
        labels=items.labels,
        groups=items.groups,
        pairs=items.pairs,
        layers=names,
        positions=positions,
        hidden_size=lm.hidden_size,
        provenance={**provenance, "blocks": chosen},
    ) as writer:
        size = settings.texts_a_window(len(chosen) * len(positions), lm.hidden_size)
        for start in range(0, len(items.ids), size):
            stop = min(start + size, len(items.ids))
            states = _window(lm, prepared, range(start, stop), chosen, settings, progress)
            writer.write(start, dict(zip(names, states, strict=True)), counts[start:stop])


def _window(
    lm: LoadedLM,
    items: Items,
    numbers: range,
    layers: Sequence[int],
    settings: Settings,
    progress: Callable[[int], object] | None,
) -> np.ndarray:
    """(layers, texts, positions, hidden) float32 of some texts; those that begin alike are run together."""
    order = sorted(numbers, key=items.tokens.__getitem__)
    there = [np.flatnonzero(items.places[number] != NOWHERE) for number in order]
    states = np.zeros((len(layers), len(numbers), len(items.positions), lm.hidden_size), np.float32)
    batches = states_at(
        lm,
        [items.tokens[number] for number in order],
        [items.places[number][own] for number, own in zip(order, there, strict=True)],
        ids=[items.ids[number] for number in order],
        layers=layers,
        batch_tokens=settings.batch_tokens,
        threads=settings.threads,
        progress=progress,
    )
    for selected in batches:
        found = selected.states.float().cpu().numpy()
        for number, places in zip(selected.numbers, selected.places, strict=True):
            states[:, order[number] - numbers.start, there[number]] = found[:, places]
    return states
