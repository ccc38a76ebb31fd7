"""Data curation: corpora, fine-tuning by LoRA on them, and how conditions are compared."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from strataprobe.config.fields import Count, Distinct, Fraction, Positive, Section, Sha256, Slug, Whole


class Statements(Section):
    """Statements expanded from acts and templates by a seed: so many texts, each of so many statements."""

    path: str
    texts: Count
    statements: Count
    seed: Whole


class Book(Section):
    """A plain-text book, fetched from its address.

    What stands up to the line that holds `after`, and from the line on that holds `before`, is cut. Without a
    checksum it is fetched once to say its own, and nothing is trained on it.
    """

    address: Annotated[str, Field(pattern=r"^https?://")]
    sha256: Sha256 | None = None
    after: str | None = None
    before: str | None = None


class CorpusEntry(Section):
    """Exactly one of these: a file of texts, statements made by a seed, or a book from elsewhere."""

    texts: str | None = None
    statements: Statements | None = None
    book: Book | None = None

    @model_validator(mode="after")
    def _one(self) -> "CorpusEntry":
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            named = " and ".join(given) if given else "none"
            raise ValueError(f"needs exactly one of {', '.join(type(self).model_fields)}; has {named}")
        return self


def saved_steps(steps: int, save_every: int) -> list[int]:
    """Steps after which an adapter is kept: every so many, and the last."""
    return sorted({*range(save_every, steps + 1, save_every), steps})


class LoraTraining(Section):
    """One run of fine-tuning by LoRA; the defaults are the published ones (fragility paper, section 4.3)."""

    rank: Count = 16
    alpha: Positive = 32.0
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.05
    target_modules: Annotated[list[str], Distinct] = Field(default=["q_proj", "v_proj"])
    learning_rate: Positive = 2e-4
    warmup_steps: Whole = 50
    schedule: Literal["cosine", "constant"] = "cosine"
    gradient_norm: Positive = 1.0
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    batch_size: Count = 2
    sequence_length: Annotated[int, Field(ge=2)] = 1024
    steps: Count = 1000
    save_every: Count = 100

    @model_validator(mode="after")
    def _warm_before_the_end(self) -> "LoraTraining":
        if self.warmup_steps > self.steps:
            raise ValueError(f"warmup_steps: {self.warmup_steps} is more than steps ({self.steps})")
        if self.save_every > self.steps:
            raise ValueError(f"save_every: {self.save_every} is more than steps ({self.steps})")
        return self


class Lora(Section):
    """Fine-tuned copies of one checkpoint: a model `{base}-lora-{condition}-s{seed}` for each of both.

    `conditions` are lists of corpora by name, which follow one another. With `tokens`, what they make is cut
    to so many, so that conditions are matched in size; without, in steps alone. `together` trains and
    captures all in one job, where a model is so small that starting a process takes longer than a run.
    """

    base: Slug
    revision: Slug
    conditions: dict[Slug, Annotated[list[Slug], Distinct]] = Field(min_length=1)
    seeds: Annotated[list[Whole], Distinct]
    training: LoraTraining = Field(default_factory=LoraTraining)
    tokens: Count | None = None
    threads: Count = 1
    together: bool = False

    @model_validator(mode="after")
    def _fills_a_row(self) -> "Lora":
        length = self.training.sequence_length
        if self.tokens is not None and self.tokens < length:
            raise ValueError(f"tokens: {self.tokens} do not fill one sequence of {length}")
        return self


class Curation(Section):
    """Comparison of conditions: bootstrap over runs and pairs; accuracies this close count as matched."""

    bootstrap: Count = 1000
    seed: Whole = 1729
    matched_within: Fraction = 0.02
