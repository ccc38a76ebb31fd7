"""A file fetched by its address, whole or not at all, and compared with its checksum.

Only Python's own library is used: the environments of the rules hold no other HTTP client. What gives
access (a login, the query of a signed address) never enters a message or a traceback.
"""

import re
import ssl
import string
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from email.message import Message
from http.client import HTTPException, HTTPResponse, responses
from os import PathLike
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from strataprobe.datasets.jsonl import shown
from strataprobe.errors import DatasetError, listing
from strataprobe.files import atomic, sha256_file

# The largest file that is taken, in bytes: a corpus of text, not an archive.
MOST = 200_000_000
# Seconds: without a byte from the server, and for the whole file, as a server may send a byte now and then.
SILENCE = 30.0
LONGEST = 1800.0
_BLOCK = 1 << 16
# Some libraries of texts turn the default name of Python's client away.
_HEADERS = {"User-Agent": "strataprobe"}


def fetch(
    address: str, path: str | PathLike[str], *, progress: Callable[[int, int], object] | None = None
) -> None:
    """Download a file over http or https; one try.

    Redirects are followed, to https too, but never from https to http or to anything else.

    Args:
        address: without a login in it.
        path: becomes the file, complete or not at all.
        progress: called with the number of bytes just received, and of all; 0 where the server does not say.

    Raises:
        DatasetError: the address cannot be used or redirects to one that cannot, the server refuses, is
            silent or breaks off, or the file is larger than `MOST`; names the address, without its query.
        StrataprobeError: the file cannot be written.
    """
    with atomic(path) as place:
        _download(address, place, progress)


def fetch_known(
    address: str,
    sha256: str | None,
    path: str | PathLike[str],
    *,
    field: str,
    progress: Callable[[int, int], object] | None = None,
) -> None:
    """`fetch`, then `check`: nothing is put at `path` unless its checksum is the stated one.

    Raises:
        DatasetError, StrataprobeError: as the two.
    """
    with atomic(path) as place:
        fetch(address, place, progress=progress)
        check(place, sha256, address, field=field)


def check(path: str | PathLike[str], sha256: str | None, address: str, *, field: str = "sha256") -> None:
    """Compare a fetched file with the checksum that the config states for it.

    Args:
        sha256: 64 hex digits; None where the config states none, which is refused as well: nothing is to be
            trained on that nobody has looked at.
        address: where the file comes from.
        field: where in the config the checksum belongs.

    Raises:
        DatasetError: it differs or is not stated; says what the file's is, its size, and its first and last
            line, so that a person can compare.
    """
    found = sha256_file(path)
    if sha256 is None:
        raise DatasetError(
            f"{plain(address)}: the config states no checksum, so the file is not kept. It holds "
            f"{_content(path)}. If that is the text that is meant, write into the config\n  {field}: {found}"
        )
    if found != sha256:
        raise DatasetError(
            f"{plain(address)}: sha256 is {found}, expected {sha256} ({field}); the file there was "
            f"changed or the wrong one is named. It holds {_content(path)}"
        )


def plain(address: str) -> str:
    """An address as a message can show it: without login and query, since either may give access."""
    bare = re.split(r"[?#]", address, maxsplit=1)[0]
    return ascii(re.sub(r"^([a-z]+:)?(//)?[^/]*@", r"\1\2", bare, flags=re.IGNORECASE))[1:-1]


def _download(address: str, place: Path, progress: Callable[[int, int], object] | None) -> None:
    faults = _faults(address)
    if faults:
        raise DatasetError(listing(f"address {plain(address)}", faults))
    with place.open("wb") as sink, closing(_blocks(address)) as blocks:
        for block, total in blocks:
            sink.write(block)
            if progress is not None:
                progress(len(block), total)


def _faults(address: str) -> list[str]:
    faults = []
    if not re.fullmatch(r"[!-~]*", address):
        faults.append("holds a blank or a character outside ASCII; percent-encode it (%20 is a blank)")
    try:
        parts = urlsplit(address)
        _ = parts.port  # looked at only when asked for
    except ValueError:
        return [*faults, "is not readable as an address (https://host/path)"]
    if parts.scheme not in ("http", "https"):
        faults.append(f"scheme {shown(parts.scheme)}: http or https would be right")
    elif not parts.hostname:
        faults.append("names no host (https://host/path)")
    if "@" in parts.netloc:
        faults.append("holds a login; only what can be fetched without one can be used")
    return faults


class _Redirects(HTTPRedirectHandler):
    """Follows a redirect only to an address that could have been given itself, and never out of https."""

    def __init__(self, address: str) -> None:
        self.address = address

    def http_error_302(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message
    ) -> HTTPResponse | None:
        if "location" not in headers:
            return None  # the parent would follow another header, unchecked
        location = quote(headers["location"], safe=string.punctuation, encoding="iso-8859-1")
        try:
            target = urljoin(req.full_url, location)
        except ValueError:  # as a fault it is named below
            target = location
        faults = _faults(target)
        if not faults and req.type == "https" and urlsplit(target).scheme == "http":
            faults = ["leaves https; give the address that it leads to, if that is meant"]
        if faults:
            fp.close()
            raise DatasetError(listing(f"{plain(self.address)}: redirects to {plain(target)}", faults))
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _blocks(address: str) -> Iterator[tuple[bytes, int]]:
    """The file's bytes as they come, each block with the size the server states (0: it states none)."""
    try:
        opener = build_opener(_Redirects(address))
        with opener.open(Request(address, headers=_HEADERS), timeout=SILENCE) as response:
            yield from _received(response, plain(address))
    except (OSError, HTTPException, ValueError) as error:
        # Not "from error": what the HTTP library says may hold the whole address, and the log shows it.
        raise DatasetError(f"{plain(address)}: {_why(error)}") from None


def _received(response: HTTPResponse, name: str) -> Iterator[tuple[bytes, int]]:
    total, received, began = response.length, 0, time.monotonic()
    if response.status != 200:
        raise DatasetError(f"{name}: the server answered {_status(response.status)}; 200 would be right")
    while received != total and max(total or 0, received) <= MOST and (block := response.read1(_BLOCK)):
        received += len(block)
        if time.monotonic() - began > LONGEST:
            raise DatasetError(f"{name}: not through after {LONGEST:g} s ({received:,} bytes had come)")
        yield block, total or 0
    if max(total or 0, received) > MOST:
        raise DatasetError(f"{name}: is larger than {MOST / 1e6:g} MB, too large for a text to train on")
    # The HTTP library passes over a body that ends early.
    if total is not None and received != total:
        raise DatasetError(f"{name}: {received:,} bytes came of {total:,} (Content-Length); it broke off")
    if not received:
        raise DatasetError(f"{name}: the server sent an empty file")


def _why(error: Exception) -> str:
    """What went wrong on the way, free of addresses."""
    if isinstance(error, HTTPError):
        error.close()
        lost = ", a redirect that leads nowhere or in circles" if 300 <= error.code < 400 else ""
        return f"the server answered {_status(error.code)}{lost}"
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"the server did not answer, or fell silent for {SILENCE:g} s"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted here ({cause.verify_message})"
    if isinstance(cause, OSError):
        return f"cannot be reached, or the connection broke ({cause.strerror or cause})"
    return f"the answer broke off or is not HTTP ({type(cause).__name__})"


def _status(code: int) -> str:
    return f"{code} ({responses[code]})" if code in responses else str(code)


def _content(path: str | PathLike[str]) -> str:
    """A file's size, and its first and last line with something in it."""
    content = Path(path).read_bytes()
    lines = [line for line in content.decode("utf-8-sig", "replace").splitlines() if line.strip()]
    span = f"from {shown(lines[0].strip())} to {shown(lines[-1].strip())}" if lines else "no line with text"
    return f"{len(content):,} bytes, {span}"
