"""From a directory of safetensors to a LoadedLM that has been checked."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from strataprobe.errors import ModelError, numbered
from strataprobe.lm.checks import check_rows
from strataprobe.lm.loaded import LoadedLM
from strataprobe.lm.memory import collection_paused
from strataprobe.lm.parts import Parts, find_parts

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

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


def load(directory: str | Path, *, dtype: str, device: str = "auto", layers: int | None = None) -> LoadedLM:
    """Load a causal language model from a directory of safetensors, and check that it is what we take it for.

    Args:
        directory: config.json, *.safetensors, tokenizer files. No code from it is ever run.
        dtype: "float32", "bfloat16" or "float16".
        device: "auto" (cuda, then mps, then cpu), "cuda", "mps" or "cpu".
        layers: the number of blocks the study says it has, or None.

    Raises:
        ModelError: it cannot be loaded, its weights are incomplete or not finite, its blocks are not as
            many as said, or its decoder is built in a way that cannot be read; names the directory.
    """
    directory = Path(directory)
    if dtype not in DTYPES:
        raise ModelError(f"dtype {dtype!r} is unknown; one of {', '.join(DTYPES)} would be right")
    place = resolve_device(device)
    with collection_paused():
        model, info = _read_model(directory, DTYPES[dtype])
        tokenizer = _read_tokenizer(directory)
    config = model.config.get_text_config()
    _check_weights(directory, model, info, dtype)
    model = model.to(place)
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
    )
    return replace(lm, sharing_limit=check_rows(lm, sample))


def _read_model(directory: Path, dtype: torch.dtype) -> tuple[nn.Module, dict[str, Any]]:
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
        )
    except (OSError, ValueError, RuntimeError, KeyError, ImportError) as error:
        reason = " ".join(str(error).split())
        if "trust_remote_code" in reason:
            reason = "it needs program code of its own, and code from a checkpoint is never run"
        raise ModelError(f"{directory}: cannot be loaded as a causal language model: {reason}") from error
    return model.eval().requires_grad_(False), info


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
        # The extremes carry NaN and inf along, without a mask as large as the weights.
        if weight.numel() and not all(
            bool(torch.isfinite(value)) for value in torch.aminmax(weight.detach())
        ):
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
