"""Fine-tuning by LoRA: our run against transformers' Trainer with peft, from a loaded model to an adapter."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.outcome import Outcome, best_of, skipped
from bench.setup import Setup
from strataprobe import lm
from strataprobe.checkpoints import ADAPTER_WEIGHTS
from strataprobe.curation.lora import Settings
from strataprobe.curation.training import train

NAME = "lora"
QUESTION = (
    "LoRA (rank 16, q_proj and v_proj) of SmolLM2-135M (fp32), 10 steps of 4 x 64 tokens: our run, with its "
    "state to go on from, against transformers' Trainer with peft on the same rows and settings; both from a "
    "loaded model to an adapter on the disk."
)
REQUIRED = "at least as many tokens a second"
SETTINGS = Settings(
    batch_size=4, sequence_length=64, steps=10, save_every=10, warmup_steps=2, schedule="constant"
)
BASE = {"model": "bench", "revision": "main", "repo": None, "commit": None, "weights_sha256": "0" * 64}


def measure(chosen: Setup, settings: Settings = SETTINGS, repeats: int = 2) -> Outcome:
    """Compare training tokens a second."""
    if chosen.missing:
        return skipped(NAME, QUESTION, REQUIRED, chosen.missing)
    loaded = lm.load(chosen.checkpoint, dtype="float32", device="cpu")
    rows = np.random.default_rng(0).integers(
        10, loaded.vocab_size, (settings.steps * settings.batch_size, settings.sequence_length)
    )
    with tempfile.TemporaryDirectory() as folder:
        seconds = best_of(
            repeats,
            {
                "Trainer": lambda: trainer(loaded, rows, settings, Path(folder) / "trainer", chosen.threads),
                "ours": lambda: ours(loaded, rows, settings, Path(folder) / "ours", chosen.threads),
            },
        )
    tokens = settings.steps * settings.batch_size * settings.sequence_length
    times = seconds["Trainer"] / seconds["ours"]
    numbers = {
        "Trainer with peft": f"{tokens / seconds['Trainer']:.0f} tokens/s",
        "ours": f"{tokens / seconds['ours']:.0f} tokens/s",
        "times as fast": f"{times:.2f}",
    }
    return Outcome(NAME, QUESTION, REQUIRED, times >= 1, numbers)


def ours(loaded: lm.LoadedLM, rows: np.ndarray, settings: Settings, folder: Path, threads: int) -> Path:
    """One run; the adapter's weights."""
    train(
        loaded, rows, settings, seed=1, base=BASE, out_for=lambda step: folder / "adapter",
        scratch=folder / "scratch", loss_csv=folder / "loss.csv", threads=threads,
    )  # fmt: skip
    return folder / "adapter" / ADAPTER_WEIGHTS


def trainer(loaded: lm.LoadedLM, rows: np.ndarray, settings: Settings, folder: Path, threads: int) -> Path:
    """The same run by Trainer; the adapter's weights."""
    from peft import LoraConfig, get_peft_model
    from transformers import PrinterCallback, Trainer, TrainingArguments

    torch.set_num_threads(threads)
    config = LoraConfig(
        task_type="CAUSAL_LM", r=settings.rank, lora_alpha=settings.alpha, lora_dropout=settings.dropout,
        target_modules=list(settings.target_modules),
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=settings.batch_size, max_steps=settings.steps,
        learning_rate=settings.learning_rate, warmup_steps=settings.warmup_steps,
        lr_scheduler_type="constant_with_warmup", weight_decay=settings.weight_decay,
        max_grad_norm=settings.gradient_norm, optim="adamw_torch_fused", logging_steps=1,
        save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, seed=1,
    )  # fmt: skip
    items: list[dict[str, Any]] = [{"input_ids": row.tolist(), "labels": row.tolist()} for row in rows]
    model = get_peft_model(loaded.model, config)
    try:
        theirs = Trainer(model=model, args=arguments, train_dataset=items)
        theirs.remove_callback(PrinterCallback)
        theirs.train()
        model.save_pretrained(str(folder), save_embedding_layers=False)
    finally:
        model.unload().eval().requires_grad_(False)
    return folder / ADAPTER_WEIGHTS
