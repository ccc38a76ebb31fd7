"""A routing study of one checkpoint: the summary, and the predictions that it rests on.

Source: lucky-defaults paper, sections 3 and 4; DEFINITIONS, lucky defaults.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import h5py
import numpy as np

from strataprobe.cache import ActivationCache
from strataprobe.concentration import Thresholds
from strataprobe.datasets.vocabulary import VocabularyDataset
from strataprobe.errors import ProbeError
from strataprobe.files import atomic, canonical_json
from strataprobe.routing.audit import Tokenize, audit
from strataprobe.routing.cells import Crossing, Predicted, cross
from strataprobe.routing.fits import fit_all
from strataprobe.routing.leakage import leakage_rows
from strataprobe.routing.rows import cell_rows, count_rows, sensitivity_rows, word_rows
from strataprobe.routing.stimuli import Stimuli


def measure(
    cache: ActivationCache,
    dataset: VocabularyDataset,
    tokenize: Tokenize,
    *,
    layers: int,
    settings: Mapping[str, Any],
    thresholds: Thresholds,
    workers: int = 1,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[dict[str, Any], list[Crossing]]:
    """All cells of all scopes, the leakage check, the audit of the words.

    Args:
        cache: the dataset's activations.
        dataset: the vocabulary.
        tokenize: the checkpoint's tokenizer, see `audit.read_tokenizer`.
        layers: blocks of the model (the cache may hold some of them).
        settings: `C`, `tolerance`, `max_iterations` of the solver; `folds` of cross-validation; `bootstrap`
            (replicates over items); `sensitivity` (levels of the threshold); `seed`.
        thresholds: of the gate.
        workers: probes solved at a time.
        progress: called with the number of sets of probes done, and of all.

    Returns:
        JSON-ready `cells`, `counts`, `leakage`, `words` and `sensitivity`, each a list of flat rows; and the
        predictions, for `write_predictions`.

    Raises:
        CacheError: stimuli that the cache does not hold.
        DatasetError: classes with too few stimuli for cross-validation; names all.
        ProbeError: non-finite states, or no convergence.
    """
    stimuli = Stimuli(dataset, cache.ids)
    stimuli.check(settings["folds"])
    audited = audit(dataset, tokenize)
    fitted = fit_all(cache, stimuli, settings, workers=workers, progress=progress)
    crossings = cross(cache, stimuli, fitted)
    cells = cell_rows(crossings, stimuli, layers=layers, thresholds=thresholds, settings=settings)
    scopes = list(dataset.design.scopes)
    summary = {
        "cells": cells,
        "counts": count_rows(crossings, stimuli),
        "leakage": leakage_rows(cache, stimuli, fitted),
        "words": word_rows(audited, crossings, scopes[-1]),
        "sensitivity": sensitivity_rows(cells, scopes, settings["sensitivity"]),
    }
    return summary, crossings


def write_predictions(
    path: str | os.PathLike[str], crossings: Sequence[Crossing], settings: Mapping[str, Any]
) -> None:
    """Write every prediction, atomically; equal input gives equal bytes.

    A group a scope and direction ("5x5/mention->call") has the attributes `classes`, `train_anchors`,
    `test_anchors` and `layers`. In it, `invented`, `canonical` and, where there is a control,
    `swapped_invented` and `swapped_canonical` have `ids` (stimuli,) and `predicted` (train anchors, test
    anchors, layers, stimuli), the index of the predicted class.
    """
    with atomic(path) as place, h5py.File(place, "w", libver="latest", track_order=True) as file:
        file.attrs["settings"] = canonical_json(dict(settings))
        for crossing in crossings:
            group = file.require_group(crossing.scope).create_group(crossing.direction, track_order=True)
            for name in ("classes", "train_anchors", "test_anchors", "layers"):
                group.attrs[name] = json.dumps(getattr(crossing, name))
            for name, part in _parts(crossing).items():
                own = group.create_group(name, track_order=True)
                own.attrs["notation"] = part.notation
                ids = np.array([one.encode() for one in part.stimuli.ids])
                for column, values in (("predicted", part.classes), ("ids", ids)):
                    own.create_dataset(
                        column, data=values, chunks=values.shape, fletcher32=True, track_times=False
                    )


def _parts(crossing: Crossing) -> dict[str, Predicted]:
    parts = {"invented": crossing.invented, "canonical": crossing.canonical}
    if crossing.swapped is not None:
        parts |= dict(zip(("swapped_invented", "swapped_canonical"), crossing.swapped, strict=True))
    return parts


def read_predictions(path: str | os.PathLike[str]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """(scope, direction, part) -> `classes` (their names), `predicted` and `ids`, see `write_predictions`.

    Raises:
        ProbeError: the file is not there, or damaged.
    """
    found = {}
    try:
        with h5py.File(path, "r", locking=False) as file:
            for scope, directions in file.items():
                for direction, group in directions.items():
                    classes = json.loads(group.attrs["classes"])
                    for part, own in group.items():
                        found[scope, direction, part] = {
                            "classes": classes,
                            "predicted": own["predicted"][:],
                            "ids": [raw.decode() for raw in own["ids"][:]],
                        }
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        raise ProbeError(f"{path} is damaged ({error}); delete it and it will be made again") from error
    return found
