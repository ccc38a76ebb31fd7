"""Whether a loaded model's states are those of each text, however texts are batched: two forward passes."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from strataprobe.errors import ModelError
from strataprobe.lm.batches import Batches
from strataprobe.lm.loaded import LoadedLM
from strataprobe.lm.passes import run_layers
from strataprobe.lm.rows import Row, batch_rows

# Half precision rounds otherwise in another batch shape; a model that looks ahead is far beyond this.
_ALLOWED = {"float32": 1e-4}
_ALLOWED_HALF = 0.25
_NO_LIMIT = 10**9


def check_rows(lm: LoadedLM, tokens: list[int], alone: Sequence[Tensor] | None = None) -> int:
    """Refuse a model whose states depend on padding or on later tokens; find its `sharing_limit`.

    A text's activations must be the same alone and in any batch; a model that attends to later tokens, or
    that does not heed the attention mask, would give others.

    Args:
        lm: the model.
        tokens: at least four, to try it with.
        alone: the states of these tokens after each block, each (1, tokens, hidden), from a pass of the whole
            model; what runs block by block is compared with them.

    Returns:
        The longest sequences (tokens) this model gives the same states in rows of their own and in a shared
        one; 0 where rows cannot be shared.

    Raises:
        ModelError: names the model, the first layer that differs and by how much.
    """
    common = tokens[:-2]
    sequences = [tokens, [*common, tokens[-1], *tokens[:2]]]
    apart = _states(lm, lm.batch([common, *sequences]))
    if lm.blockwise is not None and alone is not None:
        _check_by_block(lm, [states[1, : len(tokens)] for states in apart], [state[0] for state in alone])
    for layer, states in enumerate(apart):
        padded, continued = states[0, : len(common)], states[1, : len(common)]
        if not bool(torch.isfinite(states).all()):
            return 0  # overflow on a real text is found, and named with its layer, when it is captured
        difference = float(((continued - padded).norm(dim=1) / padded.norm()).max())
        if difference > _allowed(lm):
            raise ModelError(
                f"{lm.name}: {type(lm.model).__name__} gives other states (by {difference:.1g}) at layer "
                f"{layer:02d} when a text is padded or continued; only causal decoders that heed the "
                "attention mask are read"
            )
    return _window(lm) if _shares(lm, sequences, len(common), [states[1:] for states in apart]) else 0


def _check_by_block(lm: LoadedLM, found: Sequence[Tensor], whole: Sequence[Tensor]) -> None:
    """Refuse a model whose blocks hand each other more than the residual stream."""
    for layer, (states, expected) in enumerate(zip(found, whole, strict=True)):
        difference = float((states - expected.float()).norm() / expected.float().norm())
        if difference > _allowed(lm):
            raise ModelError(
                f"{lm.name}: {type(lm.model).__name__} gives other states (by {difference:.1g}) at layer "
                f"{layer:02d} when its blocks are run one at a time: they hand on more than the hidden "
                "state; placement.weights: spread would be right"
            )


def _shares(lm: LoadedLM, sequences: list[list[int]], common: int, apart: list[Tensor]) -> bool:
    """Whether two sequences in one row have the states they have in rows of their own.

    Some decoders take no mask or positions of ours, or bind attention to the distance between columns.
    """
    row = Row((0, 1), common, sum(map(len, sequences)) - common)
    try:
        batch, (columns,) = batch_rows(lm, sequences, [row])
        together = _states(lm, batch)
    except Exception:  # each decoder refuses a mask or positions in its own way; then rows are not shared
        return False
    for alone, shared in zip(apart, together, strict=True):
        for state, own in zip(alone, columns, strict=True):
            difference = shared[0, own] - state[: len(own)]
            # Turned round, so that a NaN is a difference.
            if not float((difference.norm(dim=1) / state.norm()).max()) <= _allowed(lm):
                return False
    return True


def _allowed(lm: LoadedLM) -> float:
    return _ALLOWED.get(lm.dtype, _ALLOWED_HALF)


def _window(lm: LoadedLM) -> int:
    """Tokens up to which sliding attention is full attention: under a mask of ours there is no sliding."""
    config = lm.model.config.get_text_config()
    windows = [getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size")]
    return min([window for window in windows if window] + [_NO_LIMIT])


def _states(lm: LoadedLM, batch: dict[str, Tensor]) -> list[Tensor]:
    """(rows, longest, d) float32 states after each block."""
    row = Row((0,), 0, batch["input_ids"].shape[1])
    batches = Batches(lm, [[]], [lm.name], 1, 1)
    ((_, states),) = run_layers(batches, [[row]], range(lm.n_layers), lambda _chosen: _Everything(batch))
    return list(states)


@dataclass(frozen=True)
class _Everything:
    """Keeps all states of a batch."""

    batch: dict[str, Tensor]

    def keep(self, hidden: Tensor) -> Tensor:
        return hidden.float()

    def finish(self, kept: Tensor) -> Tensor:
        return kept
