"""Pre-training `nano`: one run that leaves a complete model directory at every checkpoint step.

The batch of step t is a function of (seed, t) alone and nothing random happens while training, so a run
that was stopped goes on to the same bytes, however often it was saved.
"""

import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from strataprobe.errors import ModelError
from strataprobe.files import atomic, sha256_file, sha256_json
from strataprobe.pretraining import tokenizer
from strataprobe.pretraining.data import batch_rows, prepare
from strataprobe.pretraining.model import build_model, next_token_loss
from strataprobe.pretraining.reproducible import reproducible

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

# The second momentum is longer than OLMo 2's 0.95 (arXiv 2501.00656, section 3): in a run this short a rare
# word's few gradients would otherwise be steps of full size in directions of chance.
BETAS = (0.9, 0.99)
# With the cosine schedule the rate ends at this share of its peak.
FINAL_RATE = 0.1
LOSS_COLUMNS = "step,loss,learning_rate,tokens,heldout_loss"


def learning_rate(step: int, last_step: int, training: dict[str, Any]) -> float:
    """The rate of step `step` (from 1): linear warm-up, then constant or a cosine to a tenth."""
    peak, warmup = training["learning_rate"], training["warmup_steps"]
    if step <= warmup:
        return peak * step / warmup
    if training["schedule"] == "constant":
        return peak
    done = (step - warmup) / max(1, last_step - warmup)
    return peak * (FINAL_RATE + (1 - FINAL_RATE) * 0.5 * (1 + math.cos(math.pi * done)))


class Run:
    """The state of one training run: model, optimiser, step and the loss curve so far."""

    def __init__(self, settings: dict[str, Any], seed: int, scratch: Path) -> None:
        import torch

        self.settings, self.seed, self.scratch = settings, seed, scratch
        self.model = build_model(settings, seed)
        self.parameters = dict(self.model.named_parameters())
        self.optimizer = torch.optim.AdamW(self._groups(), lr=0.0, betas=BETAS, fused=True)
        self.step = 0
        self.curve: list[dict[str, float | int | None]] = []

    def _groups(self) -> list[dict[str, Any]]:
        """Matrices decay, norms do not."""
        decay = self.settings["training"]["weight_decay"]
        matrices = [parameter for parameter in self.parameters.values() if parameter.ndim > 1]
        others = [parameter for parameter in self.parameters.values() if parameter.ndim < 2]
        return [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]

    def train_step(self, rows: "torch.Tensor") -> None:
        """One update. Raises ModelError when the loss is no number; the state kept stays usable."""
        import torch

        training, last_step = self.settings["training"], max(self.settings["checkpoints"])
        step = self.step + 1
        rate = learning_rate(step, last_step, training)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss = next_token_loss(self.model, rows)
        value = loss.item()
        if not math.isfinite(value):
            raise ModelError(
                f"pretraining: the loss is {value} at step {step} of {last_step} (seed {self.seed}); "
                f"lower training.learning_rate (now {training['learning_rate']}) or raise its warmup_steps"
            )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), training["gradient_norm"])
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step = step
        tokens = step * rows[:, 1:].numel()
        self.curve.append(
            {"step": step, "loss": value, "learning_rate": rate, "tokens": tokens, "heldout": None}
        )

    def measure(self, rows: "torch.Tensor") -> None:
        """Note the held-out loss of the present step."""
        import torch

        with torch.no_grad():
            value = next_token_loss(self.model, rows).item()
        if not self.curve:
            self.curve.append({"step": 0, "loss": None, "learning_rate": None, "tokens": 0, "heldout": None})
        self.curve[-1]["heldout"] = value

    def save(self) -> None:
        """Everything needed to go on from here, in one file, without pickle."""
        from safetensors.torch import save_file

        tensors = {f"weight.{name}": parameter.detach() for name, parameter in self.parameters.items()}
        for name, parameter in self.parameters.items():
            for key, value in self.optimizer.state[parameter].items():
                tensors[f"{key}.{name}"] = value
        notes = {"step": str(self.step), "curve": json.dumps(self.curve)}
        with atomic(self.scratch / "state.safetensors") as place:
            save_file(tensors, place, metadata=notes)

    def resume(self) -> None:
        """Take up the state left in scratch, if there is one and all its checkpoints are there too."""
        import torch
        from safetensors import safe_open

        path = self.scratch / "state.safetensors"
        if not path.is_file():
            return
        with safe_open(path, framework="pt") as state:
            notes = state.metadata()
            done = [step for step in self.settings["checkpoints"] if step <= int(notes["step"])]
            if not all((self.scratch / _folder(step)).is_dir() for step in done):
                return
            with torch.no_grad():
                for name, parameter in self.parameters.items():
                    parameter.copy_(state.get_tensor(f"weight.{name}"))
            names = {id(parameter): name for name, parameter in self.parameters.items()}
            for group in self.optimizer.param_groups if int(notes["step"]) else ():
                for parameter in group["params"]:
                    name = names[id(parameter)]
                    self.optimizer.state[parameter] = {
                        key: state.get_tensor(f"{key}.{name}").clone()
                        for key in ("step", "exp_avg", "exp_avg_sq")
                    }
        self.step, self.curve = int(notes["step"]), json.loads(notes["curve"])


def _folder(step: int) -> str:
    return f"step{step:04d}"


def _write_checkpoint(run: Run, words: "Tokenizer") -> None:
    """A complete model directory for the present step, in scratch."""
    with atomic(run.scratch / _folder(run.step)) as place:
        place.mkdir()
        run.model.save_pretrained(place)
        tokenizer.save(words, place, max_positions=run.settings["architecture"]["max_positions"])
        for file in place.iterdir():
            file.chmod(0o644)  # safetensors leaves the weights readable to their owner only


def _write_curve(curve: list[dict[str, float | int | None]], path: Path) -> None:
    """The loss curve as csv; a field that was not measured is empty."""
    lines = [LOSS_COLUMNS]
    for row in curve:
        numbers = [row["step"], row["loss"], row["learning_rate"], row["tokens"], row["heldout"]]
        lines.append(
            ",".join(
                "" if number is None else f"{number:.6g}" if isinstance(number, float) else str(number)
                for number in numbers
            )
        )
    with atomic(path) as place:
        place.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _place(source: Path, target: Path) -> None:
    """Put a finished checkpoint where it belongs, leaving scratch whole.

    Linked, not moved: a run killed here is run again after its outputs were deleted, and must still
    find all of them. The files' times become now, so that they are newer than the run's inputs.
    """
    with atomic(target) as place:
        shutil.copytree(source, place, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    os.utime(target)


def _key(settings: dict[str, Any], seed: int, resources: Path) -> str:
    """What a resumable state belongs to: settings, seed, the corpus' sources and torch."""
    import torch

    sources = {path.name: sha256_file(path) for path in sorted(resources.iterdir()) if path.is_file()}
    return sha256_json({"settings": settings, "seed": seed, "sources": sources, "torch": torch.__version__})[
        :16
    ]


def pretrain(
    settings: dict[str, Any],
    *,
    seed: int,
    resources: Path,
    out_for: Callable[[int], Path],
    scratch: Path,
    loss_csv: Path,
    progress: Callable[..., Iterable[int]] | None = None,
) -> None:
    """Train one model and write a complete directory for each step of `settings["checkpoints"]`.

    Stopped at any moment and called again, it goes on from its last checkpoint and ends with the same
    bytes. Nothing appears at `out_for(step)` or `loss_csv` before the whole run is done.

    Args:
        settings: `architecture`, `corpus`, `training`, `checkpoints` (steps, 0 for the untrained model)
            and `threads`, as in config.yaml.
        seed: of the weights and of the order of the data; the corpus has its own.
        resources: folder of the corpus' sources.
        out_for: the directory of a checkpoint step.
        scratch: folder for what is needed to go on; removed when the run is done.
        loss_csv: columns step, loss, learning_rate, tokens, heldout_loss (losses in nats a token).
        progress: as `logs.progress`; None for silence.

    Raises:
        ModelError: the loss became NaN or infinite (names the step), or the corpus is too small.
    """
    import torch

    steps = sorted(settings["checkpoints"])
    scratch = Path(scratch) / _key(settings, seed, resources)
    with reproducible(settings["threads"]):
        words, train_rows, heldout_rows = prepare(settings, resources)
        heldout = torch.from_numpy(heldout_rows.astype(np.int64))
        run = Run(settings, seed, scratch)
        run.resume()
        if run.step == 0:
            _checkpoint(run, words, heldout, steps)
        todo: Iterable[int] = range(run.step + 1, steps[-1] + 1)
        if progress:
            todo = progress(todo, total=len(range(run.step, steps[-1])), desc="pretraining", unit="step")
        for step in todo:
            rows = train_rows[batch_rows(len(train_rows), settings["training"]["batch_size"], seed, step)]
            run.train_step(torch.from_numpy(rows.astype(np.int64)))
            _checkpoint(run, words, heldout, steps)
    for step in steps:
        _place(scratch / _folder(step), out_for(step))
    _write_curve(run.curve, loss_csv)
    shutil.rmtree(scratch)


def _checkpoint(run: Run, words: "Tokenizer", heldout: "torch.Tensor", steps: Sequence[int]) -> None:
    """If the present step is a checkpoint: measure, write its directory, then the state to go on from."""
    if run.step in steps:
        run.measure(heldout)
        _write_checkpoint(run, words)
        run.save()
