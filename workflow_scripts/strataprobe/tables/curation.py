"""Rows of a LoRA experiment: loss, accuracy and fragility of each condition by step, the base's as step 0.

Source: fragility paper, section 4.3.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strataprobe.errors import StrataprobeError, listing
from strataprobe.tabular.columns import ALL, SEED_MEAN, Row
from strataprobe.tabular.curation_columns import BASE, RUN_MEAN

Experiment = Mapping[str, Any]
Parts = Sequence[Sequence[Row]]

ACCURACIES = ("peak_accuracy", "mean_accuracy")
NOISE = "mean_critical_noise"
_GRIDS = ("grid_sampled", "grid_exact")
_HOW = ("dataset", "conventions", "pooling")
_NAMED = ("quantity", "control", "statistic", "means")
_GROUP = ("experiment", "condition", "step", *_HOW, *_NAMED)


@dataclass(frozen=True)
class _Member:
    """One model of an experiment, the base or a run; `steps` are those of its revisions, 0 for the base's."""

    experiment: str
    condition: str
    run: str
    model: str
    steps: Mapping[str, int]

    def key(self, revision: str, step: int) -> Row:
        return {
            **{name: getattr(self, name) for name in ("experiment", "condition", "run", "model")},
            "revision": revision,
            "step": step,
        }


def curation_rows(
    experiment: Experiment,
    *,
    trajectory: Parts,
    fragility: Parts,
    losses: Parts,
    corpora: Sequence[Mapping[str, Any]],
) -> list[Row]:
    """Rows of each run by step and probe seed, then the means over runs.

    `loss` (nats a token) at a snapshot is the mean over the steps since the one before; at step 0 that of the
    first step, which is the base's on the first rows it would be trained on: under the condition's own name,
    since the base has none. `corpus_tokens` and `passes` stand at the last step. `fragile_layers` are counted
    as `fragile_layers` does. A row of run "mean" is the mean over runs of each run's mean over the probe
    seeds that have a value; its interval is that -/+ the standard deviation over the runs (ddof 1), of the
    base over probe seeds, empty with fewer than two. There are no rows where nothing is measured yet.

    Args:
        experiment: `name`, `base` (`model`, `revision`), `noise_levels` (`raw`, `rms`), and `runs`, each with
            `model`, `condition`, `seed` and `revisions` (pairs of a name and a step).
        trajectory, fragility: rows of these tables: of the base, then of each run. Of the base count those of
            its revision and of the probe seeds that the runs have.
        losses: rows with `step` and `loss`, of each run.
        corpora: `tokens_used` and `passes` of each run's corpus.

    Raises:
        StrataprobeError: other numbers of parts than the experiment has runs, or a part of another model.

    Source: fragility paper, section 4.3; DEFINITIONS, fragile layer.
    """
    members = _members(experiment, trajectory=trajectory, fragility=fragility)
    _same_number("of a run", members[1:], losses=losses, corpora=corpora)
    seeds = _seeds(members, trajectory) | _seeds(members, fragility)
    rows = []
    for member, means, layers in zip(members, trajectory, fragility, strict=True):
        rows += _over_layers(member, means, seeds)
        rows += _fragile(member, layers, seeds, experiment["noise_levels"])
    how = {name: rows[0][name] for name in _HOW} if rows else {}
    for member, steps, corpus in zip(members[1:], losses, corpora, strict=True):
        rows += [{**how, **row} for row in (*_losses(member, steps), *_corpus(member, corpus))]
    return [*rows, *_means(rows)] if how else []


def curation_layers_rows(experiment: Experiment, *, probing: Parts, fragility: Parts) -> list[Row]:
    """Accuracy and critical noise of every layer, by run, step and probe seed; no means.

    Args:
        experiment: as `curation_rows`.
        probing, fragility: rows of these tables: of the base, then of each run.

    Raises:
        StrataprobeError: as `curation_rows`.
    """
    members = _members(experiment, probing=probing, fragility=fragility)
    seeds = _seeds(members, probing) | _seeds(members, fragility)
    rows = []
    for member, accuracies, noises in zip(members, probing, fragility, strict=True):
        for key, row in _kept(member, accuracies, seeds):
            named = {"quantity": "accuracy", "control": "", "statistic": ""}
            rows.append({**key, **_layer(row), **named, "value": row["accuracy"], "state": ""})
        for key, row in _kept(member, noises, seeds):
            named = {"quantity": "critical_noise", "control": row["control"], "statistic": row["statistic"]}
            rows.append(
                {**key, **_layer(row), **named, "value": row["critical_noise"], "state": row["state"]}
            )
    return rows


def fragile_layers(found: Iterable[tuple[float | None, str]], highest: float) -> int:
    """How many layers are fragile: their critical noise on a grid is below the grid's largest level.

    A layer that is below the threshold without noise is fragile too: its noise is below every level. One that
    is censored (never below the threshold on the grid) or undefined (noise does not reach it) is not.

    Args:
        found: critical noise and its state, of each layer.
        highest: the grid's largest level.

    Source: fragility paper, section 4.3; DEFINITIONS, fragile layer.
    """
    return sum(
        state == "below_threshold" or (state == "value" and value is not None and value < highest)
        for value, state in found
    )


def _members(experiment: Experiment, **parts: Parts) -> list[_Member]:
    """The base and each run, if the parts of every table are theirs."""
    name, base = experiment["name"], experiment["base"]
    members = [_Member(name, BASE, "", base["model"], {base["revision"]: 0})]
    for run in experiment["runs"]:
        steps = {revision: int(step) for revision, step in run["revisions"]}
        members.append(_Member(name, run["condition"], str(run["seed"]), run["model"], steps))
    _same_number("of the base and of each run", members, **parts)
    faults = []
    for table, each in parts.items():
        for place, (member, rows) in enumerate(zip(members, each, strict=True), start=1):
            if others := sorted({row["model"] for row in rows} - {member.model}):
                faults.append(f"part {place} of {table}: of {', '.join(others)}, expected {member.model}")
    if faults:
        raise StrataprobeError(listing(f"experiment {name}", faults))
    return members


def _same_number(whose: str, members: Sequence[_Member], **parts: Sequence[Any]) -> None:
    faults = [
        f"{len(each)} parts of {table}; one {whose} would be {len(members)}"
        for table, each in parts.items()
        if len(each) != len(members)
    ]
    if faults:
        raise StrataprobeError(listing("curation", faults))


def _seeds(members: Sequence[_Member], parts: Parts) -> set[str]:
    """The probe seeds that the runs have, as text."""
    return {
        str(row["seed"])
        for member, rows in zip(members[1:], parts[1:], strict=True)
        for row in rows
        if row["revision"] in member.steps and row["seed"] != SEED_MEAN
    }


def _kept(member: _Member, rows: Iterable[Row], seeds: set[str]) -> Iterator[tuple[Row, Row]]:
    """Key columns and row of those that are the member's, of single probe seeds."""
    for row in rows:
        if row["revision"] in member.steps and str(row["seed"]) in seeds:
            how = {name: row[name] for name in _HOW}
            key = member.key(row["revision"], member.steps[row["revision"]])
            yield {**key, **how, "seed": str(row["seed"])}, row


def _layer(row: Row) -> Row:
    return {"layer": row["layer"], "depth": row["depth"]}


def _over_layers(member: _Member, rows: Iterable[Row], seeds: set[str]) -> Iterator[Row]:
    """Accuracies and mean critical noise, with the intervals they have."""
    for key, row in _kept(member, rows, seeds):
        if row["band"] == ALL and row["quantity"] in (*ACCURACIES, NOISE):
            kept = (*_NAMED, "value", "interval_low", "interval_high")
            yield {**key, **{name: row[name] for name in kept}}


def _fragile(
    member: _Member, rows: Iterable[Row], seeds: set[str], levels: Mapping[str, Sequence[float]]
) -> Iterator[Row]:
    """Fragile layers by control, on the sampled and on the exact grid."""
    layers: dict[tuple[Any, ...], list[tuple[float | None, str]]] = defaultdict(list)
    for key, row in _kept(member, rows, seeds):
        if row["statistic"] in _GRIDS:
            one = (*key.items(), ("control", row["control"]), ("statistic", row["statistic"]))
            layers[one].append((row["critical_noise"], row["state"]))
    for one, found in layers.items():
        key = {**dict(one), "quantity": "fragile_layers", "means": ""}
        highest = max(levels["raw" if key["control"] == "raw" else "rms"])
        yield _valued(key, fragile_layers(found, highest))


def _losses(member: _Member, rows: Sequence[Row]) -> Iterator[Row]:
    """The first step's loss at step 0, then at each snapshot the mean since the one before."""
    of_step = {int(row["step"]): float(row["loss"]) for row in rows}
    named = {"seed": "", "quantity": "loss", "control": "", "statistic": "", "means": ""}
    if of_step:
        yield _valued({**member.key("", 0), **named}, of_step[min(of_step)])
    before = 0
    for revision, step in sorted(member.steps.items(), key=lambda one: one[1]):
        since = [loss for at, loss in of_step.items() if before < at <= step]
        if since:
            yield _valued({**member.key(revision, step), **named}, statistics.fmean(since))
        before = step


def _corpus(member: _Member, corpus: Mapping[str, Any]) -> Iterator[Row]:
    revision, step = max(member.steps.items(), key=lambda one: one[1])
    for quantity, name in (("corpus_tokens", "tokens_used"), ("passes", "passes")):
        named = {"seed": "", "quantity": quantity, "control": "", "statistic": "", "means": ""}
        yield _valued({**member.key(revision, step), **named}, corpus[name])


def _valued(key: Row, value: float) -> Row:
    return {**key, "value": value, "interval_low": None, "interval_high": None}


def _means(rows: Iterable[Row]) -> Iterator[Row]:
    """The mean over runs of every group of rows."""
    groups: dict[tuple[Any, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_run = groups[tuple(row[name] for name in _GROUP)]
        by_run[row["run"]] += [] if row["value"] is None else [row["value"]]
    for group, by_run in groups.items():
        key = dict(zip(_GROUP, group, strict=True))
        of_runs = [statistics.fmean(values) for values in by_run.values() if values]
        spread_over = by_run[""] if key["condition"] == BASE else of_runs
        mean = statistics.fmean(of_runs) if of_runs else None
        spread = statistics.stdev(spread_over) if len(spread_over) > 1 else None
        yield {
            **key,
            "run": RUN_MEAN,
            "model": "",
            "revision": "",
            "seed": SEED_MEAN,
            "value": mean,
            "interval_low": None if spread is None else mean - spread,
            "interval_high": None if spread is None else mean + spread,
        }
