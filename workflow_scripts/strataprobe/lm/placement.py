"""Where a model's weights lie while it runs: in one place, over several, or block by block."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import nn

from strataprobe.errors import ModelError
from strataprobe.lm.parts import outermost_lists

WHOLE, SPREAD, BLOCKWISE = "whole", "spread", "blockwise"
DISK = "disk"

Device = str | int


@dataclass(frozen=True)
class Placement:
    """Where weights lie. No number depends on it but by rounding, and none on one kind of device.

    Attributes:
        weights: "whole": on one device. "spread": block after block on the GPUs, then in the CPU's memory,
            then on the disk, from where they are loaded for every batch. "blockwise": all on the disk; one
            block at a time is loaded, and every batch passes it.
        gpus: over how many of them blocks may be spread.
        cpu_mb: MiB of weights that may lie in the CPU's memory when they are spread; by default as many as
            fit.
        states_mb: MiB of states that wait in memory between two blocks, others wait in files; by default a
            quarter of the memory there is.
    """

    weights: str = WHOLE
    gpus: int = 1
    cpu_mb: int | None = None
    states_mb: int | None = None

    @classmethod
    def of(cls, given: "Mapping[str, Any] | Placement | None") -> "Placement":
        """From a model's entry in a study; the default without one.

        Raises:
            ModelError: `weights` is unknown. The study's own check finds what does not go together.
        """
        chosen = given if isinstance(given, cls) else cls(**(given or {}))
        if chosen.weights not in (WHOLE, SPREAD, BLOCKWISE):
            raise ModelError(
                f"placement.weights: {chosen.weights!r} is unknown; one of {WHOLE}, {SPREAD}, {BLOCKWISE} "
                "would be right"
            )
        return chosen


def placements(config: Mapping[str, Any]) -> dict[str, Placement]:
    """Of each model of a study that says where its weights go, from the study's config as it is written."""
    entries = {name: entry.get("placement") for name, entry in config.get("models", {}).items()}
    return {name: Placement.of(given) for name, given in entries.items() if given}


def block_bytes(blocks: nn.ModuleList, dtype: torch.dtype) -> list[int]:
    """Bytes of each block's weights and buffers."""
    sizes = []
    for block in blocks:
        sizes.append(sum(w.numel() * dtype.itemsize for w in block.parameters()))
        sizes[-1] += sum(buffer.numel() * buffer.dtype.itemsize for buffer in block.buffers())
    return sizes


def skeleton(directory: Path, dtype: torch.dtype) -> tuple[nn.Module, str, nn.ModuleList]:
    """The model without weights, and its list of blocks with its name.

    Raises:
        ModelError: there is no list of as many modules as the config has layers.
    """
    from accelerate import init_empty_weights
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    with init_empty_weights():
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=False)
    count = config.get_text_config().num_hidden_layers
    lists = [(name, blocks) for name, blocks in outermost_lists(model) if len(blocks) == count]
    if not lists:
        raise ModelError(
            f"{directory}: {type(model).__name__} has no list of {count} blocks, so its weights cannot be "
            "placed block by block; placement.weights: whole would be right"
        )
    name, blocks = max(lists, key=lambda found: sum(weight.numel() for weight in found[1].parameters()))
    return model, name, blocks


def device_map(model: nn.Module, name: str, homes: Sequence[Device], main: Device) -> dict[str, Device]:
    """Where each part of a model goes: blocks to their homes, all else (embedding, norm, head) to `main`.

    Args:
        model: without weights, from `skeleton`.
        name: of its list of blocks.
        homes: a device for each block, or "disk".
        main: where passes begin and end.
    """
    found: dict[str, Device] = {}
    module, prefix = model, ""
    for part in name.split("."):
        own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
        beside = [other for other, _ in [*module.named_children(), *own] if other != part]
        found |= dict.fromkeys((prefix + other for other in beside), main)
        module, prefix = getattr(module, part), f"{prefix}{part}."
    return found | {f"{prefix}{place}": home for place, home in enumerate(homes)}


def spread_homes(sizes: Sequence[int], room: Mapping[Device, int]) -> list[Device]:
    """A home for each block, in the order of `room`; what fits nowhere is on the disk.

    A block runs where it lies on a GPU, and otherwise on the first device, where room for the largest is kept
    free if there is such a one. (accelerate's `infer_auto_device_map` keeps it also where all blocks fit.)

    Args:
        sizes: bytes of each block; none is split.
        room: bytes there are for blocks, by device: GPUs by number, then "cpu".
    """
    first = next(iter(room))
    for kept in (0, max(sizes)):
        homes = _filled(sizes, {**room, first: room[first] - kept})
        if all(home == first or isinstance(home, int) for home in homes):
            break
    return homes


def _filled(sizes: Sequence[int], room: Mapping[Device, int]) -> list[Device]:
    homes: list[Device] = []
    devices = iter([*room.items(), (DISK, sum(sizes))])
    device, left = next(devices)
    for size in sizes:
        while size > left:
            device, left = next(devices)
        homes.append(device)
        left -= size
    return homes


def room_for_blocks(
    place: str,
    placement: Placement,
    *,
    rest: int,
    batch: int,
    free: Callable[[Device], int],
    visible: int,
) -> dict[Device, int]:
    """Bytes there are for blocks on each device they may be spread over.

    Args:
        place: "cuda" or "cpu", where passes begin and end.
        placement: what the study asks for.
        rest: bytes of the weights outside the blocks, which lie on the first device.
        batch: bytes that running a batch takes.
        free: bytes there are on a device.
        visible: GPUs that there are.
    """
    asked = None if placement.cpu_mb is None else placement.cpu_mb << 20
    if place == "cpu":
        return {"cpu": free("cpu") - rest - batch if asked is None else asked}
    room: dict[Device, int] = {
        number: free(number) - batch - (rest if number == 0 else 0)
        for number in range(min(placement.gpus, visible))
    }
    there = free("cpu")
    return {**room, "cpu": there if asked is None else min(asked, there)}


def tell(homes: Sequence[Device]) -> None:
    """Say in the log where the blocks are."""
    parts, first = [], 0
    for home, group in groupby(homes):
        last = first + sum(1 for _ in group) - 1
        parts.append(f"{first} to {last} on {f'cuda:{home}' if isinstance(home, int) else home}")
        first = last + 1
    logging.getLogger("strataprobe").info("blocks %s", ", ".join(parts))
