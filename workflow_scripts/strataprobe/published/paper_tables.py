"""The fragility paper's Tables 1, 2, 3, A and D.2 from our results, the published values beside them.

Long rows, one a number, with the columns `COLUMNS`; the value and sd of a row are over seeds (ddof 1). What
is published stands beside a row only where it is the same quantity in the same units: scale controls are
rows without it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from strataprobe.onsets import Curve, clean, onset_step, onsets, spread
from strataprobe.published.numbers import BESIDE, Numbers

Row = dict[str, Any]

COLUMNS = (
    *("model", "dataset", "quantity", "group", "step", "control", "statistic", "means"),
    *("value", "spread", "n", "note", *BESIDE),
)
PAPER_MODEL = "olmo2-1b-early"
"""The model that the paper's tables are of, under the name that `resources/published` gives it."""

_BANDS = ("late", "mid", "early")


def table1(
    curves: Mapping[str, Mapping[Any, Curve]],
    numbers: Numbers,
    *,
    model: str,
    threshold: float = 0.70,
    last: int = 1,
    compare: str = PAPER_MODEL,
) -> list[Row]:
    """Onset and plateau of each dataset.

    Args:
        curves: dataset -> seed -> (step, mean accuracy over blocks).
        last: checkpoints in the plateau.
        compare: the published model to stand beside ours.

    Returns:
        Rows `onset_step`, `onset_accuracy`, `plateau_accuracy` of the seed-mean curve, `sustained_step`,
        `transition_steps` (its note says sharp or gradual), and `onset_step` of each seed (group "seed 42").
    """
    rows = []
    for dataset, seeds in curves.items():
        found = onsets(seeds, threshold=threshold, last=last)
        mean, own = found["mean"], {"model": model, "dataset": dataset}
        # The onsets' own spread: the seed-mean curve has one onset, the seeds have several.
        steps = spread([one["onset"] for one in found["seeds"]])
        for quantity, value, sd, note in (
            ("onset_step", mean["onset"], steps, ""),
            ("onset_accuracy", mean["onset_accuracy"], mean["onset_sd"], ""),
            ("plateau_accuracy", mean["plateau"], mean["plateau_sd"], f"last {last}" if last > 1 else ""),
            ("sustained_step", mean["sustained"], None, ""),
            ("transition_steps", mean["transition"]["steps"], None, mean["transition"]["kind"] or ""),
        ):
            rows.append(_row(**own, quantity=quantity, value=value, spread=sd, n=mean["n"], note=note))
        if len(found["seeds"]) > 1:
            rows += [
                _row(**own, quantity="onset_step", group=f"seed {one['seed']}", value=one["onset"], n=1)
                for one in found["seeds"]
            ]
    return numbers.beside(rows, paper="fragility", place="Table 1", model=compare)


def table2(
    trajectory: Iterable[Mapping[str, Any]],
    numbers: Numbers,
    *,
    steps: Sequence[int] | None = None,
    compare: str = PAPER_MODEL,
) -> list[Row]:
    """Mean accuracy and critical noise by checkpoint, whole and by band.

    The published mean is `dropped` and its bands are `capped`; beside them stand, as rows of their own, the
    other mean and the RMS-scaled continuous value: raw noise alone says little across depth and training.

    Args:
        trajectory: rows of the trajectory table, as `tables.trajectory_rows` gives them; rows of single
            seeds count, `mean` rows do not.
        steps: the checkpoints to show; all by default.
    """
    rows = []
    for (model, dataset, step, *which), values in _by_step(trajectory, steps).items():
        quantity, control, statistic, band, means = which
        if not _shown(quantity, control, statistic):
            continue
        rows.append(
            _row(
                model=model, dataset=dataset, step=step, quantity=quantity,
                group="" if band == "all" else band, control=control, statistic=statistic, means=means,
                **_over_seeds(values),
            )
        )  # fmt: skip
    published = [row for row in rows if _is_published(row)]
    others = [row for row in rows if not _is_published(row)]
    # The paper's Table 2 is of the standard moral dataset alone; others find nothing beside them.
    return _in_order(
        numbers.beside(published, paper="fragility", place="Table 2", model=compare) + _alone(others)
    )


def table3(
    trajectory: Iterable[Mapping[str, Any]],
    numbers: Numbers,
    *,
    steps: Sequence[int] | None = None,
    compare: str = PAPER_MODEL,
) -> list[Row]:
    """Mean critical noise by checkpoint, mean and sd over seeds: the published grid, `dropped` mean.

    Args:
        trajectory, steps: as for `table2`.
    """
    rows = [
        _row(
            model=model, dataset=dataset, step=step, quantity=which[0], control=which[1], statistic=which[2],
            means=which[4], **_over_seeds(values),
        )
        for (model, dataset, step, *which), values in _by_step(trajectory, steps).items()
        if which == ["mean_critical_noise", "raw", "grid_sampled", "all", "dropped"]
    ]  # fmt: skip
    return _in_order(numbers.beside(rows, paper="fragility", place="Table 3", model=compare))


def table_a(
    curves: Mapping[str, Mapping[Any, Curve]],
    numbers: Numbers,
    *,
    model: str,
    dataset: str = "moral",
    steps: Sequence[int] | None = None,
    compare: str = PAPER_MODEL,
) -> list[Row]:
    """Peak accuracy over layers of each group's own probe, by checkpoint, and its first step at 100 %.

    Args:
        curves: group -> seed -> (step, peak accuracy).
    """
    rows = []
    for group, seeds in curves.items():
        own = {"model": model, "dataset": dataset, "group": group}
        each = [dict(clean(curve)) for curve in seeds.values()]
        for step in sorted(set().union(*each)):
            if steps is None or step in steps:
                values = [curve[step] for curve in each if step in curve]
                rows.append(_row(**own, quantity="peak_accuracy", step=step, **_over_seeds(values)))
        firsts = [onset_step(curve, 1.0)[0] for curve in seeds.values()]
        reached = [step for step in firsts if step is not None]
        rows.append(
            _row(
                **own, quantity="first_step_at_100", n=len(reached), spread=spread(firsts),
                value=float(np.mean(reached)) if reached else None,
                note="" if len(reached) == len(firsts) else f"{len(firsts) - len(reached)} seeds never",
            )
        )  # fmt: skip
    return numbers.beside(rows, paper="fragility", place="Table A", model=compare)


def table_d2(
    floors: Mapping[str, float | None], numbers: Numbers, *, dataset: str = "compositional"
) -> list[Row]:
    """The unigram lexical floor of each group, and of the whole dataset under the name "".

    Args:
        floors: group -> floor.
    """
    rows = [
        _row(dataset=dataset, quantity="lexical_floor", group=group, value=value, n=1)
        for group, value in floors.items()
    ]
    return numbers.beside(rows, paper="fragility", place="Table D.2")


def _row(**given: Any) -> Row:
    empty = {"value": None, "spread": None, "n": None, "step": None}
    return {**{name: empty.get(name, "") for name in COLUMNS if name not in BESIDE}, **given}


def _alone(rows: Iterable[Row]) -> list[Row]:
    blank = dict.fromkeys(BESIDE[:3]) | dict.fromkeys(BESIDE[3:], "")
    return [{**row, **blank} for row in rows]


def _by_step(
    trajectory: Iterable[Mapping[str, Any]], steps: Sequence[int] | None
) -> dict[tuple[Any, ...], list[float]]:
    """(model, dataset, step, quantity, control, statistic, band, means) -> one value a seed that has one."""
    found: dict[tuple[Any, ...], list[float]] = {}
    for row in trajectory:
        if row["seed"] == "mean" or row["step"] is None or (steps is not None and row["step"] not in steps):
            continue
        names = ("model", "dataset", "step", "quantity", "control", "statistic", "band", "means")
        values = found.setdefault(tuple(row[name] for name in names), [])
        if row["value"] is not None and row["value"] == row["value"]:
            values.append(float(row["value"]))
    return found


def _shown(quantity: str, control: str, statistic: str) -> bool:
    measured = (control, statistic) in (("raw", "grid_sampled"), ("rms_after", "continuous"))
    return quantity == "mean_accuracy" or (quantity == "mean_critical_noise" and measured)


def _is_published(row: Row) -> bool:
    """Whether Table 2 prints this: its mean column leaves censored layers out, its band columns do not."""
    if row["quantity"] == "mean_accuracy":
        return True
    return row["control"] == "raw" and row["means"] == ("capped" if row["group"] else "dropped")


def _over_seeds(values: Sequence[float]) -> Row:
    mean = float(np.mean(values)) if values else None
    return {"value": mean, "spread": spread(values), "n": len(values)}


def _in_order(rows: Iterable[Row]) -> list[Row]:
    groups = ("", *_BANDS)
    return sorted(
        rows,
        key=lambda row: (
            *(row["model"], row["dataset"], row["step"], row["quantity"], row["control"]),
            *(groups.index(row["group"]), row["means"]),
        ),
    )
