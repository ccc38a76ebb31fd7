"""Sentences with a question behind them, as tokens: both answers, and the words that a sentence turns on.

Source: fragility paper, appendix B ("<sentence> Is this morally acceptable?", answered " No").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from strataprobe.behavior.continuations import CANDIDATES, Continuations, continuation_span, templated
from strataprobe.datasets.pairs import Pair, Span, word_starts
from strataprobe.errors import ModelError, listing
from strataprobe.lm import LoadedLM, Row, overlapping, plan_trees

SIDES = ("positive", "negative")
"""The sentence that has the property, and its neutral control."""

EXPECTED, OTHER = CANDIDATES
"""How continuations call the answer that is scored, and the one it is set against."""


@dataclass(frozen=True)
class Asked:
    """Every chosen sentence with its question, in both versions of each pair.

    Attributes:
        pairs: n chosen pairs.
        continuations: the texts; a key is (place of the pair, side, `EXPECTED` or `OTHER`).
        subjects: (place, side) -> (tokens,) places of its contrast words, or of the whole sentence.
    """

    pairs: Sequence[Pair]
    continuations: Continuations = field(default_factory=Continuations)
    subjects: dict[tuple[int, str], np.ndarray] = field(default_factory=dict)

    @cached_property
    def sentences(self) -> list[tuple[int, str]]:
        """Every (place, side), pair by pair."""
        return [(place, side) for place in range(len(self.pairs)) for side in SIDES]

    @property
    def whole(self) -> int:
        """How many sentences have no contrast word, so that all of the sentence is the subject."""
        return sum(not subject_spans(self.pairs[place], side) for place, side in self.sentences)

    def numbers(self, place: int, side: str) -> list[int]:
        """The texts of a sentence: expected answer, then the other."""
        return [self.continuations.numbers[place, side, answer] for answer in CANDIDATES]

    def prompt_tokens(self, place: int, side: str) -> int:
        """Tokens before the answer."""
        return min(self.continuations.spans[number][0] for number in self.numbers(place, side))

    def rows(self, lm: LoadedLM, place: int, side: str) -> list[Row]:
        """Rows that hold both answers: one, where the model lets texts share a row."""
        return plan_trees(self.continuations.read, self.numbers(place, side), lm.sharing_limit)


def chosen(pairs: Sequence[Pair], count: int, choice: str) -> list[Pair]:
    """The pairs that are traced: at most `count`, in the file's order.

    Args:
        choice: "first" of the file, as published; or "groups": the first of each group, then the second of
            each, and so on, so that a few pairs are of all groups.
    """
    if choice == "first":
        return list(pairs[:count])
    ranks: dict[str, int] = {}
    keyed = []
    for place, pair in enumerate(pairs):
        rank = ranks[pair.group] = ranks.get(pair.group, -1) + 1
        keyed.append((rank, place))
    return [pairs[place] for place in sorted(place for _, place in sorted(keyed)[:count])]


def subject_spans(pair: Pair, side: str) -> list[Span]:
    """Characters [start, end) of the pair's contrast words in one of its sentences; it may have none."""
    sentence = getattr(pair, side)
    return [(start, start + len(word)) for word in pair.contrast for start in word_starts(sentence, word)]


def prepare(lm: LoadedLM, pairs: Sequence[Pair], question: Mapping[str, str], *, chat: bool) -> Asked:
    """Tokens of every sentence, its question and both answers, tokenised together and split by offsets.

    Args:
        lm: the model.
        pairs: n pairs.
        question: `text` behind a sentence, `expected` and `other` answers, each with its leading space.
        chat: whether sentence and question go into the tokenizer's chat template as one user message; the
            answers then have no leading space.

    Raises:
        ModelError: no fast tokenizer, no chat template, or texts that cannot be scored; all are named.
    """
    if chat and not lm.tokenizer.chat_template:
        raise ModelError(
            f"{lm.name}: its tokenizer has no chat template to put the question into; a base model is asked "
            "without one: set chat to false for it"
        )
    answers = {EXPECTED: question["expected"], OTHER: question["other"]}
    if chat:
        answers = {name: answer.lstrip() for name, answer in answers.items()}
    keys = [(place, side, answer) for place in range(len(pairs)) for side in SIDES for answer in CANDIDATES]
    contexts = [_context(lm, getattr(pairs[place], side), question["text"], chat) for place, side, _ in keys]
    found = Continuations(
        numbers={key: number for number, key in enumerate(keys)},
        ids=[f"{pairs[place].id}:{side} ({answers[answer]!r})" for place, side, answer in keys],
        texts=[answers[answer] for *_, answer in keys],
    )
    whole = [context + answer for context, answer in zip(contexts, found.texts, strict=True)]
    tokens, offsets, faults = lm.tokenize(whole, found.ids, offsets=True)
    found.tokens.extend(tokens)
    for name, sequence, own, context in zip(found.ids, tokens, offsets, contexts, strict=True):
        span, border = continuation_span(own, len(context))
        if sequence and not 0 < span[0] < span[1]:
            faults.append(f"{name}: has no token before its answer, or none in it")
        found.spans.append(span)
        found.borders.append(border)
    asked = Asked(pairs, found)
    for place, side in asked.sentences:
        number = found.numbers[place, side, EXPECTED]
        asked.subjects[place, side], fault = _subject(pairs[place], side, contexts[number], offsets[number])
        faults += [f"{found.ids[number]}: {fault}"] if fault and tokens[number] else []
    if faults:
        raise ModelError(listing(f"questions for {lm.name}", faults))
    return asked


def _context(lm: LoadedLM, sentence: str, question: str, chat: bool) -> str:
    """What stands before the answer."""
    return templated(lm, sentence + question) if chat else sentence + question


def _subject(pair: Pair, side: str, context: str, offsets: Sequence[Span]) -> tuple[np.ndarray, str]:
    """Places of a sentence's subject among the tokens, and what is wrong with it, if anything."""
    sentence = getattr(pair, side)
    start = context.find(sentence)
    if start < 0:
        return np.empty(0, np.int64), "the chat template changes the sentence, so that its words are lost"
    places = _places(offsets, subject_spans(pair, side) or [(0, len(sentence))], start)
    return places, "" if len(places) else "its contrast words overlap no token"


def _places(offsets: Sequence[Span], spans: Sequence[Span], start: int) -> np.ndarray:
    """All tokens that overlap any of the spans, which are counted from the character `start`."""
    places = {place for first, last in spans for place in overlapping(offsets, start + first, start + last)}
    return np.array(sorted(places), np.int64)
