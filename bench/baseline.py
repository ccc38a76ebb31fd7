"""The plain way, written anew from the fragility paper's description (sections 3.3, 3.4, appendix E.6).

One text a forward pass through the whole model, a hook on every block, mean over its tokens; captured anew
for probing and for fragility; one torch probe a layer, trained in a loop; one noise draw a level. It
makes its own activations and probes throughout, and shares only data files and the split by pair with ours.

`python -m bench.baseline JOB.json` runs it as a process of its own.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from strataprobe.datasets.splits import split_pairs

LEARNING_RATE, EPOCHS = 1e-2, 50


def load(checkpoint: Path) -> tuple[nn.Module, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    return model.eval(), AutoTokenizer.from_pretrained(checkpoint)


def pooled_states(model: nn.Module, tokenizer: Any, text: str, blocks: nn.ModuleList) -> list[Tensor]:
    """One (hidden,) vector a block: the mean of its output over the text's tokens."""
    found: dict[int, Tensor] = {}

    def hook(layer: int):
        def keep(_module: nn.Module, _inputs: Any, output: Any) -> None:
            hidden = output[0] if isinstance(output, tuple) else output
            found[layer] = hidden.detach().mean(dim=1).squeeze(0).float()

        return keep

    handles = [block.register_forward_hook(hook(layer)) for layer, block in enumerate(blocks)]
    try:
        with torch.no_grad():
            model(**tokenizer(text, return_tensors="pt"))
    finally:
        for handle in handles:
            handle.remove()
    return [found[layer] for layer in range(len(blocks))]


def capture(model: nn.Module, tokenizer: Any, pairs: list[dict]) -> tuple[list[Tensor], Tensor]:
    """Per layer (items, hidden), and (items,) labels of 1 and 0; each text runs alone."""
    texts = [text for pair in pairs for text in (pair["positive"], pair["negative"])]
    states = [pooled_states(model, tokenizer, text, model.model.layers) for text in texts]
    stacked = [torch.stack([state[layer] for state in states]) for layer in range(len(states[0]))]
    return stacked, torch.tensor([1.0, 0.0] * len(pairs))


def train_probe(states: Tensor, labels: Tensor) -> nn.Linear:
    """nn.Linear(hidden, 1), BCE with logits, Adam, full batch."""
    probe = nn.Linear(states.shape[1], 1)
    optimiser = torch.optim.Adam(probe.parameters(), lr=LEARNING_RATE)
    loss_of = nn.BCEWithLogitsLoss()
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        loss_of(probe(states).squeeze(-1), labels).backward()
        optimiser.step()
    return probe


def accuracy(probe: nn.Linear, states: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        return float(((probe(states).squeeze(-1) > 0) == (labels > 0.5)).float().mean())


def probing(model: nn.Module, tokenizer: Any, sides: tuple[list, list]) -> list[float]:
    """Accuracy of each layer's probe."""
    (train, train_labels), (test, test_labels) = (capture(model, tokenizer, side) for side in sides)
    probes = [train_probe(states, train_labels) for states in train]
    return [accuracy(probe, states, test_labels) for probe, states in zip(probes, test, strict=True)]


def fragility(
    model: nn.Module, tokenizer: Any, sides: tuple[list, list], levels: list[float], threshold: float
) -> list[dict]:
    """Accuracy of each layer's probe under one noise draw a level, and where it falls below the threshold."""
    (train, train_labels), (test, test_labels) = (capture(model, tokenizer, side) for side in sides)
    curves = []
    for states, held_out in zip(train, test, strict=True):
        probe = train_probe(states, train_labels)
        noisy = [
            accuracy(probe, held_out + level * torch.randn_like(held_out), test_labels) for level in levels
        ]
        below = [level for level, value in zip(levels, noisy, strict=True) if value < threshold]
        curves.append({"accuracy_by_noise": noisy, "critical_noise": below[0] if below else None})
    return curves


def run(job: dict[str, Any]) -> None:
    """Probing, then fragility, for each seed, and their result files."""
    torch.set_num_threads(job["threads"])
    model, tokenizer = load(Path(job["checkpoint"]))
    lines = Path(job["dataset"]).read_text(encoding="utf-8").splitlines()
    pairs = [json.loads(line) for line in lines if line.strip()]
    groups = [pair["group"] for pair in pairs]
    settings = job["stages"]["fragility"]
    for seed in job["seeds"]:
        torch.manual_seed(seed)
        train, test = split_pairs(groups, seed, job["stages"]["probe"]["test_fraction"])
        sides = ([pairs[i] for i in train], [pairs[i] for i in test])
        out = Path(job["out"]) / f"seed{seed}"
        out.mkdir(parents=True, exist_ok=True)
        accuracies = probing(model, tokenizer, sides)
        (out / "probing.json").write_text(json.dumps({"accuracy": accuracies}), encoding="utf-8")
        curves = fragility(model, tokenizer, sides, settings["noise_levels"], settings["threshold"])
        (out / "fragility.json").write_text(json.dumps({"layers": curves}), encoding="utf-8")


if __name__ == "__main__":
    run(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
