"""Datasets of either kind by what a study says of them."""

from collections.abc import Mapping
from typing import Any

from strataprobe.datasets.control import ControlDataset, read_control
from strataprobe.datasets.pairs import PairsDataset, read_pairs


def read_dataset(entry: Mapping[str, Any]) -> PairsDataset | ControlDataset:
    """Read and check a dataset.

    Args:
        entry: `name`, `path`, `kind` ("pairs" or "control"), and of control items `prompts` and `fields`.

    Raises:
        DatasetError: see `read_pairs` and `read_control`.
    """
    if entry["kind"] == "control":
        return read_control(
            entry["path"], entry["name"], frames=entry.get("prompts"), fields=entry.get("fields")
        )
    return read_pairs(entry["path"], entry["name"])
