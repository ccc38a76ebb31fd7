"""One fine-tuning run: adapters after every so many steps, and the loss of each step.

What is random in step t (its rows, its dropout) is a function of (seed, t) alone, so that a run that was
stopped goes on to the same bytes, however often it is saved.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from strataprobe.curation.lora import Settings, draw, learning_rate, with_adapter, write_adapter
from strataprobe.errors import ModelError, listing
from strataprobe.files import sha256_json
from strataprobe.lm import LoadedLM
from strataprobe.lm.adapters import forked_rng
from strataprobe.pretraining.data import batch_rows
from strataprobe.pretraining.reproducible import reproducible
from strataprobe.pretraining.resumable import Resumable, folder
from strataprobe.provenance import versions

if TYPE_CHECKING:
    from peft import PeftModel

__all__ = ["LOSS_COLUMNS", "Run", "folder", "next_token_loss", "train"]
LOSS_COLUMNS = ("step", "loss", "learning_rate", "tokens")


class _CrossEntropy(torch.autograd.Function):
    """Cross-entropy that holds the logits once: their gradient, softmax minus one-hot, is written over them.

    With a large vocabulary, a few per cent of a step. A model whose last operation needs its own result again
    for the way back is told so by torch, which counts what is written over.
    """

    @staticmethod
    def forward(context: Any, logits: Tensor, targets: Tensor, share: Tensor) -> Tensor:
        """The sum over rows (n, vocabulary) of `share` (n, 1) times the loss of `targets` (n, 1)."""
        logits -= logits.amax(dim=1, keepdim=True)
        chosen = logits.gather(1, targets)
        total = logits.exp_().sum(dim=1, keepdim=True)
        logits *= share / total
        context.save_for_backward(logits.scatter_add_(1, targets, -share))
        return ((total.log() - chosen) * share).sum()

    @staticmethod
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = context.saved_tensors
        return slope if upstream == 1 else slope * upstream, None, None


def next_token_loss(model: nn.Module, rows: Tensor) -> Tensor:
    """Mean next-token cross-entropy (nats) of rows (n, length), over their n (length - 1) predictions."""
    logits = model(input_ids=rows, use_cache=False).logits.flatten(0, 1).float()
    # The last token of a row predicts nothing: left out by its share, it spares a copy of the logits.
    share = torch.full(rows.shape, 1 / rows[:, 1:].numel(), device=logits.device)
    share[:, -1] = 0
    return _CrossEntropy.apply(logits, rows.roll(-1, dims=1).reshape(-1, 1), share.reshape(-1, 1))


class Run(Resumable):
    """A fine-tuning run: the adapter is what is trained, and what is kept."""

    kind, keeps = "fine-tuning", "adapter"

    def __init__(self, model: "PeftModel", settings: Settings, seed: int, scratch: Path) -> None:
        super().__init__(model, settings.saved_steps(), seed, scratch)
        self.settings = settings
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(), lr=0.0, weight_decay=settings.weight_decay, fused=True
        )
        self.remedy = (
            f"lower learning_rate (now {settings.learning_rate}), raise warmup_steps, or load the model in "
            "float32"
        )

    def train_step(self, rows: Tensor) -> None:
        """One update by rows (batch, length). Raises ModelError as `update` does."""
        torch.manual_seed(draw(self.seed, self.step + 1))
        self.update(
            next_token_loss(self.model, rows),
            rate=learning_rate(self.step + 1, self.settings),
            gradient_norm=self.settings.gradient_norm,
            tokens=rows.numel(),
        )


def train(
    lm: LoadedLM,
    rows: np.ndarray,
    settings: Settings,
    *,
    seed: int,
    base: Mapping[str, Any],
    out_for: Callable[[int], Path],
    scratch: Path,
    loss_csv: Path,
    threads: int = 1,
    code: str = "",
    progress: Callable[..., Iterable[int]] | None = None,
    clear: bool = True,
) -> Callable[[], None]:
    """Fine-tune a LoRA adapter and write it as a directory for each step of `settings.saved_steps()`.

    Stopped at any moment and called again, it goes on from its last adapter and ends with the same bytes.
    Nothing appears at `out_for(step)` or `loss_csv` before the whole run is done. The model is afterwards as
    it was before.

    Args:
        lm: the base model.
        rows: (rows, sequence_length) int64, as `packing.pack`; each pass over them has its own order.
        seed: of the adapter's first weights, its dropout, and the order of the rows.
        base: identity of the base checkpoint.
        out_for: the directory of a step's adapter.
        scratch: folder for what is needed to go on.
        loss_csv: columns step, loss (nats a token), learning_rate, tokens (all seen until then).
        threads: of torch, which change the last bits on a CPU.
        code: checksum of the program: a state that another one left is not taken up.
        progress: as `logs.progress`; None for silence.
        clear: remove what is in scratch when the run is done. A job that has more to write than this does it
            after that, by what is returned: killed in between, it still has the run.

    Returns:
        What removes it.

    Raises:
        ModelError: target modules that match nothing, rows the model cannot take, or a loss or gradient that
            became NaN or infinite (names the step).
    """
    _check(lm, rows, settings)
    key = _key(lm, rows, settings, seed=seed, threads=threads, base=base["weights_sha256"], code=code)
    with (
        reproducible(threads, lm.device),
        with_adapter(lm, settings, seed=seed, base=base) as model,
        forked_rng(lm.device),
    ):
        run = Run(model, settings, seed, Path(scratch) / key)
        run.resume()
        for step in run.left(progress):
            chosen = rows[batch_rows(len(rows), settings.batch_size, seed, step)]
            run.train_step(torch.from_numpy(chosen).to(lm.device))
            if step in run.saved:
                run.save(partial(write_adapter, model))
    run.finish(out_for, LOSS_COLUMNS, loss_csv)
    if clear:
        run.clear()
    return run.clear


def _check(lm: LoadedLM, rows: np.ndarray, settings: Settings) -> None:
    """Refuse rows that the model cannot take, or that are not what the settings say."""
    faults = []
    if rows.shape[1] != settings.sequence_length:
        faults.append(f"sequence_length is {settings.sequence_length}, but the rows have {rows.shape[1]}")
    if lm.max_tokens is not None and rows.shape[1] > lm.max_tokens:
        faults.append(f"sequence_length {rows.shape[1]}: the model takes at most {lm.max_tokens}")
    if rows.shape[1] < 2:
        faults.append("sequence_length: at least 2 would be right, since a token is predicted from another")
    if settings.warmup_steps > settings.steps:
        faults.append(
            f"warmup_steps {settings.warmup_steps}: at most steps ({settings.steps}) would be right"
        )
    if faults:
        raise ModelError(listing(f"fine-tuning {lm.name}", faults))


def _key(lm: LoadedLM, rows: np.ndarray, settings: Settings, **others: Any) -> str:
    """What a resumable state belongs to."""
    belongs = {
        **others,
        "model": [lm.dtype, lm.device],
        "settings": {**asdict(settings), "target_modules": sorted(settings.target_modules)},
        "rows": hashlib.sha256(np.ascontiguousarray(rows)).hexdigest(),
        "versions": versions(("torch", "transformers", "peft")),
    }
    return sha256_json(belongs)[:16]
