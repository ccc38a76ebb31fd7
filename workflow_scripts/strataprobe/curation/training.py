"""One fine-tuning run: adapters after every so many steps, and the loss of each step.

What is random in step t (its rows, its dropout) is a function of (seed, t) alone, so that a run that was
stopped goes on to the same bytes, however often it is saved.
"""

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from strataprobe.curation.lora import Settings, draw, forked_rng, learning_rate, with_adapter, write_adapter
from strataprobe.errors import ModelError, listing
from strataprobe.files import atomic, sha256_json
from strataprobe.lm import LoadedLM
from strataprobe.pretraining.data import batch_rows
from strataprobe.pretraining.reproducible import reproducible
from strataprobe.provenance import versions

if TYPE_CHECKING:
    from peft import PeftModel

LOSS_COLUMNS = ("step", "loss", "learning_rate", "tokens")
_STATE = "state.safetensors"


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


class Run:
    """The state of one run: adapter, optimiser, step, and the losses so far."""

    def __init__(self, model: "PeftModel", settings: Settings, seed: int, scratch: Path) -> None:
        self.model, self.settings, self.seed, self.scratch = model, settings, seed, scratch
        self.parameters = {name: own for name, own in model.named_parameters() if own.requires_grad}
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(), lr=0.0, weight_decay=settings.weight_decay, fused=True
        )
        self.step = 0
        self.losses: list[dict[str, float | int]] = []

    def train_step(self, rows: Tensor) -> None:
        """One update by rows (batch, length).

        Raises:
            ModelError: loss or gradient is NaN or infinite; what was kept before stays usable.
        """
        step, rate = self.step + 1, learning_rate(self.step + 1, self.settings)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        torch.manual_seed(draw(self.seed, step))
        loss = next_token_loss(self.model, rows)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.parameters.values(), self.settings.gradient_norm)
        value = loss.item()
        for what, number in (("loss", value), ("gradient's norm", norm.item())):
            if not math.isfinite(number):
                raise ModelError(self._diverged(what, number, step))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step = step
        tokens = step * rows.numel()
        self.losses.append({"step": step, "loss": value, "learning_rate": rate, "tokens": tokens})

    def _diverged(self, what: str, number: float, step: int) -> str:
        kept = [saved for saved in self.settings.saved_steps() if saved < step]
        until = (
            f"the run is kept up to step {kept[-1]} in {self.scratch}" if kept else "no adapter is kept yet"
        )
        return (
            f"fine-tuning: the {what} is {number} at step {step} of {self.settings.steps} "
            f"(seed {self.seed}); lower learning_rate (now {self.settings.learning_rate}), raise "
            f"warmup_steps, or load the model in float32; {until}"
        )

    def save(self) -> None:
        """The adapter of the present step, then everything needed to go on from here, without pickle."""
        from safetensors.torch import save_file

        with atomic(self.scratch / folder(self.step)) as place:
            write_adapter(self.model, place)
        tensors = {f"weight.{name}": own.detach() for name, own in self.parameters.items()}
        for name, own in self.parameters.items():
            for key, value in self.optimizer.state[own].items():
                tensors[f"{key}.{name}"] = value
        notes = {"step": str(self.step), "losses": json.dumps(self.losses)}
        with atomic(self.scratch / _STATE) as place:
            save_file(tensors, place, metadata=notes)

    def resume(self) -> None:
        """Take up the state left in scratch, if there is one and all its adapters are there too."""
        from safetensors import safe_open

        path = self.scratch / _STATE
        if not path.is_file():
            return
        with safe_open(path, framework="pt", device=str(self.model.device)) as state:
            notes = state.metadata()
            done = [step for step in self.settings.saved_steps() if step <= int(notes["step"])]
            if not all((self.scratch / folder(step)).is_dir() for step in done):
                return
            with torch.no_grad():
                for name, own in self.parameters.items():
                    own.copy_(state.get_tensor(f"weight.{name}"))
                    self.optimizer.state[own] = {
                        key: state.get_tensor(f"{key}.{name}").clone()
                        for key in ("step", "exp_avg", "exp_avg_sq")
                    }
        self.step, self.losses = int(notes["step"]), json.loads(notes["losses"])


def folder(step: int) -> str:
    """The name of a step's adapter, which is also that of its revision."""
    return f"step{step:04d}"


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
    progress: Callable[..., Iterable[int]] | None = None,
) -> None:
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
        scratch: folder for what is needed to go on; removed when the run is done.
        loss_csv: columns step, loss (nats a token), learning_rate, tokens (all seen until then).
        threads: of torch, which change the last bits on a CPU.
        progress: as `logs.progress`; None for silence.

    Raises:
        ModelError: target modules that match nothing, rows the model cannot take, or a loss that became NaN
            or infinite (names the step).
    """
    _check(lm, rows, settings)
    scratch = Path(scratch) / _key(rows, settings, seed, base)
    with (
        reproducible(threads, lm.device),
        with_adapter(lm, settings, seed=seed, base=base) as model,
        forked_rng(lm.device),
    ):
        run = Run(model, settings, seed, scratch)
        run.resume()
        todo: Iterable[int] = range(run.step + 1, settings.steps + 1)
        if progress:
            todo = progress(todo, total=settings.steps - run.step, desc="fine-tuning", unit="step")
        saved = set(settings.saved_steps())
        for step in todo:
            chosen = rows[batch_rows(len(rows), settings.batch_size, seed, step)]
            run.train_step(torch.from_numpy(chosen).to(lm.device))
            if step in saved:
                run.save()
    for step in sorted(saved):
        _place(scratch / folder(step), out_for(step))
    _write_losses(run.losses, loss_csv)
    shutil.rmtree(scratch)


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


def _key(rows: np.ndarray, settings: Settings, seed: int, base: Mapping[str, Any]) -> str:
    """What a resumable state belongs to."""
    belongs = {
        "settings": {**asdict(settings), "target_modules": sorted(settings.target_modules)},
        "seed": seed,
        "base": base["weights_sha256"],
        "rows": hashlib.sha256(np.ascontiguousarray(rows)).hexdigest(),
        "versions": versions(("torch", "transformers", "peft")),
    }
    return sha256_json(belongs)[:16]


def _place(source: Path, target: Path) -> None:
    """Copied, not moved: a run killed here is run again after its outputs were deleted, and needs all."""
    with atomic(target) as place:
        shutil.copytree(source, place, copy_function=shutil.copyfile)


def _write_losses(losses: list[dict[str, float | int]], path: Path) -> None:
    lines = [",".join(LOSS_COLUMNS)]
    for row in losses:
        numbers = (row[column] for column in LOSS_COLUMNS)
        lines.append(",".join(f"{own:.6g}" if isinstance(own, float) else str(own) for own in numbers))
    with atomic(path) as place:
        place.write_text("\n".join(lines) + "\n", encoding="utf-8")
