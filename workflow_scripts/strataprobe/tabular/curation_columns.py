"""The columns of the tables of LoRA experiments, in order, and which of them hold text or whole numbers."""

BASE = "base"
"""The condition that stands for the checkpoint which every run of an experiment began with, as step 0."""
RUN_MEAN = "mean"
"""The run that stands for the mean over runs."""

_INTERVAL = ("interval_low", "interval_high")
_WHOSE = ("experiment", "condition", "run", "model", "revision", "step")
_HOW = ("dataset", "conventions", "pooling")

CURATION_COLUMNS: dict[str, tuple[str, ...]] = {
    "curation": (
        *(*_WHOSE, *_HOW, "seed", "quantity", "control", "statistic", "means", "value", *_INTERVAL),
    ),
    "curation_layers": (
        *(*_WHOSE, *_HOW, "seed", "layer", "depth", "quantity", "control", "statistic", "value", "state"),
    ),
    "curation_differences": (
        *("experiment", *_HOW, "condition_a", "condition_b", "matched", "step_a", "step_b"),
        *("quantity", "control", "statistic", "means", "value_a", "value_b", "difference", *_INTERVAL),
        *("run_sd", "runs", "seeds", "pairs", "layers", "verdict", "note"),
    ),
}
"""`run` is the seed of a fine-tuning run as text: "" in rows of the base, "mean" in means over runs."""

CURATION_TEXT = frozenset(
    (
        *("experiment", "condition", "run", "model", "revision", *_HOW, "seed"),
        *("condition_a", "condition_b", "matched", "quantity", "control", "statistic", "means"),
        *("state", "verdict", "note"),
    )
)
CURATION_WHOLE = frozenset(("step_a", "step_b", "runs", "seeds"))
