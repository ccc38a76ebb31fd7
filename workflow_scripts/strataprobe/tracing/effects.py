"""Effects of blocks on an answer: means over items and draws, the peak, and how sure it is.

Source: fragility paper, appendix B (mean indirect effect by layer, its peak); docs/methods.md.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from strataprobe.statistics import cluster_counts, percentile_interval
from strataprobe.tracing.designs import RESTORATION, Traced

SCORES = ("expected", "contrast")
"""log P(expected answer), as published; and its difference to log P(other answer)."""


def scored(answers: np.ndarray, score: str) -> np.ndarray:
    """(...,) nats, of (..., 2) log-probabilities of the expected answer and the other."""
    return answers[..., 0] if score == "expected" else answers[..., 0] - answers[..., 1]


def block_effects(traced: Sequence[Traced], design: str, score: str) -> np.ndarray:
    """Indirect effect of each block on a score, in nats.

    With noise at the block it is clean less noised: what the answer loses. With restoration it is restored
    less corrupted: what the block's clean states bring back.

    Returns:
        (items, draws, layers).
    """
    blocks = np.stack([scored(one.blocks[design], score) for one in traced])
    if design == RESTORATION:
        return blocks - np.stack([scored(one.corrupted, score) for one in traced])[..., None]
    return np.stack([scored(one.clean, score) for one in traced])[:, None, None] - blocks


def total_effects(traced: Sequence[Traced], score: str) -> np.ndarray:
    """(items, draws) nats: clean less corrupted, what restoration can bring back at most."""
    corrupted = np.stack([scored(one.corrupted, score) for one in traced])
    return np.stack([scored(one.clean, score) for one in traced])[:, None] - corrupted


def summarise(
    effects: np.ndarray, layers: Sequence[int], n_layers: int, *, bootstrap: int, seed: int
) -> dict[str, Any]:
    """Mean effect of each block, its mean over blocks, and the block where it is largest.

    Intervals (95 %) are a bootstrap over items, draws averaged within each. Draws show themselves too: the
    spread of an effect over draws, each averaged over items, and the peak that each draw alone would give,
    which is what a single unseeded draw, as published, rests on.

    Args:
        effects: (items, draws, layers) in nats.
        layers: which blocks these are.
        n_layers: blocks of the model.

    Returns:
        `layer_scores`: a dict a block (`mean_indirect_effect`, `interval`, `draw_sd` with ddof 1, None for
        one draw); `mean_effect`; `peak_layer`: the first of the largest, with the interval of the bootstrap's
        peaks; `peak_effect`; `draw_peaks` and `draw_agreement`, the share of draws with the same peak.
    """
    by_item = effects.mean(axis=1)
    by_draw = effects.mean(axis=0)
    mean = by_item.mean(axis=0)
    replicates = resampled(by_item, bootstrap=bootstrap, seed=seed)
    spread = by_draw.std(axis=0, ddof=1) if len(by_draw) > 1 else None
    peaks = np.asarray(layers)[replicates.argmax(axis=1)]
    best = int(mean.argmax())
    draw_peaks = [int(layers[place]) for place in by_draw.argmax(axis=1)]
    return {
        "layer_scores": [
            {
                "layer": int(layer),
                "depth": layer / n_layers,
                "mean_indirect_effect": float(mean[place]),
                "interval": percentile_interval(replicates[:, place]),
                "draw_sd": None if spread is None else float(spread[place]),
            }
            for place, layer in enumerate(layers)
        ],
        "mean_effect": estimate(mean.mean(), replicates.mean(axis=1)),
        "peak_layer": estimate(int(layers[best]), peaks),
        "peak_effect": float(mean[best]),
        "draw_peaks": draw_peaks,
        "draw_agreement": draw_peaks.count(int(layers[best])) / len(draw_peaks),
    }


def of_items(values: np.ndarray, *, bootstrap: int, seed: int) -> dict[str, Any]:
    """Mean of (items,) values with its interval over items."""
    return estimate(values.mean(), resampled(values[:, None], bootstrap=bootstrap, seed=seed)[:, 0])


def resampled(by_item: np.ndarray, *, bootstrap: int, seed: int) -> np.ndarray:
    """(replicates, ...) means of (items, ...) values over items drawn with replacement."""
    counts = cluster_counts(len(by_item), bootstrap, seed)
    return counts @ by_item / len(by_item)


def estimate(value: float, replicates: np.ndarray) -> dict[str, Any]:
    return {
        "value": value if isinstance(value, int) else float(value),
        "interval": percentile_interval(replicates),
    }


def with_difference(by_side: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Effects of both sides, and within each pair those of the positive less those of the negative side."""
    return {**by_side, "difference": by_side["positive"] - by_side["negative"]}
