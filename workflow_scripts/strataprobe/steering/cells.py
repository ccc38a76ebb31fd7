"""What answers under a push, or after an erasure, come to: one JSON-ready dict each."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from strataprobe.datasets.answers import written
from strataprobe.statistics import finite
from strataprobe.steering.amnesia import Amnesia
from strataprobe.steering.directions import RANDOM
from strataprobe.steering.flips import Answers, against_random, spread
from strataprobe.steering.pushes import Key, Pushes

Changed = Mapping[str, Any]


def clean_summary(
    items: Mapping[str, Sequence], first_is_gold: np.ndarray, margin: np.ndarray, asked: Mapping[str, Any]
) -> tuple[Answers, dict[str, Any]]:
    """The items as they answer unchanged: `correct`, `accuracy` by split, `sets` (how many in Q1 and Q2)."""
    tested = Answers.of(items, first_is_gold, margin, replicates=asked["bootstrap"], seed=asked["seed"])
    return tested, {
        "correct": written(margin),
        "accuracy": {name: tested.mean(margin > 0, mask) for name, mask in tested.splits.items()},
        "sets": {name: int(mask.sum()) for name, mask in tested.sets.items()},
    }


def pushed_cells(
    tested: Answers, pushes: Pushes, items: Sequence[int], margins: np.ndarray
) -> list[dict[str, Any]]:
    """Every push of the two directions, and the random ones summed up.

    Args:
        items: which items were steered.
        margins: (pushes, items) margins of the gold candidate, in the order of `pushes.keys`.

    Returns:
        A dict a source, layer, method and strength: `states`, `layer`, `method`, `alpha`, `relative_size`
        (mean of |added| / |h|), and
        - of a direction: `correct`, `Answers.changed`, `first_named`, and `p_random` (see `beyond_random`);
        - of the random ones (`method` is "random", `alpha` without a sign, since they have none): `spread`s
          over directions.
    """
    random = _random(tested, pushes, margins)
    cells = []
    for key, margin in zip(pushes.keys, margins, strict=True):
        if key.method == RANDOM:
            continue
        changed = tested.changed(margin)
        beside = random.get((key.states, key.layer, abs(key.alpha)), [])
        cells.append(
            _place(key, pushes, items)
            | {"correct": written(margin), **changed}
            | {"first_named": tested.first_named(margin, key.alpha)}
            | {"p_random": beyond_random(changed, [one for one, _ in beside], 1 if key.alpha > 0 else -1)}
        )
    for (states, layer, alpha), found in random.items():
        key = Key(states, layer, RANDOM, 0, alpha)
        firsts = np.array([_value(first["all"]) for _, first in found])
        cells.append(
            _place(key, pushes, items)
            | spread_over([changed for changed, _ in found])
            | {"first_named": spread(firsts)}
        )
    return cells


def erased_summary(
    tested: Answers, amnesia: Amnesia, items: Sequence[int], margins: np.ndarray
) -> dict[str, Any]:
    """Behaviour and probe after the classes are erased, beside labels dealt anew.

    Args:
        margins: (1 + random, items), the classes' own first.

    Returns:
        `layer`, `block`, `roles`, `rank` and `difference_left` by role, `relative_size`, `correct`,
        `Answers.changed`, `p_random`; `random`: `spread`s of the same; `probe`: see `Amnesia`, its random
        ones as a spread.
    """
    own, *others = (tested.changed(margin) for margin in margins)
    sizes = [float(amnesia.relative_size(erasers, items).mean()) for erasers in amnesia.erasers]
    return {
        "layer": amnesia.layer,
        "block": amnesia.layer - 1 if amnesia.layer else None,
        "roles": list(amnesia.pushes.mode),
        "rank": [eraser.rank for eraser in amnesia.erasers[0]],
        "relative_size": sizes[0],
        "correct": written(margins[0]),
        **own,
        "p_random": beyond_random(own, others, -1),
        "random": {"relative_size": spread(np.array(sizes[1:])), **spread_over(others)},
        "difference_left": [finite(value) for value in amnesia.left],
        "probe": {**amnesia.probe, "random": spread(np.array(amnesia.probe["random"], float))},
    }


def beyond_random(own: Changed, random: Sequence[Changed], sign: int) -> dict[str, Any] | None:
    """Share of directions that turn as many answers, or move margins as far; None without random ones.

    Args:
        sign: which way margins are to move: with the gold candidate (+1) or against it.

    Returns:
        `sets`: Q1 and Q2; `margin_shift` by split.
    """
    if not random:
        return None
    return {
        "sets": {
            name: against_random(one["value"], _values(other["sets"][name] for other in random))
            for name, one in own["sets"].items()
        },
        "margin_shift": {
            name: against_random(
                None if one["value"] is None else sign * one["value"],
                sign * _values(other["margin_shift"][name] for other in random),
            )
            for name, one in own["margin_shift"].items()
        },
    }


def spread_over(found: Sequence[Changed]) -> dict[str, Any]:
    """Of several changes: spreads of Q1's and Q2's flips, of accuracy and of the margins' shift."""
    if not found:
        return {"sets": {}, "accuracy": {}, "margin_shift": {}}
    return {
        part: {name: spread(_values(one[part][name] for one in found)) for name in found[0][part]}
        for part in ("sets", "accuracy", "margin_shift")
    }


def _random(
    tested: Answers, pushes: Pushes, margins: np.ndarray
) -> dict[tuple[str, int, float], list[tuple[Changed, Changed]]]:
    """(source, layer, strength) -> of each random direction, what changed and what is named first."""
    found: dict[tuple[str, int, float], list[tuple[Changed, Changed]]] = {}
    for key, margin in zip(pushes.keys, margins, strict=True):
        if key.method == RANDOM:
            one = tested.changed(margin), tested.first_named(margin, key.alpha)
            found.setdefault((key.states, key.layer, key.alpha), []).append(one)
    return found


def _place(key: Key, pushes: Pushes, items: Sequence[int]) -> dict[str, Any]:
    return {
        "states": key.states,
        "layer": key.layer,
        "method": key.method,
        "alpha": key.alpha,
        "relative_size": float(pushes.relative_size(key, items).mean()) if len(items) else None,
    }


def _values(parts: Iterable[Mapping[str, Any]]) -> np.ndarray:
    return np.array([_value(part) for part in parts])


def _value(part: Mapping[str, Any]) -> float:
    return np.nan if part["value"] is None else part["value"]
