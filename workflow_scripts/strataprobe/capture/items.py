"""Texts and spans on their way to the model: tokens and places, or one error that names every fault."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strataprobe.capture.pooling import LAST, MEAN, MEAN_REST
from strataprobe.errors import ModelError, listing
from strataprobe.lm import LoadedLM, overlapping

Spans = Mapping[str, Sequence[tuple[int, int] | None]]

NOWHERE = -1
"""The place of an anchor that a text has not."""


@dataclass(frozen=True)
class Items:
    """What is asked of the model: tokens of each text, and for each named token its place, (texts, named).

    A place is `NOWHERE` where a text has no such anchor.
    """

    ids: Sequence[str]
    tokens: list[list[int]]
    positions: tuple[str, ...]
    places: np.ndarray


def prepare(
    lm: LoadedLM, texts: Sequence[str], ids: Sequence[str], positions: tuple[str, ...], anchors: Spans
) -> Items:
    """Tokens and places of all texts, or one error with everything that is wrong with them."""
    named = [name for name in positions if name not in (MEAN, MEAN_REST)]
    _check_positions(positions, named, anchors, len(texts))
    spans = {name: anchors[name] for name in named if name != LAST}
    tokens, offsets, faults = lm.tokenize(texts, ids, offsets=bool(spans))
    places = np.zeros((len(texts), len(named)), dtype=np.int64)
    for i, sequence in enumerate(tokens):
        if not sequence:
            continue
        if MEAN_REST in positions and len(sequence) < 2:
            faults.append(f"{ids[i]}: has a single token, so nothing is left for mean_rest without the first")
        for column, name in enumerate(named):
            if name != LAST and spans[name][i] is None:
                places[i, column] = NOWHERE
                continue
            found = [len(sequence) - 1] if name == LAST else overlapping(offsets[i], *spans[name][i])
            if found:
                places[i, column] = found[-1]
            else:
                faults.append(f"{ids[i]}: {_span_fault(name, spans[name][i], texts[i])}")
    if faults:
        raise ModelError(listing(f"texts for {lm.name}", faults))
    return Items(ids, tokens, positions, places)


def _check_positions(positions: tuple[str, ...], named: list[str], anchors: Spans, count: int) -> None:
    known = [MEAN, MEAN_REST, LAST, *anchors]
    faults = [
        f"position {name!r} is unknown; known are {', '.join(known)}" for name in named if name not in known
    ]
    faults += [
        f"anchor {name!r} bears a position's name" for name in anchors if name in (MEAN, MEAN_REST, LAST)
    ]
    faults += [
        f"anchor {name!r} has {len(spans)} spans for {count} texts"
        for name, spans in anchors.items()
        if len(spans) != count
    ]
    if len(set(positions)) != len(positions) or not positions:
        faults.append(
            f"positions are {', '.join(positions) or 'none'}; each once, and at least one, would be right"
        )
    if faults:
        raise ModelError(listing("capture positions", faults))


def _span_fault(name: str, span: tuple[int, int], text: str) -> str:
    start, end = span
    if start >= end:
        return f"span {name!r} [{start}, {end}) is empty"
    if start < 0 or end > len(text):
        return f"span {name!r} [{start}, {end}) leaves the text of {len(text)} characters"
    return f"span {name!r} [{start}, {end}) overlaps no token"
