"""Differences between conditions, with intervals over pairs of the dataset and over runs.

One draw of the dataset's pairs stands behind every condition, run and probe seed, so that what they share is
not taken for a difference. Within it runs are drawn, paired over conditions: run s of two conditions began
with the same adapter. Of the base there are no runs. With two or three runs the part of an interval that
comes from runs is too narrow; `run_sd`, how far the runs are apart, stands beside it. Probes are not trained
again in a replicate.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from strataprobe.curation import matching
from strataprobe.curation.margins import Margins, Place
from strataprobe.curation.replicates import QUANTITIES, ByLayer, Quantity, by_layer, known_mean, over_layers
from strataprobe.errors import StrataprobeError, listing
from strataprobe.fragility.controls import CONTROLS
from strataprobe.statistics import cluster_counts, finite, percentile_interval
from strataprobe.tabular.columns import Row
from strataprobe.tabular.curation_columns import BASE, CURATION_COLUMNS

UNDERCUTTING = Quantity("undercutting")


@dataclass(frozen=True)
class Compared:
    """Two conditions as they are compared: at which steps, and at which layers.

    `unmatched` says why they cannot be, where nothing is as accurate in both.
    """

    a: str
    b: str
    matched: str
    step_a: int
    step_b: int
    runs: tuple[str, ...]
    layers: np.ndarray
    unmatched: str = ""


@dataclass
class Resampled:
    """The margins of an experiment with one draw of pairs, and one of runs within it.

    Attributes:
        cells: margins by whose they are.
        levels: rising levels of the raw noise grid.
        threshold: accuracy below which a probe counts as collapsed.
        bootstrap: replicates.
        seed: of the draws.
    """

    cells: Mapping[Place, Margins]
    levels: Sequence[float]
    threshold: float
    bootstrap: int
    seed: int
    _found: dict[Place, ByLayer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that what is compared is comparable, and draw the pairs.

        Raises:
            StrataprobeError: no base, no condition, or test items or layers that differ; lists all.
        """
        if faults := list(_faults(self.cells)):
            raise StrataprobeError(listing("differences between conditions", faults))
        pairs = next(iter(self.cells.values())).dataset_pairs
        self.weights = _sample_first(cluster_counts(pairs, self.bootstrap, self.seed))
        self.seeds = sorted({place.seed for place in self.cells})
        self.conditions = list(dict.fromkeys(one.condition for one in self.cells if one.condition != BASE))

    @property
    def pairs(self) -> int:
        """How many pairs are test pairs of some seed: those that an interval rests on."""
        return len(np.unique(np.concatenate([one.pairs for one in self.cells.values()])))

    def runs(self, condition: str) -> set[str]:
        return {place.run for place in self.cells if place.condition == condition}

    def steps(self, condition: str, runs: Sequence[str]) -> list[int]:
        """The steps at which a condition has all of these runs, rising."""
        each = [{one.step for one in self.cells if (one.condition, one.run) == (condition, r)} for r in runs]
        return sorted(set.intersection(*each))

    def accuracy(self, condition: str, step: int, runs: Sequence[str]) -> np.ndarray:
        """(layers,) accuracy averaged over seeds and runs."""
        places = [Place(condition, run, step, seed) for run in runs for seed in self.seeds]
        return np.mean([self.cells[place].correct.mean(axis=1) for place in places], axis=0)

    def values(self, condition: str, run: str, step: int, layers: np.ndarray) -> np.ndarray:
        """(quantities, 1 + replicates) of one run: the mean over the probe seeds that have a value."""
        each = []
        for seed in self.seeds:
            place = Place(condition, run, step, seed)
            if place not in self._found:
                self._found[place] = by_layer(self.cells[place], self.weights, self.levels, self.threshold)
            each.append(over_layers(self._found[place], layers))
        return known_mean(np.stack(each), axis=0)

    def sides(self, compared: Compared) -> tuple[np.ndarray, np.ndarray]:
        """(runs, quantities, 1 + replicates) of either condition; the base's are the same in every run."""
        a, b = (
            np.stack(
                [
                    self.values(name, "" if name == BASE else run, step, compared.layers)
                    for run in compared.runs
                ]
            )
            for name, step in ((compared.a, compared.step_a), (compared.b, compared.step_b))
        )
        return a, b

    def run_weights(self, runs: int) -> np.ndarray:
        """(runs, 1, 1 + replicates) how often each run counts; another seed than that of the pairs."""
        return _sample_first(cluster_counts(runs, self.bootstrap, self.seed + 1)).T[:, None, :]


def difference_rows(
    resampled: Resampled,
    *,
    matched_within: float,
    experiment: str,
    dataset: str,
    conventions: str,
    pooling: str,
) -> list[Row]:
    """Rows of the table of differences: each pair of conditions, and each condition against the base.

    A statistic over layers is averaged over the probe seeds, then over the runs, that have a value (a run
    none of whose layers reaches the threshold has no critical noise). `matched`: `none`, both at their last
    step; `layers`, only those at which accuracies differ by at most `matched_within`, chosen once on the
    sample; `snapshots`, the second condition at the step whose mean accuracy is nearest to the first's at
    its last, if it is no farther off than that (not against the base, which has none). Conditions without a
    run in common are not compared.

    Args:
        resampled: margins of the experiment.
        matched_within: largest difference in accuracy (fraction) at matched layers.
        experiment, dataset, conventions, pooling: what the margins are of.

    Source: fragility paper, section 4.3; DEFINITIONS, LoRA comparison; TRAPS, statistics.
    """
    key = {"experiment": experiment, "dataset": dataset, "conventions": conventions, "pooling": pooling}
    pairs = [*combinations(resampled.conditions, 2), *((one, BASE) for one in resampled.conditions)]
    columns = CURATION_COLUMNS["curation_differences"]
    rows = []
    for a, b in pairs:
        for compared in _compared(resampled, a, b, matched_within):
            found = _without(compared.unmatched) if compared.unmatched else _rows(resampled, compared)
            common = {**key, **_said(resampled, compared)}
            rows += [{name: {**common, **row}.get(name) for name in columns} for row in found]
    return rows


def _compared(resampled: Resampled, a: str, b: str, within: float) -> Iterator[Compared]:
    """The ways in which two conditions are compared."""
    runs = resampled.runs(a) if b == BASE else resampled.runs(a) & resampled.runs(b)
    if not runs:
        return
    ordered = tuple(sorted(runs, key=lambda run: (len(run), run)))
    of_b = ("",) if b == BASE else ordered
    steps_a, steps_b = resampled.steps(a, ordered), resampled.steps(b, of_b)
    if not steps_a or not steps_b:
        return
    last_a = steps_a[-1]
    own = resampled.accuracy(a, last_a, ordered)
    others = {step: resampled.accuracy(b, step, of_b) for step in steps_b}
    every = np.arange(len(own))
    chosen = matching.matched_layers(own, others[steps_b[-1]], within)
    yield Compared(a, b, "none", last_a, steps_b[-1], ordered, every)
    lacking = "" if len(chosen) else f"no layer at which accuracies differ by at most {within:g}"
    yield Compared(a, b, "layers", last_a, steps_b[-1], ordered, chosen, lacking)
    means = {step: float(one.mean()) for step, one in others.items()}
    near = matching.nearest_step(float(own.mean()), means)
    if near is not None:
        off = f"mean accuracies differ by more than {within:g} at the nearest snapshot, too"
        there = matching.alike(float(own.mean()), means[near], within)
        of_all = every if there else every[:0]
        yield Compared(a, b, "snapshots", last_a, near, ordered, of_all, "" if there else off)


def _rows(resampled: Resampled, compared: Compared) -> Iterator[Row]:
    """A row a quantity, and one for what is left of a difference once scale is taken out."""
    sides = resampled.sides(compared)
    weights = resampled.run_weights(len(compared.runs))
    a, b = (known_mean(one, axis=0, weights=weights) for one in sides)
    bounds: dict[Quantity, matching.Bounds] = {}
    usual = "one run: the interval is over pairs alone" if len(compared.runs) == 1 else ""
    for place, quantity in enumerate(QUANTITIES):
        difference = finite(a[place, 0] - b[place, 0])
        drawn = a[place, 1:] - b[place, 1:]
        low, high = [None, None] if difference is None else percentile_interval(drawn)
        bounds[quantity] = low, high
        empty = [name for name, own in ((compared.a, a), (compared.b, b)) if np.isnan(own[place, 0])]
        yield {
            **quantity._asdict(),
            "value_a": finite(a[place, 0]),
            "value_b": finite(b[place, 0]),
            "difference": difference,
            "interval_low": low,
            "interval_high": high,
            "run_sd": _spread(sides[0][:, place, 0] - sides[1][:, place, 0]),
            "verdict": matching.verdict((low, high)),
            "note": f"no layer of {' and '.join(empty)} has a value" if empty else usual,
        }
    scaled = {name: bounds[_noise(name)] for name in CONTROLS if name != "raw"}
    said, why = matching.undercutting(bounds[_noise("raw")], scaled)
    yield {**UNDERCUTTING._asdict(), "verdict": said, "note": why}


def _without(note: str) -> Iterator[Row]:
    for quantity in (*QUANTITIES, UNDERCUTTING):
        yield {**quantity._asdict(), "verdict": "", "note": note}


def _said(resampled: Resampled, compared: Compared) -> Row:
    """The columns that say what is compared, and over how much."""
    return {
        "condition_a": compared.a,
        "condition_b": compared.b,
        "matched": compared.matched,
        "step_a": compared.step_a,
        "step_b": compared.step_b,
        "runs": len(compared.runs),
        "seeds": len(resampled.seeds),
        "pairs": resampled.pairs,
        "layers": len(compared.layers),
    }


def _noise(control: str) -> Quantity:
    return Quantity("mean_critical_noise", control, "continuous", "dropped")


def _spread(values: np.ndarray) -> float | None:
    """Standard deviation (ddof 1) of the values that are there; None with fewer than two."""
    kept = values[np.isfinite(values)]
    return float(kept.std(ddof=1)) if len(kept) > 1 else None


def _sample_first(counts: np.ndarray) -> np.ndarray:
    """Counts of replicates under a row in which everything counts once."""
    return np.vstack([np.ones((1, counts.shape[1])), counts])


def _faults(cells: Mapping[Place, Margins]) -> Iterator[str]:
    """Why margins cannot be compared."""
    conditions = {place.condition for place in cells}
    if BASE not in conditions or len(conditions) < 2:
        yield f"margins of {', '.join(sorted(conditions)) or 'nothing'}; the base and a condition are needed"
    first: dict[int, tuple[Place, Margins]] = {}
    for place, own in cells.items():
        other, known = first.setdefault(place.seed, (place, own))
        name, reference = (f"{_checkpoint(*one[:3])}, seed {one.seed}" for one in (place, other))
        alike = own.ids == known.ids and own.dataset_pairs == known.dataset_pairs
        if not alike or not np.array_equal(own.pairs, known.pairs):
            yield f"{name}: its test items are not those of {reference} in the same order"
        if own.correct.shape[0] != known.correct.shape[0]:
            yield f"{name}: {own.correct.shape[0]} layers, {reference} has {known.correct.shape[0]}"
    for condition, run, step in dict.fromkeys(place[:3] for place in cells):
        if gone := [str(seed) for seed in first if Place(condition, run, step, seed) not in cells]:
            yield f"{_checkpoint(condition, run, step)}: no probes of seed {', '.join(gone)}"


def _checkpoint(condition: str, run: str, step: int) -> str:
    return f"{condition}{f' run {run}' if run else ''}, step {step}"
