"""Scores of continuations where the residual stream was changed on the way."""

from collections.abc import Sequence

import numpy as np
import torch

from strataprobe.behavior.continuations import Continuations
from strataprobe.behavior.scoring import summed
from strataprobe.lm import OutputMap
from strataprobe.lm.edited import Condition, Kept


def score_changed(
    output: OutputMap,
    continuations: Continuations,
    kept: Kept,
    numbers: Sequence[int],
    conditions: Sequence[Condition],
    *,
    batch_tokens: int,
) -> np.ndarray:
    """Log-probability of each continuation of a row, unchanged and under each condition.

    Args:
        output: the model's output map.
        continuations: texts, of which the row holds some.
        kept: the row, run.
        numbers: (texts,) which continuations the row holds, in its order.
        conditions: n changes, at tokens before the continuations.
        batch_tokens: tokens in a batch of conditions.

    Returns:
        (1 + n, texts) float64 nats, unchanged first. Where a change reaches none of the states that predict,
        the score is the unchanged one, exactly.

    Source: levels paper, section 3.2 and appendix G.
    """
    columns = [
        kept.columns[place][np.asarray(continuations.places[number])] for place, number in enumerate(numbers)
    ]
    read, inverse = np.unique(np.concatenate(columns), return_inverse=True)
    places = np.split(inverse, np.cumsum([len(one) for one in columns])[:-1])
    targets = [continuations.targets(number) for number in numbers]
    with torch.inference_mode():
        clean = kept.at([output.lm.n_layers - 1], read)
        changed = kept.run(conditions, read, batch_tokens=batch_tokens)
        reached = [not torch.equal(states, clean[0]) for states in changed]
        found = np.repeat(summed(output, output.normed(clean), places, targets), 1 + len(conditions), axis=0)
        if any(reached):
            own = changed[torch.tensor(reached, device=changed.device)]
            found[1:][reached] = summed(output, output.normed(own), places, targets)
    return found
