"""Checkpoints derived from a base by an adapter: who they are, and which files they consist of."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strataprobe.errors import CheckpointError, listing
from strataprobe.files import sha256_file, sha256_json

ADAPTED = "lora"
"""The source of a derived checkpoint."""

ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
ADAPTER_FILES = (ADAPTER_CONFIG, ADAPTER_WEIGHTS)


def identify_adapted(
    base: Mapping[str, Any],
    base_directory: str | Path | None,
    adapter: str | Path,
    *,
    model: str,
    revision: str,
    step: int,
) -> dict[str, Any]:
    """The identity of a base checkpoint with an adapter on it, with the entries every identity has.

    Args:
        base: identity of the base checkpoint.
        base_directory: where the study made the base; None for one of the hub, or of the user's own.
        adapter: directory of the adapter.
        model: name of the derived model in the study.
        revision: of the adapter, `step0100`, say.
        step: steps of fine-tuning.

    Returns:
        `files` are the adapter's own; `base` is the base's identity, with the directory to open it from;
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
    # As given: a relative one stays true when the whole project moves.
    directory = base["directory"] if base_directory is None else str(base_directory)
    return {
        **base,
        "model": model,
        "revision": revision,
        "step": step,
        "source": ADAPTED,
        "repo": None,
        "ref": None,
        "commit": None,
        "directory": None,
        "files": files,
        "weights_sha256": sha256_json({"base": base["weights_sha256"], "adapter": adapter_sha}),
        "adapter_sha256": adapter_sha,
        "base": {**base, "directory": directory},
    }
