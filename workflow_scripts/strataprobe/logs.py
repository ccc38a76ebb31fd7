"""What a job says: on stderr, and in its rule's own log."""

import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from strataprobe.errors import StrataprobeError

T = TypeVar("T")


@contextmanager
def job_log(path: str | os.PathLike[str]) -> Iterator[logging.Logger]:
    """Send everything the job prints to its terminal and to its log, a traceback included.

    Works on the file descriptor, so what libraries in C print is kept too. An error meant for the user
    (StrataprobeError) ends the job with its message alone; the traceback stands in the log.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as log, _tee(2, log):
        # Libraries say what is amiss, not each request they make; what we say ourselves is all kept.
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s", force=True)
        ours = logging.getLogger("strataprobe")
        ours.setLevel(logging.INFO)
        try:
            yield ours
        except StrataprobeError as error:
            log.write(traceback.format_exc().encode())
            print(f"\nerror: {error}", file=sys.stderr)
            sys.stderr.flush()
            raise SystemExit(1) from None
        except BaseException:
            log.write(traceback.format_exc().encode())
            raise


@contextmanager
def _tee(descriptor: int, log) -> Iterator[None]:
    """Copy what is written to `descriptor` into `log` as well, until the block ends."""
    sys.stderr.flush()
    terminal = os.dup(descriptor)
    reader, writer = os.pipe()
    os.dup2(writer, descriptor)
    os.close(writer)

    def copy() -> None:
        while block := os.read(reader, 1 << 16):
            os.write(terminal, block)
            log.write(block)
            log.flush()

    copier = threading.Thread(target=copy, daemon=True)
    copier.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, descriptor)  # closes the pipe's last writing end, so the copier ends
        copier.join()
        os.close(reader)
        os.close(terminal)


def progress(
    iterable: Iterable[T], *, total: int | None = None, desc: str = "", unit: str = "it"
) -> Iterable[T]:
    """Progress on stderr (tqdm), at a pace that keeps a log readable."""
    from tqdm import tqdm

    interactive = sys.stderr.isatty()
    return tqdm(
        iterable,
        total=total,
        desc=desc,
        unit=unit,
        mininterval=0.5 if interactive else 5.0,
        ascii=not interactive,
    )


@contextmanager
def counted(desc: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar for work that says, each time, how much is just done and how much there is of it."""
    with progress((), desc=desc, unit=unit) as bar:

        def shown(count: int, total: int) -> None:
            bar.total = total
            bar.update(count)

        yield shown
