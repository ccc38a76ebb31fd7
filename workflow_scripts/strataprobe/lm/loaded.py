"""A loaded causal language model: its blocks, final norm and head, and how text becomes tokens.

Layers have one meaning everywhere: `embed` is what enters the first block, block i (0..L-1) is the
residual stream after that block and before the final norm.
"""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from strataprobe.errors import ModelError, listing

Offsets = list[tuple[int, int]]


@dataclass(frozen=True)
class Blockwise:
    """How a model whose blocks are loaded one at a time is run.

    Attributes:
        returned: what each block returns: None a tensor, else a tuple of so many entries.
        states_mb: MiB of waiting states in memory; more of them wait in files.
        sound: blocks whose weights have been seen to be finite.
    """

    returned: tuple[int | None, ...]
    states_mb: int
    sound: set[int]


@dataclass(frozen=True)
class LoadedLM:
    """A causal language model with its parts by name.

    `decoder` is the part that runs the blocks and the final norm, without the head: what capture runs.
    `head` is None for a model without output embeddings. `adds_bos` says whether the tokenizer puts its
    BOS before a text. `max_tokens` is None where neither the model nor its tokenizer has a limit.
    Sequences of up to `sharing_limit` tokens may share a row where they begin alike (`lm.rows`); 0 says none.
    `offloads` says that weights come and go while it runs, `blockwise` how, where block by block; `folder`
    holds what could not stay in memory, and goes with it.
    """

    name: str
    model: nn.Module
    tokenizer: Any
    decoder: nn.Module
    blocks: nn.ModuleList
    embedding: nn.Module
    final_norm: nn.Module
    head: nn.Module | None
    n_layers: int
    hidden_size: int
    vocab_size: int
    max_tokens: int | None
    device: str
    dtype: str
    adds_bos: bool
    sharing_limit: int = 0
    offloads: bool = False
    blockwise: Blockwise | None = None
    folder: Any = None

    def encode(self, texts: Sequence[str], ids: Sequence[str] | None = None) -> list[list[int]]:
        """Token ids of each text, with exactly one BOS or none, as the tokenizer says.

        Args:
            texts: n texts.
            ids: n names for the error message; by default "text 0", "text 1", ...

        Raises:
            ModelError: texts that are empty, hold a NUL byte or a lone surrogate, are too long for the
                model or need tokens it does not have; one message names them all.
        """
        tokens, _, faults = self.tokenize(texts, ids)
        if faults:
            raise ModelError(listing(f"texts for {self.name}", faults))
        return tokens

    def encode_with_offsets(
        self, texts: Sequence[str], ids: Sequence[str] | None = None
    ) -> tuple[list[list[int]], list[Offsets]]:
        """As `encode`, with the characters [start, end) of each token; (0, 0) for the tokenizer's own BOS.

        Raises:
            ModelError: as `encode`; also where the tokenizer is a slow one, which knows no offsets.
        """
        tokens, offsets, faults = self.tokenize(texts, ids, offsets=True)
        if faults:
            raise ModelError(listing(f"texts for {self.name}", faults))
        return tokens, offsets

    def tokenize(
        self, texts: Sequence[str], ids: Sequence[str] | None = None, *, offsets: bool = False
    ) -> tuple[list[list[int]], list[Offsets], list[str]]:
        """Tokens and offsets of each text, and a line for each fault; a faulty text has no tokens."""
        names = [f"text {i}" for i in range(len(texts))] if ids is None else ids
        faults = [_text_fault(text) for text in texts]
        if offsets and not self.tokenizer.is_fast:
            kind = type(self.tokenizer).__name__
            slow = f"its spans need a fast tokenizer (tokenizer.json); {kind} is a slow one"
            faults = [fault or slow for fault in faults]
        good = [i for i, fault in enumerate(faults) if fault is None]
        tokens: list[list[int]] = [[] for _ in texts]
        spans: list[Offsets] = [[] for _ in texts]
        if good:
            encoded = self.tokenizer([texts[i] for i in good], return_offsets_mapping=offsets, verbose=False)
            for row, i in enumerate(good):
                pairs = encoded["offset_mapping"][row] if offsets else []
                tokens[i], spans[i] = self._one_bos(encoded["input_ids"][row], pairs)
                faults[i] = self._token_fault(tokens[i])
                if faults[i]:
                    tokens[i], spans[i] = [], []
        lines = [f"{name}: {fault}" for name, fault in zip(names, faults, strict=True) if fault]
        return tokens, spans, lines

    def _one_bos(self, tokens: list[int], offsets: Offsets) -> tuple[list[int], Offsets]:
        """Drop the tokenizer's own BOS where the text already begins with it."""
        bos = self.tokenizer.bos_token_id
        doubled = self.adds_bos and len(tokens) > 1 and tokens[0] == tokens[1] == bos
        return (tokens[1:], offsets[1:]) if doubled else (tokens, offsets)

    def _token_fault(self, tokens: list[int]) -> str | None:
        if not tokens:
            return "has no tokens"
        if self.max_tokens is not None and len(tokens) > self.max_tokens:
            return f"has {len(tokens)} tokens; the model takes at most {self.max_tokens}"
        if max(tokens) >= self.vocab_size:
            return (
                f"has token {max(tokens)}; the model has only {self.vocab_size}: another model's tokenizer?"
            )
        return None

    def batch(self, sequences: Sequence[Sequence[int]], side: str = "right") -> dict[str, Tensor]:
        """Pad sequences to one length, on either side.

        Returns:
            input_ids, attention_mask, position_ids, each (sequences, longest) int64 on the model's device.
            Positions count real tokens from 0, so that padding on the left moves nothing.
        """
        longest = max(len(sequence) for sequence in sequences)
        tokens = torch.full((len(sequences), longest), self.pad_id, dtype=torch.int64)
        mask = torch.zeros_like(tokens)
        for row, sequence in enumerate(sequences):
            place = slice(0, len(sequence)) if side == "right" else slice(longest - len(sequence), longest)
            tokens[row, place] = torch.tensor(sequence, dtype=torch.int64)
            mask[row, place] = 1
        positions = (mask.cumsum(dim=1) - 1).clamp_(min=0)
        parts = {"input_ids": tokens, "attention_mask": mask, "position_ids": positions}
        return {name: part.to(self.device) for name, part in parts.items()}

    @property
    def pad_id(self) -> int:
        """A token id to fill rows with; what stands there is never seen."""
        pad = self.tokenizer.pad_token_id
        return pad if pad is not None and pad < self.vocab_size else 0

    def run_decoder(self, batch: dict[str, Tensor], **extra: Any) -> Any:
        """Run blocks and final norm, without head, key-value cache or list of hidden states."""
        return run_module(self.decoder, batch, **extra)


def run_module(decoder: nn.Module, batch: dict[str, Tensor], **extra: Any) -> Any:
    """Run a decoder with those of the arguments that it takes, and without a key-value cache."""
    arguments = {**batch, "use_cache": False, **extra}
    accepted = inspect.signature(decoder.forward).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values()):
        arguments = {name: value for name, value in arguments.items() if name in accepted}
    return decoder(**arguments)


def _text_fault(text: str) -> str | None:
    if not text.strip():
        return "is empty"
    if "\0" in text:
        return f"has a NUL byte at character {text.index(chr(0))}"
    surrogate = next((i for i, char in enumerate(text) if "\ud800" <= char <= "\udfff"), None)
    return None if surrogate is None else f"has a lone surrogate at character {surrogate}: not valid Unicode"


def overlapping(offsets: Offsets, start: int, end: int) -> list[int]:
    """Indices of the tokens that overlap the characters [start, end); the tokenizer's own BOS never does."""
    return [
        i for i, (first, last) in enumerate(offsets) if first < min(end, last) and last > max(start, first)
    ]


def first_tensor(output: Any) -> Tensor | None:
    """The hidden state in what a decoder block returns: the tensor itself, or a tuple's first entry."""
    found = output[0] if isinstance(output, tuple | list) and output else output
    return found if isinstance(found, Tensor) else None


def block_input(args: tuple, kwargs: dict[str, Any]) -> Tensor | None:
    """The hidden state handed to a decoder block, by place or by name."""
    return first_tensor(args) if args else first_tensor(kwargs.get("hidden_states"))


@contextmanager
def attached(handles: list[Any]) -> Iterator[None]:
    """Hooks that are gone when the block ends, also after an exception."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
