"""How a tokenizer cuts the words of a study, and whether that is what the design meant.

A probe on an invented word says something about the word only if its pieces mean nothing by themselves, and a
canonical word in one piece is another thing than one in three.

Source: lucky-defaults paper, section 4; DEFINITIONS, lucky defaults.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strataprobe.datasets.vocabulary import VocabularyDataset
from strataprobe.errors import ModelError

WORD = "operator-after"
"""The anchor that covers the word itself."""

Offsets = Sequence[tuple[int, int]]
Tokenize = Callable[[Sequence[str]], tuple[list[list[int]], list[Any]]]
"""Texts to the token ids and the character offsets of each: `LoadedLM.encode_with_offsets`, for instance."""

# What a word with a leading space is looked at behind: some tokenizers put a space before every text.
_CARRIER = "a"
# Shorter pieces are syllables, even where a tokenizer has them as words.
_SHORTEST_WORD = 3


@dataclass(frozen=True)
class Audited:
    """One word under one tokenizer.

    Attributes:
        word: it.
        canonical: whether it is a class of the readout.
        property: the side it is on.
        mentioned: its pieces in the texts looked at, see `audit`; of several ways the commonest.
        spaced: its pieces behind a space.
        target: how many the design means it to have, such as "2-3".
        out_of_design: whether either number of pieces is another.
        real_words: pieces of an invented word (or the word) that with a leading space are one token.
    """

    word: str
    canonical: bool
    property: str
    mentioned: tuple[str, ...]
    spaced: tuple[str, ...]
    target: str
    out_of_design: bool
    real_words: tuple[str, ...]


def read_tokenizer(folder: str | Path) -> Tokenize:
    """A checkpoint's tokenizer, without its model.

    Raises:
        ModelError: there is no tokenizer.json in the folder, or it cannot be read.
    """
    from tokenizers import Tokenizer

    path = Path(folder) / "tokenizer.json"
    if not path.is_file():
        raise ModelError(f"{folder}: there is no tokenizer.json; pieces of words need a fast tokenizer")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ModelError(f"{path} cannot be read: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def tokenize(texts: Sequence[str]) -> tuple[list[list[int]], list[Offsets]]:
        encoded = tokenizer.encode_batch(list(texts))
        return [one.ids for one in encoded], [one.offsets for one in encoded]

    return tokenize


def audit(dataset: VocabularyDataset, tokenize: Tokenize) -> list[Audited]:
    """Every word of the design, classes first.

    Words are looked at in the texts of the first notation of the design that has the anchor `WORD`, held-out
    ones left out; behind a space alone where there is no such notation, or none of its texts has the word.

    Args:
        dataset: the vocabulary.
        tokenize: as `read_tokenizer` gives it.
    """
    design = dataset.design
    mentioned = _mentioned(dataset, tokenize)
    spaced = {word: _spaced(word, tokenize) for word in design.words}
    found = []
    for word, facts in design.words.items():
        pieces = mentioned.get(word, spaced[word])
        canonical = word in design.classes
        found.append(
            Audited(
                word=word,
                canonical=canonical,
                property=facts.property,
                mentioned=pieces,
                spaced=spaced[word],
                target=facts.pieces,
                out_of_design=not (facts.fits(len(pieces)) and facts.fits(len(spaced[word]))),
                real_words=() if canonical else _real_words((*pieces, *spaced[word], word), tokenize),
            )
        )
    return found


def _mentioned(dataset: VocabularyDataset, tokenize: Tokenize) -> dict[str, tuple[str, ...]]:
    """The commonest pieces of each word in the texts looked at; of equals the first by alphabet."""
    notation = next((name for name, anchors in dataset.design.anchors.items() if WORD in anchors), None)
    own = [one for one in dataset.stimuli if one.notation == notation and not one.held_out]
    if not own:
        return {}
    _, offsets = tokenize([one.text for one in own])
    ways: dict[str, Counter[tuple[str, ...]]] = {}
    for one, spans in zip(own, offsets, strict=True):
        start, end = one.anchors[WORD]
        ways.setdefault(one.item, Counter())[_pieces(one.text, spans, start, end)] += 1
    return {word: min(counts, key=lambda way: (-counts[way], way)) for word, counts in ways.items()}


def _spaced(word: str, tokenize: Tokenize) -> tuple[str, ...]:
    text = f"{_CARRIER} {word}"
    return _pieces(text, tokenize([text])[1][0], len(_CARRIER) + 1, len(text))


def _pieces(text: str, offsets: Offsets, start: int, end: int) -> tuple[str, ...]:
    """The parts of text[start:end] that its tokens cover, in order; a token's space is no part of it."""
    return tuple(
        text[max(first, start) : min(last, end)]
        for first, last in offsets
        if first < min(last, end) and last > start
    )


def _real_words(pieces: Sequence[str], tokenize: Tokenize) -> tuple[str, ...]:
    """Those pieces that are one token of the tokenizer with a leading space, each once.

    Tokens are counted beside the carrier alone: offsets do not tell a space that is a token of its own.
    """
    long = [one for one in dict.fromkeys(pieces) if len(one) >= _SHORTEST_WORD and one.isalpha()]
    tokens, _ = tokenize([_CARRIER, *(f"{_CARRIER} {one}" for one in long)])
    return tuple(one for one, own in zip(long, tokens[1:], strict=True) if len(own) == len(tokens[0]) + 1)
