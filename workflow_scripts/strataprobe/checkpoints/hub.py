"""Checkpoints from a model hub: a name is pinned to a commit once, and opened by that commit ever after.

Only safetensors, JSON and tokenizer files are fetched; no code of a repository is ever run. The hub's
client honours HF_ENDPOINT, HF_HOME and the user's own login; a token never enters a message, nor does
what else gives access: the query of a signed URL, or a login in front of a host.
"""

import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strataprobe.checkpoints import disk, fetched
from strataprobe.checkpoints.asking import ask
from strataprobe.checkpoints.identity import (
    CONFIG,
    INDEX,
    SINGLE,
    TOKENIZER_FILES,
    fingerprints,
    missing_files,
    missing_shards,
    model_shape,
    shards_of_index,
    wanted_files,
)
from strataprobe.errors import CheckpointError, listing
from strataprobe.files import sha256_file

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

# Seconds before each further try when the hub is busy or a connection breaks. Its client tries file
# transfers several times by itself, but not questions about a repository, so transfers get one more.
WAITS: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)
# Files of one revision that are fetched at once; more do not fill a line any better.
_AT_ONCE = 4


def pin(
    repo: str,
    ref: str,
    *,
    model: str | None = None,
    revision: str | None = None,
    step: int | None = None,
    layers: int | None = None,
    commit: str | None = None,
    endpoint: str | None = None,
) -> dict[str, Any]:
    """Pin a branch, tag or commit of a hub repository to its commit, without fetching its weights.

    Checksums of large files are the hub's own; only config, index and tokenizer files are fetched.

    Args:
        repo: "owner/name".
        ref: branch, tag or commit.
        model, revision, step: what the study calls it; `repo` and `ref` where they are not given.
        layers: number of blocks the study says it has; None leaves it unchecked.
        commit: what the list of the model's revisions says the ref is; None leaves it unchecked.
        endpoint: the hub to ask instead of the configured one.

    Returns:
        The identity, with `repo`, `ref` and the 40-digit `commit`.

    Raises:
        CheckpointError: no such repository or ref (names the nearest refs), access refused, no
            connection, no safetensors, a shape other than the study's, or a ref that has moved.
    """
    place = f"{repo} at {ref!r}"
    info = describe(repo, ref, endpoint=endpoint)
    if commit is not None and info.sha != commit:
        raise CheckpointError(
            f"hub repository {place}: it was {commit} when its revisions were listed, and is {info.sha} now. "
            "To follow it: snakemake --cores 1 resolve. To stay: give that commit as the revision's ref"
        )
    siblings = {entry.rfilename: entry for entry in info.siblings or [] if "/" not in entry.rfilename}
    faults = missing_files(siblings)
    if faults:
        raise CheckpointError(listing(f"hub repository {place}", faults))
    shards = [SINGLE]
    if SINGLE not in siblings:
        shards = shards_of_index(_json(_file(repo, info.sha, INDEX, endpoint), place))
        faults.extend(missing_shards(shards, siblings))
    shape = model_shape(_json(_file(repo, info.sha, CONFIG, endpoint), place), layers, faults)
    if faults:
        raise CheckpointError(listing(f"hub repository {place}", faults))
    checksums = {}
    for name in wanted_files(siblings, shards):
        large = siblings[name].lfs
        known = large is not None and name not in TOKENIZER_FILES
        checksums[name] = large.sha256 if known else sha256_file(_file(repo, info.sha, name, endpoint))
    return {
        "model": model or repo,
        "revision": revision or ref,
        "step": step,
        "source": "hub",
        "repo": repo,
        "ref": ref,
        "commit": info.sha,
        "directory": None,
        "parameters": info.safetensors.total if info.safetensors is not None else None,
        **fingerprints(checksums),
        **shape,
    }


def refs(repo: str, *, endpoint: str | None = None) -> dict[str, str]:
    """Commit of every branch and tag of a repository, by its name; a branch hides a tag of that name.

    Raises:
        CheckpointError: no such repository, access refused, or no connection.
    """

    def listed() -> dict[str, str]:
        from huggingface_hub import HfApi

        found = HfApi(endpoint=endpoint).list_repo_refs(repo)
        return {entry.name: entry.target_commit for entry in [*found.tags, *found.branches]}

    return ask(listed, repo, None, endpoint, WAITS)


def describe(repo: str, ref: str, *, endpoint: str | None = None) -> "ModelInfo":
    """What the hub says of a branch, tag or commit: its commit, and its files with size and checksum.

    Raises:
        CheckpointError: as `pin`.
    """
    return ask(lambda: _repository(repo, ref, endpoint), repo, ref, endpoint, WAITS)


def fetch(
    repo: str,
    commit: str,
    *,
    files: Sequence[str] | None = None,
    checkpoint: str = "",
    endpoint: str | None = None,
    disk_gigabytes: float | None = None,
) -> Path:
    """The folder in the hub's cache that holds a commit's files, fetching what is not there yet.

    What it fetches it notes beside the cache (`fetched`), so that it can be dropped again. A transfer that
    was cut goes on where it ended.

    Args:
        repo: "owner/name".
        commit: the full commit sha; a name that can move is refused.
        files: exactly these, and where all are there already the hub is not asked for anything; by
            default all top-level safetensors, JSON and tokenizer files.
        checkpoint: "model/revision" of the study that needs it.
        endpoint: the hub to ask instead of the configured one.
        disk_gigabytes: the most (10^9 bytes) that fetched weights may take at once; None asks the disk alone.

    Raises:
        CheckpointError: it cannot be had, or has no room on the disk; says why and what to do.
    """
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise CheckpointError(f"{repo}: {commit!r} is not a commit sha (40 hex digits); pin the ref first")
    if files and all(cached(repo, commit, name) for name in files):
        fetched.use(repo, commit, checkpoint)
        return cached(repo, commit, files[0]).parent
    sizes = _sizes(describe(repo, commit, endpoint=endpoint), files)
    missing = [name for name in sizes if cached(repo, commit, name) is None]
    place = f"{repo} at {commit}"
    disk.wait_for_room(sum(map(sizes.get, missing)), place, budget=disk_gigabytes)
    fetched.claim(repo, commit, missing, checkpoint)
    get = partial(_fetch_one, repo, commit, endpoint)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(get, missing, map(sizes.get, missing)))
    there = next((path for name in sizes if (path := cached(repo, commit, name))), None)
    if there is None:
        raise CheckpointError(f"hub repository {place}: has none of the files a checkpoint consists of")
    return there.parent


def cached(repo: str, commit: str, name: str) -> Path | None:
    """Where the hub's cache has a file of a commit, or None."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(repo, name, revision=commit)
    return Path(path) if isinstance(path, str) else None


def _sizes(info: "ModelInfo", files: Sequence[str] | None) -> dict[str, int]:
    """Bytes by name of the files to fetch that a commit has, in no folder of it."""
    kinds = ("*.safetensors", "*.json", *TOKENIZER_FILES)
    top = {entry.rfilename: entry for entry in info.siblings or [] if "/" not in entry.rfilename}
    chosen = files or [name for name in top if any(fnmatch(name, kind) for kind in kinds)]
    return {name: top[name].size or 0 for name in chosen if name in top}


def _fetch_one(repo: str, commit: str, endpoint: str | None, name: str, size: int) -> None:
    # Looked at anew before each file: others may have filled the disk meanwhile.
    disk.wait_for_room(size, f"{repo} at {commit}, {name}", budget=None)
    _file(repo, commit, name, endpoint)


def fetch_again(repo: str, commit: str, files: Sequence[str], *, endpoint: str | None = None) -> None:
    """Fetch files anew over what the cache has of them, since that turned out to be damaged."""
    for name in files:
        _file(repo, commit, name, endpoint, force=True)


def _repository(repo: str, ref: str, endpoint: str | None) -> "ModelInfo":
    from huggingface_hub import HfApi

    return HfApi(endpoint=endpoint).model_info(repo, revision=ref, files_metadata=True, timeout=30.0)


def _file(repo: str, commit: str, name: str, endpoint: str | None, force: bool = False) -> Path:
    from huggingface_hub import hf_hub_download

    def download() -> Path:
        return Path(hf_hub_download(repo, name, revision=commit, endpoint=endpoint, force_download=force))

    return ask(download, repo, commit, endpoint, WAITS[:1])


def _json(path: Path, place: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(
            f"hub repository {place}: {path.name} is not readable JSON ({error})"
        ) from error
    if not isinstance(content, dict):
        raise CheckpointError(f"hub repository {place}: {path.name} is not a JSON object")
    return content
