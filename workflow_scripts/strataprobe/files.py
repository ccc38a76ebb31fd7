"""Files that are complete or absent, and their checksums."""

import csv
import glob
import hashlib
import itertools
import json
import os
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from strataprobe.errors import StrataprobeError

_BLOCK = 1 << 20
_COUNTER = itertools.count()


@contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary place beside `path`, renamed onto it only when the block ends well.

    The block may write a file or make a directory there. After an exception nothing is left behind, and
    whatever stood at `path` before still stands. What a killed process left of an earlier try is removed.

    Raises:
        StrataprobeError: the folder cannot be written, or the disk is full; names the path.
    """
    target = Path(path)
    place: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        # The suffix stays the target's own, since some writers (matplotlib, numpy) go by it.
        unique = f"{_host()}-{os.getpid()}-{next(_COUNTER)}"
        place = target.parent / f".{target.stem}.{unique}{target.suffix}"
        yield place
        if place.is_file():
            _flush(place)
        _replace(place, target)
    except OSError as error:
        if error.filename is not None and not Path(error.filename).is_relative_to(target.parent):
            raise  # not about this file: something else that the block read or wrote
        raise StrataprobeError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        if place is not None and place.exists():
            shutil.rmtree(place) if place.is_dir() else place.unlink()


def _replace(place: Path, target: Path) -> None:
    """Rename `place` onto `target`; an old directory there is moved aside first, and back if that fails."""
    if not target.is_dir():
        os.replace(place, target)
        return
    aside = place.with_name(f"{place.stem}-old{place.suffix}")
    os.replace(target, aside)
    try:
        os.replace(place, target)
    except OSError:
        os.replace(aside, target)
        raise
    shutil.rmtree(aside)


def _sweep(target: Path) -> None:
    """Remove temporary places of `target` whose process, on this machine, is no longer there."""
    for left in target.parent.glob(f".{glob.escape(target.stem)}.{_host()}-*{glob.escape(target.suffix)}"):
        process = left.name.removeprefix(f".{target.stem}.{_host()}-").split("-")[0]
        if process.isdigit() and not _alive(int(process)):
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _host() -> str:
    """A short name of this machine, without dots or dashes: process numbers mean something only on it."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _flush(path: Path) -> None:
    """Force the data to the disk, so that a full disk is an error here and not a hole later."""
    with path.open("rb") as handle:
        os.fsync(handle.fileno())


def canonical_json(obj: Any) -> str:
    """JSON text with sorted keys; equal objects give equal bytes.

    Raises:
        ValueError: the object holds NaN or an infinity, which JSON has no word for.
    """
    return json.dumps(obj, sort_keys=True, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def write_json(path: str | os.PathLike[str], obj: Any) -> None:
    """Write `obj` as canonical JSON, atomically."""
    text = canonical_json(obj)
    with atomic(path) as place:
        place.write_text(text, encoding="utf-8")


def write_rows(
    path: str | os.PathLike[str], columns: Sequence[str], rows: Iterable[Mapping[str, Any]]
) -> None:
    """Write rows as csv, numbers in full (tables for people are `tabular`'s), atomically."""
    with atomic(path) as place, place.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file.

    Raises:
        StrataprobeError: the file is not there or is not JSON; names the file and the place in it.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise StrataprobeError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise StrataprobeError(f"{path} is not readable JSON: {error}") from error


def sha256_file(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's bytes, as 64 hex digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        while block := handle.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def sha256_text(text: str) -> str:
    """SHA-256 of a text's UTF-8 bytes, as 64 hex digits."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def sha256_json(obj: Any) -> str:
    """SHA-256 of an object's canonical JSON: the key under which equal settings meet."""
    return sha256_text(canonical_json(obj))
