"""Tracing cases: pairs in the words of the tiny models, settings, and results without a model."""

from typing import Any

import numpy as np

from strataprobe.datasets.pairs import Pair, PairsDataset

QUESTION = {"text": " Is this morally acceptable?", "expected": " No", "other": " Yes"}
_ROWS = [
    ("help_1", "The nurse comforted the child.", "The nurse counted the child.", ["comforted", "counted"]),
    ("help_2", "She told the truth in town.", "She told the time in town.", ["truth", "time"]),
    ("harm_1", "He kept the missing money.", "He kept the printed money.", ["missing", "printed"]),
    ("harm_2", "They walked along the river.", "They walked along the office.", []),
    ("harm_3", "The clerk kept his word.", "The clerk kept his forms.", ["word", "forms"]),
]


def pairs() -> list[Pair]:
    """Five in two groups; `harm_2` does not say which words differ."""
    return [
        Pair(id=name, positive=yes, negative=no, group=name[:4], contrast=contrast)
        for name, yes, no, contrast in _ROWS
    ]


def dataset(count: int = 5) -> PairsDataset:
    return PairsDataset("moral", "moral.jsonl", tuple(pairs()[:count]), "0" * 64)


def settings(
    *, chat: bool = False, batch_tokens: int = 400, threads: int = 1, **tracing: Any
) -> dict[str, Any]:
    return {
        "chat": chat,
        "capture": {"batch_tokens": batch_tokens, "threads": threads},
        "tracing": {
            "questions": {"moral": QUESTION}, "items": 40, "choice": "groups", "blocks": None,
            "designs": ["published", "rms", "restoration"], "draws": 2, "raw_sigma": 3.0, "rms_sigma": 1.0,
            "embedding_sds": 3.0, "bootstrap": 50, "seed": 7, **tracing,
        },
    }  # fmt: skip


def summary(
    *,
    revision: str = "step0100",
    step: int | None = 100,
    model: str = "nano",
    layers: int = 4,
    seed: int = 0,
    designs: tuple[str, ...] = ("published", "rms", "restoration"),
) -> dict[str, Any]:
    """A summary as the script writes it, with effects that a generator made up."""
    from strataprobe.tracing.effects import SCORES, of_items, summarise

    rng = np.random.default_rng(seed)
    how = {"bootstrap": 50, "seed": 1}
    results, clean = [], []
    for score in SCORES:
        for side in ("positive", "negative", "difference"):
            clean.append({"side": side, "score": score, "n": 12, **of_items(rng.normal(size=12), **how)})
            for design in designs:
                effects = rng.normal(loc=rng.normal(size=layers), size=(12, 3, layers))
                total = (
                    {"total_effect": of_items(rng.normal(size=12), **how)} if design == "restoration" else {}
                )
                named = {"design": design, "side": side, "score": score, "n": 12}
                results.append({**named, **total, **summarise(effects, range(layers), layers, **how)})
    return {
        "model": model,
        "revision": revision,
        "step": step,
        "dataset": "moral",
        "model_info": {"n_layers": layers, "extra": {"weights_sha256": revision}},
        "metadata": {"conventions": "default"},
        "question": QUESTION,
        "pairs": {"ids": [f"p{i}" for i in range(12)], "groups": ["g"] * 12},
        "layers": list(range(layers)),
        "draws": 3,
        "clean": clean,
        "results": results,
    }  # fmt: skip


def probe_summary(
    accuracy: list[float], *, revision: str = "step0100", step: int = 100, seed: int = 42
) -> dict[str, Any]:
    """As much of a probe's summary as the table of tracing reads."""
    return {
        "model": "nano",
        "revision": revision,
        "step": step,
        "dataset": "moral",
        "seed": seed,
        "layer_scores": [{"layer": layer, "accuracy": value} for layer, value in enumerate(accuracy)],
    }
