"""LoRA adapters on a loaded model: which modules they can be put on, and merging one into the weights."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from strataprobe.checkpoints import ADAPTER_FILES, ADAPTER_WEIGHTS
from strataprobe.errors import ModelError, listing, numbered
from strataprobe.lm.loaded import LoadedLM

if TYPE_CHECKING:
    from peft import PeftConfig

_SHOWN = 5


@contextmanager
def forked_rng(device: str) -> Iterator[None]:
    """Torch's generators are afterwards as they were before."""
    devices = [torch.cuda.current_device()] if device == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        yield


@contextmanager
def wrapping(device: str) -> Iterator[None]:
    """While peft wraps a model: it draws weights, and asks transformers by a name going out of use."""
    with forked_rng(device), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
        yield


def check_targets(lm: LoadedLM, names: Sequence[str]) -> list[nn.Module]:
    """The linear modules that the names match.

    Raises:
        ModelError: names that match none, or match a head that is the embedding too (merging would change
            both); also for a model whose weights come and go.
    """
    from transformers.pytorch_utils import Conv1D

    linear = {
        name: module for name, module in lm.model.named_modules() if isinstance(module, nn.Linear | Conv1D)
    }
    there = ", ".join(sorted({name.rpartition(".")[2] for name in linear}))
    found = {own: [linear[name] for name in linear if f".{name}".endswith(f".{own}")] for own in names}
    faults = [f"'{own}' matches no linear module; there are {there}" for own in names if not found[own]]
    faults += [
        f"'{own}' is tied to the embedding; others of {there} would be right"
        for own in names
        if any(module.weight is lm.embedding.weight for module in found[own])
    ]
    if not names:
        faults.append(f"none are given; some of {there} would be right")
    if lm.offloads:
        faults.append("the model's weights come and go; placement.weights: whole would be right")
    if faults:
        raise ModelError(listing(f"LoRA on {lm.name}: target_modules", faults))
    return [module for modules in found.values() for module in modules]


def merged(lm: LoadedLM, adapter: str | Path) -> LoadedLM:
    """The model with an adapter merged into its weights in memory; no file of the base is touched.

    The model that `lm` holds is the one that is changed: use what is returned.

    Args:
        lm: the base, as `lm.load` returns it.
        adapter: directory of the adapter.

    Raises:
        ModelError: the adapter belongs to another model, is not finite, or cannot be read; names it.
    """
    from peft import PeftModel, set_peft_model_state_dict

    place = Path(adapter)
    config, state = _read_adapter(place)
    check_targets(lm, sorted(config.target_modules))
    _refuse(lm, place, [f"{name}: NaN or inf" for name, own in state.items() if not own.isfinite().all()])
    with wrapping(lm.device):
        model = PeftModel(lm.model, config)
    try:
        found = set_peft_model_state_dict(model, state)
        missing = [f"{name}: not in the adapter" for name in found.missing_keys if ".lora_" in name]
        _refuse(lm, place, missing + [f"{name}: not in the model" for name in found.unexpected_keys])
        model.merge_and_unload(safe_merge=True)
    except (RuntimeError, ValueError) as error:
        raise ModelError(f"{place}: does not fit {lm.name}: {' '.join(str(error).split())}") from error
    finally:
        model.unload()  # after an error, what was not merged is taken off again
    lm.model.eval().requires_grad_(False)
    return replace(lm, name=f"{lm.name} with {place}")


def _read_adapter(place: Path) -> tuple["PeftConfig", dict[str, Any]]:
    """Config and weights of an adapter; peft is asked only for what lies there, or it would ask the hub."""
    from peft import PeftConfig
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    missing = [f"{name}: not there" for name in ADAPTER_FILES if not (place / name).is_file()]
    if missing:
        raise ModelError(listing(f"adapter {place}", missing))
    try:
        return PeftConfig.from_pretrained(str(place)), load_file(place / ADAPTER_WEIGHTS)
    except (OSError, ValueError, TypeError, SafetensorError) as error:
        raise ModelError(f"adapter {place}: cannot be read: {' '.join(str(error).split())}") from error


def _refuse(lm: LoadedLM, place: Path, faults: list[str]) -> None:
    if faults:
        more = [f"and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else []
        title = f"{place}: does not fit {lm.name}: {numbered(len(faults), 'problem')}"
        raise ModelError("\n  ".join([title, *faults[:_SHOWN], *more]))
