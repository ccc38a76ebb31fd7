"""How well a checkpoint predicts a fixed text, with and without a BOS."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from strataprobe.errors import ModelError
from strataprobe.lm import Batches, LoadedLM, Row
from strataprobe.lm.loaded import run_module

LONGEST = 512
"""Tokens that are put to a model at a time, at most: a longer passage is cut."""


@dataclass(frozen=True)
class Window:
    """What is put to the model at a time. Its first token is context alone, whatever stands before it.

    Attributes:
        passage: which of the text's passages it is cut from.
        tokens: without a BOS; at least two.
        bytes: of the text that all tokens but the first stand for (UTF-8).
    """

    passage: int
    tokens: list[int]
    bytes: int


def passages(text: str) -> list[str]:
    """The passages of a text: parted by empty lines, each put to a model by itself."""
    return [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]


def measure(lm: LoadedLM, text: str, *, threads: int = 1) -> dict[str, Any]:
    """Mean negative log-likelihood of a text, as the tokenizer begins it and the other way.

    The tokens counted are the same either way: all but the first of each window, which nothing predicts
    where there is no BOS. Each window runs by itself, so no batch moves a bit.

    Args:
        lm: the model.
        text: passages parted by empty lines.
        threads: windows at a time on a CPU, each by one thread; moves no bit.

    Returns:
        `status`: "measured", or "not_finite" where a log-probability is NaN or infinite. `nll` (nats a
        token), `perplexity`, `bits_per_byte`: None where not finite. `other_bos`: the same three with a BOS
        where the tokenizer puts none and without where it puts one; None where there is no BOS. `adds_bos`,
        `bos` (whether there is one), `vocabulary` (rows of the output map), `tokens`, `bytes`, and for each
        passage its `tokens` and `nll`.

    Raises:
        ModelError: the tokenizer cannot read a passage, or no passage has two tokens.
    """
    windows = cut(lm, passages(text))
    bos = lm.tokenizer.bos_token_id
    bos = bos if bos is not None and bos < lm.vocab_size else None
    own = _sums(lm, windows, bos if lm.adds_bos else None, threads)
    other = None if bos is None else _sums(lm, windows, None if lm.adds_bos else bos, threads)
    said = _summary(windows, own)
    return {
        "status": "not_finite" if said["nll"] is None else "measured",
        **said,
        "adds_bos": lm.adds_bos,
        "bos": bos is not None,
        "other_bos": None if other is None else _summary(windows, other),
        "tokens": sum(_counted(windows)),
        "bytes": sum(window.bytes for window in windows),
        "vocabulary": lm.vocab_size,
        "passages": _by_passage(windows, own),
    }


def cut(lm: LoadedLM, texts: Sequence[str]) -> list[Window]:
    """Windows of each passage: all of it where that fits, else one after the other.

    Raises:
        ModelError: as `LoadedLM.encode_with_offsets`; or there is nothing to predict.
    """
    names = [f"passage {number}" for number in range(1, len(texts) + 1)]
    tokens, offsets = replace(lm, max_tokens=None).encode_with_offsets(texts, names)
    # Either way of beginning must fit.
    longest = min(LONGEST, (lm.max_tokens or LONGEST + 1) - 1)
    found = []
    for passage, (text, ids, spans) in enumerate(zip(texts, tokens, offsets, strict=True)):
        start = int(lm.adds_bos)
        for first in range(start, len(ids), longest):
            part, ends = ids[first : first + longest], [end for _, end in spans[first : first + longest]]
            if len(part) > 1:
                found.append(Window(passage, part, len(text[ends[0] : max(ends)].encode())))
    if not found:
        raise ModelError(f"text for {lm.name}: no passage has two tokens; there is nothing to predict")
    return found


def _sums(lm: LoadedLM, windows: Sequence[Window], bos: int | None, threads: int) -> np.ndarray:
    """(windows,) float64 nats: minus the log-probabilities of all tokens but each window's first, summed."""
    before = [] if bos is None else [bos]
    tokens = [[*before, *window.tokens] for window in windows]
    ids = [f"passage {window.passage + 1}" for window in windows]

    def forward(rows: list[Row]) -> float:
        (number,) = rows[0].members
        with torch.inference_mode():
            logits = run_module(lm.model, lm.batch([tokens[number]])).logits[0, len(before) : -1]
            chosen = torch.tensor(windows[number].tokens[1:])
            # In float64 on the CPU: not every device has it. A part at a time, as vocabularies are large.
            parts = zip(logits.split(64), chosen.split(64), strict=True)
            return -sum(_log_probabilities(*part) for part in parts)

    # A budget of one token: every window is a batch by itself.
    batches = Batches(lm, tokens, ids, 1, threads)
    sums = np.empty(len(windows))
    for rows, found in batches.run([Row((n,), 0, len(own)) for n, own in enumerate(tokens)], forward):
        sums[rows[0].members[0]] = found
    return sums


def _log_probabilities(logits: torch.Tensor, chosen: torch.Tensor) -> float:
    """Sum of the log-probabilities of chosen tokens, (n,), under logits (n, vocabulary)."""
    wide = logits.float().cpu().double()
    return float(wide.log_softmax(dim=-1).gather(1, chosen[:, None]).sum())


def _counted(windows: Sequence[Window]) -> list[int]:
    return [len(window.tokens) - 1 for window in windows]


def _summary(windows: Sequence[Window], sums: np.ndarray) -> dict[str, float | None]:
    """Nats a token, its exponential, bits a byte; None what is not finite."""
    nats = math.fsum(sums) if np.isfinite(sums).all() else math.nan
    nll = nats / sum(_counted(windows))
    with np.errstate(over="ignore"):
        perplexity = float(np.exp(nll))
    size = sum(window.bytes for window in windows)
    bits = nats / math.log(2) / size if size else math.nan
    found = {"nll": nll, "perplexity": perplexity, "bits_per_byte": bits}
    return {name: value if math.isfinite(value) else None for name, value in found.items()}


def _by_passage(windows: Sequence[Window], sums: np.ndarray) -> list[dict[str, Any]]:
    found = []
    for passage in sorted({window.passage for window in windows}):
        own = [place for place, window in enumerate(windows) if window.passage == passage]
        shown = [windows[place] for place in own]
        found.append({"tokens": sum(_counted(shown)), "nll": _summary(shown, sums[own])["nll"]})
    return found
