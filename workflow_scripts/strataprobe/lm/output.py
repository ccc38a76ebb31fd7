"""The model's own output map: from a state after the final norm to logits, as the model computes them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from strataprobe.errors import ModelError
from strataprobe.lm.loaded import LoadedLM, attached, first_tensor, run_module

# Of the largest logit; half precision rounds otherwise where the head is applied to other shapes.
_ALLOWED = {"float32": 1e-4}
_ALLOWED_HALF = 2e-2
# Bytes of float32 logits at a time: more makes nothing faster on a CPU; elsewhere what fits beside a model.
_CHUNK_BYTES = {"cpu": 64 << 20}
_CHUNK_BYTES_ELSEWHERE = 1 << 30


@dataclass(frozen=True)
class OutputMap:
    """Head, scale and soft cap of a model, checked against its own logits.

    Attributes:
        scale: what the head's output is multiplied by.
        cap: logits become cap * tanh(logits / cap); None leaves them.
    """

    lm: LoadedLM
    scale: float
    cap: float | None

    @classmethod
    def of(cls, lm: LoadedLM) -> "OutputMap":
        """Find how the model turns its normed state into logits, and check it on a few tokens.

        Raises:
            ModelError: the model has no head, or its logits come about in a way that is not known here.
        """
        if lm.head is None:
            raise ModelError(f"{lm.name}: {type(lm.model).__name__} has no output embeddings to read with")
        config = lm.model.config.get_text_config()
        normed, own = _both_ends(lm)
        tried = [(scale, cap) for scale in _scales(config) for cap in _caps(config)]
        with torch.inference_mode():
            for scale, cap in tried:
                found = cls(lm, scale, cap)
                difference = (found.logits(normed) - own).abs().max() / own.abs().max()
                if float(difference) <= _ALLOWED.get(lm.dtype, _ALLOWED_HALF):
                    return found
        raise ModelError(
            f"{lm.name}: head(final norm(last block)) is not what {type(lm.model).__name__} gives as logits "
            f"(tried scale and soft cap {tried}); its output map is not known here"
        )

    def normed(self, states: Tensor) -> Tensor:
        """(..., hidden size) states after the final norm, each by its own statistics."""
        return self.lm.final_norm(states)

    def logits(self, normed: Tensor) -> Tensor:
        """(..., vocabulary) float32 logits of normed states."""
        logits = self.raw(normed)
        logits = logits if self.scale == 1.0 else logits * self.scale
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)

    def raw(self, states: Tensor) -> Tensor:
        """(..., vocabulary) float32: the unembedding alone, without scale or cap (both keep the order)."""
        return self.lm.head(states).float()

    def raw_at(self, states: Tensor, targets: Tensor) -> Tensor:
        """`raw` at one token a state, in float32: without a norm, logits can be beyond half precision.

        Args:
            states: (..., n, hidden size).
            targets: (n,) token ids.

        Returns:
            (..., n) float32.
        """
        head = self.lm.head
        if not isinstance(head, nn.Linear):
            return self.raw(states).gather(-1, targets.expand(states.shape[:-1])[..., None])[..., 0]
        found = (states.float() * head.weight[targets].float()).sum(dim=-1)
        return found if head.bias is None else found + head.bias[targets].float()

    def log_probabilities(self, normed: Tensor, asked: Tensor, targets: Tensor) -> Tensor:
        """Log-probabilities of chosen tokens, with only a few states' whole logits in memory at a time.

        Args:
            normed: (n, hidden size) states after the final norm.
            asked: (questions,) which state each question is put to.
            targets: (questions,) the token whose log-probability is asked for.

        Returns:
            (questions,) float32 nats.
        """
        found = torch.empty(len(asked), dtype=torch.float32, device=normed.device)
        for part in self.parts(len(normed)):
            inside = ((asked >= part.start) & (asked < part.stop)).nonzero()[:, 0]
            row = asked[inside] - part.start
            logits = self.logits(normed[part])
            # log_softmax is faster on a CPU, but so rough that a sum over six tokens was off by 1e-4 in a
            # vocabulary of 49,152.
            found[inside] = logits[row, targets[inside]] - logits.logsumexp(dim=-1)[row]
        return found

    def parts(self, count: int) -> Iterator[slice]:
        """Slices of `count` states, so few each that their logits are no memory to speak of."""
        allowed = _CHUNK_BYTES.get(self.lm.device, _CHUNK_BYTES_ELSEWHERE)
        size = max(1, allowed // (4 * self.lm.vocab_size))
        return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _both_ends(lm: LoadedLM) -> tuple[Tensor, Tensor]:
    """The last block's state after the final norm, and the model's own float32 logits, on a few tokens."""
    sample = lm.encode(["The quick brown fox jumps over the lazy dog."])[0][:8]
    kept: list[Tensor] = []
    hook = lm.blocks[-1].register_forward_hook(lambda _m, _a, out: kept.append(first_tensor(out)))
    with torch.inference_mode(), attached([hook]):
        logits = run_module(lm.model, lm.batch([sample])).logits
        return lm.final_norm(kept[0]), logits.float()


def _scales(config: Any) -> list[float]:
    """What configs name as a factor on logits: nothing, one (Cohere, Falcon-H1), or a divisor (Granite)."""
    found = [1.0]
    for name, sign in (("logit_scale", 1), ("lm_head_multiplier", 1), ("logits_scaling", -1)):
        value = getattr(config, name, None)
        if isinstance(value, int | float) and value:  # MPT's may be the name of a rule
            found.append(float(value) ** sign)
    return found


def _caps(config: Any) -> list[float | None]:
    cap = getattr(config, "final_logit_softcapping", None)
    return [float(cap), None] if cap else [None]
