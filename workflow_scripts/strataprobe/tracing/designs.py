"""The designs of causal tracing, for one sentence: its answers' scores with noise at every block.

- `published`: noise of a fixed size in activation units, added to all tokens of one block's output.
- `rms`: the same noise in units of the block's RMS.
- `restoration` (Meng et al. 2022): noise on the subject's tokens as they enter the first block, and one
  block's clean states put back at these tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from strataprobe.behavior.edited import score_changed
from strataprobe.lm import EMBED, OutputMap, Row
from strataprobe.lm.edited import Condition, Edit, Kept, keep
from strataprobe.tracing.noise import draw_noise, positions
from strataprobe.tracing.prompts import Asked

PUBLISHED, RMS, RESTORATION = "published", "rms", "restoration"
DESIGNS = (PUBLISHED, RMS, RESTORATION)
NOISE = (PUBLISHED, RMS)
"""Designs in which noise stands at the block itself."""


@dataclass(frozen=True)
class Plan:
    """What is done to every sentence.

    Attributes:
        layers: n blocks.
        designs: some of `DESIGNS`.
        draws: noise draws of each sentence.
        sigma: for each noise design (n,) standard deviations of the noise, in activation units.
        embedding_sigma: of the noise on what enters the first block.
        seed: of the noise.
        batch_tokens: tokens in a batch of conditions.
    """

    layers: Sequence[int]
    designs: Sequence[str]
    draws: int
    sigma: Mapping[str, np.ndarray]
    embedding_sigma: float
    seed: int
    batch_tokens: int


@dataclass(frozen=True)
class Traced:
    """Log-probabilities of a sentence's answers, expected and other, in nats (float64).

    Attributes:
        clean: (2,) undisturbed.
        blocks: design -> (draws, layers, 2) with noise at, or with the clean states of, each block.
        corrupted: (draws, 2) with noise on the subject and nothing put back; None without that design.
    """

    clean: np.ndarray
    blocks: dict[str, np.ndarray]
    corrupted: np.ndarray | None


def trace(output: OutputMap, asked: Asked, place: int, side: str, plan: Plan) -> Traced:
    """Trace one sentence; works within `lm.edited.keeping` only.

    Args:
        output: the model's output map.
        asked: the sentences.
        place, side: which one.
        plan: what is done.

    Raises:
        ModelError: the model cannot be run on from a changed state, or memory does not hold one.
    """
    numbers = asked.numbers(place, side)
    clean = np.empty(2)
    blocks = {design: np.empty((plan.draws, len(plan.layers), 2)) for design in plan.designs}
    corrupted = np.empty((plan.draws, 2)) if RESTORATION in plan.designs else None
    for row in asked.rows(output.lm, place, side):
        own = [numbers.index(member) for member in row.members]
        kept = keep(output.lm, asked.continuations.read, row)
        noise = _noise(kept, asked.pairs[place].id, plan)
        scored = _scored(output, asked, kept, row, _noise_conditions(kept, noise, plan), plan)
        clean[own] = scored[0]
        shape = (plan.draws, len(plan.layers), len(own))
        noised = [design for design in plan.designs if design in NOISE]
        for number, design in enumerate(noised):
            start = 1 + number * plan.draws * len(plan.layers)
            blocks[design][..., own] = scored[start : start + shape[0] * shape[1]].reshape(shape)
        if corrupted is not None:
            subject = kept.columns[0][asked.subjects[place, side]]
            for draw in range(plan.draws):
                found = _restored(output, asked, kept, row, subject, noise[draw], plan)
                corrupted[draw, own], blocks[RESTORATION][draw][:, own] = found[0], found[1:]
    return Traced(clean, blocks, corrupted)


def _noise(kept: Kept, name: str, plan: Plan) -> np.ndarray:
    """(draws, columns, hidden size) standard normal: by its place in the text, whatever column that is."""
    where = positions(kept)
    drawn = [
        draw_noise(plan.seed, name, draw, int(where.max()) + 1, kept.lm.hidden_size)[where]
        for draw in range(plan.draws)
    ]
    return np.stack(drawn)


def _noise_conditions(kept: Kept, noise: np.ndarray, plan: Plan) -> list[Condition]:
    """One a noise design, draw and block, in this order; noise is on the answer's own tokens too."""
    everywhere = np.arange(kept.length)
    return [
        [Edit(layer, everywhere, torch.from_numpy(np.float32(sigma) * drawn), add=True)]
        for design in plan.designs
        if design in NOISE
        for drawn in noise
        for layer, sigma in zip(plan.layers, plan.sigma[design], strict=True)
    ]


def _restored(
    output: OutputMap,
    asked: Asked,
    kept: Kept,
    row: Row,
    subject: np.ndarray,
    noise: np.ndarray,
    plan: Plan,
) -> np.ndarray:
    """(1 + layers, texts) scores of the corrupted row, then with the clean states of each block put back."""
    added = torch.from_numpy(np.float32(plan.embedding_sigma) * noise[subject])
    corrupt = kept.changed([Edit(EMBED, subject, added, add=True)])
    put_back = [[Edit(layer, subject, kept.at([layer], subject)[0])] for layer in plan.layers]
    return _scored(output, asked, corrupt, row, put_back, plan)


def _scored(
    output: OutputMap, asked: Asked, kept: Kept, row: Row, conditions: Sequence[Condition], plan: Plan
) -> np.ndarray:
    return score_changed(
        output, asked.continuations, kept, row.members, conditions, batch_tokens=plan.batch_tokens
    )
