"""Log-probabilities of continuations: all of them together, in one forward pass."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch

from strataprobe.behavior.continuations import Continuations
from strataprobe.errors import ModelError, listing, numbered
from strataprobe.lm import LoadedLM, OutputMap, Selected, states_at

T = TypeVar("T")

_SHOWN = 10


def score(
    output: OutputMap,
    continuations: Continuations,
    *,
    batch_tokens: int,
    threads: int = 1,
    layers: Sequence[int] = (),
    also: Callable[[Selected], T] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[np.ndarray, list[T]]:
    """Sum of the log-probabilities of each continuation's tokens, given what stands before them.

    Args:
        output: the model's output map.
        continuations: n texts.
        batch_tokens: padded tokens in a batch; it moves no more than a score's last bits.
        threads: batches at a time on a CPU; moves no bit.
        layers: blocks whose states `also` is given, the last one by default. The last block always is the
            last of them.
        also: what else to make of each batch's states at the predicting tokens, in the same pass.
        progress: called with the number of texts just done, and of all.

    Returns:
        (n,) float64 nats; and what `also` made of each batch.

    Raises:
        ModelError: log-probabilities that are not finite, or a text that does not fit into memory.

    Source: levels paper, section 3.2; the sum over all tokens, docs/methods.md.
    """
    lm, texts = output.lm, continuations
    last = lm.n_layers - 1

    def read(selected: Selected) -> tuple[list[int], np.ndarray, T | None]:
        sums = summed(output, output.normed(selected.states[-1:]), selected.places, _targets(texts, selected))
        return selected.numbers, sums[0], also(selected) if also else None

    scores = np.full(len(texts.ids), np.nan)
    made = []
    batches = states_at(
        lm, texts.read, texts.places, ids=texts.ids, batch_tokens=batch_tokens, threads=threads, then=read,
        layers=[*(layer for layer in layers if layer != last), last],
        progress=(lambda count: progress(count, len(texts.ids))) if progress else None,
    )  # fmt: skip
    for numbers, sums, extra in batches:
        scores[numbers] = sums
        made.append(extra)
    _check_finite(lm, texts, scores)
    return scores, made


def _targets(continuations: Continuations, selected: Selected) -> list[list[int]]:
    return [continuations.targets(number) for number in selected.numbers]


def summed(
    output: OutputMap,
    normed: torch.Tensor,
    places: Sequence[np.ndarray],
    targets: Sequence[Sequence[int]],
) -> np.ndarray:
    """Sums of log-probabilities, at every layer, of texts whose tokens are predicted at known places.

    Args:
        output: the model's output map.
        normed: (layers, places, hidden size) states after the final norm.
        places: for each of n texts, the places that predict its tokens; at least one.
        targets: for each, these tokens.

    Returns:
        (layers, n) float64 nats: float32 log-probabilities, summed in float64.
    """
    layers, count, hidden = normed.shape
    device = normed.device
    asked = torch.from_numpy(np.concatenate(places)).to(device)
    tokens = torch.tensor(np.concatenate(targets), dtype=torch.int64, device=device)
    shifts = torch.arange(layers, device=device)[:, None] * count
    each = output.log_probabilities(
        normed.reshape(-1, hidden), (asked + shifts).flatten(), tokens.repeat(layers)
    )
    starts = np.cumsum([0, *map(len, places)])[:-1]
    return np.add.reduceat(each.reshape(layers, -1).double().cpu().numpy(), starts, axis=1)


def _check_finite(lm: LoadedLM, continuations: Continuations, scores: np.ndarray) -> None:
    wrong = [name for name, score in zip(continuations.ids, scores, strict=True) if not np.isfinite(score)]
    if not wrong:
        return
    shown = [f"{name}: its log-probability is not a finite number" for name in wrong[:_SHOWN]]
    more = [f"and {numbered(len(wrong) - _SHOWN, 'more text')}"] if len(wrong) > _SHOWN else []
    remedy = "; bfloat16 and float32 hold what float16 cannot" if lm.dtype == "float16" else ""
    raise ModelError(listing(f"{lm.name} (dtype {lm.dtype}{remedy})", shown + more))
