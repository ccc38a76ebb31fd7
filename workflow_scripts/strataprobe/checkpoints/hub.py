"""Checkpoints from a model hub: a name is pinned to a commit once, and opened by that commit ever after.

Only safetensors, JSON and tokenizer files are fetched; no code of a repository is ever run. The hub's
client honours HF_ENDPOINT, HF_HOME and the user's own login; a token never enters a message, nor does
what else gives access: the query of a signed URL, or a login in front of a host.
"""

import difflib
import errno
import glob
import json
import logging
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

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
_BUSY = (408, 429, 500, 502, 503, 504)
_LONGEST_WAIT = 300.0
_NEAREST = 5
_URL = re.compile(r"(https?://)(?:[^\s/?#'\"]*@)?([^\s?'\"]*)(?:\?[^\s'\"]*)?")

T = TypeVar("T")


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

    return _ask(listed, repo, None, endpoint, WAITS)


def describe(repo: str, ref: str, *, endpoint: str | None = None) -> "ModelInfo":
    """What the hub says of a branch, tag or commit: its commit, and its files with size and checksum.

    Raises:
        CheckpointError: as `pin`.
    """
    return _ask(lambda: _repository(repo, ref, endpoint), repo, ref, endpoint, WAITS)


def fetch(repo: str, commit: str, *, files: Sequence[str] | None = None, endpoint: str | None = None) -> Path:
    """The folder in the hub's cache that holds a commit's files, fetching what is not there yet.

    Args:
        repo: "owner/name".
        commit: the full commit sha; a name that can move is refused.
        files: exactly these, and where all are there already the hub is not asked for anything; by
            default all top-level safetensors, JSON and tokenizer files.
        endpoint: the hub to ask instead of the configured one.

    Raises:
        CheckpointError: it cannot be had; says why and what to do.
    """
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise CheckpointError(f"{repo}: {commit!r} is not a commit sha (40 hex digits); pin the ref first")
    from huggingface_hub import snapshot_download, try_to_load_from_cache

    chosen = [glob.escape(name) for name in files] if files else ["*.safetensors", "*.json", *TOKENIZER_FILES]

    def download() -> Path:
        cached = [try_to_load_from_cache(repo, name, revision=commit) for name in files or ()]
        if cached and all(isinstance(path, str) for path in cached):
            return Path(cached[0]).parent
        return Path(
            snapshot_download(
                repo, revision=commit, allow_patterns=chosen, ignore_patterns=["*/*"], endpoint=endpoint
            )
        )

    return _ask(download, repo, commit, endpoint, WAITS[:1])


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

    return _ask(download, repo, commit, endpoint, WAITS[:1])


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


def _ask(
    question: Callable[[], T], repo: str, ref: str | None, endpoint: str | None, waits: Sequence[float]
) -> T:
    """Ask the hub, again after a while when it is busy, and turn its refusals into our words."""
    _keep_urls_out_of_the_log()
    for wait in (*waits, None):
        try:
            return question()
        except Exception as error:
            if isinstance(error, CheckpointError):
                raise
            _keep_urls_out_of_the_traceback(error)
            if wait is not None and _passing(error):
                time.sleep(max(wait, _asked_to_wait(error)))
                continue
            raise CheckpointError(_refusal(error, repo, ref, endpoint)) from error
    raise AssertionError("unreachable: the last try returns or raises")


def _keep_urls_out_of_the_log() -> None:
    """Silence what the client and its HTTP library say of requests, unless the user set how much it says."""
    for library in ("httpx", "httpx2"):
        logging.getLogger(library).setLevel(logging.WARNING)
    if not {"HF_HUB_VERBOSITY", "HF_DEBUG"} & os.environ.keys():
        from huggingface_hub.utils.logging import set_verbosity_error

        set_verbosity_error()


def _keep_urls_out_of_the_traceback(error: BaseException) -> None:
    """Cut the URLs in the messages of an error, and of all it came from, down to host and path."""
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        current = waiting.pop()
        if current is not None and current not in seen:
            seen.append(current)
            waiting += [current.__cause__, current.__context__]
            current.args = tuple(
                _URL.sub(r"\1\2", part) if isinstance(part, str) else part for part in current.args
            )


def _status(error: BaseException) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def _causes(error: BaseException) -> list[BaseException]:
    """The error and what it was raised from: the client wraps a lost connection in "not in the cache"."""
    chain = [error]
    while (inner := chain[-1].__cause__) is not None and inner not in chain:
        chain.append(inner)
    return chain


def _passing(error: Exception) -> bool:
    """Whether asking again may help: the hub is busy, or a connection broke after it was made."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    causes = _causes(error)
    if any(isinstance(cause, OfflineModeIsEnabled) for cause in causes):
        return False
    return any(_status(cause) in _BUSY or _is_connection(cause) for cause in causes)


def _is_connection(error: BaseException) -> bool:
    # The client's HTTP library changed its name between versions, its error classes did not.
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"TransportError", "ConnectionError", "Timeout"})


def _asked_to_wait(error: Exception) -> float:
    """Seconds the hub asked for with `Retry-After`, within reason; 0 where it did not."""
    for cause in _causes(error):
        value = getattr(getattr(cause, "response", None), "headers", {}).get("Retry-After", "")
        if value.isdigit():
            return min(float(value), _LONGEST_WAIT)
    return 0.0


def _refusal(error: Exception, repo: str, ref: str | None, endpoint: str | None) -> str:
    """Why the hub did not give it and what to do, free of headers and hence of tokens."""
    from huggingface_hub import errors

    place = f"hub repository {repo}" if ref is None else f"hub repository {repo} at {ref!r}"
    causes = _causes(error)
    if ref is not None and any(isinstance(cause, errors.RevisionNotFoundError) for cause in causes):
        return f"{place}: there is no such branch, tag or commit. {_nearest(repo, ref, endpoint)}"
    status = next((code for cause in causes if (code := _status(cause)) is not None), None)
    known = _known_reason(causes, status)
    if known is not None:
        return f"{place}: {known}"
    if status is not None:
        again = ", however often it was asked" if status in _BUSY else ""
        return f"{place}: the hub answered {status}{again}"
    reason = (str(error).splitlines() or ["no reason given"])[0]
    return f"{place}: {type(error).__name__}: {reason}"


def _known_reason(causes: Sequence[BaseException], status: int | None) -> str | None:
    """What is the matter and what to do about it, or None for an error we have no advice on."""
    from huggingface_hub import errors

    def is_a(kind: type[BaseException]) -> bool:
        return any(isinstance(cause, kind) for cause in causes)

    if is_a(errors.GatedRepoError):
        return (
            "access is gated. Accept its terms on its page on the hub, then log in with "
            "`hf auth login` or set HF_TOKEN to a token of that account"
        )
    if is_a(errors.RepositoryNotFoundError) or status == 401:
        return (
            "no such repository, or it is private. Check the name (owner/name); for a private "
            "one log in with `hf auth login` or set HF_TOKEN"
        )
    if status == 403:
        return "access refused (403). The token in use may not read this repository"
    if is_a(errors.EntryNotFoundError) and status == 404:
        return "a file it lists is not served (404); the repository is damaged or being changed"
    if is_a(errors.HFValidationError):
        return "not a repository name the hub can have ('owner/name')"
    if any(getattr(cause, "errno", None) == errno.ENOSPC for cause in causes):
        return "the disk that holds the hub's cache is full (HF_HOME says where the cache lies)"
    if is_a(errors.OfflineModeIsEnabled):
        return "not in the hub's cache, and HF_HUB_OFFLINE is set. Unset it once to fetch it"
    if status is None and any(_is_connection(cause) for cause in causes):
        kind = type(causes[-1]).__name__
        return f"the hub cannot be reached ({kind}). Check the network and HF_ENDPOINT"
    return None


def _nearest(repo: str, ref: str, endpoint: str | None) -> str:
    """The existing refs most like the one asked for, as a sentence."""
    from huggingface_hub import HfApi

    try:
        refs = HfApi(endpoint=endpoint).list_repo_refs(repo)
    except Exception:
        return "Its refs could not be listed"
    names = sorted({entry.name for entry in [*refs.branches, *refs.tags]})
    nearest = difflib.get_close_matches(ref, names, n=_NEAREST, cutoff=0.5)
    if nearest:
        return f"Nearest of its {len(names)} refs: {', '.join(nearest)}"
    return f"It has {len(names)} refs, among them: {', '.join(names[:_NEAREST])}"
