"""Item-level rows: every score with the tokens it is the sum over, so that each accuracy can be traced."""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from strataprobe import files
from strataprobe.behavior.continuations import Continuations
from strataprobe.datasets.control import ControlDataset
from strataprobe.lm import LoadedLM

COLUMNS = (
    "item",
    "language",
    "control_type",
    "item_group",
    "variant",
    "candidate",
    "text",
    "tokens",
    "token_count",
    "border",
    "score",
    "score_per_token",
    "score_per_byte",
    "gold",
)


def item_rows(
    lm: LoadedLM, dataset: ControlDataset, continuations: Continuations, scores: np.ndarray
) -> list[dict[str, Any]]:
    """One row an item, variant and candidate, in the dataset's order.

    Args:
        lm: the model, whose tokenizer names the tokens.
        dataset, continuations: the items and their texts.
        scores: (texts,) log-probabilities in nats.

    Returns:
        Rows with `COLUMNS`: `tokens` are the tokenizer's own names of the continuation's tokens, joined by
        "|"; `border` is 1 where the first of them also holds the end of the context; `gold` is 1 for the
        gold candidate.
    """
    rows = []
    for (index, variant, candidate), number in continuations.numbers.items():
        item, text = dataset.controls[index], continuations.texts[number]
        pieces = lm.tokenizer.convert_ids_to_tokens(continuations.targets(number))
        score = float(scores[number])
        rows.append(
            {
                "item": item.id,
                "language": item.language,
                "control_type": item.control_type,
                "item_group": item.item_group,
                "variant": variant,
                "candidate": candidate,
                "text": text,
                "tokens": "|".join(pieces),
                "token_count": len(pieces),
                "border": int(continuations.borders[number]),
                "score": score,
                "score_per_token": score / len(pieces),
                "score_per_byte": score / len(text.encode()),
                "gold": int(candidate == item.gold),
            }
        )
    return rows


def write_rows(path: str | os.PathLike[str], rows: Iterable[dict[str, Any]]) -> None:
    """Write item-level rows as csv, numbers in full, atomically."""
    files.write_rows(path, COLUMNS, rows)
