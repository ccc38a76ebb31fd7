"""Activation patching of one checkpoint on one dataset of control items.

Source: levels paper, appendix G.3; DEFINITIONS, patching.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from strataprobe import behavior
from strataprobe.behavior.roles import in_prompts, in_sentences
from strataprobe.datasets.answers import describe
from strataprobe.datasets.control import ControlDataset
from strataprobe.errors import DatasetError, ModelError
from strataprobe.lm import LoadedLM, OutputMap
from strataprobe.patching.grid import Window, windows
from strataprobe.patching.plan import Plan
from strataprobe.patching.runs import BARE, Job, Runner
from strataprobe.recoverability.peak import probe_peak


def measure(
    lm: LoadedLM,
    dataset: ControlDataset,
    recoverability: Mapping[str, Any],
    settings: Mapping[str, Any],
    *,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """Put donors' states into targets' passes at every layer, and see which answers turn.

    A donor's states at both candidates and the predicate replace those of the target's own, role by role.

    Args:
        lm: the checkpoint, loaded.
        dataset: the items.
        recoverability: the checkpoint's probes of the same items, whose peak is where patching begins.
        settings: `chat`; of `capture` `batch_tokens` and `threads`; `patching` with `conventions`, `tasks`,
            `languages` (None: all), `states`, `donors`, `random_donors`, `norm_matched`, `first_layer`,
            `every`, `windows`, `seed`.
        progress: called with the number of patched runs just done, and of all.

    Returns:
        The summary, and a row a patched run (`rows.COLUMNS`). The summary has `items`; `blocks`; `peak` (see
        `probe_peak`); and `runs`: for each task and source of donors' states, `correct` and `ties` of the
        unchanged items, `kinds` (kind -> `targets` and `donors` by place, and how many are `unequal`), and
        `outcomes`: for each window its `layer` (the first; number in `hidden_states`), `block`, `depth`, and
        by kind which runs are right, one character a pair.

    Raises:
        ModelError, DatasetError: what cannot be patched, and why; see also `behavior.prepare`.
    """
    own = settings["patching"]
    if lm.blockwise is not None:
        raise ModelError(
            f"{lm.name}: patching runs on from a changed block, so it needs them all at hand; "
            "placement.weights: whole or spread would be right"
        )
    dataset = chosen_items(dataset, own)
    peak = probe_peak(recoverability, own["conventions"])
    grid = windows(own, peak["layer"], lm.n_layers)
    runner = prepared(lm, dataset, settings, min((start for _, start in grid), default=lm.n_layers))
    clean = runner.unchanged()
    plans = [Plan.of(task, source, runner, clean, own) for task in own["tasks"] for source in own["states"]]
    _run(runner, plans, grid, progress)
    summary = {
        "items": describe(dataset),
        "blocks": lm.n_layers,
        "peak": peak,
        "runs": [plan.summary(grid, lm.n_layers) for plan in plans],
    }
    return summary, (row for plan in plans for row in plan.rows(grid, dataset))


def chosen_items(dataset: ControlDataset, own: Mapping[str, Any]) -> ControlDataset:
    """The items of the languages asked for, with the prompts of the tasks asked for."""
    languages = own["languages"] or dataset.languages
    chosen = [
        replace(item, prompts={task: item.prompts[task] for task in own["tasks"] if task in item.prompts})
        for item in dataset.controls
        if item.language in languages
    ]
    if not any(item.prompts for item in chosen):
        raise DatasetError(
            f"dataset '{dataset.name}' has no item in {', '.join(languages)} with a prompt of "
            f"{', '.join(own['tasks'])}; it has the languages {', '.join(dataset.languages)}"
        )
    return replace(dataset, controls=tuple(chosen))


def prepared(lm: LoadedLM, dataset: ControlDataset, settings: Mapping[str, Any], first: int) -> Runner:
    """The model with these items' prompts, to be patched from a layer on (number in `hidden_states`)."""
    continuations = behavior.prepare(lm, dataset, chat=settings["chat"])
    own, running = settings["patching"], settings["capture"]
    return Runner(
        output=OutputMap.of(lm),
        dataset=dataset,
        continuations=continuations,
        roles=in_prompts(lm, dataset, continuations, chat=settings["chat"]),
        sentences=in_sentences(lm, dataset) if BARE in own["states"] else (),
        first=first,
        seed=own["seed"],
        batch_tokens=running["batch_tokens"],
        threads=running["threads"],
    )


def _run(
    runner: Runner,
    plans: Sequence[Plan],
    grid: Sequence[Window],
    progress: Callable[[int, int], object] | None,
) -> None:
    """Run every target with all its donors of all plans; what comes of it is noted in the plans."""
    of_task: dict[str, list[Plan]] = {}
    for plan in plans:
        of_task.setdefault(plan.task, []).append(plan)

    def donors(job: Job) -> list[tuple[str, str, int]]:
        return [one for plan in of_task[job[1]] for one in plan.donors(job[0])]

    jobs = [
        (target, task)
        for task, own in of_task.items()
        for target in sorted({target for plan in own for target in plan.targets})
    ]
    total = len(grid) * sum(len(donors(job)) for job in jobs)
    for job, found in runner.patched(jobs, donors, grid) if grid else ():
        start = 0
        for plan in of_task[job[1]]:
            count = len(plan.donors(job[0]))
            plan.take(job[0], found[start : start + count], len(grid))
            start += count
        if progress:
            progress(found.size, total)
