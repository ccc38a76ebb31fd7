"""A corpus as the rows of tokens that a model is fine-tuned on."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from strataprobe.errors import DatasetError, numbered
from strataprobe.lm import LoadedLM


def token_stream(lm: LoadedLM, texts: Iterable[str], *, name: str = "corpus") -> np.ndarray:
    """All texts as one run of tokens of the model's own tokenizer.

    Each text has exactly one BOS or none, as the tokenizer says; an EOS stands between two texts where the
    tokenizer has one. A text may be longer than the model takes: rows are cut from the run.

    Returns:
        (tokens,) int64.

    Raises:
        DatasetError: there is no text.
        ModelError: texts that are empty, are not valid Unicode, or need tokens the model does not have.
    """
    listed = list(texts)
    if not listed:
        raise DatasetError(f"corpus '{name}': holds no text; at least one would be right")
    names = [f"{name}, text {number}" for number in range(1, len(listed) + 1)]
    return joined(lm, replace(lm, max_tokens=None).encode(listed, names))


def joined(lm: LoadedLM, runs: Iterable[Sequence[int]]) -> np.ndarray:
    """Runs of tokens as one, with an EOS between two where the tokenizer has one: (tokens,) int64."""
    eos = lm.tokenizer.eos_token_id
    whole: list[int] = []
    for ids in runs:
        if whole and eos is not None and whole[-1] != eos:  # some tokenizers put it there themselves
            whole.append(eos)
        whole.extend(ids)
    return np.array(whole, dtype=np.int64)


def pack(
    stream: np.ndarray, *, sequence_length: int, tokens: int | None = None, name: str = "corpus"
) -> np.ndarray:
    """The run of tokens cut into rows without padding; what does not fill a last row is left out.

    Args:
        stream: (tokens,) as `token_stream`.
        sequence_length: tokens a row.
        tokens: take only so many from the beginning, so that corpora are matched in size; None takes all.
        name: of the corpus, for errors.

    Returns:
        (rows, sequence_length) int64.

    Raises:
        DatasetError: fewer tokens than `tokens`, or than one row; says how many there are.
    """
    there = numbered(len(stream), "token")
    if tokens is not None and tokens > len(stream):
        raise DatasetError(
            f"corpus '{name}': {tokens} tokens are asked for, but it has {there}; match corpora at "
            f"{len(stream)} or fewer, or make this one longer"
        )
    taken = stream if tokens is None else stream[:tokens]
    if len(taken) < sequence_length:
        cut = "" if tokens is None else f", cut to {tokens},"
        raise DatasetError(
            f"corpus '{name}': its {there}{cut} do not fill one sequence of {sequence_length}; a "
            f"sequence_length of at most {len(taken)}, or a longer corpus, would be right"
        )
    rows = len(taken) // sequence_length
    return taken[: rows * sequence_length].reshape(rows, sequence_length)
