"""Checkpoints: where weights come from, how a revision is pinned, and proof that they are the same ones.

Nothing here imports torch, transformers or huggingface_hub until it is needed: reading an identity is cheap.
"""

from strataprobe.checkpoints.adapted import (
    ADAPTER_CONFIG,
    ADAPTER_FILES,
    ADAPTER_WEIGHTS,
    identify_adapted,
)
from strataprobe.checkpoints.hub import fetch, pin
from strataprobe.checkpoints.identity import fingerprints, identify_directory, twins
from strataprobe.checkpoints.weights import open_tokenizer, open_weights, opened, opened_tokenizers

__all__ = [
    "ADAPTER_CONFIG",
    "ADAPTER_FILES",
    "ADAPTER_WEIGHTS",
    "fetch",
    "fingerprints",
    "identify_adapted",
    "identify_directory",
    "open_tokenizer",
    "open_weights",
    "opened",
    "opened_tokenizers",
    "pin",
    "twins",
]
