"""The paper's own readout: the raw unembedding at the bare sentence's last token, one token a candidate.

Source: levels paper, section 3.2, by its text (its Table 1 follows the authors' code: `lens`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from strataprobe.behavior.continuations import CANDIDATES, continuation_span
from strataprobe.datasets.control import ControlDataset, ControlItem
from strataprobe.errors import ModelError, listing
from strataprobe.lm import LoadedLM, OutputMap, Selected, states_at

_LEADS = ("statement", "contrastive", "qa")


@dataclass(frozen=True)
class FirstTokens:
    """Each candidate's first sub-token after the bare sentence, and what is read before it.

    Attributes:
        read: of each distinct beginning, its tokens, the last of which is the scoring position.
        ids: of each, the first item and candidate that have it.
        numbers: (items, 2) which beginning stands before candidates a and b.
        targets: (items, 2) first sub-tokens.
        collides: (items,) whether both candidates have the same one, so that nothing can be said.
        borders: how many of the sub-tokens also hold the end of the sentence.
    """

    read: list[list[int]]
    ids: list[str]
    numbers: np.ndarray
    targets: np.ndarray
    collides: np.ndarray
    borders: int


def first_tokens(lm: LoadedLM, dataset: ControlDataset) -> FirstTokens:
    """First sub-tokens from sentence and candidate tokenised together, with the space continuations have.

    Raises:
        ModelError: texts that have no tokens, or are too long; one message names them all.
    """
    names, texts, borders = [], [], []
    for item in dataset.controls:
        for candidate in CANDIDATES:
            names.append(f"{item.id} sentence ({candidate})")
            texts.append(item.sentence + _lead(item) + getattr(item, candidate))
            borders.append(len(item.sentence))
    tokens, offsets, faults = lm.tokenize(texts, names, offsets=True)
    found = [continuation_span(own, border) for own, border in zip(offsets, borders, strict=True)]
    faults += [
        f"{name}: has no token before its candidate"
        for name, sequence, (span, _) in zip(names, tokens, found, strict=True)
        if sequence and not span[0]
    ]
    if faults:
        raise ModelError(listing(f"sentences for {lm.name}", faults))
    firsts = [span[0] for span, _ in found]
    beginnings = [tuple(own[:first]) for own, first in zip(tokens, firsts, strict=True)]
    distinct: dict[tuple[int, ...], str] = {}
    for beginning, name in zip(beginnings, names, strict=True):
        distinct.setdefault(beginning, name)
    place = {beginning: i for i, beginning in enumerate(distinct)}
    targets = np.array([own[first] for own, first in zip(tokens, firsts, strict=True)]).reshape(-1, 2)
    return FirstTokens(
        read=[list(beginning) for beginning in distinct],
        ids=list(distinct.values()),
        numbers=np.array([place[beginning] for beginning in beginnings]).reshape(-1, 2),
        targets=targets,
        collides=targets[:, 0] == targets[:, 1],
        borders=sum(spans_border for _, spans_border in found),
    )


def read_sentences(
    output: OutputMap, firsts: FirstTokens, *, layers: Sequence[int], batch_tokens: int, threads: int
) -> np.ndarray:
    """(layers, items, 2) raw logits of both candidates' first sub-tokens; NaN where these collide.

    The residual stream as it is, before the final norm, at every index: W_U h, as the paper's text has it.

    Args:
        output: the model's output map.
        firsts: what is read.
        layers: as of `lm.states_at`.
        batch_tokens, threads: as there.
    """
    asked: list[list[tuple[int, int]]] = [[] for _ in firsts.read]
    for cell, number in np.ndenumerate(firsts.numbers):
        asked[number].append(cell)

    def read(selected: Selected) -> list[tuple[list[tuple[int, int]], np.ndarray]]:
        found = []
        for number, states in selected.each():
            targets = torch.tensor([int(firsts.targets[cell]) for cell in asked[number]])
            each = states.expand(-1, len(targets), -1)
            logits = output.raw_at(each, targets.to(states.device))
            found.append((asked[number], logits.double().cpu().numpy()))
        return found

    scores = np.full((len(layers), *firsts.targets.shape), np.nan)
    places = [[len(beginning) - 1] for beginning in firsts.read]
    for part in states_at(
        output.lm, firsts.read, places, ids=firsts.ids, layers=layers, batch_tokens=batch_tokens,
        threads=threads, then=read,
    ):  # fmt: skip
        for cells, logits in part:
            for (item, candidate), column in zip(cells, logits.T, strict=True):
                scores[:, item, candidate] = column
    if not np.isfinite(scores).all():
        raise ModelError(f"{output.lm.name}: raw logits are not finite (dtype {output.lm.dtype})")
    scores[:, firsts.collides] = np.nan
    return scores


def _lead(item: ControlItem) -> str:
    """The space that a continuation of this item begins with; none in Chinese."""
    for variant in _LEADS:
        if variant in item.prompts:
            text = item.prompts[variant].a
            return text[: len(text) - len(text.lstrip())]
    return ""
