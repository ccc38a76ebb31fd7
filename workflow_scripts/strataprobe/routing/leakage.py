"""Do the probes read a word, or the template that it stands in?

Every template holds every word, so a probe that does well on stimuli left out at random may still know
templates. Beside that stands its accuracy on templates that it was never trained on.

Source: lucky-defaults paper, sections 3.5 and 4.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from strataprobe.cache import ActivationCache
from strataprobe.probes.multinomial import predict
from strataprobe.routing.fits import Fitted, Key
from strataprobe.routing.stimuli import Stimuli


def leakage_rows(
    cache: ActivationCache, stimuli: Stimuli, fitted: Mapping[Key, Fitted]
) -> list[dict[str, Any]]:
    """One row a notation, anchor, layer and class set.

    Returns:
        `notation`, `anchor`, `layer`, `classes` (how many), `folds_accuracy` and `folds_property_accuracy`
        (each stimulus predicted by the probe that held its fold out), `held_out_accuracy` and
        `held_out_property_accuracy` (templates never trained on; None where the dataset has none).
    """
    rows = []
    for probes in fitted.values():
        side = stimuli.sides(probes.classes)
        unseen = stimuli.of(probes.notation, probes.classes, held_out=True)
        for place, anchor in enumerate(probes.anchors):
            states = cache.stack(anchor)
            folds = held_out_by_fold(probes, place, states[:, probes.trained.rows])
            held = predict(
                states[:, unseen.rows], probes.coefficients[place, :, 0], probes.intercepts[place, :, 0]
            )
            rows += [
                {
                    "notation": probes.notation,
                    "anchor": anchor,
                    "layer": layer,
                    "classes": len(probes.classes),
                    **_accuracies("folds", folds[number], probes.trained.word, side),
                    **_accuracies("held_out", held[number], unseen.word, side),
                }
                for number, layer in enumerate(cache.blocks)
            ]
    return rows


def held_out_by_fold(probes: Fitted, place: int, states: np.ndarray) -> np.ndarray:
    """(layers, stimuli) the class that the probe without a stimulus's fold predicts for it.

    Args:
        probes: trained at some anchors.
        place: which of them.
        states: (layers, stimuli, hidden) of the training stimuli there.
    """
    found = np.empty(states.shape[:2], int)
    for fold in np.unique(probes.fold).tolist():
        own = probes.fold == fold
        found[:, own] = predict(
            states[:, own], probes.coefficients[place, :, fold + 1], probes.intercepts[place, :, fold + 1]
        )
    return found


def _accuracies(name: str, predicted: np.ndarray, true: np.ndarray, side: np.ndarray) -> dict[str, Any]:
    """Share of stimuli whose class, and whose class's side, is predicted; None where there is no stimulus."""
    if len(true) == 0:
        return {f"{name}_accuracy": None, f"{name}_property_accuracy": None}
    return {
        f"{name}_accuracy": float((predicted == true).mean()),
        f"{name}_property_accuracy": float((side[predicted] == side[true]).mean()),
    }
