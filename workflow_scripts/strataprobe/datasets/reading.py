"""Datasets of any kind by what a study says of them."""

from collections.abc import Mapping
from typing import Any

from strataprobe.datasets.control import ControlDataset, read_control
from strataprobe.datasets.pairs import PairsDataset, read_pairs
from strataprobe.datasets.vocabulary import VocabularyDataset, read_vocabulary


def read_dataset(entry: Mapping[str, Any]) -> PairsDataset | ControlDataset | VocabularyDataset:
    """Read and check a dataset.

    Args:
        entry: `name`, `path`, `kind` ("pairs", "control" or "vocabulary"); of control items `prompts` and
            `fields`, of a vocabulary its `design`.

    Raises:
        DatasetError: see `read_pairs`, `read_control` and `read_vocabulary`.
    """
    if entry["kind"] == "vocabulary":
        return read_vocabulary(entry["path"], entry["name"], design=entry["design"])
    if entry["kind"] == "control":
        return read_control(
            entry["path"], entry["name"], frames=entry.get("prompts"), fields=entry.get("fields")
        )
    return read_pairs(entry["path"], entry["name"])
