"""What the probes of an experiment say of their test items, read one checkpoint at a time.

Of a checkpoint's activations only the margins of its test items are kept: a few numbers a layer and item.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from strataprobe import cache, probes
from strataprobe.errors import StrataprobeError, listing
from strataprobe.fragility.controls import controls
from strataprobe.probes import Problem, Trained
from strataprobe.probes.store import VARIANTS
from strataprobe.tabular.curation_columns import BASE

Path = str | os.PathLike[str]


class Place(NamedTuple):
    """Whose margins: `run` is the fine-tuning seed as text, "" for the base, `seed` that of the split."""

    condition: str
    run: str
    step: int
    seed: int


class Checkpoint(NamedTuple):
    """A checkpoint of an experiment with its files: one cache, and the probes of each seed."""

    condition: str
    run: str
    step: int
    model: str
    revision: str
    cache: Path
    probes: Mapping[int, Path]


@dataclass(frozen=True)
class Margins:
    """What one probe a layer says of the test items of one split.

    Attributes:
        ids: one text a test item.
        pairs: (items,) place of each item's pair among all pairs of the dataset.
        dataset_pairs: how many pairs the dataset has.
        correct: (layers, items) booleans of the probe on activations as they are; z > 0 is positive.
        signed: variant of the probe -> (layers, items) y z.
        reach: control -> (layers,) sd that one unit of its noise gives the logit, 0 where it reaches nothing;
            y z / reach are margins in the control's unit.
    """

    ids: tuple[str, ...]
    pairs: np.ndarray
    dataset_pairs: int
    correct: np.ndarray
    signed: Mapping[str, np.ndarray]
    reach: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, trained: Trained, problem: Problem) -> "Margins":
        """Margins of trained probes on the test items of their split."""
        labels = problem.labels[problem.test]
        logits = {variant: trained.logits(variant, problem.test_states) for variant in VARIANTS}
        every = np.unique(problem.pairs)
        return cls(
            ids=tuple(problem.ids[item] for item in problem.test),
            pairs=np.searchsorted(every, problem.pairs[problem.test]),
            dataset_pairs=len(every),
            correct=(logits["raw"] > 0) == (labels > 0),
            signed={variant: labels * values.astype(np.float64) for variant, values in logits.items()},
            reach={name: form.reach for name, form in controls(trained, problem).items()},
        )


def checkpoints(
    experiment: Mapping[str, Any], seeds: Sequence[int], weights: Sequence[Path], caches: Sequence[Path]
) -> list[Checkpoint]:
    """The checkpoints of an experiment, each with its files: the base, then those of each run by revision.

    Args:
        experiment: `base` ({"model", "revision"}) and `runs` (each with `model`, `condition`, `seed` and
            `revisions`, pairs of a name and a step).
        seeds: of the probes' splits.
        weights, caches: probes and their activations, side by side: of the base by seed, then for each run
            and revision by seed.

    Raises:
        StrataprobeError: other numbers of files than that, or two caches of one checkpoint.
    """
    base = experiment["base"]
    whose = [(BASE, "", 0, base["model"], base["revision"])]
    for run in experiment["runs"]:
        for revision, step in run["revisions"]:
            whose.append((run["condition"], str(run["seed"]), step, run["model"], revision))
    wanted = len(whose) * len(seeds)
    faults = [
        f"{len(paths)} {kind}; {len(whose)} checkpoints with {len(seeds)} seeds need {wanted}"
        for kind, paths in (("files of probes", weights), ("activation caches", caches))
        if len(paths) != wanted
    ]
    found = []
    for first, one in zip(range(0, wanted, len(seeds)), whose, strict=True):
        own = slice(first, first + len(seeds))
        if len(set(caches[own])) > 1:
            faults.append(
                f"{one[3]} {one[4]}: its seeds have several caches: {', '.join(map(str, caches[own]))}"
            )
        elif not faults:
            found.append(Checkpoint(*one, caches[first], dict(zip(seeds, weights[own], strict=True))))
    if faults:
        raise StrataprobeError(listing(f"experiment {experiment['name']}", faults))
    return found


def read(checkpoint: Checkpoint) -> dict[Place, Margins]:
    """Margins of one checkpoint, by seed; its activations are let go of again.

    Raises:
        CacheError: the cache is missing, damaged, or of another checkpoint.
        ProbeError: probes are damaged, or were trained on another cache.
    """
    found = {}
    expected = {"model": checkpoint.model, "revision": checkpoint.revision}
    with cache.open_activations(checkpoint.cache, expected) as opened:
        for seed, path in checkpoint.probes.items():
            trained, problem, _ = probes.load(path, opened)
            found[Place(*checkpoint[:3], seed)] = Margins.of(trained, problem)
    return found
