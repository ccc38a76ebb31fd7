"""A dataset's activations at a checkpoint, from sentences to a finished cache file."""

import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from strataprobe import cache
from strataprobe.capture.pooling import MEAN, MEAN_REST
from strataprobe.capture.windows import Settings, capture
from strataprobe.datasets.control import ControlDataset
from strataprobe.datasets.pairs import PairsDataset
from strataprobe.datasets.vocabulary import VocabularyDataset
from strataprobe.lm import LoadedLM
from strataprobe.provenance import made_from, provenance

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "h5py", "numpy")


def capture_dataset(
    lm: LoadedLM,
    dataset: PairsDataset | ControlDataset,
    path: str | os.PathLike[str],
    *,
    identity: dict[str, Any],
    settings: Settings,
    progress: Callable[[int], object] | None = None,
) -> None:
    """Capture every sentence of a dataset and write its cache.

    Positions are `mean` and `mean_rest` always, then the dataset's own anchors.

    Args:
        lm: the checkpoint, loaded.
        dataset: checked pairs.
        path: of the cache; there is no file until it is complete.
        identity: the checkpoint's identity, whose checksums the cache is bound to.
        settings: how to capture.
        progress: called with the number of sentences just done.

    Raises:
        ModelError, StrataprobeError: see `capture` and `cache.create`.
    """
    items = dataset.items()
    positions = (MEAN, MEAN_REST, *items.anchors)
    windows = capture(
        lm, items.texts, ids=items.ids, positions=positions, anchors=items.anchors, settings=settings,
        progress=progress,
    )  # fmt: skip
    with cache.create(
        path,
        ids=items.ids,
        labels=items.labels,
        groups=items.groups,
        pairs=items.pairs,
        layers=cache.layer_names(lm.n_layers, settings.embed),
        positions=positions,
        hidden_size=lm.hidden_size,
        provenance=capture_provenance(lm, dataset, identity, settings),
    ) as writer:
        for window in windows:
            writer.write(window.start, window.layers, window.token_counts)


def capture_provenance(
    lm: LoadedLM,
    dataset: PairsDataset | ControlDataset | VocabularyDataset,
    identity: dict[str, Any],
    settings: Settings,
) -> dict[str, Any]:
    """What a cache belongs to: when any of it changes, the cache is stale.

    Batch and window sizes are among the settings, and whether texts that begin alike share a row, since they
    move the last bits of a state.
    """
    return provenance(
        "capture",
        {**asdict(settings), "device": lm.device},
        packages=PACKAGES,
        **made_from(identity),
        dataset=dataset.name,
        dataset_sha256=dataset.items().sha256,
        layers=lm.n_layers,
        shares_rows=lm.sharing_limit > 0,
    )
