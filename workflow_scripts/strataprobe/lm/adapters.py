"""Checkpoints derived from a base and an adapter: who they are, and how they are loaded."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strataprobe.curation.lora import CONFIG, WEIGHTS, check_targets, forked_rng
from strataprobe.errors import CheckpointError, ModelError, listing, numbered
from strataprobe.files import sha256_file, sha256_json
from strataprobe.lm import LoadedLM

if TYPE_CHECKING:
    from peft import PeftConfig

ADAPTER_FILES = (CONFIG, WEIGHTS)
_SHOWN = 5


def identify_adapted(
    base: Mapping[str, Any], adapter: str | Path, *, model: str, revision: str, step: int
) -> dict[str, Any]:
    """The identity of a base checkpoint with an adapter on it, with the entries every identity has.

    Args:
        base: identity of the base checkpoint.
        adapter: directory of the adapter.
        model: name of the derived model in the study.
        revision: of the adapter, `step0100`, say.
        step: steps of fine-tuning.

    Returns:
        `files` are the adapter's own; `base` names the base checkpoint with its checksums;
        `weights_sha256` is over the base's and the adapter's, so that either's change is one. Tokenizer and
        shape are the base's, `parameters` the base's too: merged weights are as many.

    Raises:
        CheckpointError: files of the adapter are not there; names them.
    """
    place = Path(adapter)
    missing = [f"{name}: not there" for name in ADAPTER_FILES if not (place / name).is_file()]
    if missing:
        raise CheckpointError(listing(f"{model} {revision} ({place})", missing))
    files = {name: sha256_file(place / name) for name in ADAPTER_FILES}
    adapter_sha = sha256_json(files)
    return {
        **base,
        "model": model,
        "revision": revision,
        "step": step,
        "source": "lora",
        "repo": None,
        "ref": None,
        "commit": None,
        "directory": None,
        "files": files,
        "weights_sha256": sha256_json({"base": base["weights_sha256"], "adapter": adapter_sha}),
        "adapter_sha256": adapter_sha,
        "base": {
            key: base[key] for key in ("model", "revision", "commit", "weights_sha256", "tokenizer_sha256")
        },
    }


def check_adapter(identity: Mapping[str, Any], base: Mapping[str, Any], adapter: str | Path) -> None:
    """That a base and an adapter are those which an identity speaks of.

    Raises:
        CheckpointError: files of the adapter that changed, or another base; names each.
    """
    place = Path(adapter)
    faults = []
    for name, expected in identity["files"].items():
        found = sha256_file(place / name) if (place / name).is_file() else "not there"
        if found != expected:
            faults.append(f"{place / name}: sha256 is {found}, expected {expected}")
    for key in ("weights_sha256", "tokenizer_sha256"):
        if base[key] != identity["base"][key]:
            faults.append(f"base {base['model']} {base['revision']}: another {key} than it was trained on")
    if faults:
        raise CheckpointError(listing(f"{identity['model']} {identity['revision']}", faults))


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
    with forked_rng(lm.device):  # peft draws weights before the adapter's own are put in their place
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
        return PeftConfig.from_pretrained(str(place)), load_file(place / WEIGHTS)
    except (OSError, ValueError, TypeError, SafetensorError) as error:
        raise ModelError(f"adapter {place}: cannot be read: {' '.join(str(error).split())}") from error


def _refuse(lm: LoadedLM, place: Path, faults: list[str]) -> None:
    if faults:
        more = [f"and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else []
        title = f"{place}: does not fit {lm.name}: {numbered(len(faults), 'problem')}"
        raise ModelError("\n  ".join([title, *faults[:_SHOWN], *more]))
