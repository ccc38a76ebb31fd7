"""The tuned lens: an affine map a layer, so that the output map can read what it was not trained against.

h -> h + A h + b before the final norm, trained to give the model's own last distribution; at A = 0, b = 0
it is the logit lens.

Source: Belrose et al. (2023), "Eliciting Latent Predictions from Transformers with the Tuned Lens"; own code.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from strataprobe.errors import ModelError, StrataprobeError, listing
from strataprobe.files import atomic
from strataprobe.lm import LoadedLM

_KEY = "strataprobe_tuned_lens"
_ROWS = 4096


@dataclass(frozen=True)
class TunedLens:
    """The maps of one model.

    Attributes:
        weight, bias: (L, hidden, hidden) and (L, hidden) float32 A and b of hidden_states[0..L-1]; the last
            block's state needs none.
        facts: which model it belongs to and how it was trained.
    """

    weight: Tensor
    bias: Tensor
    facts: Mapping[str, Any]

    @classmethod
    def identity(cls, lm: LoadedLM, facts: Mapping[str, Any]) -> "TunedLens":
        """The lens before training: the logit lens."""
        shape = (lm.n_layers, lm.hidden_size, lm.hidden_size)
        weight = torch.zeros(shape, device=lm.device)
        return cls(weight, torch.zeros(shape[:2], device=lm.device), {**facts, **belongs_to(lm)})

    def mapped(self, states: Tensor) -> Tensor:
        """(L+1, n, hidden size) states of all indices, each after its own map, in the dtype they came in."""
        early = states[:-1].float()
        moved = early + torch.baddbmm(self.bias[:, None], early, self.weight.transpose(1, 2))
        return torch.cat([moved.to(states.dtype), states[-1:]])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the maps as safetensors, what they belong to in its header; equal lenses, equal bytes."""
        from safetensors.torch import save_file

        # One entry: the order of several in the header is not fixed.
        header = {_KEY: json.dumps(dict(self.facts), sort_keys=True)}
        tensors = {"weight": self.weight.cpu().contiguous(), "bias": self.bias.cpu().contiguous()}
        with atomic(path) as place:
            save_file(tensors, place, metadata=header)


def belongs_to(lm: LoadedLM) -> dict[str, Any]:
    """What a lens is bound to: the unembedding it reads with, and the shape of the model."""
    return {
        "unembedding_sha256": unembedding_sha256(lm),
        "layers": lm.n_layers,
        "hidden_size": lm.hidden_size,
    }


def unembedding_sha256(lm: LoadedLM) -> str:
    """SHA-256 of the head's weights as float32, row by row, then of its bias.

    Raises:
        ModelError: the model has no head.
    """
    if lm.head is None:
        raise ModelError(f"{lm.name}: {type(lm.model).__name__} has no output embeddings to read with")
    digest = hashlib.sha256()
    bias = getattr(lm.head, "bias", None)
    for rows in (*lm.head.weight.detach().split(_ROWS), *([] if bias is None else [bias.detach()])):
        digest.update(rows.float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def load(path: str | os.PathLike[str], lm: LoadedLM) -> TunedLens:
    """Read a lens that was trained for this model.

    Raises:
        StrataprobeError: the file cannot be read, or is no tuned lens.
        ModelError: it was trained for another unembedding, or for another shape; says what differs.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt", device=lm.device) as file:
            facts = json.loads((file.metadata() or {}).get(_KEY, "null"))
            weight, bias = (file.get_tensor(name) for name in ("weight", "bias")) if facts else (None, None)
    except (OSError, SafetensorError) as error:
        raise StrataprobeError(f"cannot read the tuned lens {path}: {error}") from error
    if not facts:
        raise StrataprobeError(f"{path} is no tuned lens: its header has no {_KEY!r}")
    faults = [
        f"{name} is {facts.get(name)} there, the model's is {own}"
        for name, own in belongs_to(lm).items()
        if facts.get(name) != own
    ]
    if faults:
        raise ModelError(listing(f"the tuned lens {path} was not trained for {lm.name}", faults))
    return TunedLens(weight, bias, facts)
