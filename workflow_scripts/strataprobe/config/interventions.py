"""How interventions are made: patching, steering and causal tracing (sections of a study)."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from strataprobe.config.fields import Count, Distinct, Positive, Section, Slug, Whole


class Patching(Section):
    """Activation patching over layers (levels paper, appendix G.3).

    `donors` is how many of each kind a target has, all where it is left out; `states` says where a donor's
    states come from: its own prompt of the same task (`own_prompt`), or its bare sentence without a BOS, as
    published (`bare`); left out, `conventions` decides. `first_layer` is a number as of hidden_states, or the
    probe peak.
    """

    tasks: Annotated[list[Literal["qa", "paraphrase"]], Distinct] = Field(default=["qa", "paraphrase"])
    languages: Annotated[list[Slug], Distinct] | None = None
    states: Annotated[list[Literal["own_prompt", "bare"]], Distinct] | None = None
    donors: Count | None = None
    random_donors: Whole = 2
    norm_matched: Whole = 2
    first_layer: Whole | Literal["peak"] = "peak"
    every: Count = 1
    windows: Annotated[list[Count], Distinct] = Field(default=[1])
    bootstrap: Count = 10_000
    permutations: Count = 1000
    seed: Whole = 1729


class Steering(Section):
    """Pushes along directions, and the erasure of one (levels paper, appendix G.2).

    `states` are those that directions are fitted on: in the item's own prompt of the task (`own_prompt`), or
    of its bare sentence without a BOS, as the published probes are (`bare`). `random` directions are tried at
    `random_alphas`, strengths without a sign. `erasures` is how often labels are dealt anew, as a control of
    the erasure. With `every`, layers from the first one on are steered, that many apart.
    """

    tasks: Annotated[list[Literal["qa", "paraphrase"]], Distinct] = Field(default=["qa", "paraphrase"])
    languages: Annotated[list[Slug], Distinct] | None = None
    states: Annotated[list[Literal["own_prompt", "bare"]], Distinct] = Field(default=["own_prompt"])
    methods: Annotated[list[Literal["probe", "means"]], Distinct] = Field(default=["probe", "means"])
    alphas: Annotated[list[float], Distinct] = Field(default=[-5, -3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 5])
    random: Whole = 20
    random_alphas: Annotated[list[Positive], Distinct] = Field(default=[0.5, 1, 2, 3, 5])
    erasures: Whole = 20
    first_layer: Whole | Literal["peak"] = "peak"
    every: Count | None = None
    bootstrap: Count = 10_000
    seed: Whole = 1729

    @model_validator(mode="after")
    def _comparable(self) -> "Steering":
        if 0 not in self.alphas:
            raise ValueError("alphas: without 0 nothing shows that hooks alone change no answer; add it")
        apart = [alpha for alpha in self.random_alphas if not {alpha, -alpha} & set(self.alphas)]
        if self.random and apart:
            raise ValueError(f"random_alphas: {apart} are not among alphas; nothing would stand beside them")
        return self


class Question(Section):
    """What stands behind a sentence, and the two answers that are compared; each with its leading space."""

    text: str
    expected: str
    other: str

    @model_validator(mode="after")
    def _can_be_answered(self) -> "Question":
        behind = {"text": "a sentence", "expected": "the question", "other": "the question"}
        faults = [
            f"{name}: is empty; give the text that stands behind {place}"
            for name, place in behind.items()
            if not getattr(self, name).strip()
        ]
        if self.expected.strip() == self.other.strip():
            faults.append(f"other: is {self.other!r}, the expected answer too; a contrast needs two")
        if faults:
            raise ValueError("; ".join(faults))
        return self


class Tracing(Section):
    """Causal tracing (fragility paper, appendix B).

    `questions` by dataset. `items` pairs are traced: the `first` of the file, as published, or some of every
    group in turn (`groups`). Noise is `raw_sigma` in activation units (design `published`), `rms_sigma` in
    units of a block's typical RMS (`rms`), or `embedding_sds` standard deviations of the subjects' embeddings
    (`restoration`). `draws` left out follows from `conventions`. So many `blocks` are traced, evenly apart,
    the first and the last among them; all where it is left out.
    """

    questions: dict[Slug, Question] = Field(default_factory=dict)
    items: Count = 40
    choice: Literal["first", "groups"] = "first"
    designs: Annotated[list[Literal["published", "rms", "restoration"]], Distinct] = Field(
        default=["published", "rms", "restoration"]
    )
    draws: Count | None = None
    blocks: Annotated[int, Field(ge=2)] | None = None
    raw_sigma: Positive = 3.0
    rms_sigma: Positive = 1.0
    embedding_sds: Positive = 3.0
    bootstrap: Count = 10_000
    seed: Whole = 1729
