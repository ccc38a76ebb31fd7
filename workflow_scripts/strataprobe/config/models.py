"""What may stand in a study's config (pydantic models; `schemas/config.schema.json` is made from them)."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from strataprobe.config.fields import Count, Distinct, Fraction, Positive, Sha256, Slug, Threshold, Whole

Dtype = Literal["float32", "bfloat16", "float16"]
Pooling = Literal["mean", "mean_rest"]


class Section(BaseModel):
    """A mapping in which every key is known."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


# where a model comes from


class Architecture(Section):
    """Sizes of the OLMo-2-architecture model that `pretrain` makes (its layers are the model entry's)."""

    hidden_size: Count
    heads: Count
    intermediate_size: Count
    vocab_size: Count
    max_positions: Count


class Corpus(Section):
    """The grammar-made corpus: its own seed, and how many documents."""

    seed: Whole
    documents: Count


class Training(Section):
    """Optimisation of the pre-training run (AdamW, packed sequences)."""

    batch_size: Count
    sequence_length: Count
    learning_rate: Positive
    warmup_steps: Whole
    weight_decay: Annotated[float, Field(ge=0)]
    gradient_norm: Positive
    schedule: Literal["cosine", "constant"] = "cosine"


class Pretrain(Section):
    """A model this workflow trains. The first seed is the model itself, each further one `{name}-p{seed}`."""

    seeds: Annotated[list[Whole], Distinct]
    architecture: Architecture
    corpus: Corpus
    training: Training
    checkpoints: Annotated[list[Whole], Distinct]
    threads: Count = 1


class Wheel(Section):
    """A model shipped as a GGUF file inside a package of the Python package index."""

    package: str
    version: str
    sha256: Sha256
    member: str
    member_sha256: Sha256
    dtype: Dtype = "float32"


class Local(Section):
    """Directories with weights: `{revision}` in the path stands for the revision's `ref`."""

    directory: str


class Hub(Section):
    """A repository on the model hub; each revision's `ref` is a branch, tag or commit there."""

    repo: Annotated[str, Field(pattern=r"^[^/\s]+/[^/\s]+$")]


class PublishedFiles(Section):
    """Result files of the reference implementation, a folder a checkpoint: numbers that nobody here made."""

    directory: str


class Source(Section):
    """Exactly one of these."""

    pretrain: Pretrain | None = None
    wheel: Wheel | None = None
    local: Local | None = None
    hub: Hub | None = None
    published: PublishedFiles | None = None

    @model_validator(mode="after")
    def _one(self) -> "Source":
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            named = " and ".join(given) if given else "none"
            raise ValueError(f"needs exactly one of {', '.join(type(self).model_fields)}; has {named}")
        return self

    @property
    def kind(self) -> str:
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)


def _revision(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


class RevisionEntry(Section):
    """One checkpoint. A bare text is short for {name: text}; `ref` is what the source calls it."""

    name: Slug
    ref: str | None = None
    step: Whole | None = None


Measure = Literal["probes", "fragility", "transfer", "foundations", "controls"]


class ModelEntry(Section):
    """One model, or one training trajectory of it."""

    source: Source
    layers: Count
    revisions: list[Annotated[RevisionEntry, BeforeValidator(_revision)]] | None = None
    dtype: Dtype = "float32"
    datasets: Annotated[list[Slug], Distinct] | None = None
    seeds: Annotated[list[Whole], Distinct] | None = None
    measures: Annotated[list[Measure], Distinct] | None = None
    memory_mb: Count = 2000

    @model_validator(mode="after")
    def _revisions_fit_the_source(self) -> "ModelEntry":
        if self.source.pretrain is not None:
            if self.revisions is not None:
                raise ValueError("revisions of a pretrain model follow from its checkpoints; leave them out")
        elif not self.revisions:
            raise ValueError("needs revisions: a list with at least one, such as [main]")
        else:
            names = [revision.name for revision in self.revisions]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"revisions: {', '.join(twice)} given more than once")
            self._refuse_twins(len(names))
        if self.source.published is not None:
            self._of_one_dataset_and_seed()
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


# what is asked of them


Profile = Literal["generic", "moral", "sentiment", "syntax", "compositional", "paraphrase", "adversarial"]


class DatasetEntry(Section):
    """A dataset file. Datasets of one bundle are captured in one pass over a checkpoint.

    `profile` is what the gate report asks of it, with `thresholds` by gate, and the lists of words some
    profiles need. `seeds` are instead of the model's; of the model's measures only `measures` are taken.
    A dataset that `tests` another is no probing task of its own: the other's probes are tried on it (a
    paraphrase has its original's id).
    """

    path: str
    kind: Literal["pairs"] = "pairs"
    bundle: Slug | None = None
    profile: Profile = "generic"
    thresholds: dict[str, float] = Field(default_factory=dict)
    keywords: str | None = None
    blocklist: str | None = None
    animate: str | None = None
    seeds: Annotated[list[Whole], Distinct] | None = None
    measures: Annotated[list[Measure], Distinct] | None = None
    tests: Slug | None = None


class Capture(Section):
    """How activations are taken."""

    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    batch_tokens: Count = 4096
    window_mb: Count = 256
    embed: bool = False
    threads: Count = 1


class Probe(Section):
    """The linear probe (paper fragility, 3.3)."""

    solver: Literal["adam", "logistic"] = "adam"
    learning_rate: Positive = 0.01
    epochs: Count = 50
    test_fraction: Fraction = 0.2
    pooling: Pooling | None = None
    onset_threshold: Fraction = 0.6
    bootstrap: Count = 1000


class Fragility(Section):
    """Noise and thresholds of the fragility curve (paper fragility, 3.4)."""

    noise_levels: Annotated[list[Positive], Distinct] = Field(default=[0.1, 0.3, 1.0, 3.0, 10.0])
    rms_noise_levels: Annotated[list[Positive], Distinct] = Field(
        default=[0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]
    )
    threshold: Threshold = 0.6
    draws: Count | None = None
    bootstrap: Count = 200

    @model_validator(mode="after")
    def _rising(self) -> "Fragility":
        for name in ("noise_levels", "rms_noise_levels"):
            levels = getattr(self, name)
            if levels != sorted(levels):
                raise ValueError(f"{name}: {levels} must rise from left to right")
        return self


class Floors(Section):
    """Lexical floors: what a bag of words reaches without a model (paper fragility, 3.2)."""

    folds: Annotated[int, Field(ge=2)] = 5
    max_iter: Count = 1000
    characters: Annotated[list[Count], Field(min_length=2, max_length=2)] = Field(default=[1, 4])
    bootstrap: Count = 1000
    margin: Fraction = 0.10

    @model_validator(mode="after")
    def _shortest_first(self) -> "Floors":
        if self.characters[0] > self.characters[1]:
            raise ValueError(f"characters: {self.characters} must be the shortest run, then the longest")
        return self


class Transfer(Section):
    """Leave-group-out transfer and lift (paper fragility, 3.2 and 4.1)."""

    folds: Annotated[int, Field(ge=3)] = 5
    C: Positive = 1.0
    max_iterations: Count = 1000
    bootstrap: Count = 1000
    seed: Whole = 42
    singled_out: list[str] = Field(default=["role_reversal"])


class Foundations(Section):
    """Probes of each group by itself, and the peak that chance gives (paper fragility, appendix A)."""

    permutations: Count = 200


class Controls(Section):
    """Selectivity, permutation null, description length, leave-lexeme-out (paper fragility, appendix C)."""

    control_tasks: Count = 5
    permutations: Count = 200
    code_orders: Count = 3
    false_discovery: Fraction = 0.05
    bootstrap: Count = 1000


class FigureEntry(Section):
    """One figure, named by its key: `results/figures/{key}.svg` and `.png`.

    `dataset` is one dataset, or several for a figure that compares them.
    """

    kind: Literal[
        "saturation", "depth", "noise_curves", "scale", "layer_profile", "loss",
        "emergence", "transfer", "foundations", "floors", "gates",
    ]  # fmt: skip
    model: Slug | None = None
    dataset: Slug | None = None
    datasets: Annotated[list[Slug], Distinct] | None = None
    revision: Slug | None = None
    seed: Whole | None = None
    title: str | None = None
    style: dict[str, Any] = Field(default_factory=dict)


class StudyConfig(Section):
    """A whole study: complete by itself, never merged with another."""

    study: Slug = "default"
    conventions: Literal["default", "published"] = "default"
    gaps: Literal["refuse", "draw"] = "refuse"
    seeds: Annotated[list[Whole], Distinct]
    step_onset_threshold: Fraction = 0.7
    paper_tables: bool = False
    measures: Annotated[list[Measure], Distinct] = Field(default=["probes", "fragility"])
    datasets: dict[Slug, DatasetEntry]
    models: dict[Slug, ModelEntry]
    capture: Capture = Field(default_factory=Capture)
    probe: Probe = Field(default_factory=Probe)
    fragility: Fragility = Field(default_factory=Fragility)
    floors: Floors = Field(default_factory=Floors)
    transfer: Transfer = Field(default_factory=Transfer)
    foundations: Foundations = Field(default_factory=Foundations)
    controls: Controls = Field(default_factory=Controls)
    figures: dict[Slug, FigureEntry] = Field(default_factory=dict)
