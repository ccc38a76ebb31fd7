"""Activation patching: runs from the changed block on, batched, against a loop of whole forward passes."""

from typing import Any

import numpy as np
import torch

from bench.outcome import Outcome, best_of, skipped
from bench.setup import ROOT, Setup
from strataprobe import lm
from strataprobe.behavior.continuations import CANDIDATES
from strataprobe.datasets.answers import margins
from strataprobe.datasets.reading import read_dataset
from strataprobe.patching.measure import chosen_items, prepared
from strataprobe.patching.runs import Job, Runner

NAME = "patching"
QUESTION = (
    "Other items' states at both candidates and the predicate put into QA prompts of SmolLM2-135M (fp32), at "
    "every layer from the middle on: prefix states kept once a target and only the blocks above run again, "
    "batched over donors and layers, against a loop of whole forward passes with a hook (both continuations "
    "in one batch). The loop runs a sample of the runs, its time is scaled up."
)
REQUIRED = "at least 3 times as fast, the same numbers (fp32, 1e-4)"
LEAST, ALLOWED = 3, 1e-4
CONTROL = {
    "kind": "control", "name": "control", "path": str(ROOT / "resources/datasets/control.jsonl"),
    "prompts": str(ROOT / "resources/datasets/control_prompts.json"), "fields": None, "design": None,
}  # fmt: skip
Run = tuple[Job, int, int]
"""A target's prompt, a donor, and a layer (number in `hidden_states`)."""


def measure(chosen: Setup, targets: int = 2, donors: int = 4, sample: int = 24, repeats: int = 2) -> Outcome:
    """Compare times, and margins of the runs in the sample.

    Args:
        targets, donors: items that are patched, and how many others each.
        sample: runs of the loop, evenly over all.
    """
    if chosen.missing:
        return skipped(NAME, QUESTION, REQUIRED, chosen.missing)
    loaded = lm.load(chosen.checkpoint, dtype="float32", device="cpu")
    runner = made(loaded, chosen.threads)
    runner.unchanged()
    jobs = list(runner.roles)[:targets]
    layers = list(range(runner.first, loaded.n_layers + 1))
    given = {job: [other for other, _ in runner.roles if other != job[0]][:donors] for job in jobs}
    runs = [(job, donor, layer) for job in jobs for donor in given[job] for layer in layers]
    kept = runs[:: max(1, len(runs) // sample)]
    found: dict[str, Any] = {}

    def batched() -> None:
        asked = {job: [("own_prompt", "correct", donor) for donor in own] for job, own in given.items()}
        parts = runner.patched(jobs, asked.__getitem__, [(1, layer) for layer in layers])
        found["batched"] = {
            (job, donor, layer): margin
            for job, rows in parts
            for donor, row in zip(given[job], rows, strict=True)
            for layer, margin in zip(layers, row.tolist(), strict=True)
        }

    def loop() -> None:
        torch.set_num_threads(chosen.threads)
        found["loop"] = [whole(runner, run) for run in kept]

    seconds = best_of(repeats, {"loop": loop, "batched": batched})
    scaled = seconds["loop"] * len(runs) / len(kept)
    apart = max(abs(found["batched"][run] - margin) for run, margin in zip(kept, found["loop"], strict=True))
    numbers = {
        f"whole passes, {len(kept)} runs": f"{seconds['loop']:.2f} s",
        f"whole passes, scaled to {len(runs)} runs": f"{scaled:.1f} s",
        f"from the changed block on, {len(runs)} runs": f"{seconds['batched']:.2f} s",
        "times as fast": f"{scaled / seconds['batched']:.1f}",
        "largest difference of a margin": f"{apart:.1e} nats",
    }
    passed = apart <= ALLOWED and scaled / seconds["batched"] >= LEAST
    return Outcome(NAME, QUESTION, REQUIRED, passed, numbers)


def made(loaded: lm.LoadedLM, threads: int) -> Runner:
    """English QA prompts, patched from the middle of the model on."""
    own = {"tasks": ["qa"], "languages": ["en"], "states": ["own_prompt"], "seed": 1}
    running = {"batch_tokens": 512, "threads": threads}
    dataset = chosen_items(read_dataset(CONTROL), own)
    settings = {"chat": False, "capture": running, "patching": own}
    return prepared(loaded, dataset, settings, loaded.n_layers // 2)


def whole(runner: Runner, run: Run) -> float:
    """The margin of a run by whole forward passes of transformers' own model, both continuations together."""
    job, donor, layer = run
    loaded, texts = runner.output.lm, runner.continuations
    numbers = [texts.numbers[(*job, candidate)] for candidate in CANDIDATES]
    states = runner.prompted[donor, job[1]][0][layer - runner.first]
    places = torch.from_numpy(runner.roles[job].places)

    def change(_module: Any, _args: Any, output: Any) -> Any:
        new = lm.first_tensor(output).clone()
        new[:, places] = states
        return (new, *output[1:]) if isinstance(output, tuple) else new

    with lm.attached([loaded.blocks[layer - 1].register_forward_hook(change)]), torch.inference_mode():
        logits = loaded.model(**loaded.batch([texts.read[number] for number in numbers])).logits
    scores = []
    for row, number in enumerate(numbers):
        logs = logits[row, list(texts.places[number])].log_softmax(dim=-1)
        scores.append(float(logs[range(len(logs)), texts.targets(number)].double().sum()))
    return float(margins(np.array([scores]), [runner.dataset.controls[job[0]].gold])[0])
