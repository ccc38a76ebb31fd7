"""What may stand in a study's config (pydantic models; `schemas/config.schema.json` is made from them)."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from strataprobe.config.curation import CorpusEntry, Curation
from strataprobe.config.fields import Count, Distinct, Dtype, Fraction, Section, Slug, Whole
from strataprobe.config.interventions import Patching, Steering, Tracing
from strataprobe.config.measures import (
    Capture,
    Concentration,
    Controls,
    DecisionRule,
    Floors,
    Foundations,
    Fragility,
    Levels,
    Perplexity,
    Probe,
    Readout,
    Recoverability,
    Routing,
    Transfer,
    TunedLens,
)
from strataprobe.config.revisions import Downloads, Revisions
from strataprobe.config.sources import Source

Measure = Literal[
    "probes", "fragility", "transfer", "foundations", "controls", "many_class", "levels", "routing",
    "patching", "steering", "tracing",
]  # fmt: skip

KIND_OF = {"levels": "control", "routing": "vocabulary", "patching": "control", "steering": "control"}
"""The kind of dataset that a measure is of; all others are of pairs."""

BUILT_ON = {"patching": "levels", "steering": "levels"}
"""The measure whose results another one starts from: it is taken at no other revisions than that."""


_FOLLOWS_FROM = {"pretrain": "checkpoints", "lora": "training"}
"""What says the revisions of a model that is trained here."""


class MeasuredAt(Section):
    """Names of the revisions that a measure is taken at: where a checkpoint costs much, a few of them do."""

    levels: Annotated[list[Slug], Distinct] | None = None
    routing: Annotated[list[Slug], Distinct] | None = None
    many_class: Annotated[list[Slug], Distinct] | None = None
    patching: Annotated[list[Slug], Distinct] | None = None
    steering: Annotated[list[Slug], Distinct] | None = None
    tracing: Annotated[list[Slug], Distinct] | None = None


class Placement(Section):
    """Where a model's weights lie while it runs, where they are more than one device holds.

    `whole`: on one device. `spread`: block after block on as many GPUs as `gpus`, then up to `cpu_mb` in the
    CPU's memory, then on the disk. `blockwise`: on the disk; each block is loaded once for all batches, whose
    states wait, up to `states_mb` of them in memory. Results are the same (docs/large_models.md).
    """

    weights: Literal["whole", "spread", "blockwise"] = "whole"
    gpus: Count = 1
    cpu_mb: Whole | None = None
    states_mb: Whole | None = None

    @model_validator(mode="after")
    def _only_what_is_heeded(self) -> "Placement":
        asked = {"gpus": self.gpus > 1, "cpu_mb": self.cpu_mb is not None}
        unheeded = [name for name, given in asked.items() if given and self.weights != "spread"]
        faults = [f"{name}: goes with weights: spread, not with {self.weights}" for name in unheeded]
        if self.states_mb is not None and self.weights != "blockwise":
            faults.append(f"states_mb: goes with weights: blockwise, not with {self.weights}")
        if faults:
            raise ValueError("; ".join(faults))
        return self


class ModelEntry(Section):
    """One model, or one training trajectory of it.

    `chat`: prompts go through the tokenizer's chat template. `base` is the model of this study that it was
    tuned from, `family` the name by which related models are left out together (levels paper, 4.1, 4.5). `at`
    says which revisions a measure is taken at, where not at all of them. `vocabulary_layers` are the blocks
    at which words are read (lucky-defaults paper, section 4). `perplexity_text` is instead of the study's.
    """

    source: Source
    layers: Count | None = None
    revisions: Revisions | None = None
    dtype: Dtype = "float32"
    datasets: Annotated[list[Slug], Distinct] | None = None
    seeds: Annotated[list[Whole], Distinct] | None = None
    measures: Annotated[list[Measure], Distinct] | None = None
    memory_mb: Count = 2000
    placement: Placement | None = None
    chat: bool = False
    base: Slug | None = None
    family: Slug | None = None
    at: MeasuredAt = Field(default_factory=MeasuredAt)
    vocabulary_layers: Annotated[list[Whole], Distinct] | None = None
    perplexity_text: str | None = None

    @model_validator(mode="after")
    def _revisions_fit_the_source(self) -> "ModelEntry":
        if self.source.predictions is not None:
            return self._of_predictions_alone()
        if self.placement is not None and self.source.kind in ("pretrain", "lora", "published"):
            raise ValueError("placement: what is trained here, or has results alone, needs none")
        if self.source.lora is not None and self.base is not None:
            raise ValueError("base: is source.lora.base; leave it out")
        if self.source.kind in _FOLLOWS_FROM:
            if self.revisions is not None:
                kind, what = self.source.kind, _FOLLOWS_FROM[self.source.kind]
                raise ValueError(f"revisions of a {kind} model follow from its {what}; leave them out")
        elif not self.revisions:
            raise ValueError("needs revisions: a list with at least one, such as [main]")
        elif not isinstance(self.revisions, list):
            if self.source.hub is None:
                raise ValueError("revisions: only a hub lists what it has; give a list, such as [step1000]")
        else:
            names = [revision.name for revision in self.revisions]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"revisions: {', '.join(twice)} given more than once")
            self._refuse_twins(len(names))
        if self.source.published is not None:
            self._of_one_dataset_and_seed()
        return self

    def _of_predictions_alone(self) -> "ModelEntry":
        """Predictions made elsewhere say nothing of a checkpoint."""
        given = {"source"} ^ {name for name in self.model_fields_set if getattr(self, name) is not None}
        if given:
            raise ValueError(
                f"{', '.join(sorted(given))}: a file of predictions has none; leave out all but source"
            )
        return self

    def _of_one_dataset_and_seed(self) -> None:
        """Published files say neither their dataset nor their seed, and are of one of each."""
        missing = [
            f"{name}: published files are of one; name it, such as {example}"
            for name, example in (("datasets", "[moral]"), ("seeds", "[42]"))
            if len(getattr(self, name) or []) != 1
        ]
        if missing:
            raise ValueError("; ".join(missing))

    def _refuse_twins(self, revisions: int) -> None:
        """Several revisions of a source that holds one checkpoint would be the same weights, renamed."""
        if revisions == 1:
            return
        if self.source.wheel is not None:
            raise ValueError(f"revisions: a wheel holds one checkpoint; {revisions} were given")
        if self.source.local is not None and "{revision}" not in self.source.local.directory:
            raise ValueError(
                f"source.local.directory: {self.source.local.directory!r} is one folder for {revisions} "
                "revisions; put {revision} where their names differ"
            )


Profile = Literal["generic", "moral", "sentiment", "syntax", "compositional", "paraphrase", "adversarial"]


class DatasetEntry(Section):
    """A dataset file. Datasets of one bundle are captured in one pass over a checkpoint.

    `profile` is what the gate report asks of it, with `thresholds` by gate, and the lists of words some
    profiles need. `seeds` are instead of the model's; of the model's measures only `measures` are taken.
    Control items (`kind: control`) have `prompts`, a file of frames by language, and may have further
    `fields` in a second file. A vocabulary has its `design`, a file. `partition` puts the groups of pairs on
    two sides, for the probe of many classes. A dataset that `tests` another is no probing task of its own:
    the other's probes are tried on it (a paraphrase has its original's id).
    """

    path: str
    kind: Literal["pairs", "control", "vocabulary"] = "pairs"
    prompts: str | None = None
    fields: str | None = None
    design: str | None = None
    partition: dict[Slug, list[str]] | None = None
    bundle: Slug | None = None
    profile: Profile = "generic"
    thresholds: dict[str, float] = Field(default_factory=dict)
    keywords: str | None = None
    blocklist: str | None = None
    animate: str | None = None
    seeds: Annotated[list[Whole], Distinct] | None = None
    measures: Annotated[list[Measure], Distinct] | None = None
    tests: Slug | None = None


class FigureEntry(Section):
    """One figure, named by its key: `results/figures/{key}.svg` and `.png`.

    `model` and `dataset` are one each; `models` or `datasets` are those that a figure compares; an
    `experiment` is a model entry with a source `lora`.
    """

    kind: Literal[
        "saturation", "depth", "noise_curves", "scale", "layer_profile", "loss",
        "emergence", "transfer", "foundations", "controls", "floors", "gates",
        "levels", "recoverability_depth", "levels_tuning", "deployment_gap", "order_bias", "verb_out",
        "levels_training",
        "routing_matrix", "routing_paths", "routing_plane", "routing_sensitivity", "many_class",
        "checkpoints",
        "patching_depth", "patching_cells", "steering", "tracing_layers", "tracing_depth",
        "curation", "curation_heatmaps", "curation_loss", "curation_differences",
    ]  # fmt: skip
    model: Slug | None = None
    models: Annotated[list[Slug], Distinct] | None = None
    dataset: Slug | None = None
    datasets: Annotated[list[Slug], Distinct] | None = None
    experiment: Slug | None = None
    revision: Slug | None = None
    seed: Whole | None = None
    title: str | None = None
    style: dict[str, Any] = Field(default_factory=dict)


class StudyConfig(Section):
    """A whole study: complete by itself, never merged with another."""

    study: Slug = "default"
    conventions: Literal["default", "published"] = "default"
    gaps: Literal["refuse", "draw"] = "refuse"
    seeds: Annotated[list[Whole], Distinct] = Field(default=[42])
    step_onset_threshold: Fraction = 0.7
    paper_tables: bool = False
    measures: Annotated[list[Measure], Distinct] = Field(default=["probes", "fragility"])
    datasets: dict[Slug, DatasetEntry] = Field(default_factory=dict)
    models: dict[Slug, ModelEntry]
    perplexity: Perplexity | None = None
    downloads: Downloads = Field(default_factory=Downloads)
    capture: Capture = Field(default_factory=Capture)
    probe: Probe = Field(default_factory=Probe)
    fragility: Fragility = Field(default_factory=Fragility)
    floors: Floors = Field(default_factory=Floors)
    transfer: Transfer = Field(default_factory=Transfer)
    foundations: Foundations = Field(default_factory=Foundations)
    controls: Controls = Field(default_factory=Controls)
    readout: Readout = Field(default_factory=Readout)
    tuned_lens: TunedLens | None = None
    recoverability: Recoverability = Field(default_factory=Recoverability)
    levels: Levels = Field(default_factory=Levels)
    routing: Routing = Field(default_factory=Routing)
    concentration: Concentration = Field(default_factory=Concentration)
    patching: Patching = Field(default_factory=Patching)
    steering: Steering = Field(default_factory=Steering)
    tracing: Tracing = Field(default_factory=Tracing)
    corpora: dict[Slug, CorpusEntry] = Field(default_factory=dict)
    curation: Curation = Field(default_factory=Curation)
    decision_rules: dict[Slug, DecisionRule] = Field(default_factory=dict)
    figures: dict[Slug, FigureEntry] = Field(default_factory=dict)
