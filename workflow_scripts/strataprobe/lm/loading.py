"""From a directory of safetensors to a LoadedLM that has been checked."""

import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from strataprobe.errors import ModelError, numbered
from strataprobe.lm.adapters import merged
from strataprobe.lm.checks import check_rows
from strataprobe.lm.estimate import DTYPES, Asked, batch_bytes, check_fits
from strataprobe.lm.free import free_memory
from strataprobe.lm.half import warn_if_slow
from strataprobe.lm.loaded import Blockwise, LoadedLM
from strataprobe.lm.memory import collection_paused
from strataprobe.lm.offload import is_finite
from strataprobe.lm.parts import Parts, find_parts
from strataprobe.lm.placement import (
    BLOCKWISE,
    DISK,
    WHOLE,
    Device,
    Placement,
    block_bytes,
    device_map,
    room_for_blocks,
    skeleton,
    spread_homes,
    tell,
)
from strataprobe.lm.stored import read_sizes

_NO_LIMIT = 10**9  # tokenizers without a limit of their own say 1e30
_SHOWN = 5
_CHECK_TEXT = "The quick brown fox jumps over the lazy dog."


def resolve_device(name: str) -> str:
    """The device meant by `name`; 'auto' is cuda, then mps, then cpu.

    Raises:
        ModelError: the device is unknown, or not there.
    """
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return next(device for device, available in there.items() if available)
    if name not in there:
        raise ModelError(f"device {name!r} is unknown; one of auto, {', '.join(there)} would be right")
    if not there[name]:
        raise ModelError(f"device {name!r} is not available on this machine; 'auto' takes what is there")
    return name


def load(
    directory: str | Path,
    *,
    dtype: str,
    device: str = "auto",
    layers: int | None = None,
    adapter: str | Path | None = None,
    placement: Placement | Mapping[str, Any] | None = None,
    batch_tokens: int = 0,
    threads: int = 1,
) -> LoadedLM:
    """Load a causal language model from a directory of safetensors, and check that it is what we take it for.

    Args:
        directory: config.json, *.safetensors, tokenizer files. No code from it is ever run.
        dtype: "float32", "bfloat16" or "float16".
        device: "auto" (cuda, then mps, then cpu), "cuda", "mps" or "cpu".
        layers: the number of blocks the study says it has, or None.
        adapter: directory of a LoRA adapter that is merged into the weights in memory.
        placement: where its weights lie while it runs; on one device by default.
        batch_tokens: padded tokens of the batches it is to run, which need memory, too.
        threads: of these batches at a time on a CPU.

    Raises:
        ModelError: it does not fit into memory (says what would), it cannot be loaded, its weights are
            incomplete or not finite, its blocks are not as many as said, its decoder is built in a way that
            cannot be read, or the adapter does not fit; names the directory.
    """
    directory = Path(directory)
    if dtype not in DTYPES:
        raise ModelError(f"dtype {dtype!r} is unknown; one of {', '.join(DTYPES)} would be right")
    place, placement = resolve_device(device), Placement.of(placement)
    _check_placement(placement, place)
    visible = torch.cuda.device_count() if place == "cuda" else 1
    asked = Asked(dtype, place, placement, batch_tokens, threads, visible)
    if (directory / "config.json").is_file():
        check_fits(directory, asked, free_memory)
    warn_if_slow(str(directory), dtype, place)
    with collection_paused():
        where = None if placement.weights == WHOLE else _device_map(directory, asked)
        folder = tempfile.TemporaryDirectory(prefix="strataprobe-") if where else None
        model, info = _read_model(directory, DTYPES[dtype], where, folder and folder.name)
        tokenizer = _read_tokenizer(directory)
    config = model.config.get_text_config()
    _check_weights(directory, model, info, dtype)
    model = model if where else model.to(place)
    sample, adds_bos = _sample(directory, tokenizer)
    parts = find_parts(model, torch.tensor([sample], device=place), directory)
    _check_layers(directory, parts, info["unexpected_keys"], layers)
    embedding = model.get_input_embeddings()
    lm = LoadedLM(
        name=str(directory),
        model=model,
        tokenizer=tokenizer,
        decoder=parts.decoder,
        blocks=parts.blocks,
        embedding=embedding,
        final_norm=parts.final_norm,
        head=model.get_output_embeddings(),
        n_layers=len(parts.blocks),
        hidden_size=parts.hidden_size,
        vocab_size=embedding.weight.shape[0],
        max_tokens=_max_tokens(config, tokenizer),
        device=place,
        dtype=dtype,
        adds_bos=adds_bos,
        offloads=where is not None,
        blockwise=_blockwise(placement, parts),
        folder=folder,
    )
    lm = replace(lm, sharing_limit=check_rows(lm, sample, parts.states))
    return lm if adapter is None else merged(lm, adapter)


def _check_placement(placement: Placement, place: str) -> None:
    if placement.weights == WHOLE or place != "mps":
        return
    raise ModelError(
        f"placement.weights: {placement.weights} is for CUDA devices and CPUs; mps shares the CPU's memory, "
        "so capture.device: cpu would be right"
    )


def _blockwise(placement: Placement, parts: Parts) -> Blockwise | None:
    if placement.weights != BLOCKWISE:
        return None
    waiting = placement.states_mb
    return Blockwise(parts.returned, (free_memory("cpu") >> 22) if waiting is None else waiting, set())


def _device_map(directory: Path, asked: Asked) -> dict[str, Device]:
    """Where each part of the model goes."""
    try:
        model, name, blocks = skeleton(directory, DTYPES[asked.dtype])
        stored = read_sizes(directory, DTYPES[asked.dtype])
    except (OSError, ValueError, RuntimeError, KeyError, ImportError) as error:
        raise _not_loaded(directory, error) from error
    main: Device = asked.devices[0]
    if asked.placement.weights == BLOCKWISE:
        return device_map(model, name, [DISK] * len(blocks), main)
    room = room_for_blocks(
        asked.device,
        asked.placement,
        rest=stored.rest.total if stored else 0,
        batch=batch_bytes(directory, asked),
        free=free_memory,
        visible=asked.visible,
    )
    homes = spread_homes(block_bytes(blocks, DTYPES[asked.dtype]), room)
    tell(homes)
    return device_map(model, name, homes, main)


def _read_model(
    directory: Path, dtype: torch.dtype, where: dict[str, Device] | None, folder: str | None
) -> tuple[nn.Module, dict[str, Any]]:
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # one bar a checkpoint is the caller's to show
    if not (directory / "config.json").is_file():
        raise ModelError(
            f"{directory}: no config.json there; a model directory has one beside its *.safetensors"
        )
    try:
        # Without a wish for an attention kind, transformers takes sdpa where the model's formula allows it,
        # and its plain one where it does not (Gemma-2's soft-capped scores).
        model, info = AutoModelForCausalLM.from_pretrained(
            directory,
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
            # What is left on the disk is read from the checkpoint itself, but for weights that are put
            # together anew (most mixtures of experts): these go into the folder.
            **({"device_map": where, "offload_folder": folder} if where else {}),
        )
    except (OSError, ValueError, RuntimeError, KeyError, ImportError) as error:
        raise _not_loaded(directory, error) from error
    return model.eval().requires_grad_(False), info


def _not_loaded(directory: Path, error: Exception) -> ModelError:
    reason = " ".join(str(error).split())
    if "trust_remote_code" in reason:
        reason = "it needs program code of its own, and code from a checkpoint is never run"
    return ModelError(f"{directory}: cannot be loaded as a causal language model: {reason}")


def _read_tokenizer(directory: Path) -> Any:
    """The tokenizer, exactly as tokenizer.json describes it.

    Some classes that a tokenizer_config.json can name build themselves anew from vocabulary and merges and
    lose the file's pre-tokenizer (GPT2Tokenizer would not split SmolLM2's digits), so the file has the word.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    kind = PreTrainedTokenizerFast if (directory / "tokenizer.json").is_file() else AutoTokenizer
    try:
        return kind.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # the Rust parser raises plain Exception
        raise ModelError(
            f"{directory}: its tokenizer cannot be loaded: {' '.join(str(error).split())}"
        ) from error


def _check_weights(directory: Path, model: nn.Module, info: dict[str, Any], dtype: str) -> None:
    """Refuse weights that are missing (they would be random) or not finite."""
    faults = [f"{name}: not in the checkpoint" for name in sorted(info["missing_keys"])]
    faults += [f"{entry[0]}: its shape does not fit the config" for entry in sorted(info["mismatched_keys"])]
    for name, weight in model.named_parameters():
        # One that is not there is looked at when it is loaded.
        if weight.device.type != "meta" and not is_finite(weight):
            overflow = (
                " (or too large for float16; bfloat16 and float32 hold it)" if dtype == "float16" else ""
            )
            faults.append(f"{name}: NaN or inf{overflow}")
    if faults:
        more = [f"and {len(faults) - _SHOWN} more tensors"] if len(faults) > _SHOWN else []
        lines = "\n  ".join(faults[:_SHOWN] + more)
        raise ModelError(f"{directory}: weights: {numbered(len(faults), 'problem')}\n  {lines}")


def _check_layers(directory: Path, parts: Parts, unexpected: Iterable[str], layers: int | None) -> None:
    """Refuse another number of blocks than the study says, or than the weights have."""
    count = len(parts.blocks)
    if layers is not None and count != layers:
        raise ModelError(f"{directory}: the study says {layers} layers, but the model has {count}")
    numbers = [re.search(rf"(?:^|\.){re.escape(parts.blocks_name)}\.(\d+)\.", name) for name in unexpected]
    most = max((int(found[1]) + 1 for found in numbers if found), default=0)
    if most > count:
        raise ModelError(f"{directory}: config.json says {count} layers, but the weights have {most}")


def _sample(directory: Path, tokenizer: Any) -> tuple[list[int], bool]:
    """A few tokens to check the model with, and whether the tokenizer puts a BOS first."""
    bos = tokenizer.bos_token_id
    tokens = tokenizer(_CHECK_TEXT, verbose=False)["input_ids"]
    plain = tokenizer(_CHECK_TEXT, add_special_tokens=False, verbose=False)["input_ids"]
    if len(plain) < 4:
        raise ModelError(f"{directory}: its tokenizer makes {len(plain)} tokens of {_CHECK_TEXT!r}")
    return tokens[:6], bos is not None and tokens[0] == bos and plain[0] != bos


def _max_tokens(config: Any, tokenizer: Any) -> int | None:
    limit = getattr(config, "max_position_embeddings", None) or tokenizer.model_max_length
    return int(limit) if limit and limit < _NO_LIMIT else None
