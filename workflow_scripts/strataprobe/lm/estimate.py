"""What a model would need, reckoned before it is loaded, and which settings would fit where it does not."""

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from strataprobe.errors import ModelError
from strataprobe.lm.placement import BLOCKWISE, SPREAD, WHOLE, Device, Placement
from strataprobe.lm.stored import Stored, read_sizes

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

_SMALLER_BATCHES = (1024, 256)
_LIBRARIES_MB = 500  # what Python, torch and transformers take of a job's memory
# States of width hidden and of width intermediate that a block has at once, at the least; measured on
# SmolLM2-135M (docs/large_models.md).
_STATES, _INNER = 4, 2


@dataclass(frozen=True)
class Asked:
    """What decides how much memory is needed.

    Attributes:
        device: "cuda", "mps" or "cpu".
        batch_tokens: padded tokens in a batch; 0 leaves batches out.
        workers: batches at a time on a CPU.
        visible: GPUs there are.
    """

    dtype: str
    device: str
    placement: Placement
    batch_tokens: int
    workers: int
    visible: int = 1

    @property
    def devices(self) -> tuple[Device, ...]:
        """Where passes run: GPUs by number, else the one device."""
        if self.device != "cuda":
            return (self.device,)
        spread = self.placement.weights == SPREAD
        return tuple(range(min(self.placement.gpus, self.visible) if spread else 1))


@dataclass(frozen=True)
class Need:
    """Bytes on one device, that cannot be done without: of weights and of batches."""

    weights: int
    batch: int

    @property
    def total(self) -> int:
        return self.weights + self.batch


def batch_bytes(directory: Path, asked: Asked) -> int:
    """Bytes that the batches running at a time take at the least; 0 where the config does not say."""
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    config = config.get("text_config") or config
    hidden = config.get("hidden_size") or config.get("n_embd") or 0
    inner = config.get("intermediate_size") or config.get("n_inner") or 4 * hidden
    if not isinstance(inner, int):
        inner = 4 * hidden
    together = asked.workers if asked.device == "cpu" and asked.placement.weights != SPREAD else 1
    values = _STATES * hidden + _INNER * inner
    return asked.batch_tokens * values * DTYPES[asked.dtype].itemsize * together


def needs(stored: Stored, batch: int, asked: Asked) -> dict[Device, Need]:
    """What is needed on each device, at the least: a floor, so that nothing is refused that fits.

    On a CPU weights in the file's own dtype are mapped and count for nothing: where memory is short the
    system drops them and reads them anew.

    Args:
        stored: sizes of the weights in the dtype asked for.
        batch: bytes of the batches running at a time.
    """
    rest, largest, everything = stored.rest, stored.largest, stored.all
    if asked.placement.weights == WHOLE:
        if asked.device == "cpu":
            return {"cpu": Need(everything.converted, batch)}
        # It is read in the CPU's memory, then moved.
        on_device: Device = 0 if asked.device == "cuda" else asked.device
        return {on_device: Need(everything.total, batch), "cpu": Need(everything.converted, 0)}
    if asked.device == "cpu":
        kept = asked.placement.cpu_mb if asked.placement.weights == SPREAD else 0
        of_blocks = sum(block.converted for block in stored.blocks)
        weights = rest.converted + max(largest.converted, min((kept or 0) << 20, of_blocks))
        return {"cpu": Need(weights, batch)}
    if asked.placement.weights == BLOCKWISE:
        return {asked.devices[0]: Need(rest.total + largest.total, batch)}
    others: dict[Device, Need] = {number: Need(0, batch) for number in asked.devices}
    return others | {asked.devices[0]: Need(rest.total + largest.total, batch)}


def check_fits(directory: Path, asked: Asked, free: Callable[[Device], int]) -> None:
    """Refuse, before it is loaded, a model that does not fit.

    Args:
        directory: config.json and *.safetensors; what cannot be read of them, loading will find.
        asked: dtype, device, placement and batches.
        free: bytes there are on a device.

    Raises:
        ModelError: says what is needed and what there is on each device, and which other settings would fit
            by the same reckoning.
    """
    stored = read_sizes(directory, DTYPES[asked.dtype])
    if stored is None:
        return
    found = needs(stored, batch_bytes(directory, asked), asked)
    there = {device: free(device) for device in found}
    short = [device for device, need in found.items() if need.total > there[device]]
    if not short:
        _warn_of_rereading(directory, stored, asked, free)
        return
    lines = [f"  {_said(device, found[device], asked, there[device])}" for device in short]
    settings = [f"  {line}" for line in _that_fit(directory, asked, free)]
    offer = ["settings of the model that would fit:", *settings] if settings else []
    if short == ["cpu"]:
        megabytes = (found["cpu"].total * 5 // 4 >> 20) + _LIBRARIES_MB
        offer.append(f"or more memory: where a scheduler gives it, memory_mb: {megabytes} or more")
    if not offer:
        offer = ["no other setting would fit"]
    raise ModelError("\n".join([f"{directory}: is not loaded, since it does not fit", *lines, *offer]))


def _said(device: Device, need: Need, asked: Asked, there: int) -> str:
    parts = f"{_gb(need.weights)} of weights in {asked.dtype}"
    if need.batch:
        together = f" ({asked.workers} at a time)" if asked.workers > 1 and device == "cpu" else ""
        parts += f", {_gb(need.batch)} for batches of {asked.batch_tokens} tokens{together}"
    return f"{_name(device)}: {_gb(need.total)} are needed ({parts}), {_gb(there)} are free"


def _that_fit(directory: Path, asked: Asked, free: Callable[[Device], int]) -> Iterator[str]:
    """Other settings that fit, with the largest batches each, and what they need; the least change first."""
    for placement in _placements(asked):
        for dtype in ["float32", "bfloat16"] if asked.dtype == "float32" else [asked.dtype]:
            for batch_tokens in (asked.batch_tokens, *_SMALLER_BATCHES):
                other = replace(asked, dtype=dtype, placement=placement, batch_tokens=batch_tokens)
                if other == asked or batch_tokens > asked.batch_tokens:
                    continue
                stored = read_sizes(directory, DTYPES[dtype])
                found = needs(stored, batch_bytes(directory, other), other)
                if all(need.total <= free(device) for device, need in found.items()):
                    yield f"{_changes(asked, other)}: needs {_together(found)}"
                    break


def _placements(asked: Asked) -> list[Placement]:
    others = [asked.placement]
    if asked.device == "cuda" and asked.placement.weights == WHOLE:
        others.append(Placement(SPREAD))
    if asked.device != "mps" and asked.placement.weights != BLOCKWISE:
        others.append(Placement(BLOCKWISE))
    return others


def _changes(asked: Asked, other: Asked) -> str:
    """The settings to change, as they stand in a config."""
    changed = {
        f"dtype: {other.dtype}": other.dtype != asked.dtype,
        f"placement: {{weights: {other.placement.weights}}}": other.placement != asked.placement,
        f"capture.batch_tokens: {other.batch_tokens}": other.batch_tokens != asked.batch_tokens,
    }
    return " with ".join(text for text, differs in changed.items() if differs)


def _together(found: dict[Device, Need]) -> str:
    parts = [f"{_gb(need.total)} on {_name(device)}" for device, need in found.items() if need.total]
    return " and ".join(parts) or "next to nothing"


def _warn_of_rereading(directory: Path, stored: Stored, asked: Asked, free: Callable[[Device], int]) -> None:
    """Say that weights which are mapped will not stay in memory."""
    mapped = stored.all.total - stored.all.converted
    if asked.device != "cpu" or asked.placement.weights != WHOLE or mapped <= free("cpu"):
        return
    logging.getLogger("strataprobe").warning(
        "%s: %s of weights, %s of memory: the system will read them from the disk anew for each batch; "
        "placement: {weights: blockwise} reads each once a pass",
        directory, _gb(mapped), _gb(free("cpu")),
    )  # fmt: skip


def _name(device: Device) -> str:
    return f"cuda:{device}" if isinstance(device, int) else device


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
