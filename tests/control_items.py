"""Made-up control items: pairs of two verbs, in several languages, with translations."""

from collections.abc import Sequence

import numpy as np

from strataprobe.datasets.control import ControlDataset, ControlItem

SETTINGS = {
    "clean_gap": 0.10,
    "clean_window": 0.90,
    "codings": ["paper", "decorrelated"],
    "conventions": "default",
    "epochs": 100,
    "leak_gap": 0.30,
    "learning_rate": 0.01,
    "least_item_out": 0.75,
    "modes": ["ab", "av", "bv", "abv", "v"],
    "noise_threshold": 0.6,
    "permutations": 50,
    "ridge": 0.03,
    "seeds": [1729, 2718, 3141],
}
_KINDS = ("subject_control", "object_control")


def item(language: str, kind: str, pair: str | None, verb: str, name: str | None = None) -> ControlItem:
    """One item; candidate a is the matrix subject."""
    short = kind[:3]
    sentence = f"Ann {verb} Bob to leave."
    return ControlItem(
        id=name or f"{language}_{short}_{pair}",
        item_group=f"{pair}{short[0]}" if pair else f"{name}",
        pair=pair,
        language=language,
        control_type=kind,
        verb=verb,
        predicate="leave",
        sentence=sentence,
        a="Ann",
        b="Bob",
        gold="a" if kind == "subject_control" else "b",
        spans={
            "a": (0, 3),
            "b": (len(sentence) - 13, len(sentence) - 10),
            "v": (len(sentence) - 6, len(sentence) - 1),
        },
        prompts={},
    )


def make(languages: Sequence[str] = ("en", "de"), pairs: int = 4, verbs: int = 2) -> tuple[ControlItem, ...]:
    """Pairs of a subject- and an object-control verb; the i-th verbs of both types share their pairs."""
    return tuple(
        item(language, kind, f"{pair:02d}", f"{language}-{kind[:3]}-{pair % verbs}")
        for language in languages
        for kind in _KINDS
        for pair in range(pairs)
    )


def dataset(items: Sequence[ControlItem]) -> ControlDataset:
    return ControlDataset(name="control", path="control.jsonl", controls=tuple(items), sha256="c" * 64)


def make_states(
    items: Sequence[ControlItem],
    layers: int = 3,
    hidden: int = 8,
    signal: float = 0.0,
    twins: float = 0.0,
    verbs: float = 0.0,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Position -> (layers, items, hidden) float32: noise, and what is asked for.

    Args:
        signal: size of a direction that says at v whether a is the controller; the same in all languages.
        twins: size of a part that both members of a minimal pair share.
        verbs: size of a part, at v, that all items of a verb share.
    """
    rng = np.random.default_rng(seed)
    shape = (layers, len(items), hidden)
    states = {position: rng.standard_normal(shape) for position in "abv"}
    keys = [(one.language, one.pair or one.id) for one in items]
    for position in "abv":
        shared = {key: rng.standard_normal((layers, hidden)) for key in dict.fromkeys(keys)}
        states[position] += twins * np.stack([shared[key] for key in keys], axis=1)
    own = {verb: rng.standard_normal((layers, hidden)) for verb in sorted({one.verb for one in items})}
    states["v"] += verbs * np.stack([own[one.verb] for one in items], axis=1)
    gold = np.array([1 if one.gold == "a" else -1 for one in items])
    states["v"][..., 0] += signal * gold
    return {position: values.astype(np.float32) for position, values in states.items()}
