"""Models that are fine-tuned from others: their names, and the experiments they belong to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from strataprobe.config.curation import Lora, LoraTraining, saved_steps
from strataprobe.config.sources import checkpoint_names


@dataclass(frozen=True)
class Run:
    """One fine-tuning run: the model it makes, its condition and its seed."""

    model: str
    condition: str
    seed: int


@dataclass(frozen=True)
class Experiment:
    """All runs of one config entry with a source `lora`, and the checkpoint that they start from."""

    name: str
    base: str
    revision: str
    runs: tuple[Run, ...]
    together: bool = False

    @property
    def conditions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(run.condition for run in self.runs))


def derived_name(base: str, condition: str, seed: int) -> str:
    return f"{base}-lora-{condition}-s{seed}"


def experiment_of(name: str, lora: Lora) -> Experiment:
    """The runs of an entry: condition by condition, seed by seed."""
    runs = tuple(
        Run(derived_name(lora.base, condition, seed), condition, seed)
        for condition in lora.conditions
        for seed in lora.seeds
    )
    return Experiment(name, lora.base, lora.revision, runs, lora.together)


def run_source(lora: Lora, run: Run) -> dict[str, Any]:
    """What one run depends on: nothing of the other conditions and seeds."""
    said = lora.model_dump(mode="json", exclude={"conditions", "seeds", "together"})
    return {**said, "condition": run.condition, "corpora": lora.conditions[run.condition], "seed": run.seed}


def revision_steps(lora: Lora) -> dict[str, int]:
    """Step by name of each revision of a derived model."""
    steps = saved_steps(lora.training.steps, lora.training.save_every)
    return dict(zip(checkpoint_names(steps), steps, strict=True))


def raw_names(entry: Mapping[str, Any]) -> list[str]:
    """Names of the models of a `lora` source as it was written, as far as it says them."""
    conditions, seeds = entry.get("conditions"), entry.get("seeds")
    if not isinstance(conditions, Mapping) or not isinstance(seeds, list):
        return []
    base = str(entry.get("base"))
    return [derived_name(base, str(condition), seed) for condition in conditions for seed in seeds]


def raw_revisions(entry: Mapping[str, Any]) -> list[str]:
    """Names of their revisions; the published number of steps where it does not say."""
    training = entry.get("training")
    training = training if isinstance(training, Mapping) else {}
    published = LoraTraining.model_fields
    steps, every = (training.get(key, published[key].default) for key in ("steps", "save_every"))
    if not isinstance(steps, int) or not isinstance(every, int) or steps < 1 or every < 1:
        return []
    return checkpoint_names(saved_steps(steps, every))
