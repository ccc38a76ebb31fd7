"""How things are measured: the sections of a study that its rules state as params."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from strataprobe.config.fields import (
    Count,
    Distinct,
    Fraction,
    Pooling,
    Positive,
    Section,
    Slug,
    Threshold,
    Whole,
)


class Capture(Section):
    """How activations are taken."""

    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    batch_tokens: Count = 4096
    window_mb: Count = 256
    embed: bool = False
    threads: Count = 1


class Perplexity(Section):
    """Perplexity of a fixed text at every checkpoint, and from where on it is odd (all in nats a token)."""

    text: str
    uniform_nats: Positive = 2.0
    bos_nats: Positive = 0.5
    jump_nats: Positive = 0.5


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


class Readout(Section):
    """Readout of intermediate states by the model's own output map (levels paper, 3.2)."""

    definitions: Annotated[list[Literal["default", "code", "paper", "tuned"]], Distinct] = Field(
        default=["default", "code", "paper"]
    )
    flips: Count = 10_000
    seed: Whole = 1729


class TunedLens(Section):
    """Training of the calibrated readout `tuned` (after Belrose et al. 2023): `corpus` has a text a line."""

    corpus: str
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: Positive = 0.001
    steps: Count = 250
    batch_tokens: Count = 2048
    seed: Whole = 1729
    threads: Count = 1


class Recoverability(Section):
    """Leave-one-out probes of control items, and what their maximum over layers and modes is worth."""

    seeds: Annotated[list[Whole], Distinct] = Field(default=[1729, 2718, 3141])
    modes: Annotated[list[Literal["ab", "av", "bv", "abv", "v"]], Distinct] = Field(
        default=["ab", "av", "bv", "abv", "v"]
    )
    codings: Annotated[list[Literal["paper", "decorrelated"]], Distinct] = Field(
        default=["paper", "decorrelated"]
    )
    learning_rate: Positive = 0.01
    epochs: Count = 100
    permutations: Count = 1000
    ridge: Positive = 0.03
    noise_threshold: Threshold = 0.6
    clean_gap: Fraction = 0.10
    leak_gap: Fraction = 0.30
    least_item_out: Fraction = 0.75
    clean_window: Fraction = 0.90


class Levels(Section):
    """The three levels on the same items, put together (levels paper, sections 4 and A)."""

    bootstrap: Count = 10_000
    seed: Whole = 1729


class Routing(Section):
    """Probes of many classes, and what they make of words or groups never seen (lucky-defaults paper, 4)."""

    C: Positive = 1.0
    tolerance: Positive = 1e-8
    max_iterations: Count = 100
    folds: Annotated[int, Field(ge=2)] = 5
    seed: Whole = 1729


class Concentration(Section):
    """The gate of the lucky-defaults diagnostic (section 3), and the resampling behind its intervals."""

    property_accuracy: Fraction = 0.65
    coarse_accuracy: Fraction = 0.65
    hhi: Fraction = 0.70
    max_share: Fraction = 0.85
    side_mass: Annotated[list[Fraction], Field(min_length=2, max_length=2)] = Field(default=[0.20, 0.80])
    lucky: Fraction = 0.95
    sensitivity: Annotated[list[Fraction], Distinct] = Field(
        default=[0.99, 0.95, 0.90, 0.85, 0.80, 0.70, 0.60]
    )
    bootstrap: Count = 10_000

    @model_validator(mode="after")
    def _low_to_high(self) -> "Concentration":
        if self.side_mass[0] >= self.side_mass[1]:
            raise ValueError(f"side_mass: {self.side_mass} must be the least, then the greatest share")
        return self


class DecisionRule(Section):
    """Is a fall of mean critical noise between two checkpoints more than what seeds differ by?

    Source: paper fragility, 4.2; `control`, `statistic`, `band` and `means` as in the trajectory table.
    """

    model: Slug
    dataset: Slug
    first: Slug
    second: Slug
    control: Literal["raw", "rms_before", "rms_after", "within_class"] = "raw"
    statistic: Literal["grid_sampled", "grid_exact", "continuous"] = "grid_sampled"
    band: Literal["all", "early", "mid", "late"] = "all"
    means: Literal["capped", "dropped"] = "dropped"
    least_drop: Positive = 1.0
