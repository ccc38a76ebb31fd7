"""The logit lens on continuations: every layer's states through the model's own final norm and unembedding.

Layers are counted as hidden_states[0..L] here: 0 is the embedding (what enters the first block), k is our
block k-1, before the final norm.

Source: levels paper, section 3.2; the authors' code; nostalgebraist (2020); docs/methods.md.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from strataprobe.behavior import Continuations
from strataprobe.behavior.scoring import summed
from strataprobe.errors import ModelError
from strataprobe.lm import EMBED, OutputMap, Selected
from strataprobe.readout.tuned import TunedLens

DEFAULT, CODE, PAPER, TUNED = "default", "code", "paper", "tuned"
DEFINITIONS = (DEFAULT, CODE, PAPER, TUNED)
TASKS = ("qa", "paraphrase")
"""Prompts whose continuations are read out; `PAPER` reads the bare sentence instead."""
EMBEDDING_INDEX = 0


class Lens:
    """Scores of whole continuations at every hidden_states index, batch by batch.

    Three definitions: `default` applies the final norm once at every index, so that the last one gives the
    model's own log-probabilities; `code` does as the authors' code, which norms hidden_states[-1] although it
    has been normed already, so twice at the last index; `tuned` is `default` after a tuned lens's map.
    """

    def __init__(
        self,
        output: OutputMap,
        continuations: Continuations,
        definitions: Sequence[str],
        tuned: TunedLens | None = None,
    ) -> None:
        self.output = output
        self.continuations = continuations
        self.definitions = [name for name in definitions if name != PAPER]
        self.tuned = tuned
        self.wanted = {n for (_, variant, _), n in continuations.numbers.items() if variant in TASKS}

    @property
    def layers(self) -> list[int]:
        """The states that are read: hidden_states[0..L] as layers of `lm.states_at`."""
        return [EMBED, *range(self.output.lm.n_layers)]

    def read(self, selected: Selected) -> tuple[list[int], np.ndarray]:
        """Which of a batch's continuations are read out, and their scores, (definitions, L+1, n) nats."""
        chosen = [place for place, number in enumerate(selected.numbers) if number in self.wanted]
        numbers = [selected.numbers[place] for place in chosen]
        shape = (len(self.definitions), len(self.layers), len(chosen))
        if not chosen or not self.definitions:
            return numbers, np.zeros(shape)
        cells, inverse = np.unique(
            np.concatenate([selected.places[place] for place in chosen]), return_inverse=True
        )
        places = np.split(inverse, np.cumsum([len(selected.places[place]) for place in chosen])[:-1])
        states = selected.states[:, torch.from_numpy(cells).to(selected.states.device)]
        targets = [self.continuations.targets(number) for number in numbers]
        return numbers, self._scores(states, places, targets)

    def _scores(self, states: Tensor, places: list[np.ndarray], targets: list[list[int]]) -> np.ndarray:
        """(definitions, L+1, n) nats; `default` and `code` share all but the last index."""
        normed = self.output.normed
        found: dict[str, np.ndarray] = {}
        if DEFAULT in self.definitions or CODE in self.definitions:
            once = normed(states)
            found[DEFAULT] = summed(self.output, once, places, targets)
            twice = (
                summed(self.output, normed(once[-1:]), places, targets) if CODE in self.definitions else None
            )
            found[CODE] = found[DEFAULT] if twice is None else np.concatenate([found[DEFAULT][:-1], twice])
        if TUNED in self.definitions:
            found[TUNED] = summed(self.output, normed(self.tuned.mapped(states)), places, targets)
        return np.stack([found[name] for name in self.definitions])

    def collected(self, parts: Sequence[tuple[list[int], np.ndarray]]) -> dict[str, np.ndarray]:
        """definition -> (L+1, texts) nats of what `read` gave, batch by batch; NaN for a text not read out.

        Raises:
            ModelError: a score that is not a finite number; names definition and first index.
        """
        texts = len(self.continuations.ids)
        scores = np.full((len(self.definitions), len(self.layers), texts), np.nan)
        for numbers, part in parts:
            scores[:, :, numbers] = part
        for name, own in zip(self.definitions, scores[:, :, sorted(self.wanted)], strict=True):
            bad = ~np.isfinite(own)
            if bad.any():
                text = self.continuations.ids[sorted(self.wanted)[int(bad.any(axis=0).argmax())]]
                raise ModelError(
                    f"{self.output.lm.name}: readout '{name}' is not finite from hidden_states index "
                    f"{int(bad.any(axis=1).argmax())} on, for {text} (dtype {self.output.lm.dtype})"
                )
        return dict(zip(self.definitions, scores, strict=True))
