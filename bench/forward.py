"""Capture against the bare forward pass of the same decoder over the same sorted batches."""

from concurrent.futures import ThreadPoolExecutor

import torch

from bench.outcome import Outcome, best_of, skipped
from bench.setup import Setup
from strataprobe import lm
from strataprobe.capture import Settings, capture
from strataprobe.datasets.pairs import read_pairs

NAME = "capture"
QUESTION = "What pooling, checks and copying cost beside the forward pass itself (fp32, same sorted batches)."
REQUIRED = "at least 85 % of the bare forward pass's speed"
LEAST = 0.85


def measure(setup: Setup, repeats: int = 4) -> Outcome:
    """Alternate capture and bare passes; both tokenise, sort and run the same batches."""
    if setup.missing:
        return skipped(NAME, QUESTION, REQUIRED, setup.missing)
    settings = Settings(**setup.stages["capture"])
    loaded = lm.load(setup.checkpoint, dtype=settings.dtype, device=settings.device)
    items = read_pairs(setup.dataset, "moral").items()

    def captured() -> None:
        for _ in capture(loaded, items.texts, ids=items.ids, settings=settings):
            pass

    def run(batch: dict[str, torch.Tensor]) -> None:
        with torch.inference_mode():
            loaded.run_decoder(batch)

    def bare() -> None:
        batches = sorted_batches(loaded, items.texts, settings.batch_tokens)
        with ThreadPoolExecutor(
            settings.threads, initializer=torch.set_num_threads, initargs=(1,)
        ) as threads:
            list(threads.map(run, batches))

    captured(), bare()
    seconds = best_of(repeats, {"capture": captured, "bare forward pass": bare})
    share = seconds["bare forward pass"] / seconds["capture"]
    numbers = {name: f"{value:.2f} s" for name, value in seconds.items()}
    numbers["capture's speed"] = f"{share:.1%} of the bare pass"
    return Outcome(NAME, QUESTION, REQUIRED, share >= LEAST, numbers)


def sorted_batches(loaded: lm.LoadedLM, texts: list[str], budget: int) -> list[dict[str, torch.Tensor]]:
    """The batches capture forms in one window: rows of texts that begin alike, longest first."""
    tokens = loaded.encode(texts)
    planned = lm.Batches(loaded, tokens, texts, budget, workers=1).plan(
        lm.plan_rows(tokens, range(len(tokens)), loaded.sharing_limit)
    )
    return [lm.batch_rows(loaded, tokens, rows)[0] for rows in planned]
