"""LoRA (Hu et al., 2022) by peft: its settings, its schedule, and an adapter put on a model and taken off."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from strataprobe.checkpoints import ADAPTER_CONFIG
from strataprobe.config.curation import saved_steps
from strataprobe.files import canonical_json
from strataprobe.lm import LoadedLM
from strataprobe.lm.adapters import check_targets, wrapping

if TYPE_CHECKING:
    from peft import PeftModel


@dataclass(frozen=True)
class Settings:
    """Settings of one fine-tuning run; the defaults are the published ones.

    Attributes:
        rank, alpha, dropout, target_modules: as peft has them; the update is alpha / rank times B A.
        learning_rate, warmup_steps, schedule: see `learning_rate`.
        gradient_norm: the gradient's norm is cut to it.
        weight_decay: of AdamW, torch's default; the paper says nothing of it.
        batch_size, sequence_length: rows a step and tokens a row.
        steps, save_every: steps of the run; an adapter is kept after every `save_every` and after the last.
    """

    rank: int = 16
    alpha: float = 32
    dropout: float = 0.05
    target_modules: Sequence[str] = ("q_proj", "v_proj")
    learning_rate: float = 2e-4
    warmup_steps: int = 50
    schedule: str = "cosine"
    gradient_norm: float = 1.0
    weight_decay: float = 0.01
    batch_size: int = 2
    sequence_length: int = 1024
    steps: int = 1000
    save_every: int = 100

    def saved_steps(self) -> list[int]:
        """Steps after which an adapter is kept."""
        return saved_steps(self.steps, self.save_every)


def learning_rate(step: int, settings: Settings) -> float:
    """The rate of step `step` (from 1): linear warm-up, then a half cosine to zero at the last, or constant.

    Source: the `lr` column of the published runs, which the cosine meets to the last digit or two.
    """
    peak, warmup = settings.learning_rate, settings.warmup_steps
    if step <= warmup:
        return peak * step / warmup
    if settings.schedule == "constant":
        return peak
    done = (step - warmup) / (settings.steps - warmup)
    return peak * max(0.0, 0.5 * (1 + math.cos(math.pi * done)))


def draw(seed: int, step: int) -> int:
    """The seed of what is random in step `step` (0: the adapter's first weights), a function of both alone.

    So nothing random hangs on what was done before, and a run that was stopped has no state of it to keep.
    """
    return int(np.random.Philox(key=[seed, step]).random_raw()) >> 1


@contextmanager
def with_adapter(
    lm: LoadedLM, settings: Settings, *, seed: int, base: Mapping[str, Any]
) -> Iterator["PeftModel"]:
    """The model with a new adapter on it, ready to train; afterwards, also after an error, as it was before.

    Args:
        base: identity of the checkpoint; its repo and commit, or model and revision, go into the adapter.

    Raises:
        ModelError: target modules that match nothing (names those there are), or weights that come and go.
    """
    from peft import LoraConfig, get_peft_model
    from transformers.pytorch_utils import Conv1D

    targets = check_targets(lm, settings.target_modules)
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=sorted(settings.target_modules),
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in targets),
    )
    with wrapping(lm.device):
        torch.manual_seed(draw(seed, 0))
        model = get_peft_model(lm.model, config)
    # peft would keep the directory that the model was loaded from, which means nothing elsewhere.
    config.base_model_name_or_path = base["repo"] or base["model"]
    config.revision = base["commit"] or base["revision"]
    try:
        yield model.train()
    finally:
        model.unload().eval().requires_grad_(False)


def write_adapter(model: "PeftModel", place: Path) -> None:
    """An adapter directory as peft writes it, with the same bytes for the same adapter, on every machine."""
    # Asked for embeddings "auto", peft would look at the hub.
    model.save_pretrained(str(place), save_embedding_layers=False)
    (place / "README.md").unlink()  # a card to fill in
    config = place / ADAPTER_CONFIG
    content = json.loads(config.read_text(encoding="utf-8"))
    content["target_modules"] = sorted(content["target_modules"])  # a set, in an order of chance
    config.write_text(canonical_json(content), encoding="utf-8")
    for file in place.iterdir():
        file.chmod(0o644)  # safetensors leaves the weights readable to their owner only
