"""Asking the hub: again where that may help, and its refusals in our words, free of whatever gives access."""

import difflib
import errno
import logging
import os
import re
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from strataprobe.errors import CheckpointError

_BUSY = (408, 429, 500, 502, 503, 504)
_LONGEST_WAIT = 300.0
_NEAREST = 5
_URL = re.compile(r"(https?://)(?:[^\s/?#'\"]*@)?([^\s?'\"]*)(?:\?[^\s'\"]*)?")

T = TypeVar("T")


def ask(
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
