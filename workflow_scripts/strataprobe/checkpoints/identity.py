"""The identity of a checkpoint: which files it consists of, their checksums, and its shape.

A revision's name can move and public checkpoints have been served wrong (byte-identical weights
under different names, for whole stretches of a trajectory), so a result hangs on these checksums.
"""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from strataprobe.errors import CheckpointError, listing
from strataprobe.files import sha256_file, sha256_json

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
CONFIG = "config.json"
TOKENIZER = "tokenizer.json"

# Everything the tokenizer's behaviour depends on: BOS handling may stand in the second file only.
TOKENIZER_FILES = (
    TOKENIZER,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
)
# Small files the loader reads beside the weights; an adapter's would silently change the model.
MODEL_FILES = (CONFIG, "generation_config.json", "adapter_config.json")

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")
# What different families call the same number.
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_WIDTH = ("hidden_size", "n_embd", "d_model", "model_dim")


def identify_directory(
    directory: str | Path,
    *,
    model: str,
    revision: str,
    step: int | None,
    source: str,
    layers: int | None,
    **extra: Any,
) -> dict[str, Any]:
    """Identify the checkpoint in a directory, having checked that it can be used at all.

    Args:
        directory: holds config.json, tokenizer.json and the weights as safetensors.
        model: the model's name in the study.
        revision: the revision's name in the study.
        step: training step of the revision, or None where it has none.
        source: kind of source; only for `local` is the directory itself kept in the identity.
        layers: number of blocks the study says the model has; None leaves it unchecked.
        extra: further entries to keep (a wheel's checksums, say).

    Returns:
        The identity: names, checksums by file, `weights_sha256` over the sorted checksums of the
        shards, `tokenizer_sha256` over the tokenizer's files, layers, hidden size, architecture.

    Raises:
        CheckpointError: lists everything that is missing or wrong with the directory.
    """
    place = Path(directory)
    if not place.is_dir():
        raise CheckpointError(
            f"{model} {revision}: {place} is not a directory (it should hold the checkpoint)"
        )
    present = [path.name for path in place.iterdir() if path.is_file()]
    faults = missing_files(present)
    config = _read_object(place / CONFIG, faults) if CONFIG in present else {}
    shape = model_shape(config, layers, faults) if config else {}
    names = wanted_files(present, _shards(place, present, faults))
    if faults:
        raise CheckpointError(listing(f"{model} {revision} ({place})", faults))
    identity = {
        "model": model,
        "revision": revision,
        "step": step,
        "source": source,
        "repo": None,
        "ref": None,
        "commit": None,
        # As given: a relative one stays true, and the same bytes, when the whole project moves.
        "directory": str(place) if source == "local" else None,
        "parameters": _parameters([place / name for name in names if name.endswith(".safetensors")], faults),
        **fingerprints({name: sha256_file(place / name) for name in names}),
        **shape,
    }
    if faults:
        raise CheckpointError(listing(f"{model} {revision} ({place})", faults))
    return identity | extra


def fingerprints(files: Mapping[str, str]) -> dict[str, Any]:
    """The checksum entries of an identity from the SHA-256 of each of its files."""
    shards = sorted(sha for name, sha in files.items() if name.endswith(".safetensors"))
    tokenizer = {name: sha for name, sha in files.items() if name in TOKENIZER_FILES}
    return {
        "files": dict(sorted(files.items())),
        "weights_sha256": sha256_json(shards),
        "tokenizer_sha256": sha256_json(tokenizer),
    }


def twins(identities: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """Groups of checkpoints whose weights are byte for byte the same.

    Returns:
        One list of "model/revision" a group of two or more, in the order given.
    """
    groups: dict[str, list[str]] = {}
    for identity in identities:
        name = f"{identity['model']}/{identity['revision']}"
        groups.setdefault(identity["weights_sha256"], []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def _parameters(shards: Iterable[Path], faults: list[str]) -> int:
    """Number of stored parameters, by the shards' headers (a tied head is stored once).

    A shard that was cut short, in its header or behind it, is a fault.
    """
    total = 0
    for path in shards:
        try:
            with path.open("rb") as handle:
                length = int.from_bytes(handle.read(8), "little")
                header = json.loads(handle.read(min(length, path.stat().st_size)))
            tensors = [entry for name, entry in header.items() if name != "__metadata__"]
            total += sum(math.prod(entry["shape"]) for entry in tensors)
            expected = 8 + length + max((entry["data_offsets"][1] for entry in tensors), default=0)
        except (OSError, ValueError, TypeError, KeyError) as error:
            faults.append(
                f"{path.name}: its safetensors header cannot be read ({error}); is the file complete?"
            )
            continue
        if (size := path.stat().st_size) != expected:
            faults.append(f"{path.name}: has {size} bytes, its header says {expected}; is the file complete?")
    return total


def missing_files(present: Iterable[str]) -> list[str]:
    """What a checkpoint with these files lacks, one text a fault, each with what to do about it."""
    names = set(present)
    faults = []
    if SINGLE not in names and INDEX not in names:
        pickled = sorted(name for name in names if name.endswith(_PICKLED))
        if pickled:
            faults.append(
                f"weights: only {', '.join(pickled)}, which can run code when opened, so they are refused; "
                f"{SINGLE} is needed (load them once with transformers and save_pretrained)"
            )
        else:
            faults.append(f"weights: neither {SINGLE} nor {INDEX} is there")
    if CONFIG not in names:
        faults.append(f"{CONFIG}: not there (it says what the weights are)")
    if TOKENIZER not in names:
        faults.append(
            f"{TOKENIZER}: not there (spans need a fast tokenizer; load the tokenizer once with "
            "transformers.AutoTokenizer and save_pretrained it here)"
        )
    return faults


def wanted_files(present: Iterable[str], shards: Iterable[str]) -> list[str]:
    """The files of a checkpoint that its loading depends on, sorted: weights, config, tokenizer."""
    names = set(present)
    index = {INDEX} if INDEX in names and SINGLE not in names else set()
    return sorted(names & (set(MODEL_FILES) | set(TOKENIZER_FILES) | index | set(shards)))


def shards_of_index(index: Mapping[str, Any]) -> list[str]:
    """The weight files an index names, sorted; empty when it is not such an index."""
    weight_map = index.get("weight_map")
    return sorted(set(map(str, weight_map.values()))) if isinstance(weight_map, dict) else []


def missing_shards(shards: Iterable[str], present: Iterable[str]) -> list[str]:
    """Faults of an index: shards that are not there, or that it looks for in another folder."""
    names = set(present)
    wanted = list(shards)
    if not wanted:
        return [f"{INDEX}: names no weight files (it needs a 'weight_map')"]
    faults = [
        f"{INDEX}: names {name!r}; weights must be .safetensors files beside it"
        for name in wanted
        if PurePosixPath(name).name != name or not name.endswith(".safetensors")
    ]
    return faults + [f"{name}: not there, though {INDEX} names it" for name in wanted if name not in names]


def model_shape(config: Mapping[str, Any], layers: int | None, faults: list[str]) -> dict[str, Any]:
    """Layers, hidden size and architecture as config.json says; what is wrong goes to `faults`."""
    # Multimodal families keep the language model's numbers one level down.
    inner = config.get("text_config")
    text = {**config, **inner} if isinstance(inner, dict) else config
    found = _first_whole(text, _LAYERS)
    width = _first_whole(text, _WIDTH)
    if found is None:
        faults.append(f"{CONFIG}: no number of layers (looked for {', '.join(_LAYERS)})")
    elif layers is not None and found != layers:
        faults.append(f"layers: the study says {layers}, {CONFIG} says {found}")
    if width is None:
        faults.append(f"{CONFIG}: no hidden size (looked for {', '.join(_WIDTH)})")
    architectures = config.get("architectures")
    first = architectures[0] if isinstance(architectures, list) and architectures else None
    return {"layers": found, "hidden_size": width, "architecture": first or config.get("model_type")}


def _first_whole(config: Mapping[str, Any], keys: Iterable[str]) -> int | None:
    values = (config.get(key) for key in keys)
    return next((value for value in values if isinstance(value, int) and value > 0), None)


def _read_object(path: Path, faults: list[str]) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        faults.append(f"{path.name}: cannot be read as JSON ({error})")
        return {}
    if not isinstance(content, dict) or not content:
        faults.append(f"{path.name}: is not a JSON object with entries")
        return {}
    return content


def _shards(place: Path, present: list[str], faults: list[str]) -> list[str]:
    # The same precedence as the loader's: a single file wins over an index.
    if SINGLE in present:
        return [SINGLE]
    if INDEX not in present:
        return []
    shards = shards_of_index(_read_object(place / INDEX, faults))
    faults.extend(missing_shards(shards, present))
    return shards
