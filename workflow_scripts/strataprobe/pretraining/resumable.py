"""What a training run has that may be stopped at any moment and then goes on to the same bytes.

Its folder in scratch holds one folder for each checkpoint and, written after it, one file of state. It stays
whole until everything is in place: a run killed while it places is run again after its outputs were deleted,
and needs all of it once more.
"""

import json
import logging
import math
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from strataprobe.errors import ModelError
from strataprobe.files import atomic, write_rows

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

STATE = "state.safetensors"
_MOMENTA = ("step", "exp_avg", "exp_avg_sq")


def folder(step: int) -> str:
    """The name of a step's checkpoint, which is also that of its revision."""
    return f"step{step:04d}"


class Resumable:
    """A run: what is trained, the updates done, and a row of losses for each.

    A subclass says what a step does, and sets the optimiser (AdamW) and the names.

    Attributes:
        kind, keeps: what the run, and what it keeps, is called in messages.
        remedy: what to change where it diverges.
        parameters: what is trained, by name.
        saved: steps after which a checkpoint is kept; the run ends with the last.
    """

    kind: str
    keeps: str
    remedy: str
    optimizer: "Optimizer"

    def __init__(self, model: "nn.Module", saved: Iterable[int], seed: int, scratch: Path) -> None:
        self.model, self.saved, self.seed, self.scratch = model, sorted(saved), seed, scratch
        self.parameters = {name: own for name, own in model.named_parameters() if own.requires_grad}
        self.step = 0
        self.losses: list[dict[str, float | int]] = []

    def left(self, progress: Callable[..., Iterable[int]] | None) -> Iterable[int]:
        """Steps that are still to be done, shown by `progress` (as `logs.progress`) if it is given."""
        todo = range(self.step + 1, self.saved[-1] + 1)
        return progress(todo, total=len(todo), desc=self.kind, unit="step") if progress else todo

    def update(self, loss: "Tensor", *, rate: float, gradient_norm: float, tokens: int) -> None:
        """One update down the gradient of `loss`, cut to `gradient_norm`, and its row of losses.

        Args:
            tokens: that the step has seen; its row has those of all steps.

        Raises:
            ModelError: loss or gradient is NaN or infinite; what was kept before stays usable.
        """
        from torch.nn.utils import clip_grad_norm_

        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss.backward()
        norm = clip_grad_norm_(self.parameters.values(), gradient_norm)
        step, value = self.step + 1, loss.item()
        for what, number in (("loss", value), ("gradient's norm", norm.item())):
            if not math.isfinite(number):
                raise ModelError(self._diverged(f"the {what} is {number} at step {step}"))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step = step
        self.losses.append({"step": step, "loss": value, "learning_rate": rate, "tokens": step * tokens})

    def _diverged(self, what: str) -> str:
        until = f"no {self.keeps} is kept yet"
        if kept := [step for step in self.saved if step <= self.step]:
            until = f"the run is kept up to step {kept[-1]} in {self.scratch}"
        return f"{self.kind}: {what} of {self.saved[-1]} (seed {self.seed}); {self.remedy}; {until}"

    def save(self, write: Callable[[Path], None]) -> None:
        """The present step's checkpoint (a folder, by `write`), then all that is needed to go on."""
        from safetensors.torch import save_file

        with atomic(self.scratch / folder(self.step)) as place:
            write(place)
        tensors = {f"weight.{name}": own.detach() for name, own in self.parameters.items()}
        for name, own in self.parameters.items():
            tensors |= {f"{key}.{name}": value for key, value in self.optimizer.state[own].items()}
        notes = {"step": str(self.step), "losses": json.dumps(self.losses)}
        with atomic(self.scratch / STATE) as place:
            save_file(tensors, place, metadata=notes)

    def resume(self) -> None:
        """Take up the state left in scratch; where it is damaged or a checkpoint gone, say so only."""
        import torch
        from safetensors import SafetensorError, safe_open

        if not (self.scratch / STATE).is_file():
            return
        try:
            with safe_open(self.scratch / STATE, framework="pt") as state:
                notes = state.metadata()
                step, losses = int(notes["step"]), json.loads(notes["losses"])
                kept = {
                    (key, name): state.get_tensor(f"{key}.{name}").to(own.device, copy=True)
                    for key in ("weight", *(_MOMENTA if step else ()))
                    for name, own in self.parameters.items()
                }
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            self._begin_anew(f"{STATE} cannot be read ({error})")
            return
        done = [folder(own) for own in self.saved if own <= step]
        if gone := [own for own in done if not (self.scratch / own).is_dir()]:
            self._begin_anew(f"{STATE} is of step {step}, but {', '.join(gone)} is not there")
            return
        with torch.no_grad():
            for name, own in self.parameters.items():
                own.copy_(kept["weight", name])
                if step:
                    self.optimizer.state[own] = {key: kept[key, name] for key in _MOMENTA}
        self.step, self.losses = step, losses

    def _begin_anew(self, why: str) -> None:
        logging.getLogger("strataprobe").warning("%s begins anew: in %s, %s", self.kind, self.scratch, why)

    def finish(self, out_for: Callable[[int], Path], columns: Sequence[str], loss_csv: Path) -> None:
        """Put every checkpoint and the losses in place; scratch stays whole until it is cleared."""
        for step in self.saved:
            put(self.scratch / folder(step), out_for(step))
        shown = (
            {name: f"{own:.6g}" if isinstance(own, float) else own for name, own in row.items()}
            for row in self.losses
        )
        write_rows(loss_csv, columns, shown)

    def clear(self) -> None:
        """Scratch goes, once nothing of the run can be lost any more."""
        (self.scratch / STATE).unlink()  # first: beside checkpoints half removed it would be taken up
        shutil.rmtree(self.scratch)


def put(source: Path, target: Path) -> None:
    """Link a folder's files, so that scratch stays whole; their time becomes now, after the run's inputs'."""
    with atomic(target) as place:
        shutil.copytree(source, place, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    os.utime(target)
