"""Opening a checkpoint's weights only when they are the ones its identity speaks of."""

from collections.abc import Collection, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from strataprobe.checkpoints import hub
from strataprobe.checkpoints.adapted import ADAPTED, ADAPTER_FILES
from strataprobe.checkpoints.identity import SINGLE, TOKENIZER_FILES, wanted_files
from strataprobe.errors import CheckpointError, listing
from strataprobe.files import read_json, sha256_file


def open_weights(
    identity: dict[str, Any],
    made_directory: str | Path | None,
    *,
    endpoint: str | None = None,
    disk_gigabytes: float | None = None,
) -> Path:
    """The directory to load a checkpoint from, every file of it compared with the identity.

    Args:
        identity: as `identify_directory`, `identify_adapted` or `hub.pin` made it.
        made_directory: where a model made by the study lies, or its adapter; None for `hub` and `local`.
        endpoint: the hub to ask instead of the configured one.
        disk_gigabytes: see `hub.fetch`.

    Returns:
        The whole model's directory; of a checkpoint with an adapter, its base's.

    Raises:
        CheckpointError: files are missing, changed, or new beside the others; names each of them.
    """
    if identity["source"] == ADAPTED:
        base = identity["base"]
        _open_adapter(identity, made_directory)
        return open_weights(base, base["directory"], endpoint=endpoint, disk_gigabytes=disk_gigabytes)
    return _open(identity, made_directory, list(identity["files"]), endpoint, disk_gigabytes)


def open_tokenizer(
    identity: dict[str, Any], made_directory: str | Path | None, *, endpoint: str | None = None
) -> Path:
    """The directory to read a checkpoint's tokenizer from; its weights need not be there.

    Raises:
        CheckpointError: as `open_weights`, of the tokenizer's files.
    """
    if identity["source"] == ADAPTED:
        return open_tokenizer(identity["base"], identity["base"]["directory"], endpoint=endpoint)
    names = [name for name in identity["files"] if name in TOKENIZER_FILES]
    return _open(identity, made_directory, names, endpoint, None)


def opened(
    identities: Sequence[str], weights: Sequence[str], *, disk_gigabytes: float | None = None
) -> Iterator[tuple[dict[str, Any], Path, Path | None]]:
    """Each checkpoint's identity and what to load it from, opened when it is its turn.

    A base that several of them have in common is compared with its identity once.

    Args:
        identities: their files.
        weights: files of weights or adapters that the study made, one a checkpoint; none for `hub` and
            `local`. Further ones, of a base that adapters are put on, may stand behind them.
        disk_gigabytes: see `hub.fetch`.

    Yields:
        Identity, directory of the whole model, and directory of the adapter to be merged into it or None.

    Raises:
        CheckpointError: see `open_weights`.
    """
    base: dict[str, Any] | None = None
    whole = Path()
    for identity, directory in _each(identities, weights):
        adapted = identity["source"] == ADAPTED
        if adapted and identity["base"] == base:
            _open_adapter(identity, directory)
        else:
            whole = open_weights(identity, directory, disk_gigabytes=disk_gigabytes)
        base = identity["base"] if adapted else None
        yield identity, whole, directory if adapted else None


def opened_tokenizers(
    identities: Sequence[str], weights: Sequence[str]
) -> Iterator[tuple[dict[str, Any], Path]]:
    """As `opened`, for whoever reads tokenizers only."""
    for identity, directory in _each(identities, weights):
        yield identity, open_tokenizer(identity, directory)


def _each(identities: Sequence[str], weights: Sequence[str]) -> Iterator[tuple[dict[str, Any], Path | None]]:
    made = [Path(path).parent for path in weights] or repeat(None)
    return zip(map(read_json, identities), made, strict=False)


def _open(
    identity: dict[str, Any],
    made_directory: str | Path | None,
    names: Sequence[str],
    endpoint: str | None,
    disk_gigabytes: float | None,
) -> Path:
    if identity["source"] == "hub":
        return _open_hub(identity, names, endpoint, disk_gigabytes)
    given = identity["directory"] if identity["source"] == "local" else made_directory
    directory = _there(identity, given)
    _refuse(identity, directory, _differences(directory, identity, names))
    return directory


def _open_adapter(identity: dict[str, Any], made_directory: str | Path | None) -> None:
    """That an adapter's files are those which the identity speaks of."""
    directory = _there(identity, made_directory)
    _refuse(identity, directory, _changed(directory, identity, ADAPTER_FILES))


def _there(identity: dict[str, Any], given: str | Path | None) -> Path:
    if given is None:
        raise CheckpointError(
            f"{_title(identity)}: no directory given to open a '{identity['source']}' checkpoint from"
        )
    if not Path(given).is_dir():
        raise CheckpointError(f"{_title(identity)}: {given} is no longer there")
    return Path(given)


def _refuse(identity: dict[str, Any], directory: Path, differences: dict[str, str]) -> None:
    if differences:
        title = (
            f"{_title(identity)}: {directory} is not as it was identified (restore it, or identify it anew)"
        )
        raise CheckpointError(listing(title, list(differences.values())))


def _open_hub(
    identity: dict[str, Any], names: Sequence[str], endpoint: str | None, disk_gigabytes: float | None
) -> Path:
    repo, commit = identity["repo"], identity["commit"]
    directory = hub.fetch(
        repo,
        commit,
        files=names,
        checkpoint=f"{identity['model']}/{identity['revision']}",
        endpoint=endpoint,
        disk_gigabytes=disk_gigabytes,
    )
    differences = _differences(directory, identity, names)
    damaged = [name for name in differences if name in names]
    if damaged:
        # The hub's client checks sizes only, so a damaged cache is found here and fetched once more.
        hub.fetch_again(repo, commit, damaged, endpoint=endpoint)
        differences = _differences(directory, identity, names)
    if any(name in names for name in differences):
        title = f"{_title(identity)} ({repo} at {commit}), fetched anew and still not as pinned"
        raise CheckpointError(listing(title, list(differences.values())))
    return directory


def _title(identity: dict[str, Any]) -> str:
    return f"{identity['model']} {identity['revision']}"


def _differences(directory: Path, identity: dict[str, Any], names: Collection[str]) -> dict[str, str]:
    """What differs from the identity in these of its files, or stands new beside them, by file name."""
    faults = _changed(directory, identity, names)
    present = {path.name for path in directory.iterdir() if path.is_file()}
    # A file the loader would read too (a single-file checkpoint beside shards, an adapter's config).
    for name in wanted_files(present, [n for n in present if n == SINGLE]):
        if name not in identity["files"]:
            faults[name] = f"{name}: was not there when the checkpoint was identified"
    return faults


def _changed(directory: Path, identity: dict[str, Any], names: Collection[str]) -> dict[str, str]:
    """What differs from the identity in these of its files, by file name."""
    faults = {}
    for name in names:
        sha = identity["files"][name]
        if not (directory / name).is_file():
            faults[name] = f"{name}: not there (expected sha256 {sha})"
        elif (found := sha256_file(directory / name)) != sha:
            faults[name] = f"{name}: sha256 is {found}, expected {sha}"
    return faults
