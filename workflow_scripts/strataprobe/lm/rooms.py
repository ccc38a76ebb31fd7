"""Room for tensors that wait: in memory up to a budget, then in files that are mapped."""

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import torch
from torch import Tensor


class Rooms:
    """Hands out room for tensors on the CPU; what does not fit into memory goes when the block ends.

    Files lie where temporary files do (TMPDIR). The system writes out what is not in use of them, so they
    take memory only as long as there is some.
    """

    def __init__(self, budget: int) -> None:
        """`budget` is in bytes; 0 puts everything into files."""
        self.left, self._lock, self._count = budget, Lock(), 0
        self._folder: tempfile.TemporaryDirectory | None = None

    def __enter__(self) -> "Rooms":
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def room(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """A tensor of that shape to be filled, from any thread."""
        count = math.prod(shape)
        size = count * dtype.itemsize
        with self._lock:
            if size <= self.left:
                self.left -= size
                return torch.empty(tuple(shape), dtype=dtype)
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="strataprobe-")
            self._count += 1
            path = Path(self._folder.name) / str(self._count)
        return torch.from_file(str(path), shared=True, size=count, dtype=dtype).view(tuple(shape))
