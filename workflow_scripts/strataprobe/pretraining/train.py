"""Pre-training `nano`: one run that leaves a complete model directory at every checkpoint step.

The batch of step t is a function of (seed, t) alone and nothing random happens while training, so a run
that was stopped goes on to the same bytes, however often it was saved.
"""

import math
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from strataprobe.files import sha256_file, sha256_json
from strataprobe.pretraining import tokenizer
from strataprobe.pretraining.data import batch_rows, prepare
from strataprobe.pretraining.model import build_model, next_token_loss
from strataprobe.pretraining.reproducible import reproducible
from strataprobe.pretraining.resumable import Resumable
from strataprobe.provenance import versions

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


class Run(Resumable):
    """A pre-training run: the whole model is trained, and a checkpoint is a complete model directory."""

    kind, keeps = "pretraining", "checkpoint"

    def __init__(self, settings: dict[str, Any], seed: int, scratch: Path) -> None:
        import torch

        super().__init__(build_model(settings, seed), settings["checkpoints"], seed, scratch)
        self.settings, rate = settings, settings["training"]["learning_rate"]
        self.optimizer = torch.optim.AdamW(self._groups(), lr=0.0, betas=BETAS, fused=True)
        self.remedy = f"lower training.learning_rate (now {rate}) or raise its warmup_steps"

    def _groups(self) -> list[dict[str, Any]]:
        """Matrices decay, norms do not."""
        decay = self.settings["training"]["weight_decay"]
        matrices = [parameter for parameter in self.parameters.values() if parameter.ndim > 1]
        others = [parameter for parameter in self.parameters.values() if parameter.ndim < 2]
        return [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]

    def train_step(self, rows: "torch.Tensor") -> None:
        """One update by rows (batch, length + 1). Raises ModelError as `update` does."""
        training = self.settings["training"]
        self.update(
            next_token_loss(self.model, rows),
            rate=learning_rate(self.step + 1, self.saved[-1], training),
            gradient_norm=training["gradient_norm"],
            tokens=rows[:, 1:].numel(),
        )

    def measure(self, rows: "torch.Tensor") -> None:
        """Note the held-out loss of the present step."""
        import torch

        with torch.no_grad():
            value = next_token_loss(self.model, rows).item()
        if not self.losses:
            self.losses.append({"step": 0, "tokens": 0})
        self.losses[-1]["heldout_loss"] = value

    def write(self, words: "Tokenizer", place: Path) -> None:
        """A complete model directory."""
        place.mkdir()
        self.model.save_pretrained(place)
        tokenizer.save(words, place, max_positions=self.settings["architecture"]["max_positions"])
        for file in place.iterdir():
            file.chmod(0o644)  # safetensors leaves the weights readable to their owner only


def _key(settings: dict[str, Any], seed: int, resources: Path, code: str) -> str:
    """What a resumable state belongs to."""
    sources = {path.name: sha256_file(path) for path in sorted(resources.iterdir()) if path.is_file()}
    made_by = versions(("torch", "transformers", "tokenizers"))
    belongs = {"settings": settings, "seed": seed, "sources": sources, "versions": made_by, "code": code}
    return sha256_json(belongs)[:16]


def pretrain(
    settings: dict[str, Any],
    *,
    seed: int,
    resources: Path,
    out_for: Callable[[int], Path],
    scratch: Path,
    loss_csv: Path,
    code: str = "",
    progress: Callable[..., Iterable[int]] | None = None,
    clear: bool = True,
) -> Callable[[], None]:
    """Train one model and write a complete directory for each step of `settings["checkpoints"]`.

    Stopped at any moment and called again, it goes on from its last checkpoint and ends with the same
    bytes. Nothing appears at `out_for(step)` or `loss_csv` before the whole run is done.

    Args:
        settings: `architecture`, `corpus`, `training`, `checkpoints` (steps, 0 for the untrained model)
            and `threads`, as in config.yaml.
        seed: of the weights and of the order of the data; the corpus has its own.
        resources: folder of the corpus' sources.
        out_for: the directory of a checkpoint step.
        scratch: folder for what is needed to go on.
        loss_csv: columns step, loss, learning_rate, tokens, heldout_loss (losses in nats a token).
        code: checksum of the program: a state that another one left is not taken up.
        progress: as `logs.progress`; None for silence.
        clear: remove what is in scratch when the run is done. A job that has more to write than this does it
            after that, by what is returned: killed in between, it still has the run.

    Returns:
        What removes it.

    Raises:
        ModelError: loss or gradient became NaN or infinite (names the step), or the corpus is too small.
    """
    import torch

    with reproducible(settings["threads"]):
        words, train_rows, heldout_rows = prepare(settings, resources)
        heldout = torch.from_numpy(heldout_rows.astype(np.int64))
        run = Run(settings, seed, Path(scratch) / _key(settings, seed, resources, code))
        run.resume()
        if run.step == 0:
            _checkpoint(run, words, heldout)
        for step in run.left(progress):
            rows = train_rows[batch_rows(len(train_rows), settings["training"]["batch_size"], seed, step)]
            run.train_step(torch.from_numpy(rows.astype(np.int64)))
            _checkpoint(run, words, heldout)
    run.finish(out_for, LOSS_COLUMNS.split(","), loss_csv)
    if clear:
        run.clear()
    return run.clear


def _checkpoint(run: Run, words: "Tokenizer", heldout: "torch.Tensor") -> None:
    """If the present step is a checkpoint: measure, write its directory, then the state to go on from."""
    if run.step in run.saved:
        run.measure(heldout)
        run.save(partial(run.write, words))
