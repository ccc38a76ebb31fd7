"""What is added to the states of each item: every direction, layer and strength."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from strataprobe.lm.edited import Condition, Edit
from strataprobe.recoverability.codings import Coding
from strataprobe.steering.directions import METHODS, RANDOM, Fitted, cosines, fit, random_units
from strataprobe.steering.passes import OWN_PROMPT, Asking, role_places


class Key(NamedTuple):
    """One push: of a direction fitted on states of a source, at a layer, by a method, this strong.

    `number` is which of the random directions; `layer` as in hidden_states.
    """

    states: str
    layer: int
    method: str
    number: int
    alpha: float


@dataclass(frozen=True)
class Pushes:
    """All pushes of one task.

    Attributes:
        mode: letters of the probe's positions.
        coding: which candidate plays which role, and labels.
        last: the last layer's number in hidden_states.
        fits: (source, layer) -> directions.
        random: (source, layer) -> (directions, roles, hidden) units, where there are any.
        own: layer -> (items, roles, hidden) states in the prompt itself.
        heeded: source -> (items, roles) whether they are behind the text's first token.
        keys: every push, in the order of `conditions`.
    """

    mode: str
    coding: Coding
    last: int
    fits: Mapping[tuple[str, int], Fitted]
    random: Mapping[tuple[str, int], np.ndarray]
    own: Mapping[int, np.ndarray]
    heeded: Mapping[str, np.ndarray]
    keys: Sequence[Key]

    @classmethod
    def fit(
        cls,
        asking: Asking,
        task: str,
        layers: Sequence[int],
        mode: str,
        coding: Coding,
        asked: Mapping[str, Any],
        training: Mapping[str, Any],
    ) -> "Pushes":
        """Directions of every source and layer, from all items that have the task's prompt.

        Args:
            layers: numbers in hidden_states; random directions are of the first of them.
            asked: `states`, `methods`, `alphas`, `random`, `random_alphas`, `seed`, `conventions`; where they
                are `published`, the text's first token counts like any other.
            training: of the probe, `learning_rate` and `epochs`.
        """
        sources = list(dict.fromkeys([OWN_PROMPT, *asked["states"]]))
        blocks = [layer - 1 for layer in layers]
        told = {source: asking.states(task, blocks, source).in_roles(mode, coding) for source in sources}
        here = np.array(asking.items(task))
        fits, random = {}, {}
        for source in asked["states"]:
            heeded = told[source].heeded[here]
            if asked["conventions"] == "published":
                heeded = np.ones_like(heeded)
            for place, layer in enumerate(layers):
                fits[source, layer] = fit(
                    told[source].values[place][here], coding.labels[here], heeded, layer=layer,
                    seed=asked["seed"], training=training,
                )  # fmt: skip
            random[source, layers[0]] = random_units(
                asked["random"], len(mode), asking.lm.hidden_size, seed=asked["seed"], layer=layers[0]
            )
        own = dict(zip(layers, told[OWN_PROMPT].values, strict=True))
        heeded = {source: states.heeded for source, states in told.items()}
        return cls(mode, coding, asking.lm.n_layers, fits, random, own, heeded, _keys(fits, random, asked))

    def added(self, key: Key, index: int) -> np.ndarray:
        """(roles, hidden) float32: alpha x gold sign x sigma_p d_p."""
        fitted = self.fits[key.states, key.layer]
        units = (
            self.random[key.states, key.layer][key.number]
            if key.method == RANDOM
            else fitted.units[key.method]
        )
        return np.float32(key.alpha * self.coding.labels[index]) * fitted.push(units)

    def conditions(self, index: int, columns: np.ndarray) -> list[Condition]:
        """The pushes of one item as edits of its row.

        Args:
            columns: (3,) where its candidates and predicate stand.
        """
        places = columns[role_places(self.mode, bool(self.coding.swapped[index]))]
        distinct, own = np.unique(places, return_inverse=True)
        # Where two roles end in one token, it is pushed for both.
        sums = (own == np.arange(len(distinct))[:, None]).astype(np.float32)
        return [
            [Edit(key.layer - 1, distinct, torch.from_numpy(sums @ self.added(key, index)), add=True)]
            for key in self.keys
        ]

    def relative_size(self, key: Key, items: Sequence[int]) -> np.ndarray:
        """(items, roles) |added| / |h|: 0 where nothing is added."""
        sizes = np.linalg.norm(self.own[key.layer][items].astype(np.float64), axis=-1)
        added = np.linalg.norm(self.added(key, items[0]).astype(np.float64), axis=-1) if len(items) else 0.0
        return added / sizes

    def described(self, items: Sequence[int]) -> list[dict[str, Any]]:
        """Of each source and layer: sigma by role, and how the two directions agree."""
        return [
            {
                "states": source,
                "layer": layer,
                "block": layer - 1 if layer else None,
                "depth": layer / self.last,
                "roles": list(self.mode),
                "sigma": fitted.sigma.tolist(),
                "norm": np.linalg.norm(self.own[layer][items].astype(np.float64), axis=-1)
                .mean(axis=0)
                .tolist(),
                "cosine": cosines(fitted),
                "first_tokens": (~self.heeded[source][items]).sum(axis=0).tolist(),
                "no_direction": {
                    method: [letter for letter, part in zip(self.mode, units, strict=True) if not part.any()]
                    for method, units in fitted.units.items()
                },
            }
            for (source, layer), fitted in self.fits.items()
        ]


def _keys(
    fits: Mapping[tuple[str, int], Fitted],
    random: Mapping[tuple[str, int], np.ndarray],
    asked: Mapping[str, Any],
) -> list[Key]:
    keys = [
        Key(source, layer, method, 0, float(alpha))
        for source, layer in fits
        for method in METHODS
        if method in asked["methods"]
        for alpha in asked["alphas"]
    ]
    keys += [
        Key(source, layer, RANDOM, number, float(alpha))
        for (source, layer), units in random.items()
        for alpha in asked["random_alphas"]
        for number in range(len(units))
    ]
    return keys
