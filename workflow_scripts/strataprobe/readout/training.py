"""Training a tuned lens: every layer's readout is brought near the model's last distribution."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from strataprobe.datasets.lexemes import keyed_draws
from strataprobe.errors import ModelError, listing
from strataprobe.lm import EMBED, LoadedLM, OutputMap, states_at
from strataprobe.readout.tuned import TunedLens

OPTIMIZERS = ("adam", "sgd")
# As published for SGD (Nesterov).
_MOMENTUM = 0.9


def train(
    lm: LoadedLM,
    texts: Sequence[str],
    *,
    settings: Mapping[str, Any],
    facts: Mapping[str, Any] | None = None,
    progress: Callable[[int, float], object] | None = None,
) -> TunedLens:
    """Train the affine maps of a tuned lens, all layers side by side; the model itself stays as it is.

    Minimises KL(last distribution || lens) in nats a token, averaged over a batch's tokens, at each layer by
    itself; the learning rate goes linearly to zero, as published.

    Args:
        lm: the model.
        texts: the corpus; a text longer than a batch is cut.
        settings: `optimizer` ("adam" or "sgd"), `learning_rate`, `steps`, `batch_tokens` (tokens a step),
            `seed` (the order of the texts).
        facts: further facts to keep with it, such as the model's identity.
        progress: called after each step with its number and the mean KL over layers, in nats.

    Raises:
        ModelError: settings or texts that cannot be used, or a loss that is not finite.
    """
    _check(settings)
    output = OutputMap.of(lm)
    tokens = _pieces(lm.encode(texts, [f"corpus text {i + 1}" for i in range(len(texts))]), settings)
    lens = TunedLens.identity(lm, {**(facts or {}), "training": dict(settings), "texts": len(texts)})
    # A leaf a layer: the gradient of a slice of one large tensor would be as large as all of it.
    maps = [
        [own.clone().requires_grad_(True) for own in pair]
        for pair in zip(lens.weight, lens.bias, strict=True)
    ]
    optimizer = _optimizer([part for pair in maps for part in pair], settings)
    for step, batch in enumerate(_batches(tokens, settings), start=1):
        for group in optimizer.param_groups:
            group["lr"] = settings["learning_rate"] * (1 - (step - 1) / settings["steps"])
        optimizer.zero_grad()
        mean = _backward(output, maps, _states(lm, [tokens[i] for i in batch]))
        if not np.isfinite(mean):
            raise ModelError(f"{lm.name}: the tuned lens's loss is {mean} at step {step}; try a lower rate")
        optimizer.step()
        if progress is not None:
            progress(step, mean)
    weight, bias = (torch.stack([part.detach() for part in own]) for own in zip(*maps, strict=True))
    return TunedLens(weight, bias, lens.facts)


def divergences(lm: LoadedLM, lens: TunedLens, texts: Sequence[str], *, batch_tokens: int) -> np.ndarray:
    """(L+1,) mean KL(last distribution || lens), nats a token, at every hidden_states index."""
    output = OutputMap.of(lm)
    total, count = np.zeros(lm.n_layers + 1), 0
    for piece in _pieces(lm.encode(texts), {"batch_tokens": batch_tokens}):
        states = _states(lm, [piece])
        with torch.no_grad():
            mapped = lens.mapped(states)
            for part in output.parts(states.shape[1]):
                target = _log_distribution(output, states[-1, part])
                total += [float(_divergence(output, own[part], target).sum()) for own in mapped]
        count += states.shape[1]
    return total / count


def _check(settings: Mapping[str, Any]) -> None:
    faults = [
        f"{name} is {settings[name]}; more than 0 would be right"
        for name in ("learning_rate", "steps", "batch_tokens")
        if settings[name] <= 0
    ]
    if settings["optimizer"] not in OPTIMIZERS:
        faults.append(
            f"optimizer is {settings['optimizer']!r}; one of {', '.join(OPTIMIZERS)} would be right"
        )
    if faults:
        raise ModelError(listing("tuned lens", faults))


def _optimizer(parameters: list[Tensor], settings: Mapping[str, Any]) -> torch.optim.Optimizer:
    if settings["optimizer"] == "adam":
        return torch.optim.Adam(parameters, lr=settings["learning_rate"])
    return torch.optim.SGD(parameters, lr=settings["learning_rate"], momentum=_MOMENTUM, nesterov=True)


def _pieces(tokens: Sequence[list[int]], settings: Mapping[str, Any]) -> list[list[int]]:
    """Texts cut to at most a batch's tokens."""
    size = settings["batch_tokens"]
    return [own[start : start + size] for own in tokens for start in range(0, len(own), size)]


def _batches(tokens: Sequence[list[int]], settings: Mapping[str, Any]) -> Iterator[list[int]]:
    """The texts of each step: the corpus over and over, each time in another order, which the seed and the
    number of the round alone decide."""
    waiting: list[int] = []
    number = 0
    for _ in range(settings["steps"]):
        batch, size = [], 0
        while not batch or size < settings["batch_tokens"]:
            if not waiting:
                keys = keyed_draws(f"tuned lens round {number}", settings["seed"], len(tokens))
                waiting, number = np.argsort(keys, kind="stable").tolist(), number + 1
            if batch and size + len(tokens[waiting[0]]) > settings["batch_tokens"]:
                break
            batch.append(waiting.pop(0))
            size += len(tokens[batch[-1]])
        yield batch


def _states(lm: LoadedLM, tokens: list[list[int]]) -> Tensor:
    """(L+1, tokens, hidden size) states of all hidden_states indices."""
    layers = [EMBED, *range(lm.n_layers)]
    ids = [f"corpus text {i}" for i in range(len(tokens))]
    parts = states_at(
        lm, tokens, [range(len(own)) for own in tokens], ids=ids, layers=layers,
        batch_tokens=sum(map(len, tokens)),
    )  # fmt: skip
    # Copied, since what an inference pass made cannot be kept for a gradient.
    return torch.cat([part.states for part in parts], dim=1).clone()


def _backward(output: OutputMap, maps: Sequence[Sequence[Tensor]], states: Tensor) -> float:
    """Add the gradient of the mean KL of each layer; returns the mean over layers.

    Layer by layer and a few tokens at a time, so that whole logits are there for these alone.
    """
    count, total = states.shape[1], 0.0
    for part in output.parts(count):
        with torch.no_grad():
            target = _log_distribution(output, states[-1, part])
        for layer, (weight, bias) in enumerate(maps):
            own = states[layer, part].float()
            moved = own + own @ weight.T + bias
            loss = _divergence(output, moved.to(states.dtype), target).sum() / count
            loss.backward()
            total += float(loss.detach())
    return total / len(maps)


def _log_distribution(output: OutputMap, states: Tensor) -> Tensor:
    return output.logits(output.normed(states)).log_softmax(dim=-1)


def _divergence(output: OutputMap, states: Tensor, target: Tensor) -> Tensor:
    """(n,) KL(target || readout of states), in nats."""
    return (target.exp() * (target - _log_distribution(output, states))).sum(dim=-1)
