"""A loaded causal LM: blocks, final norm, head, tokens and spans."""

from strataprobe.lm.memory import collection_paused

with collection_paused():  # torch, too, makes objects by the hundred thousand
    from strataprobe.lm.batches import Batches
    from strataprobe.lm.estimate import DTYPES
    from strataprobe.lm.loaded import LoadedLM, attached, block_input, first_tensor, overlapping
    from strataprobe.lm.loading import load, resolve_device
    from strataprobe.lm.output import OutputMap
    from strataprobe.lm.passes import run_layers
    from strataprobe.lm.placement import Placement, placements
    from strataprobe.lm.reading import EMBED, Reading
    from strataprobe.lm.rows import Row, batch_rows, plan_rows
    from strataprobe.lm.selected import Selected, states_at
    from strataprobe.lm.trees import Tree, plan_trees

__all__ = [
    "DTYPES",
    "EMBED",
    "Batches",
    "LoadedLM",
    "OutputMap",
    "Placement",
    "Reading",
    "Row",
    "Selected",
    "Tree",
    "attached",
    "batch_rows",
    "block_input",
    "first_tensor",
    "load",
    "overlapping",
    "placements",
    "plan_rows",
    "plan_trees",
    "resolve_device",
    "run_layers",
    "states_at",
]
