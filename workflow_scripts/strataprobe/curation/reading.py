"""Corpora as a config names them: a file of texts, statements made by a seed, or a book."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from strataprobe.curation.books import read_book
from strataprobe.curation.corpora import Corpus, read_corpus, read_declarative


def read(entry: Mapping[str, Any]) -> Corpus:
    """Read one corpus.

    Args:
        entry: `name`, `path` of its file, and of `texts`, `statements` and `book` the one that says how.

    Raises:
        DatasetError: see `read_corpus`, `read_declarative` and `read_book`.
    """
    name, path = entry["name"], entry["path"]
    if entry.get("statements") is not None:
        said = entry["statements"]
        return read_declarative(
            path, name, texts=said["texts"], statements=said["statements"], seed=said["seed"]
        )
    if entry.get("book") is not None:
        return read_book(path, name, after=entry["book"]["after"], before=entry["book"]["before"])
    return read_corpus(path, name)


def card(
    corpora: Sequence[Corpus], ends: Sequence[int], tokens: Sequence[int], rows: np.ndarray, passes: float
) -> dict[str, Any]:
    """What was trained on, counted.

    Args:
        ends: where each corpus ends in the run of tokens that all of them make.
        tokens: of each under the model's tokenizer, its BOS and EOS included.
        rows: (rows, sequence_length) that the run was cut into; what is beyond them was not trained on.
        passes: how often each row was seen.

    Returns:
        `corpora` one by one, `tokens` of all, `tokens_used`, `rows`, and `passes`.
    """
    each = [
        {
            "name": corpus.name,
            "sha256": corpus.sha256,
            "texts": len(corpus.texts),
            "words": corpus.words,
            "tokens": count,
            "tokens_used": min(count, max(0, rows.size - (end - count))),
        }
        for corpus, end, count in zip(corpora, ends, tokens, strict=True)
    ]
    return {
        "corpora": each,
        "tokens": sum(tokens),
        "tokens_used": rows.size,
        "rows": len(rows),
        "passes": passes,
    }
