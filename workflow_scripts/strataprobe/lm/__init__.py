"""A loaded causal LM: blocks, final norm, head, tokens and spans."""

from strataprobe.lm.loaded import LoadedLM, attached, block_input, first_tensor, overlapping
from strataprobe.lm.loading import DTYPES, load, resolve_device

__all__ = [
    "DTYPES",
    "LoadedLM",
    "attached",
    "block_input",
    "first_tensor",
    "load",
    "overlapping",
    "resolve_device",
]
