"""Corpora as a config names them: a file of texts, statements made by a seed, or a book."""

from collections.abc import Mapping, Sequence
from typing import Any

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
    corpora: Sequence[Corpus], tokens: Sequence[int], used: int, *, rows: int, steps: int, batch_size: int
) -> dict[str, Any]:
    """What was trained on, counted.

    Args:
        tokens: of each corpus under the model's tokenizer, its BOS and EOS included.
        used: tokens of all together that are in rows; what does not fill a last row is left out.
        rows: sequences they were packed into.
        steps, batch_size: of the run.

    Returns:
        `corpora` one by one, `tokens` of all, `tokens_used`, `rows`, and `passes`, how often each was seen.
    """
    each = [
        {
            "name": corpus.name,
            "sha256": corpus.sha256,
            "texts": len(corpus.texts),
            "words": corpus.words,
            "tokens": count,
        }
        for corpus, count in zip(corpora, tokens, strict=True)
    ]
    return {
        "corpora": each,
        "tokens": sum(tokens),
        "tokens_used": used,
        "rows": rows,
        "passes": steps * batch_size / rows,
    }
