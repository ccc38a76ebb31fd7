"""What a probe told apart is erased from the prompt's states; as a control, what means nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from strataprobe.datasets.control import ControlItem
from strataprobe.lm.edited import Condition, Edit, Kept
from strataprobe.recoverability.folds import all_folds
from strataprobe.steering import erasure
from strataprobe.steering.passes import OWN_PROMPT, role_places
from strataprobe.steering.probing import refitted
from strataprobe.steering.pushes import Pushes

_SCHEMES = ("pair_out", "item_out")


@dataclass(frozen=True)
class Amnesia:
    """Erasers of one task at one layer, fitted on all items' states in their prompts.

    Attributes:
        layer: number in hidden_states.
        erasers: (1 + random) lists, one eraser a role: of the classes, then of labels dealt anew.
        probe: `scheme` of held-out items, and accuracies `before`, `erased` and `random` (a list).
        left: (roles,) what is left of the difference of class means, as a share of it; NaN where there was
            none.
    """

    pushes: Pushes
    layer: int
    erasers: Sequence[Sequence[erasure.Eraser]]
    probe: Mapping[str, Any]
    left: np.ndarray

    @classmethod
    def fit(
        cls,
        pushes: Pushes,
        controls: Sequence[ControlItem],
        layer: int,
        asked: Mapping[str, Any],
        training: Mapping[str, Any],
    ) -> "Amnesia":
        """Args:
        layer: the number in hidden_states, one of those that are pushed.
        asked: `erasures` (labels dealt anew) and `seed`.
        training: of the probe.
        """
        here = np.flatnonzero(np.isfinite(pushes.own[layer]).all(axis=(1, 2)))
        states, labels = pushes.own[layer][here], pushes.coding.labels[here]
        heeded = pushes.heeded[OWN_PROMPT][here]
        concepts = [
            labels, *(erasure.dealt_anew(labels, one, seed=asked["seed"]) for one in range(asked["erasures"]))
        ]  # fmt: skip
        erasers = [erasure.fit_all(states, concept, heeded) for concept in concepts]
        allowed, _ = all_folds([controls[index] for index in here])
        scheme = next(name for name in _SCHEMES if name in allowed)
        how = {"layer": layer, "seed": asked["seed"], "training": training, "heeded": heeded}
        before = refitted(states, labels, allowed[scheme], **how)
        each = [refitted(states, labels, allowed[scheme], **how, concept=concept) for concept in concepts]
        probe = {"scheme": scheme, "before": before, "erased": each[0], "random": each[1:]}
        after = erasure.erase(erasers[0], states, heeded)
        lengths = [
            [_difference(values[own, role], labels[own]) for role, own in enumerate(heeded.T)]
            for values in (states, after)
        ]
        with np.errstate(invalid="ignore", divide="ignore"):
            left = np.divide(lengths[1], lengths[0])
        return cls(pushes, layer, erasers, probe, left)

    def conditions(self, index: int, kept: Kept, columns: np.ndarray) -> list[Condition]:
        """One item's states set to what is left of them: of the classes, then of labels dealt anew."""
        places = columns[role_places(self.pushes.mode, bool(self.pushes.coding.swapped[index]))]
        states = kept.at([self.layer - 1], places).float().cpu().numpy()
        heeded = self.pushes.heeded[OWN_PROMPT][index][None]
        return [
            [Edit(self.layer - 1, places, torch.from_numpy(erasure.erase(erasers, states, heeded)[0]))]
            for erasers in self.erasers
        ]

    def relative_size(self, erasers: Sequence[erasure.Eraser], items: Sequence[int]) -> np.ndarray:
        """(items, roles) |taken off| / |h|."""
        states = self.pushes.own[self.layer][items].astype(np.float64)
        taken = erasure.erase(erasers, states, self.pushes.heeded[OWN_PROMPT][items]) - states
        return np.linalg.norm(taken, axis=-1) / np.linalg.norm(states, axis=-1)


def _difference(states: np.ndarray, labels: np.ndarray) -> float:
    """Length of the difference of class means; NaN where a class has no item."""
    if len(set(labels.tolist())) < 2:
        return float("nan")
    states = states.astype(np.float64)
    return float(np.linalg.norm(states[labels > 0].mean(axis=0) - states[labels < 0].mean(axis=0)))
