"""What a valid config means: every model with its revisions, seeds, datasets and settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strataprobe.config.curation import Lora
from strataprobe.config.derived import Experiment, experiment_of, revision_steps, run_source
from strataprobe.config.faults import checked
from strataprobe.config.models import BUILT_ON, KIND_OF, ModelEntry, StudyConfig
from strataprobe.config.revisions import RevisionEntry, choice_of
from strataprobe.config.sources import checkpoint_names
from strataprobe.layout import Layout
from strataprobe.revisions import Table, choose, parse

CONVENTIONS: dict[str, dict[str, Any]] = {
    # What we stand behind: the first token, often a sink, stays out of every claim about scale.
    # Donors are patched from their own prompts, where no candidate is the first token.
    "default": {"pooling": "mean_rest", "draws": 10, "states": ["own_prompt"]},
    # The papers' own numbers: all tokens pooled, one noise draw a level, donors from bare sentences.
    "published": {"pooling": "mean", "draws": 1, "states": ["bare"]},
}


ELSEWHERE = "predictions"
"""What stands in the place of a dataset where predictions were made elsewhere."""

# Measures that run the model itself and read no states that were kept.
_ON_THE_MODEL = ("patching", "steering", "tracing")
# Stages that read pooled activations without a noise of their own.
_OF_STATES = ("transfer", "foundations", "controls")
_INTERVENTIONS = ("patching", "steering", "tracing")


@dataclass(frozen=True)
class Revision:
    """One checkpoint: its name in paths, what the source calls it, its training step (None if unknown).

    `commit` is what the list of a hub model's revisions pins it to, and `bytes` what a study fetches of it,
    where there is such a list.
    """

    name: str
    ref: str
    step: int | None
    commit: str | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class Model:
    """One model of the study, with the study's defaults filled in."""

    name: str
    kind: str
    source: dict[str, Any]
    layers: int
    revisions: tuple[Revision, ...]
    dtype: str
    datasets: tuple[str, ...]
    seeds: tuple[int, ...]
    measures: tuple[str, ...]
    memory_mb: int
    chat: bool = False
    base: str | None = None
    family: str | None = None
    at: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    vocabulary_layers: tuple[int, ...] = ()
    perplexity_text: str | None = None

    @property
    def made_here(self) -> bool:
        """All its revisions come out of one job of this workflow."""
        return self.kind in ("pretrain", "lora")

    @property
    def steps(self) -> dict[str, int | None]:
        return {revision.name: revision.step for revision in self.revisions}

    def measured_at(self, measure: str | None) -> tuple[Revision, ...]:
        """The revisions that a measure is taken at, in the model's order: all, or those the study names.

        One that starts from another's results is taken where that one is, unless the study names fewer.
        """
        chosen = self.at.get(measure, self.at.get(BUILT_ON.get(measure))) if measure else None
        return tuple(revision for revision in self.revisions if chosen is None or revision.name in chosen)


@dataclass(frozen=True)
class Study:
    """A checked config, resolved."""

    config: StudyConfig
    layout: Layout
    models: dict[str, Model]

    @classmethod
    def load(
        cls,
        raw: Mapping[str, Any],
        *,
        where: str = "config.yaml",
        base: Path | None = None,
        resolving: bool = False,
    ) -> "Study":
        """Check a parsed config and resolve it.

        With `resolving`, or without a `base`, a model whose revisions are chosen from a list has none.

        Raises:
            ConfigError: see `strataprobe.config.check`.
        """
        config, tables = checked(raw, where=where, base=base, resolving=resolving)
        models = [
            model
            for name, entry in config.models.items()
            for model in _resolve(name, entry, config, tables.get(name))
        ]
        return cls(config, Layout(config.study), {model.name: model for model in models})

    @property
    def experiments(self) -> dict[str, Experiment]:
        """The fine-tuning experiments, by the name of their entry."""
        return {
            name: experiment_of(name, entry.source.lora)
            for name, entry in self.config.models.items()
            if entry.source.lora is not None
        }

    def asked_of_hub(self, name: str) -> dict[str, Any] | list[str]:
        """What the config asks for of a hub model's repository: a choice, or the ref of each revision."""
        choice = choice_of(self.config.models[name].revisions)
        if choice is not None:
            return choice
        return [revision.ref for revision in self.models[name].revisions]

    def settings(self, stage: str) -> dict[str, Any]:
        """The settings of one stage as a plain, sorted dict: what a rule states as its params."""
        section = getattr(self.config, stage).model_dump(mode="json")
        conventions = CONVENTIONS[self.config.conventions]
        for key in conventions:
            if key in section and section[key] is None:
                section[key] = conventions[key]
        if stage in (
            "probe", "fragility", "readout", "recoverability", "levels", *_OF_STATES, *_INTERVENTIONS
        ):  # fmt: skip
            section["conventions"] = self.config.conventions
        if stage in ("fragility", *_OF_STATES):
            section["pooling"] = self.settings("probe")["pooling"]
        if stage in ("foundations", "controls"):
            section["probe"] = self.settings("probe")
        return dict(sorted(section.items()))

    def tasks(self, model: Model) -> tuple[str, ...]:
        """The model's datasets that are probed: those that test another one's probes are not."""
        entries = self.config.datasets
        return tuple(
            name for name in model.datasets if entries[name].tests is None and entries[name].kind == "pairs"
        )

    def controls_of(self, model: Model) -> tuple[str, ...]:
        """The model's sets of control items."""
        return tuple(name for name in model.datasets if self.config.datasets[name].kind == "control")

    def vocabularies_of(self, model: Model) -> tuple[str, ...]:
        """The model's vocabularies, whose words are put to probes of many classes."""
        return tuple(name for name in model.datasets if self.config.datasets[name].kind == "vocabulary")

    def partitioned_of(self, model: Model) -> tuple[str, ...]:
        """The model's probed datasets whose groups are on two sides."""
        return tuple(name for name in self.tasks(model) if self.config.datasets[name].partition)

    def _datasets_of(self, model: Model, measure: str) -> tuple[str, ...]:
        if measure == "many_class":
            return self.partitioned_of(model)
        of = {"control": self.controls_of, "vocabulary": self.vocabularies_of}
        return of.get(KIND_OF.get(measure, "pairs"), self.tasks)(model)

    def tests_of(self, model: Model, dataset: str) -> tuple[str, ...]:
        """The model's datasets that test this one's probes."""
        return tuple(name for name in model.datasets if self.config.datasets[name].tests == dataset)

    def measured(self, measure: str) -> list[tuple[str, str]]:
        """(model, dataset) pairs for which the study asks for a measure."""
        found = [
            (model.name, dataset)
            for model in self.models.values()
            if measure in model.measures
            for dataset in self._datasets_of(model, measure)
            if measure in (self.config.datasets[dataset].measures or model.measures)
        ]
        made_elsewhere = [name for name, model in self.models.items() if model.kind == ELSEWHERE]
        return found + [(name, ELSEWHERE) for name in made_elsewhere if measure == "routing"]

    def captured(self, model: Model) -> list[tuple[str, str]]:
        """(revision, dataset) pairs whose activations the study's measures of a model read."""
        wanted: dict[tuple[str, str], None] = {}
        for measure in (name for name in model.measures if name not in _ON_THE_MODEL):
            for name in (dataset for owner, dataset in self.measured(measure) if owner == model.name):
                tests = self.tests_of(model, name) if measure == "controls" else ()
                for dataset in (name, *tests):
                    wanted |= {(revision.name, dataset): None for revision in model.measured_at(measure)}
        return list(wanted)

    def seeds(self, model: Model, dataset: str) -> tuple[int, ...]:
        """The dataset's own seeds, or else the model's."""
        return tuple(self.config.datasets[dataset].seeds or model.seeds)

    def bundles(self, model: Model) -> dict[str, list[str]]:
        """The model's datasets by the bundle they are captured in; without `bundle:` one of its own.

        Vocabularies are captured by themselves: at few blocks, at the anchors of their words.
        """
        bundles: dict[str, list[str]] = {}
        for dataset in model.datasets:
            if self.config.datasets[dataset].kind == "vocabulary":
                continue
            bundles.setdefault(self.config.datasets[dataset].bundle or dataset, []).append(dataset)
        return bundles


def _resolve(name: str, entry: ModelEntry, config: StudyConfig, table: Table | None) -> list[Model]:
    """The models of one entry: one, or one a pre-training seed."""
    source = getattr(entry.source, entry.source.kind).model_dump(mode="json")
    shared = {
        "kind": entry.source.kind,
        "layers": entry.layers or 0,
        "dtype": entry.dtype,
        "datasets": () if entry.source.predictions else tuple(entry.datasets or config.datasets),
        "seeds": tuple(entry.seeds or config.seeds),
        "measures": tuple(m for m in entry.measures or config.measures if _can(entry, m)),
        "memory_mb": entry.memory_mb,
        "chat": entry.chat,
        "base": entry.base,
        "family": entry.family,
        "vocabulary_layers": tuple(sorted(entry.vocabulary_layers or ())),
        "perplexity_text": _perplexity_text(entry, config),
        "at": {measure: tuple(names) for measure, names in entry.at if names is not None},
    }
    if entry.source.lora is not None:
        return _derived(name, entry.source.lora, shared)
    if entry.source.pretrain is None:
        return [Model(name=name, source=source, revisions=_revisions(entry, table), **shared)]
    steps = sorted(entry.source.pretrain.checkpoints)
    names = checkpoint_names(steps)
    revisions = tuple(Revision(text, text, step) for text, step in zip(names, steps, strict=True))
    return [
        Model(
            name=name if place == 0 else f"{name}-p{seed}",
            source={**source, "seed": seed, "layers": entry.layers},
            revisions=revisions,
            **shared,
        )
        for place, seed in enumerate(source.pop("seeds"))
    ]


def _derived(name: str, lora: Lora, shared: dict[str, Any]) -> list[Model]:
    """The models of a fine-tuning experiment, one a condition and seed."""
    revisions = tuple(Revision(text, text, step) for text, step in revision_steps(lora).items())
    tuned = {**shared, "base": lora.base, "revisions": revisions}
    return [
        Model(name=run.model, source=run_source(lora, run), **tuned) for run in experiment_of(name, lora).runs
    ]


def _perplexity_text(entry: ModelEntry, config: StudyConfig) -> str | None:
    """The text that a model's checkpoints are tried on; None without a model, or a study that asks none.

    Fine-tuned checkpoints are tried on a text of their own alone: the loss of their training is there.
    """
    without_model = entry.source.published is not None or entry.source.predictions is not None
    if config.perplexity is None or without_model:
        return None
    if entry.source.lora is not None:
        return entry.perplexity_text
    return entry.perplexity_text or config.perplexity.text


def _can(entry: ModelEntry, measure: str) -> bool:
    """Without a model there is what its files hold: probes and fragility, or predictions."""
    if entry.source.predictions is not None:
        return False
    return entry.source.published is None or measure in ("probes", "fragility")


def _revisions(entry: ModelEntry, table: Table | None) -> tuple[Revision, ...]:
    """The revisions that the config lists, or those that it chooses from the repository's list."""
    choice = choice_of(entry.revisions)
    if choice is not None:
        rows = choose(choice, table)[0] if table is not None else []
        return tuple(Revision(row.revision, row.ref, row.step, row.commit, row.bytes) for row in rows)
    pinned = table.by_ref if table is not None else {}
    found = []
    for given in entry.revisions or [RevisionEntry(name="main")]:
        ref = given.ref or given.name
        step = parse(given.name).step if given.step is None else given.step
        row = pinned.get(ref)
        found.append(Revision(given.name, ref, step, row and row.commit, row and row.bytes))
    return tuple(found)
