"""What behaviour comes to: accuracies of each prompt, debiased over orders, and measures no bias can fool.

Pure arithmetic on the scores of candidates; nothing here runs a model.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from strataprobe.datasets.answers import (
    OBJECT,
    SUBJECT,
    by_split,
    margins,
    mean_by_split,
    read,
    splits,
    written,
)
from strataprobe.datasets.frames import ORDERED, TASKS, UNCONDITIONAL

MEAN_BEHAVIOR = "mean_behavior"
ORDERS = ("ab", "ba")


def variants(scores: Mapping[str, np.ndarray], gold: list[str]) -> dict[str, dict[str, Any]]:
    """Each variant's right and wrong, and its scores in nats (None where an item lacks it).

    Args:
        scores: variant -> (items, 2) of candidates a and b, NaN where an item lacks the variant.
        gold: (items,) "a" or "b".
    """
    return {
        variant: {
            "correct": written(margins(own, gold)),
            "scores_a": [_number(value) for value in own[:, 0].tolist()],
            "scores_b": [_number(value) for value in own[:, 1].tolist()],
        }
        for variant, own in scores.items()
    }


def measures(scores: Mapping[str, np.ndarray], items: Mapping[str, list]) -> dict[str, dict[str, Any]]:
    """Every measure of behaviour that the variants at hand allow.

    Args:
        scores: variant -> (items, 2) of candidates a and b, NaN where an item lacks the variant.
        items: as `accuracy.describe` gives them.

    Returns:
        measure -> "accuracy" by split, "correct" where one vector says it, "ties" (items with equal scores,
        counted as wrong), and what is its own. Prompts with both options listed are debiased: their accuracy
        is the mean over the two orders, `order_gap` their absolute difference (levels paper, appendix F).
        d_prime, criterion and both_right: task -> split -> value.
    """
    masks, gold = splits(items), items["gold"]
    found = {name: _single(margins(own, gold), masks) for name, own in single_scores(scores).items()}
    if "qa" in found and "paraphrase" in found:
        both = (found["qa"]["accuracy"], found["paraphrase"]["accuracy"])
        found[MEAN_BEHAVIOR] = {"accuracy": mean_by_split(*both)}
    for name in ORDERED:
        if all(f"{name}:{order}" in scores for order in ORDERS):
            found[name] = _debiased({o: margins(scores[f"{name}:{o}"], gold) for o in ORDERS}, masks)
    vectors = {name: _vectors(measure) for name, measure in found.items() if name != MEAN_BEHAVIOR}
    detected = {task: _detected(own, items["control_types"], masks) for task, own in vectors.items()}
    return {
        **found,
        "d_prime": {task: values[0] for task, values in detected.items()},
        "criterion": {task: values[1] for task, values in detected.items()},
        "both_right": {
            task: mean_by_split(*(_both_right(own, items, masks) for own in vectors_of_task))
            for task, vectors_of_task in vectors.items()
        },
    }


def single_scores(scores: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """(items, 2) scores of every measure with one prompt an item: tasks, contrastive, and tasks by PMI.

    The pointwise mutual information of prompt and continuation is log P(continuation | prompt) minus
    log P(continuation | the prompt without its sentence): what a candidate has of itself is taken off.

    Source: levels paper, section 3.2 and appendix F; PMI as in Holtzman et al. (2021).
    """
    found = {name: scores[name] for name in (*TASKS, "contrastive") if name in scores}
    for name in TASKS:
        alone = scores.get(f"{name}:{UNCONDITIONAL}")
        if name in scores and alone is not None:
            found[f"{name}_pmi"] = scores[name] - alone
    return found


def detection(correct: Sequence[str], types: Sequence[str], mask: np.ndarray) -> tuple[float, float] | None:
    """d' and criterion of telling object control from subject control, by the answers.

    The signal is object control. Answering with the matrix object is a hit on an object-control item (a right
    answer) and a false alarm on a subject-control item (a wrong one), so "always the object" has many of
    both and d' = 0. With z the quantile of the normal distribution, H and F the two rates,

        d' = z(H) - z(F),    c = -(z(H) + z(F)) / 2;

    c < 0 leans to the matrix object, the noun nearest to the embedded verb. Rates are log-linear:
    (count + 1/2) / (answers + 1), so none is 0 or 1.

    Args:
        correct: one vector of right and wrong, or more whose trials are pooled.
        types: (items,) control types.
        mask: (items,) which items count.

    Returns:
        None where either type has no answers.

    Source: Green and Swets (1966); the log-linear correction, Hautus (1995).
    """
    rates = []
    for kind, answered_object in ((OBJECT, 1.0), (SUBJECT, 0.0)):
        own = mask & (np.asarray(types) == kind)
        values = np.concatenate([read(vector)[own] for vector in correct])
        values = values[np.isfinite(values)]
        if not len(values):
            return None
        rates.append((float((values == answered_object).sum()) + 0.5) / (len(values) + 1))
    hit, false_alarm = (float(ndtri(rate)) for rate in rates)
    return hit - false_alarm, (0.0 - hit - false_alarm) / 2


def both_right(correct: str, items: Mapping[str, list], mask: np.ndarray) -> float | None:
    """Share of minimal pairs whose members are all right: one bias cannot win both.

    A pair is named within its language; a pair with a member that has no answer, or that is not in `mask`, is
    left out. None where no pair is left.
    """
    values = np.where(mask, read(correct), np.nan)
    members: dict[tuple[str, str], list[float]] = {}
    for language, pair, value in zip(items["languages"], items["pairs"], values.tolist(), strict=True):
        if pair is not None:
            members.setdefault((language, pair), []).append(value)
    whole = [min(own) for own in members.values() if len(own) > 1 and all(map(np.isfinite, own))]
    return float(np.mean(whole)) if whole else None


def _single(margin: np.ndarray, masks: Mapping[str, np.ndarray]) -> dict[str, Any]:
    correct = written(margin)
    return {"correct": correct, "accuracy": by_split(correct, masks), "ties": int((margin == 0).sum())}


def _debiased(margin: Mapping[str, np.ndarray], masks: Mapping[str, np.ndarray]) -> dict[str, Any]:
    orders = {order: _single(own, masks) for order, own in margin.items()}
    first, second = (orders[order]["accuracy"] for order in ORDERS)
    gaps = {
        name: None if None in (first[name], second[name]) else abs(first[name] - second[name])
        for name in masks
    }
    return {
        "accuracy": mean_by_split(first, second),
        "order_gap": gaps,
        "orders": orders,
        "ties": sum(own["ties"] for own in orders.values()),
    }


def _vectors(measure: Mapping[str, Any]) -> list[str]:
    """The right and wrong of a measure: one vector, or one an order."""
    orders = measure.get("orders")
    return [own["correct"] for own in orders.values()] if orders else [measure["correct"]]


def _detected(
    correct: Sequence[str], types: Sequence[str], masks: Mapping[str, np.ndarray]
) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """d' and criterion by those splits that hold both types."""
    d_primes: dict[str, float | None] = {}
    criteria: dict[str, float | None] = {}
    for name, mask in masks.items():
        if len(set(np.asarray(types)[mask])) == 2:
            d_primes[name], criteria[name] = detection(correct, types, mask) or (None, None)
    return d_primes, criteria


def _both_right(
    correct: str, items: Mapping[str, list], masks: Mapping[str, np.ndarray]
) -> dict[str, float | None]:
    types = np.asarray(items["control_types"])
    whole = {name: mask for name, mask in masks.items() if len(set(types[mask])) == 2}
    return {name: both_right(correct, items, mask) for name, mask in whole.items()}


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None
