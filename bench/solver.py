"""All probes in one batched numpy solve against a loop of torch probes from the same initial weights."""

import numpy as np
import torch

from bench.outcome import Outcome, best_of
from strataprobe.probes.training import initial_weights, train

NAME = "probes"
QUESTION = (
    "Adam probes of 30 layers (384 training items, 576 dimensions): one batched solve of both probes a layer "
    "(raw, and divided by RMS) against a torch loop over layers with one each, from the same initial weights."
)
REQUIRED = "predictions identical, weights equal to 1e-4"
SETTINGS = {"solver": "adam", "learning_rate": 1e-2, "epochs": 50}


def measure(threads: int, shape: tuple[int, int, int] = (30, 480, 576), repeats: int = 5) -> Outcome:
    """Compare times, weights and predictions on states of an ordinary model's size and spread."""
    torch.set_num_threads(threads)
    states, labels = made_up_states(shape)
    cut = shape[1] * 4 // 5
    training, held_out, known = states[:, :cut], states[:, cut:], labels[:cut]
    training = np.ascontiguousarray(training)
    seconds = best_of(
        repeats,
        {
            "batched": lambda: train(training, known, seed=1, settings=SETTINGS),
            "loop": lambda: torch_loop(training, known, seed=1),
        },
    )
    batched = train(training, known, seed=1, settings=SETTINGS)
    weights, biases = torch_loop(training, known, seed=1)
    theirs = np.einsum("lnd,ld->ln", held_out, weights) + biases[:, None]
    apart = float(np.abs(batched.weights[0] - weights).max())
    differing = int(((batched.logits("raw", held_out) > 0) != (theirs > 0)).sum())
    numbers = {
        "torch loop (one probe a layer)": f"{seconds['loop']:.2f} s",
        "batched (two probes a layer)": f"{seconds['batched']:.2f} s",
        "times as fast": f"{seconds['loop'] / seconds['batched']:.1f}",
        "largest difference of a weight": f"{apart:.1e}",
        "differing predictions": f"{differing} of {theirs.size}",
    }
    return Outcome(NAME, QUESTION, REQUIRED, differing == 0 and apart < 1e-4, numbers)


def made_up_states(shape: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """(layers, items, hidden) Gaussian states whose classes lie further apart in later layers, and labels."""
    rng = np.random.default_rng(0)
    layers, items, hidden = shape
    labels = np.tile([1, -1], items // 2)
    directions = rng.standard_normal((layers, 1, hidden)) / np.sqrt(hidden)
    apart = np.linspace(0.0, 3.0, layers)[:, None, None]
    states = rng.standard_normal(shape) + apart * labels[None, :, None] * directions
    return states.astype(np.float32), labels


def torch_loop(states: np.ndarray, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(layers, hidden) weights and (layers,) biases of nn.Linear probes, one after another."""
    layers, _, hidden = states.shape
    start, offset = initial_weights(layers, hidden, seed)
    target = torch.from_numpy((labels > 0).astype(np.float32))
    weights, biases = np.empty((layers, hidden), np.float32), np.empty(layers, np.float32)
    for layer in range(layers):
        probe = torch.nn.Linear(hidden, 1)
        with torch.no_grad():
            probe.weight[0], probe.bias[0] = torch.from_numpy(start[layer].copy()), float(offset[layer])
        optimiser = torch.optim.Adam(probe.parameters(), lr=SETTINGS["learning_rate"])
        inputs = torch.from_numpy(states[layer])
        for _ in range(SETTINGS["epochs"]):
            optimiser.zero_grad()
            torch.nn.functional.binary_cross_entropy_with_logits(probe(inputs)[:, 0], target).backward()
            optimiser.step()
        weights[layer], biases[layer] = probe.weight[0].detach().numpy(), float(probe.bias[0].detach())
    return weights, biases
