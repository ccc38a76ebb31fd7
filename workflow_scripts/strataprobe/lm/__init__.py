"""A loaded causal LM: blocks, final norm, head, tokens and spans."""

from strataprobe.lm.loaded import LoadedLM, attached, block_input, first_tensor, overlapping
from strataprobe.lm.loading import DTYPES, load, resolve_device
from strataprobe.lm.rows import Row, batch_rows, plan_rows

__all__ = [
    "DTYPES",
    "LoadedLM",
    "Row",
    "attached",
    "batch_rows",
    "block_input",
    "first_tensor",
    "load",
    "overlapping",
    "plan_rows",
    "resolve_device",
]
