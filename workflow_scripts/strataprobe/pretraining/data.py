"""What `nano` is trained on: the corpus as rows of tokens, and which rows each step sees."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from strataprobe.errors import ModelError
from strataprobe.pretraining import corpus, tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# One document in this many is kept out of training, to measure the loss on. A prime, so that the corpus's own
# kinds of documents, each one in so many, are among them in proportion.
HELDOUT_EVERY = 61
# Held-out sequences measured at every checkpoint: enough for two digits of loss, 0.06 s each time.
HELDOUT_SEQUENCES = 16


def pack(encoded: Iterable[Sequence[int]], length: int) -> np.ndarray:
    """Documents joined into rows without padding; each row begins where a document begins.

    What does not fit into a row is left out, so a row's first token is always `<bos>`, as it is when
    the model is measured.

    Args:
        encoded: token ids of each document, `<bos>` first.
        length: tokens a row.

    Returns:
        (rows, length) uint16.
    """
    rows: list[list[int]] = []
    row: list[int] = []
    for ids in encoded:
        row.extend((*ids, tokenizer.EOS_ID))
        if len(row) >= length:
            rows.append(row[:length])
            row = []
    return np.array(rows, dtype=np.uint16).reshape(-1, length)


def batch_rows(rows: int, batch_size: int, seed: int, step: int) -> np.ndarray:
    """Which rows step `step` (from 1) is trained on: (batch_size,) indices, a function of its arguments.

    Each pass over the rows has its own order, drawn by a counter-based generator keyed (seed, pass).
    """
    wanted = np.arange((step - 1) * batch_size, step * batch_size)
    passes, places = np.divmod(wanted, rows)
    chosen = np.empty(batch_size, dtype=np.int64)
    for number in np.unique(passes):
        order = np.random.Generator(np.random.Philox(key=[seed, number])).permutation(rows)
        chosen[passes == number] = order[places[passes == number]]
    return chosen


def prepare(settings: dict[str, Any], resources: Path) -> tuple["Tokenizer", np.ndarray, np.ndarray]:
    """Corpus and tokenizer of a run.

    Returns:
        The tokenizer, the training rows and the held-out rows, both (rows, sequence_length + 1) uint16.
    """
    documents = corpus.generate(resources, **settings["corpus"])
    heldout = documents[HELDOUT_EVERY - 1 :: HELDOUT_EVERY]
    kept = [text for index, text in enumerate(documents) if index % HELDOUT_EVERY != HELDOUT_EVERY - 1]
    words = tokenizer.train(kept, settings["architecture"]["vocab_size"])
    length = settings["training"]["sequence_length"] + 1
    train_rows, heldout_rows = (
        pack((encoding.ids for encoding in words.encode_batch_fast(texts)), length)
        for texts in (kept, heldout)
    )
    if not len(train_rows) or not len(heldout_rows):
        raise ModelError(
            f"pretraining: {len(documents)} documents do not fill one training and one held-out sequence of "
            f"{length - 1} tokens; raise corpus.documents"
        )
    return words, train_rows, heldout_rows[:HELDOUT_SEQUENCES]
