"""Which layers are patched, one at a time or several together."""

from collections.abc import Mapping
from typing import Any

from strataprobe.errors import ModelError

Window = tuple[int, int]
"""How many adjacent layers are patched together, and the first of them (number in `hidden_states`)."""


def windows(settings: Mapping[str, Any], peak: int, layers: int) -> list[Window]:
    """Every window of every size, from the first layer to the last one, which always is there.

    A size that does not fit between them has none.

    Args:
        settings: `first_layer` (a number in `hidden_states`, 0 for the embedding, or "peak"), `every` (layers
            from one window to the next) and `windows` (sizes).
        peak: the probe peak's number in `hidden_states`.
        layers: blocks of the model; the last one's number in `hidden_states` is the same.

    Raises:
        ModelError: the first layer is not one of the model's.
    """
    first = peak if settings["first_layer"] == "peak" else settings["first_layer"]
    if not 0 <= first <= layers:
        raise ModelError(
            f"patching.first_layer: {first} is not one of the hidden states 0 (embedding) to {layers}"
        )
    found = []
    for size in settings["windows"]:
        last = layers - size + 1
        starts = sorted({*range(first, last + 1, settings["every"]), *([last] if last >= first else [])})
        found += [(size, start) for start in starts]
    return found
