"""The probes of a routing study: every (train notation, train anchor, layer, class set), and its folds.

A probe is scikit-learn's multinomial LogisticRegression on unscaled states, solved in `probes.multinomial`.
Those of one notation and class set train on the same stimuli: all anchors, layers and folds are one solve.

Source: lucky-defaults paper, section 4; DEFINITIONS, lucky defaults.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from strataprobe.cache import ActivationCache
from strataprobe.errors import ProbeError
from strataprobe.probes.multinomial import solve_multinomial
from strataprobe.routing.stimuli import Chosen, Stimuli

Key = tuple[str, tuple[str, ...]]
"""Train notation and class set."""


@dataclass(frozen=True)
class Fitted:
    """Probes of one notation and class set.

    Attributes:
        notation: they were trained on.
        classes: in the order of their outputs.
        anchors: whose states they were trained on.
        trained: the training stimuli.
        fold: (stimuli,) which fold holds each out.
        coefficients: (anchors, layers, 1 + folds, classes, hidden) float64; fit 0 is on all stimuli, fit
            k + 1 on all but fold k.
        intercepts: (anchors, layers, 1 + folds, classes) float64.
    """

    notation: str
    classes: tuple[str, ...]
    anchors: tuple[str, ...]
    trained: Chosen
    fold: np.ndarray
    coefficients: np.ndarray
    intercepts: np.ndarray


def fit_all(
    cache: ActivationCache,
    stimuli: Stimuli,
    settings: Mapping[str, Any],
    *,
    workers: int = 1,
    progress: Callable[[int, int], object] | None = None,
) -> dict[Key, Fitted]:
    """All probes that the design asks for.

    Args:
        cache: the states.
        stimuli: of the dataset.
        settings: `C`, `tolerance`, `max_iterations` of the solver; `folds` and `seed` of cross-validation.
        workers: probes solved at a time.
        progress: called with the number of sets of probes done, and of all.

    Raises:
        ProbeError: probes that did not converge.
    """
    design = stimuli.design
    notations = dict.fromkeys(train for train, _ in design.directions)
    sets = dict.fromkeys(scope.classes for scope in design.scopes.values())
    keys = [(notation, classes) for notation in notations for classes in sets]
    found = {}
    for number, (notation, classes) in enumerate(keys, start=1):
        found[notation, classes] = fit(cache, stimuli, notation, classes, settings, workers=workers)
        if progress is not None:
            progress(number, len(keys))
    return found


def fit(
    cache: ActivationCache,
    stimuli: Stimuli,
    notation: str,
    classes: tuple[str, ...],
    settings: Mapping[str, Any],
    *,
    workers: int = 1,
) -> Fitted:
    """Probes at all anchors and stored layers, on all training stimuli and with each fold left out."""
    trained, anchors = stimuli.of(notation, classes), tuple(stimuli.design.anchors[notation])
    fold = stratified_folds(trained.word, settings["folds"], settings["seed"])
    used = np.concatenate([np.ones((1, len(fold))), fold != np.arange(settings["folds"])[:, None]])
    states = np.concatenate([cache.stack(anchor)[:, trained.rows] for anchor in anchors])
    coefficients, intercepts = solved(
        states, trained.word, len(classes), used, settings, f"{len(classes)} classes on '{notation}'", workers
    )
    shape = (len(anchors), len(states) // len(anchors))
    return Fitted(
        notation=notation,
        classes=classes,
        anchors=anchors,
        trained=trained,
        fold=fold,
        coefficients=coefficients.reshape(*shape, *coefficients.shape[1:]),
        intercepts=intercepts.reshape(*shape, *intercepts.shape[1:]),
    )


def solved(
    states: np.ndarray,
    labels: np.ndarray,
    classes: int,
    used: np.ndarray,
    settings: Mapping[str, Any],
    named: str,
    workers: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (problems, fits, classes, hidden) and intercepts (problems, fits, classes).

    Args:
        states: (problems, items, hidden).
        labels: (items,) from 0 to classes - 1.
        used: (fits, items) which items each fit trains on, the same for all problems.
        settings: `C`, `tolerance`, `max_iterations`.
        named: what a message calls the probes.
        workers: problems solved at a time.

    Raises:
        ProbeError: probes that did not converge, or that `solve_multinomial` refuses.
    """
    coefficients, intercepts, converged = solve_multinomial(
        states,
        labels,
        classes=classes,
        C=settings["C"],
        tolerance=settings["tolerance"],
        max_iterations=settings["max_iterations"],
        weights=np.broadcast_to(used, (len(states), *used.shape)),
        workers=workers,
    )
    if not converged.all():
        raise ProbeError(
            f"{(~converged).sum()} of {converged.size} probes of {named} did not converge in "
            f"{settings['max_iterations']} iterations (raise max_iterations or tolerance)"
        )
    return coefficients, intercepts


def stratified_folds(labels: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """(items,) the fold that holds each item out: scikit-learn's StratifiedKFold, shuffled."""
    from sklearn.model_selection import StratifiedKFold

    splitter = StratifiedKFold(n_splits=folds, shuffle=True, random_state=seed)
    fold = np.empty(len(labels), int)
    for number, (_, held) in enumerate(splitter.split(np.zeros(len(labels)), labels)):
        fold[held] = number
    return fold
