"""The model's own output map: from a state after the final norm to logits, as the model itself computes them."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from strataprobe.errors import ModelError
from strataprobe.lm.loaded import LoadedLM, attached, first_tensor

# Of the largest logit; half precision rounds otherwise where the head is applied to other shapes.
_ALLOWED = {"float32": 1e-4}
_ALLOWED_HALF = 2e-2


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
        for scale, cap in tried:
            found = cls(lm, scale, cap)
            difference = (found.logits(normed) - own.float()).abs().max() / own.float().abs().max()
            if float(difference) <= _ALLOWED.get(lm.dtype, _ALLOWED_HALF):
                return found
        raise ModelError(
            f"{lm.name}: head(final norm(last block)) is not what {type(lm.model).__name__} gives as logits "
            f"(tried scale and soft cap {tried}); its output map is not known here"
        )

    def normed(self, states: Tensor) -> Tensor:
        """(..., hidden size) states of the residual stream after the model's final norm; each has its own statistics."""
        return self.lm.final_norm(states)

    def logits(self, normed: Tensor) -> Tensor:
        """(..., vocabulary) float32 logits of normed states."""
        logits = self.raw(normed) * self.scale
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)

    def raw(self, states: Tensor) -> Tensor:
        """(..., vocabulary) float32: the unembedding alone, without scale or cap (both keep the order)."""
        return self.lm.head(states).float()

    def log_probabilities(self, states: Tensor, targets: Tensor) -> Tensor:
        """Log-probability of one token a state, from states before the final norm.

        Args:
            states: (..., hidden size).
            targets: (...,) token ids.

        Returns:
            (...,) float32 nats.
        """
        logits = self.logits(self.normed(states))
        return logits.gather(-1, targets[..., None])[..., 0] - logits.logsumexp(dim=-1)


def _both_ends(lm: LoadedLM) -> tuple[Tensor, Tensor]:
    """The last block's state after the final norm, and the model's own logits, on a few tokens."""
    sample = lm.encode(["The quick brown fox jumps over the lazy dog."])[0][:8]
    kept: list[Tensor] = []
    hook = lm.blocks[-1].register_forward_hook(lambda _m, _a, out: kept.append(first_tensor(out)))
    with torch.inference_mode(), attached([hook]):
        logits = lm.model(
            **{k: v for k, v in lm.batch([sample]).items() if k != "position_ids"}, use_cache=False
        ).logits
        return lm.final_norm(kept[0]), logits


def _scales(config: Any) -> list[float]:
    """Ways in which configs name a factor on logits: none, multiplied (Cohere, Falcon-H1), divided by (Granite)."""
    found = [1.0]
    for name in ("logit_scale", "lm_head_multiplier"):
        if value := getattr(config, name, None):
            found.append(float(value))
    if value := getattr(config, "logits_scaling", None):
        found.append(1 / float(value))
    return found


def _caps(config: Any) -> list[float | None]:
    cap = getattr(config, "final_logit_softcapping", None)
    return [float(cap), None] if cap else [None]
