"""A model larger than its memory: accelerate's offload, batch by batch, against capture block by block.

`python -m bench.offload JOB.json` runs one way as a process of its own.
"""

import json
import os
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from bench.forward import sorted_batches
from bench.outcome import Outcome, skipped
from bench.setup import Setup
from bench.whole import seconds_of
from strataprobe import lm
from strataprobe.capture import Settings, capture
from strataprobe.datasets.pairs import read_pairs

NAME = "offload"
QUESTION = (
    "Capture where a third of the weights may stay in memory, the rest on the disk: accelerate's offload, "
    "which loads them for every batch (the bare forward pass), against each block loaded once for all "
    "batches. The weights' file leaves the system's cache at each pass, as where memory is short."
)
REQUIRED = "the same numbers, in less time"
BATCH_TOKENS = 1024
ALLOWED = 1e-4
SHARE = 1 / 3
TEXTS, FEW = 240, 40  # how many are run, and how many are compared
WAYS = ("spread", "blockwise")


def measure(setup: Setup) -> Outcome:
    """One run of each way, in a process of its own."""
    if setup.missing:
        return skipped(NAME, QUESTION, REQUIRED, setup.missing)
    found, states = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for way in WAYS:
            out = Path(folder) / way
            seconds_of("offload", replace(setup, stages={**setup.stages, NAME: {"way": way}}), [], out)
            found[way] = json.loads((out / "found.json").read_text(encoding="utf-8"))
            states[way] = np.load(out / "states.npy")
    ratio = found["spread"]["seconds"] / found["blockwise"]["seconds"]
    largest = np.abs(states["spread"]).max()
    difference = float(np.abs(states["spread"] - states["blockwise"]).max() / largest)
    numbers = {
        name: f"{found[way]['seconds']:.1f} s, {found[way]['peak'] / 2**20:.0f} MiB at the peak"
        for way, name in (("spread", "accelerate's offload"), ("blockwise", "block by block"))
    }
    numbers["times as fast"] = f"{ratio:.1f}"
    numbers["largest difference"] = f"{difference:.1g} of the largest state"
    return Outcome(NAME, QUESTION, REQUIRED, ratio > 1 and difference <= ALLOWED, numbers)


def run(job: dict) -> None:
    """Load the model one way, run the texts through it, write time, memory at the peak, and some states."""
    way, checkpoint = job["stages"][NAME]["way"], Path(job["checkpoint"])
    settings = Settings(**{**job["stages"]["capture"], "batch_tokens": BATCH_TOKENS})
    items = read_pairs(job["dataset"], "pairs").items()
    texts, ids = items.texts[:TEXTS], items.ids[:TEXTS]
    weights = sorted(checkpoint.glob("*.safetensors"))
    limit = int(sum(path.stat().st_size for path in weights) * SHARE) >> 20
    placement = lm.Placement(way, cpu_mb=limit) if way == "spread" else lm.Placement(way)
    before = anonymous_bytes()
    loaded = lm.load(checkpoint, dtype=settings.dtype, device=settings.device, placement=placement)
    hook = loaded.blocks[0].register_forward_pre_hook(lambda *_: drop(weights))
    with Peak() as peak, lm.attached([hook]):
        start = time.perf_counter()
        if way == "blockwise":
            windows = list(capture(loaded, texts, ids=ids, settings=settings))
        else:
            torch.set_num_threads(settings.threads)
            with torch.inference_mode():
                for batch in sorted_batches(loaded, texts, settings.batch_tokens):
                    loaded.run_decoder(batch)
        seconds = time.perf_counter() - start
    if way == "spread":  # the numbers of a few texts, out of the clock
        windows = list(capture(loaded, texts[:FEW], ids=ids[:FEW], settings=settings))
    states = np.stack([layer[:FEW] for layer in windows[0].layers.values()])
    out = Path(job["out"])
    np.save(out / "states.npy", states)
    found = {"seconds": seconds, "peak": peak.most - before}
    (out / "found.json").write_text(json.dumps(found), encoding="utf-8")


def drop(paths: list[Path]) -> None:
    """Take files out of the system's cache, but for pages that are mapped."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


class Peak:
    """The most memory of its own that this process has had, looked at a hundred times a second."""

    most = 0

    def __enter__(self) -> "Peak":
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.01):
            self.most = max(self.most, anonymous_bytes())


def anonymous_bytes() -> int:
    """Resident memory that is no page of a file, which the system could drop; 0 where Linux is not there."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))


if __name__ == "__main__":
    run(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
