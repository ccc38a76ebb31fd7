"""Rows of when a property appears over training, with intervals over the pairs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from strataprobe.tables.measures import keys_of
from strataprobe.tabular.columns import SEED_MEAN, Row

Summary = Mapping[str, Any]


def onset_rows(
    summaries: Sequence[Summary], threshold: float, *, replicates: int = 0, seed: int = 0
) -> list[Row]:
    """When mean accuracy over blocks reaches the threshold: a row a quantity and seed, and of the seed mean.

    Quantities: `onset_step`, `sustained_step` (from which no later checkpoint falls below), `onset_accuracy`,
    `plateau` (accuracy at the last checkpoint), `transition_steps` with `state` "sharp" or "gradual". A model
    with one checkpoint, or without steps, has no onset and no row. All but the last have an interval (95 %,
    over pairs) where the summaries keep the accuracy of each test pair.

    Args:
        replicates, seed: of the pair bootstrap; none with 0.

    Raises:
        StrataprobeError: a summary lacks a key field, two are of the same probe, or of the same step.

    Source: fragility paper, section 4.1, Table 1; per seed and of the seed-mean curve: docs/methods.md.
    """
    studies: dict[tuple[Any, ...], list[tuple[Row, Summary]]] = {}
    for summary, key in zip(summaries, keys_of(summaries, "probe"), strict=True):
        if key["step"] is not None:
            study = tuple(key[name] for name in ("model", "dataset", "conventions", "pooling"))
            studies.setdefault(study, []).append((key, summary))
    return [row for found in studies.values() for row in _rows_of(found, threshold, replicates, seed)]


def _rows_of(
    found: Sequence[tuple[Row, Summary]], threshold: float, replicates: int, seed: int
) -> Iterable[Row]:
    """Rows of one study, whose key is that of its last checkpoint."""
    from strataprobe import onsets  # numpy comes with it, which no other table needs

    if len({key["step"] for key, _ in found}) < 2:
        return
    curves: dict[Any, list[tuple[int, float | None]]] = {}
    for key, summary in found:
        curves.setdefault(key["seed"], []).append((int(key["step"]), summary["mean_accuracy"]))
    each: dict[Any, list[tuple[int, float]]] = {one: onsets.clean(curve) for one, curve in curves.items()}
    each[SEED_MEAN] = onsets.mean_curve(each.values())
    last = max((key for key, _ in found), key=lambda key: key["step"])
    steps = {one: [step for step, _ in curve] for one, curve in each.items() if curve}
    drawn = _replicates(found, steps, replicates, seed)
    for one, curve in each.items():
        bounds = onsets.interval_of(curve, drawn.get(one), threshold)
        for quantity, value, state in _onset(curve, threshold):
            low, high = bounds.get(quantity, (None, None))
            yield {
                **last, "seed": one, "quantity": quantity, "value": value, "state": state,
                "interval_low": low, "interval_high": high,
            }  # fmt: skip


def _replicates(
    found: Sequence[tuple[Row, Summary]], steps: Mapping[Any, Sequence[int]], replicates: int, seed: int
) -> dict[Any, Any]:
    """(replicates, checkpoints) of each seed's curve and of their mean curve; none without pairs.

    Args:
        steps: seed, or "mean" -> the checkpoints of that curve; without those that have none.
    """
    from strataprobe import onsets

    if not replicates or not steps or not all("test_pair_accuracy" in summary for _, summary in found):
        return {}
    at = {(key["seed"], int(key["step"])): summary["test_pair_accuracy"] for key, summary in found}
    seeds = [one for one in steps if one != SEED_MEAN]
    own = {one: [at[one, step] for step in steps[one]] for one in seeds}
    drawn = onsets.curve_replicates(own, replicates, seed)
    if SEED_MEAN in steps:
        shared = [[steps[one].index(step) for step in steps[SEED_MEAN]] for one in seeds]
        each = [drawn[one][:, places] for one, places in zip(seeds, shared, strict=True)]
        drawn[SEED_MEAN] = sum(each) / len(each)
    return drawn


def _onset(points: Sequence[tuple[int, float]], threshold: float) -> Iterable[tuple[str, float | None, str]]:
    from strataprobe import onsets

    first, sustained = onsets.onset_step(points, threshold)
    yield "onset_step", first, ""
    yield "sustained_step", sustained, ""
    yield "onset_accuracy", dict(points).get(first), ""
    plateau = onsets.plateau(points)
    yield "plateau", plateau, ""
    # 0.9 of a plateau near chance is passed at once: without a rise there is nothing to time.
    transition = onsets.transition(points, None if first is None else plateau)
    yield "transition_steps", transition["steps"], transition["kind"] or ""
