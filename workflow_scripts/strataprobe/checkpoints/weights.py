"""Opening a checkpoint's weights only when they are the ones its identity speaks of."""

from pathlib import Path
from typing import Any

from strataprobe.checkpoints import hub
from strataprobe.checkpoints.identity import wanted_files
from strataprobe.errors import CheckpointError, listing
from strataprobe.files import sha256_file


def open_weights(
    identity: dict[str, Any], made_directory: str | Path | None, *, endpoint: str | None = None
) -> Path:
    """The directory to load a checkpoint from, every file of it compared with the identity.

    Args:
        identity: as `identify_directory` or `hub.pin` made it.
        made_directory: where a model made by the study lies; None for `hub` and `local`.
        endpoint: the hub to ask instead of the configured one.

    Raises:
        CheckpointError: files are missing, changed, or new beside the others; names each of them.
    """
    if identity["source"] == "hub":
        return _open_hub(identity, endpoint)
    given = identity["directory"] if identity["source"] == "local" else made_directory
    if given is None:
        raise CheckpointError(
            f"{_title(identity)}: no directory given to open a '{identity['source']}' checkpoint from"
        )
    directory = Path(given)
    if not directory.is_dir():
        raise CheckpointError(f"{_title(identity)}: {directory} is no longer there")
    differences = _differences(directory, identity)
    if differences:
        title = (
            f"{_title(identity)}: {directory} is not as it was identified (restore it, or identify it anew)"
        )
        raise CheckpointError(listing(title, list(differences.values())))
    return directory


def _open_hub(identity: dict[str, Any], endpoint: str | None) -> Path:
    repo, commit = identity["repo"], identity["commit"]
    directory = hub.fetch(repo, commit, files=list(identity["files"]), endpoint=endpoint)
    differences = _differences(directory, identity)
    damaged = [name for name in differences if name in identity["files"]]
    if damaged:
        # The hub's client checks sizes only, so a damaged cache is found here and fetched once more.
        hub.fetch_again(repo, commit, damaged, endpoint=endpoint)
        differences = _differences(directory, identity)
    if any(name in identity["files"] for name in differences):
        title = f"{_title(identity)} ({repo} at {commit}), fetched anew and still not as pinned"
        raise CheckpointError(listing(title, list(differences.values())))
    return directory


def _title(identity: dict[str, Any]) -> str:
    return f"{identity['model']} {identity['revision']}"


def _differences(directory: Path, identity: dict[str, Any]) -> dict[str, str]:
    """What differs from the identity, by file name."""
    expected = identity["files"]
    present = {path.name for path in directory.iterdir() if path.is_file()}
    faults = {}
    for name, sha in expected.items():
        if name not in present:
            faults[name] = f"{name}: not there (expected sha256 {sha})"
        elif (found := sha256_file(directory / name)) != sha:
            faults[name] = f"{name}: sha256 is {found}, expected {sha}"
    # A file the loader would read too (a single-file checkpoint beside shards, an adapter's config).
    for name in wanted_files(present, [n for n in present if n == "model.safetensors"]):
        if name not in expected:
            faults[name] = f"{name}: was not there when the checkpoint was identified"
    return faults
