"""Every score behind a tracing result, a row a sentence, design, draw and block."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from strataprobe import files
from strataprobe.tracing.designs import RESTORATION, Plan, Traced
from strataprobe.tracing.prompts import Asked

COLUMNS = ("pair", "group", "side", "design", "draw", "layer", "expected", "other")


def rows_of(asked: Asked, traced: Mapping[str, Sequence[Traced]], plan: Plan) -> list[dict[str, Any]]:
    """Rows with `COLUMNS`: log-probabilities (nats) of both answers.

    `design` is "clean" where nothing was disturbed, without draw and block; a row of `restoration` without
    a block is the corrupted sentence with nothing put back.
    """
    return [
        {"pair": pair.id, "group": pair.group, "side": side, **row}
        for place, pair in enumerate(asked.pairs)
        for side, own in traced.items()
        for row in _of_sentence(own[place], plan)
    ]


def _of_sentence(traced: Traced, plan: Plan) -> Iterator[dict[str, Any]]:
    yield _row("clean", "", "", traced.clean)
    for design, scores in traced.blocks.items():
        for draw in range(plan.draws):
            if design == RESTORATION:
                yield _row(design, draw, "", traced.corrupted[draw])
            for place, layer in enumerate(plan.layers):
                yield _row(design, draw, layer, scores[draw, place])


def _row(design: str, draw: int | str, layer: int | str, answers: Sequence[float]) -> dict[str, Any]:
    expected, other = map(float, answers)
    return {"design": design, "draw": draw, "layer": layer, "expected": expected, "other": other}


def write_rows(path: str | os.PathLike[str], rows: Iterable[dict[str, Any]]) -> None:
    """Write them as csv, numbers in full, atomically."""
    files.write_rows(path, COLUMNS, rows)
