"""Weights that are not there: what is loaded when, through the hooks that accelerate puts on a model."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from strataprobe.errors import ModelError
from strataprobe.lm.loaded import LoadedLM


@contextmanager
def held(lm: LoadedLM, block: int) -> Iterator[None]:
    """Keep a block's weights loaded, for as many passes as there are; afterwards they are gone again.

    Raises:
        ModelError: a weight that is not finite, when it is seen for the first time.
    """
    loaded = []
    try:
        for module in lm.blocks[block].modules():
            for hook in _offloading(module):
                hook.pre_forward(module)
                hook.offload = False  # a pass neither loads nor drops what is there
                loaded.append((module, hook))
        _check_finite(lm, block)
        yield
    finally:
        for module, hook in loaded:
            hook.offload = True
            hook.post_forward(module, None)


def _offloading(module: nn.Module) -> list[Any]:
    """The hooks that load this module's own weights when it is run."""
    hook = getattr(module, "_hf_hook", None)
    hooks = getattr(hook, "hooks", [hook])  # several in a row are one that has them all
    return [one for one in hooks if getattr(one, "offload", False)]


def _check_finite(lm: LoadedLM, block: int) -> None:
    if block in lm.blockwise.sound:
        return
    bad = [name for name, weight in lm.blocks[block].named_parameters() if not is_finite(weight)]
    if bad:
        overflow = (
            " (or too large for float16; bfloat16 and float32 hold it)" if lm.dtype == "float16" else ""
        )
        raise ModelError(f"{lm.name}: weights of block {block}: {', '.join(bad)}: NaN or inf{overflow}")
    lm.blockwise.sound.add(block)


def is_finite(weight: torch.Tensor) -> bool:
    """Whether no value is NaN or inf."""
    if not weight.numel():
        return True
    # The extremes carry them along, without a mask as large as the weights.
    return all(bool(torch.isfinite(value)) for value in torch.aminmax(weight.detach()))
