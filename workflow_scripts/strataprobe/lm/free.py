"""How much memory there is for this process, on a device or beside it."""

from pathlib import Path

import psutil
import torch

# Where a limit, what counts against it, and the file pages among that stand, by version of control groups.
_VERSIONS = {
    2: ("memory.max", "memory.current", ("inactive_file", "active_file")),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")),
}


def free_memory(device: str | int) -> int:
    """Bytes that can still be had: of a GPU (by number, or "cuda" for the first), else of the CPU's memory.

    Of a GPU what no process has, and what this one holds without using it; of the CPU the least of what the
    system has available and what is left under each limit that a scheduler or a container sets.
    """
    if device == "cuda" or isinstance(device, int):
        number = 0 if device == "cuda" else device
        unused = torch.cuda.memory_reserved(number) - torch.cuda.memory_allocated(number)
        return torch.cuda.mem_get_info(number)[0] + unused
    left = group_memory()
    return min([psutil.virtual_memory().available] + ([] if left is None else [left]))


def group_memory(root: Path = Path("/")) -> int | None:
    """Bytes left under the limits of this process's control groups (either version); None without a limit.

    Pages of files do not count as used, since the system drops them where memory is short.

    Args:
        root: of the file system, for tests.
    """
    left = []
    for folder, version in _group_folders(root):
        limit_name, used_name, file_pages = _VERSIONS[version]
        try:
            limit = (folder / limit_name).read_text().strip()
            used = int((folder / used_name).read_text())
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):
            continue
        if limit != "max":
            left.append(int(limit) - used + sum(int(stat.get(name, 0)) for name in file_pages))
    return max(0, min(left)) if left else None


def _group_folders(root: Path) -> list[tuple[Path, int]]:
    """This process's group and those above it: a limit holds for all below."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        mount = root / "sys/fs/cgroup"
        version = 1 if "memory" in controllers.split(",") else 2
        if controllers and version == 2:
            continue
        mount = mount / "memory" if version == 1 else mount
        own = mount / path.lstrip("/")
        above = [folder for folder in own.parents if folder.is_relative_to(mount)]
        found += [(folder, version) for folder in (own, *above)]
    return found
