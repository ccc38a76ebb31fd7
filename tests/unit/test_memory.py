"""Freed memory stays with the process: measured by the system's own count of page faults."""

import subprocess
import sys
from pathlib import Path

import pytest

FAULTS = """
import resource, sys
import runpy
# By its path: importing the package would import torch.
memory = runpy.run_path("workflow_scripts/strataprobe/lm/memory.py")
if sys.argv[1] == "keep" and not memory["keep_freed_memory"]():
    print("impossible"); sys.exit()
import numpy as np
np.ones(5_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    np.ones(5_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(mode: str) -> str:
    """Page faults of five temporaries of 40 MB, after a first one."""
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", FAULTS, mode]
    environment = {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment, cwd=root
    ).stdout.strip()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_large_temporaries_are_not_paged_in_anew():
    kept = faults("keep")
    if kept == "impossible":
        pytest.skip("not glibc")
    # Huge pages would make both counts small; then there is nothing to save.
    plain = int(faults("plain"))
    assert int(kept) <= plain / 5 or plain < 1000


def test_without_glibc_it_says_so_and_goes_on(monkeypatch):
    from strataprobe.lm import memory

    monkeypatch.setattr(sys, "platform", "darwin")
    assert memory.keep_freed_memory() is False
