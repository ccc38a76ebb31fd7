"""Where a model comes from: the `source` of a model entry."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from strataprobe.config.curation import Lora
from strataprobe.config.fields import Count, Distinct, Dtype, Positive, Section, Sha256, Whole


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


def checkpoint_names(steps: Sequence[int]) -> list[str]:
    """Revisions of a model made here, by rising step: `step0000`, all with as many digits as the last."""
    digits = max(4, len(str(max(steps, default=0))))
    return [f"step{step:0{digits}d}" for step in sorted(steps)]


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


class Predictions(Section):
    """Predictions of a probe of many classes, made elsewhere: a csv, and which classes are on which side.

    `partition` has both sides of the property, in their order, each with its classes.
    """

    path: str
    # How many sides it has is checked beside all else that a partition can lack.
    partition: Annotated[
        dict[str, list[str]], Field(json_schema_extra={"minProperties": 2, "maxProperties": 2})
    ]


class Source(Section):
    """Exactly one of these."""

    pretrain: Pretrain | None = None
    wheel: Wheel | None = None
    local: Local | None = None
    hub: Hub | None = None
    lora: Lora | None = None
    published: PublishedFiles | None = None
    predictions: Predictions | None = None

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
