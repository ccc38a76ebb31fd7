"""Leave-one-out probes of every layer and feature mode: batched solves against a torch loop over fits."""

from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from bench.outcome import Outcome, best_of
from strataprobe.probes.training import initial_probe
from strataprobe.recoverability import leave_out
from strataprobe.recoverability.codings import MODES, Coding, features
from strataprobe.recoverability.folds import Folds

NAME = "recoverability"
QUESTION = (
    "Leave-one-out probes of 30 layers, 5 feature modes, 48 folds, 3 seeds (21,600 fits of 100 epochs, 576 "
    "dimensions a position) on one core: one batched solve a layer and mode against a torch loop over fits, "
    "from the same initial weights. The loop runs a sample of fits, equally many of each mode; its time is "
    "scaled up."
)
REQUIRED = "at least 50 times as fast, predictions identical wherever the loop ran"
LEAST = 50
SETTINGS = {"seeds": [1729, 2718, 3141], "learning_rate": 1e-2, "epochs": 100}


def measure(shape: tuple[int, int, int] = (30, 48, 576), sample: int = 12, repeats: int = 2) -> Outcome:
    """Compare times, and predictions of the sampled fits. Neither side's products are worth a second thread.

    Args:
        shape: layers, items and dimensions of a position.
        sample: fits of each mode that the loop runs.
    """
    torch.set_num_threads(1)
    states, coding, folds = made_up(shape)
    chosen = sampled_fits(shape, sample)
    found: dict[str, Any] = {}

    def batched() -> None:
        found["batched"] = leave_out(states, [coding], [folds], settings=SETTINGS)

    def loop() -> None:
        found["loop"] = [torch_fit(states, coding, *fit) for fit in chosen]

    with threadpool_limits(1):
        seconds = best_of(repeats, {"loop": loop, "batched": batched})
    fits = shape[0] * shape[1] * len(SETTINGS["seeds"]) * len(MODES)
    whole = seconds["loop"] * fits / len(chosen)
    ours = [
        found["batched"][coding.name, folds.name, mode].logits[SETTINGS["seeds"].index(seed), layer, item]
        for mode, layer, seed, item in chosen
    ]
    differing = int(((np.array(ours) >= 0) != (np.array(found["loop"]) >= 0)).sum())
    numbers = {
        f"torch loop, {len(chosen)} fits": f"{seconds['loop']:.2f} s",
        f"torch loop, scaled to {fits:,} fits": f"{whole:.0f} s",
        f"batched, {fits:,} fits": f"{seconds['batched']:.2f} s",
        "times as fast": f"{whole / seconds['batched']:.0f}",
        "largest difference of a held-out logit": f"{np.abs(np.array(ours) - found['loop']).max():.1e}",
        "differing predictions": f"{differing} of {len(chosen)}",
    }
    passed = differing == 0 and whole / seconds["batched"] >= LEAST
    return Outcome(NAME, QUESTION, REQUIRED, passed, numbers)


def made_up(shape: tuple[int, int, int]) -> tuple[dict[str, np.ndarray], Coding, Folds]:
    """Gaussian states of three positions in which later layers tell the classes further apart."""
    layers, items, hidden = shape
    rng = np.random.default_rng(0)
    labels = np.tile([1, -1], items // 2)
    apart = np.linspace(0.0, 3.0, layers)[:, None, None] / np.sqrt(hidden)
    states = {
        position: (
            rng.standard_normal(shape) + apart * labels[:, None] * rng.standard_normal((layers, 1, hidden))
        ).astype(np.float32)
        for position in "abv"
    }
    names = tuple(map(str, range(items)))
    return states, Coding("paper", np.zeros(items, bool), labels), Folds("item_out", np.arange(items), names)


def sampled_fits(shape: tuple[int, int, int], sample: int) -> list[tuple[str, int, int, int]]:
    """Mode, layer, seed and held-out item of as many fits of each mode, without repetition."""
    layers, items, _ = shape
    rng = np.random.default_rng(1)
    every = [
        (layer, seed, item) for layer in range(layers) for seed in SETTINGS["seeds"] for item in range(items)
    ]
    return [
        (mode, *every[place])
        for mode in MODES
        for place in rng.choice(len(every), size=sample, replace=False).tolist()
    ]


def torch_fit(
    states: dict[str, np.ndarray], coding: Coding, mode: str, layer: int, seed: int, item: int
) -> float:
    """The held-out logit of one nn.Linear probe."""
    here = {position: values[layer] for position, values in states.items()}
    told = torch.from_numpy(features(here, mode, coding.swapped))
    kept = torch.arange(len(told)) != item
    target = torch.from_numpy((coding.labels > 0).astype(np.float32))[kept]
    probe = torch.nn.Linear(told.shape[1], 1)
    start = torch.from_numpy(initial_probe(layer, told.shape[1], seed + item))
    with torch.no_grad():
        probe.weight[0], probe.bias[0] = start[:-1], start[-1]
    optimiser = torch.optim.Adam(probe.parameters(), lr=SETTINGS["learning_rate"])
    inputs = told[kept]
    for _ in range(SETTINGS["epochs"]):
        optimiser.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(probe(inputs)[:, 0], target).backward()
        optimiser.step()
    with torch.no_grad():
        return float(probe(told[item : item + 1])[0, 0])
