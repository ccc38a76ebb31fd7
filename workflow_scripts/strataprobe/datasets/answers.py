"""Right and wrong over control items, and the one accuracy in which all three levels are given."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from strataprobe.datasets.control import ControlDataset
from strataprobe.errors import StrataprobeError

RIGHT, WRONG, NO_ANSWER = "1", "0", "."
OBJECT, SUBJECT = "object_control", "subject_control"
ALL = "all"


def describe(dataset: ControlDataset) -> dict[str, list]:
    """What a result says of its items, so that tables can split and bootstrap without the dataset."""
    items = dataset.controls
    return {
        "ids": [item.id for item in items],
        "languages": [item.language for item in items],
        "control_types": [item.control_type for item in items],
        "item_groups": [item.item_group for item in items],
        "pairs": [item.pair for item in items],
        "verbs": [item.verb for item in items],
        "gold": [item.gold for item in items],
    }


def margins(scores: np.ndarray, gold: list[str]) -> np.ndarray:
    """(..., items) score of the gold candidate minus that of the other one; NaN where there is no answer.

    Args:
        scores: (..., items, 2) scores of candidates a and b.
        gold: (items,) "a" or "b".
    """
    sign = np.array([1.0 if one == "a" else -1.0 for one in gold])
    return (scores[..., 0] - scores[..., 1]) * sign


def written(margin: np.ndarray) -> str:
    """One character an item: right where the gold candidate scores strictly higher.

    Args:
        margin: (items,) gold minus other; NaN means no answer. A tie is wrong (the published code gives it
            to candidate b; it is counted beside every measure).
    """
    return "".join(
        NO_ANSWER if value != value else RIGHT if value > 0 else WRONG for value in margin.tolist()
    )


def read(correct: str) -> np.ndarray:
    """(items,) 1.0 right, 0.0 wrong, NaN no answer.

    Raises:
        StrataprobeError: another character.
    """
    values = vector(correct)
    if np.isinf(values).any():
        extra = set(correct) - {RIGHT, WRONG, NO_ANSWER}
        raise StrataprobeError(
            f"right and wrong are written as {RIGHT}, {WRONG} and {NO_ANSWER}, not {sorted(extra)}"
        )
    return values


def vector(correct: str) -> np.ndarray:
    """(items,) 1.0 right, 0.0 wrong, NaN no answer, and infinite for any other character."""
    return _VALUES[np.frombuffer(correct.encode("ascii", "replace"), np.uint8)]


_VALUES = np.full(256, np.inf)
_VALUES[[ord(RIGHT), ord(WRONG), ord(NO_ANSWER)]] = 1.0, 0.0, np.nan


def accuracy(correct: str, mask: np.ndarray | None = None) -> float | None:
    """Share of right answers among the items answered, None where there is none.

    Args:
        correct: one character an item, as `written` gives it.
        mask: (items,) booleans: which items count; all by default.
    """
    values = read(correct)
    values = values[np.isfinite(values) if mask is None else np.isfinite(values) & mask]
    return float(values.mean()) if len(values) else None


def splits(items: Mapping[str, Sequence]) -> dict[str, np.ndarray]:
    """Name -> (items,) booleans: "all", each language, each control type, and "language:type".

    Args:
        items: as `describe` gives them.
    """
    languages, types = np.array(items["languages"]), np.array(items["control_types"])
    found = {ALL: np.ones(len(languages), bool)}
    own_languages = list(dict.fromkeys(items["languages"]))
    own_types = [kind for kind in (OBJECT, SUBJECT) if kind in items["control_types"]]
    found |= {language: languages == language for language in own_languages}
    found |= {kind: types == kind for kind in own_types}
    for language in own_languages:
        for kind in own_types:
            found[f"{language}:{kind}"] = (languages == language) & (types == kind)
    return found


def splits_held(items: Mapping[str, Sequence]) -> dict[str, np.ndarray]:
    """Those of `splits` that hold an item: a language without items of a type has no such split."""
    return {name: mask for name, mask in splits(items).items() if mask.any()}


def by_split(correct: str, masks: Mapping[str, np.ndarray]) -> dict[str, float | None]:
    """The accuracy of each split."""
    return {name: accuracy(correct, mask) for name, mask in masks.items()}


def mean_by_split(*parts: Mapping[str, Any]) -> dict[str, float | None]:
    """The mean of several measures, split by split; None where one of them has no value."""
    return {
        name: None
        if any(part[name] is None for part in parts)
        else float(np.mean([part[name] for part in parts]))
        for name in parts[0]
    }
