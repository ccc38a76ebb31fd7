"""The disk that the hub's cache lies on: whether a revision has room, before it is fetched and meanwhile."""

import shutil
import time
from pathlib import Path

from strataprobe.checkpoints import fetched
from strataprobe.errors import CheckpointError

# Another job may be about to drop a revision, so a full disk is looked at again for a while.
PATIENCE_S = 60.0
POLL_S = 1.0
# Results are written meanwhile, often to the same disk.
SPARE_BYTES = 500_000_000


def wait_for_room(needed: int, what: str, *, budget: float | None) -> None:
    """Return once there is room for `needed` bytes more in the hub's cache.

    Args:
        needed: bytes; with none there is room always.
        what: whose they are, for the message.
        budget: the most (gigabytes, 10^9 bytes) that weights fetched by this workflow may take; None asks
            the disk alone.

    Raises:
        CheckpointError: there is none after a minute; says how much there is, and what to do.
    """
    deadline = time.monotonic() + PATIENCE_S
    while needed and (lack := _lack(needed, budget)):
        if time.monotonic() >= deadline:
            raise CheckpointError(f"hub repository {what}: no room for {size(needed)}: {lack}")
        time.sleep(POLL_S)


def _lack(needed: int, budget: float | None) -> str | None:
    """What stands in the way of fetching so many bytes, and what to do; None where nothing does."""
    place, available = cache(), free()
    if needed > available - SPARE_BYTES:
        return (
            f"{size(available)} are free in {place}, of which {size(SPARE_BYTES)} are kept for results. Make "
            "room there, let fewer be fetched at once (--resources downloads=1), or move the cache (HF_HOME)"
        )
    held = 0 if budget is None else fetched.held()
    if budget is not None and held + needed > budget * 1e9:
        return (
            f"fetched weights take {size(held)} in {place}, and downloads.disk_gigabytes allows {budget:g}. "
            "Raise it, or let fewer be fetched at once (--resources downloads=1)"
        )
    return None


def cache() -> Path:
    """Where the hub's cache lies, or will lie."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE).absolute()


def free() -> int:
    """Bytes free on the disk of the hub's cache, which need not be there yet."""
    place = cache()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def size(count: int) -> str:
    """Bytes in the largest decimal unit of which there is at least one: 5.9 GB."""
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"
