"""All cells of a routing study: what each probe predicts for every stimulus of another notation.

A cell is (scope, direction, train anchor, test anchor, layer). Its probe is asked about the invented items,
about the canonical words in the test notation and, where the design names a control for that notation, about
the same words with the printed number of arguments swapped.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from strataprobe.cache import ActivationCache
from strataprobe.concentration import counted
from strataprobe.probes.multinomial import predict
from strataprobe.routing.fits import Fitted, Key
from strataprobe.routing.stimuli import Chosen, Stimuli


@dataclass(frozen=True)
class Predicted:
    """What the probes of many cells predict for the same stimuli.

    Attributes:
        notation: of the stimuli.
        stimuli: them.
        classes: (train anchors, test anchors, layers, stimuli) unsigned: index of the predicted class.
    """

    notation: str
    stimuli: Chosen
    classes: np.ndarray

    def counts(self, classes: int) -> np.ndarray:
        """(train anchors, test anchors, layers, words, classes): stimuli of each word by predicted class."""
        words = len(self.stimuli.words)
        return counted(self.stimuli.word, self.classes, item_count=words, class_count=classes)


@dataclass(frozen=True)
class Crossing:
    """The cells of one scope and direction.

    Attributes:
        scope: its name.
        train, test: notations.
        train_anchors, test_anchors: names, in the order of the predictions' first two axes.
        layers: numbers of the blocks, in the order of their third axis.
        classes: of the readout, in the order of its outputs.
        invented, canonical: predictions for the scope's items, and for the classes' own words.
        swapped: the same two in the control of the test notation; None where it has none.
    """

    scope: str
    train: str
    test: str
    train_anchors: tuple[str, ...]
    test_anchors: tuple[str, ...]
    layers: tuple[int, ...]
    classes: tuple[str, ...]
    invented: Predicted
    canonical: Predicted
    swapped: tuple[Predicted, Predicted] | None

    @property
    def direction(self) -> str:
        return f"{self.train}->{self.test}"

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many train anchors, test anchors and layers."""
        return len(self.train_anchors), len(self.test_anchors), len(self.layers)


def cross(cache: ActivationCache, stimuli: Stimuli, fitted: Mapping[Key, Fitted]) -> list[Crossing]:
    """Every cell, by scope and then by direction, as the design lists them."""
    design = stimuli.design
    return [
        _crossing(cache, stimuli, fitted[train, scope.classes], name, scope.items, test)
        for name, scope in design.scopes.items()
        for train, test in design.directions
    ]


def _crossing(
    cache: ActivationCache, stimuli: Stimuli, probes: Fitted, scope: str, items: tuple[str, ...], test: str
) -> Crossing:
    design, anchors = stimuli.design, tuple(stimuli.design.anchors[test])
    asked = {
        notation: tuple(
            routed(cache, probes, stimuli.of(notation, words), notation, anchors)
            for words in (items, probes.classes)
        )
        for notation in (test, design.controls.get(test))
        if notation is not None
    }
    invented, canonical = asked[test]
    return Crossing(
        scope=scope,
        train=probes.notation,
        test=test,
        train_anchors=probes.anchors,
        test_anchors=anchors,
        layers=tuple(cache.blocks),
        classes=probes.classes,
        invented=invented,
        canonical=canonical,
        swapped=asked.get(design.controls.get(test)),
    )


def routed(
    cache: ActivationCache, probes: Fitted, stimuli: Chosen, notation: str, anchors: tuple[str, ...]
) -> Predicted:
    """What the probes trained on all stimuli predict at each of these anchors."""
    coefficients, intercepts = probes.coefficients[:, :, 0], probes.intercepts[:, :, 0]
    dtype = np.min_scalar_type(len(probes.classes) - 1)
    found = [predict(cache.stack(at)[:, stimuli.rows], coefficients, intercepts) for at in anchors]
    return Predicted(notation, stimuli, np.stack(found, axis=1).astype(dtype))
