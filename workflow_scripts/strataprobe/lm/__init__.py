"""A loaded causal LM: blocks, final norm, head, tokens and spans."""

from strataprobe.lm.memory import collection_paused

with collection_paused():  # torch, too, makes objects by the hundred thousand
    from strataprobe.lm.batches import Batches
    from strataprobe.lm.loaded import LoadedLM, attached, block_input, first_tensor, overlapping
    from strataprobe.lm.loading import DTYPES, load, resolve_device
    from strataprobe.lm.output import OutputMap
    from strataprobe.lm.rows import Row, batch_rows, plan_rows
    from strataprobe.lm.selected import EMBED, Selected, states_at
    from strataprobe.lm.trees import Tree, plan_trees

__all__ = [
    "DTYPES",
    "EMBED",
    "Batches",
    "LoadedLM",
    "OutputMap",
    "Row",
    "Selected",
    "Tree",
    "attached",
    "batch_rows",
    "block_input",
    "first_tensor",
    "load",
    "overlapping",
    "plan_rows",
    "plan_trees",
    "resolve_device",
    "states_at",
]
