"""Continuations of control items as tokens: tokenised together with their context, split by offsets.

Source: levels paper, section 3.2 (scores are log P(continuation | prompt)); docs/methods.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from strataprobe.datasets.control import ControlDataset
from strataprobe.errors import ModelError, listing
from strataprobe.lm import LoadedLM

CANDIDATES = ("a", "b")

Key = tuple[int, str, str]
"""Which item (by its place in the dataset), variant and candidate."""


@dataclass(frozen=True)
class Continuations:
    """Every continuation that is scored; equal texts are there once.

    Attributes:
        numbers: (item, variant, candidate) -> which of the texts.
        ids: of each text, "item variant (candidate)" of the first that has it.
        texts: of each, the continuation as it is scored.
        tokens: of each, context and continuation as one sequence.
        spans: of each, its continuation's tokens [first, stop).
        borders: of each, whether its first token also holds the context's last characters.
    """

    numbers: dict[Key, int] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    tokens: list[list[int]] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    borders: list[bool] = field(default_factory=list)

    @cached_property
    def read(self) -> list[list[int]]:
        """The tokens that are run: nothing follows a continuation's last token that it could predict."""
        return [tokens[: stop - 1] for tokens, (_, stop) in zip(self.tokens, self.spans, strict=True)]

    @cached_property
    def places(self) -> list[range]:
        """Where the tokens stand, in `read`, that predict the continuation's tokens."""
        return [range(first - 1, stop - 1) for first, stop in self.spans]

    def targets(self, number: int) -> list[int]:
        """The continuation's own tokens."""
        first, stop = self.spans[number]
        return self.tokens[number][first:stop]

    def per_item(self, scores: np.ndarray, items: int) -> dict[str, np.ndarray]:
        """variant -> (..., items, 2) scores of candidates a and b, NaN where an item lacks the variant.

        Args:
            scores: (..., texts).
            items: how many.
        """
        found: dict[str, np.ndarray] = {}
        for (item, variant, candidate), number in self.numbers.items():
            if variant not in found:
                found[variant] = np.full((*scores.shape[:-1], items, 2), np.nan)
            found[variant][..., item, CANDIDATES.index(candidate)] = scores[..., number]
        return found


def prepare(lm: LoadedLM, dataset: ControlDataset, *, chat: bool) -> Continuations:
    """Tokens of every continuation of every variant, those of an item side by side.

    A continuation's tokens are those that end in it, so one that spans the border belongs to it and is
    reported; there is exactly one BOS or none, as the tokenizer says.

    Args:
        lm: the model.
        dataset: the items.
        chat: whether the prompt goes into the tokenizer's chat template, as one user message with the
            prompt for an answer after it. The continuation then has no leading space, and a template that
            knows thinking is asked for an answer without it.

    Raises:
        ModelError: no fast tokenizer, no chat template, or texts that cannot be scored: empty, too long, with
            nothing before the continuation. One message names them all.
    """
    _check_tokenizer(lm, dataset, chat)
    found, faults, borders = Continuations(), [], []
    known: dict[tuple[str, str], int] = {}
    whole: list[str] = []
    for key, name, context, text in _asked(lm, dataset, chat, faults):
        if (context, text) not in known:
            known[context, text] = len(found.ids)
            found.ids.append(name)
            found.texts.append(text)
            borders.append(len(context))
            whole.append(context + text)
        found.numbers[key] = known[context, text]
    tokens, offsets, problems = lm.tokenize(whole, found.ids, offsets=True)
    faults += problems
    for name, sequence, own, border in zip(found.ids, tokens, offsets, borders, strict=True):
        span, spans_border = continuation_span(own, border)
        if sequence and not 0 < span[0] < span[1]:
            what = "no token before its continuation" if span[1] else "no token in its continuation"
            faults.append(f"{name}: has {what}")
        found.tokens.append(sequence)
        found.spans.append(span)
        found.borders.append(spans_border)
    if faults:
        raise ModelError(listing(f"continuations for {lm.name}", faults))
    return found


def continuation_span(offsets: Sequence[tuple[int, int]], border: int) -> tuple[tuple[int, int], bool]:
    """Tokens [first, stop) that end after the character `border`, and whether the first one begins before it.

    Ends are compared, not overlaps: many tokenizers leave a token's leading space out of its offsets, and a
    token that is nothing but a space then has none. A token begins at the latest where the one before ends.
    Special tokens around the text have (0, 0) and are in no continuation.
    """
    inside = [index for index, (_, end) in enumerate(offsets) if end > border]
    if not inside:
        return (0, 0), False
    first = inside[0]
    before = max((end for _, end in offsets[:first]), default=0)
    return (first, inside[-1] + 1), min(offsets[first][0], before) < border


def _check_tokenizer(lm: LoadedLM, dataset: ControlDataset, chat: bool) -> None:
    kind = type(lm.tokenizer).__name__
    first = dataset.controls[0].id
    if not lm.tokenizer.is_fast:
        raise ModelError(
            f"{lm.name}: where a continuation begins (in {first} and all other items of '{dataset.name}') "
            f"only a fast tokenizer (tokenizer.json) can say; {kind} is a slow one"
        )
    if chat and not lm.tokenizer.chat_template:
        raise ModelError(
            f"{lm.name}: its tokenizer has no chat template to put the prompts of '{dataset.name}' (from "
            f"{first} on) into; a base model is asked without one: set chat to false for it"
        )


def _asked(
    lm: LoadedLM, dataset: ControlDataset, chat: bool, faults: list[str]
) -> Iterator[tuple[Key, str, str, str]]:
    """(key, name, context, continuation) of every item, variant and candidate."""
    for index, item in enumerate(dataset.controls):
        for variant, texts in item.prompts.items():
            context = texts.prompt
            if chat:
                context = _templated(lm, texts.prompt, f"{item.id} {variant}", faults)
            for candidate in CANDIDATES:
                text = getattr(texts, candidate)
                text = text.lstrip() if chat else text
                name = f"{item.id} {variant} ({candidate})"
                if text.strip():
                    yield (index, variant, candidate), name, context, text
                else:
                    faults.append(f"{name}: its continuation is empty")


def templated(lm: LoadedLM, prompt: str) -> str:
    """A prompt in the tokenizer's chat template: one user message, and the prompt for an answer after it."""
    message = [{"role": "user", "content": prompt}]
    return lm.tokenizer.apply_chat_template(
        message, tokenize=False, add_generation_prompt=True, enable_thinking=False
    )


def _templated(lm: LoadedLM, prompt: str, name: str, faults: list[str]) -> str:
    try:
        return templated(lm, prompt)
    except Exception as error:  # a template is a program of the checkpoint's, and fails as it likes
        faults.append(f"{name}: the tokenizer's chat template fails on it: {' '.join(str(error).split())}")
        return prompt
