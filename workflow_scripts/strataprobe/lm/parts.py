"""Finding blocks and final norm by watching a model run, without a list of known classes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from strataprobe.errors import ModelError
from strataprobe.lm.loaded import attached, block_input, first_tensor, run_module


@dataclass(frozen=True)
class Parts:
    """The decoder and what was found in it.

    Attributes:
        states: (1, tokens, hidden) after each block, of the tokens it was tried with.
        returned: what each block returns: None a tensor, else a tuple of so many entries.
    """

    decoder: nn.Module
    blocks: nn.ModuleList
    blocks_name: str
    final_norm: nn.Module
    hidden_size: int
    states: list[Tensor]
    returned: tuple[int | None, ...]


@dataclass
class _Trace:
    """What one forward pass showed: block inputs and outputs in order, and what the decoder returned."""

    order: list[int]
    entered: list[Tensor | None]
    left: list[Tensor | None]
    returned: list[int | None]
    norms: list[tuple[nn.Module, Tensor]]
    final: Tensor | None


def find_parts(model: nn.Module, tokens: Tensor, directory: Path) -> Parts:
    """Find the list of blocks and the final norm with `final_norm(last block) == hidden_states[-1]`.

    Args:
        model: a causal language model.
        tokens: (1, t) token ids to run it on.
        directory: named in errors.

    Raises:
        ModelError: no list of modules in it behaves as the blocks of a decoder; says why, for each tried.
    """
    decoder = _decoder_of(model)
    count = getattr(model.config.get_text_config(), "num_hidden_layers", None)
    reasons = []
    for name, blocks in outermost_lists(decoder):
        if count is not None and len(blocks) != count:
            reasons.append(f"{name} has {len(blocks)} entries, the config says {count} layers")
            continue
        trace = _trace(decoder, blocks, tokens)
        reason = _not_blocks(trace, len(blocks), tokens)
        norm = None if reason else _final_norm(trace)
        if norm is not None:
            returned, size = tuple(trace.returned), trace.left[-1].shape[-1]
            return Parts(decoder, blocks, name, norm, size, trace.left, returned)
        reasons.append(f"{name}: {reason or 'no final norm turns the last block into hidden_states[-1]'}")
    raise ModelError(
        f"{directory}: {type(model).__name__} is not a decoder that can be read; a list of blocks was looked "
        f"for, each with the residual stream as its output: {'; '.join(reasons) or 'it has no module list'}"
    )


def _decoder_of(model: nn.Module) -> nn.Module:
    """The part without the head, or the whole model where it does not keep the two apart."""
    decoder = model.get_decoder()
    return (
        decoder if isinstance(decoder, nn.Module) and any(True for _ in outermost_lists(decoder)) else model
    )


def outermost_lists(decoder: nn.Module) -> list[tuple[str, nn.ModuleList]]:
    """Module lists that stand in no other list (experts inside a block do)."""
    found: list[tuple[str, nn.ModuleList]] = []
    for name, module in decoder.named_modules():
        inside = any(name.startswith(f"{outer}.") for outer, _ in found)
        if isinstance(module, nn.ModuleList) and len(module) and not inside:
            found.append((name, module))
    return found


def _trace(decoder: nn.Module, blocks: nn.ModuleList, tokens: Tensor) -> _Trace:
    trace = _Trace([], *([None] * len(blocks) for _ in range(3)), [], None)
    inside = {module for block in blocks for module in block.modules()} | {decoder}

    def watch_block(index: int) -> Any:
        def hook(_module: nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
            trace.order.append(index)
            trace.entered[index], trace.left[index] = block_input(args, kwargs), first_tensor(output)
            trace.returned[index] = len(output) if isinstance(output, tuple | list) else None

        return hook

    def watch_other(module: nn.Module, args: tuple, output: Any) -> None:
        entered, left = first_tensor(args), first_tensor(output)
        if entered is not None and left is not None and _same(entered, trace.left[-1]):
            trace.norms.append((module, left))

    handles = [b.register_forward_hook(watch_block(i), with_kwargs=True) for i, b in enumerate(blocks)]
    handles += [m.register_forward_hook(watch_other) for m in decoder.modules() if m not in inside]
    with torch.inference_mode(), attached(handles):
        batch = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
        output = run_module(decoder, batch)
        trace.final = getattr(output, "last_hidden_state", None)
        if trace.final is None:
            trace.order.clear()
            trace.norms.clear()
            states = getattr(run_module(decoder, batch, output_hidden_states=True), "hidden_states", None)
            trace.final = states[-1] if states else None
    return trace


def _not_blocks(trace: _Trace, count: int, tokens: Tensor) -> str | None:
    """Why the traced list is not the residual stream's blocks, or None if it is."""
    if trace.order != list(range(count)):
        return "its entries do not run once each, in order"
    if any(state is None for state in trace.entered + trace.left):
        return "an entry does not take and return a hidden state (a tensor, or a tuple that begins with one)"
    if any(state.ndim != 3 or state.shape[:2] != tokens.shape for state in trace.left):
        return "an entry's output is not of shape (texts, tokens, hidden size)"
    if not all(_same(trace.left[i], trace.entered[i + 1]) for i in range(count - 1)):
        return "an entry's output is not what the next one takes, so it is not the residual stream"
    return "the decoder returns neither last_hidden_state nor hidden_states" if trace.final is None else None


def _final_norm(trace: _Trace) -> nn.Module | None:
    """The module that turns the last block's output into hidden_states[-1]; identity if nothing does."""
    for module, output in trace.norms:
        if _same(output, trace.final):
            return module
    return nn.Identity() if _same(trace.left[-1], trace.final) else None


def _same(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None or a.shape != b.shape:
        return False
    return a is b or torch.allclose(a.float(), b.to(a.device).float(), rtol=1e-5, atol=1e-6, equal_nan=True)
