"""The columns of every table, in order, and which of them hold text."""

from typing import Any

from strataprobe.tabular.curation_columns import CURATION_COLUMNS, CURATION_TEXT
from strataprobe.tabular.routing_columns import ROUTING_COLUMNS, ROUTING_TEXT

Row = dict[str, Any]

ALL = "all"
"""The group that stands for all of them."""
SEED_MEAN = "mean"
"""The seed that stands for the mean over seeds."""

KEY = ("model", "revision", "step", "twin_of", "dataset", "conventions", "pooling", "seed")
GEOMETRY = (
    "activation_rms",
    "mean_norm",
    "first_token_share",
    "weight_norm",
    "margin_mean",
    "margin_sd",
    "margin_over_rms",
    "gaussian_critical_noise",
)
SCORES = ("accuracy", "loss", "auc", "d_prime", "log_loss")
WHICH = ("quantity", "control", "statistic", "band", "means")
_INTERVAL = ("interval_low", "interval_high")

DECISION = (
    *("rule", "model", "dataset", "control", "statistic", "band", "means", "first", "second"),
    *("mean_a", "sd_a", "n_a", "mean_b", "sd_b", "n_b", "gap", "largest_sd", "least_drop"),
    *("falls", "above_spread", "real", "note"),
)

_CHECKPOINT = KEY[:6]
"""Without pooling and seed: levels have neither."""

COLUMNS: dict[str, tuple[str, ...]] = {
    "probing": (*(*KEY, "layer", "depth", *SCORES, "train_pairs", "test_pairs", *_INTERVAL),),
    "fragility": (
        *(*KEY, "layer", "depth", "band", "baseline_accuracy", "control", "statistic"),
        *("critical_noise", "state", *_INTERVAL),
    ),
    "trajectory": (*KEY, *WHICH, "value", *_INTERVAL, "layers", "counted"),
    "onsets": (*KEY, "quantity", "value", "state", *_INTERVAL),
    "transfer": (*KEY, "quantity", "selection", "group", "layer", "value", *_INTERVAL),
    "foundations": (*KEY, "group", "quantity", "layer", "value", "test_items"),
    "controls": (*KEY, "over", "layer", "tested_on", "group", "quantity", "value", *_INTERVAL),
    "levels": (*_CHECKPOINT, "level", "measure", "split", "value", *_INTERVAL, "n", "clusters", "note"),
    "levels_layers": (
        *(*_CHECKPOINT, "level", "measure", "mode", "split", "hidden_state", "layer", "depth"),
        *("value", "sd", "note"),
    ),
    "levels_models": (
        *("quantity", "model", "other", "dataset", "split", "value", *_INTERVAL, "note"),
        *("published_model", "published_place", "published", "difference"),
        *("published_status", "published_note"),
    ),
    "patching": (
        *(*_CHECKPOINT, "task", "states", "window", "hidden_state", "layer", "depth", "measure", "split"),
        *("value", *_INTERVAL, "n", "pairs", "clusters", "note"),
    ),
    "patching_models": (
        *("quantity", "model", "other", "dataset", "task", "states", "window", "split", "hidden_state"),
        *("value", *_INTERVAL, "n", "published_model", "published_place", "published", "difference"),
        *("published_status", "published_note"),
    ),
    "steering": (
        *(*_CHECKPOINT, "task", "states", "hidden_state", "layer", "depth", "method", "alpha", "measure"),
        *("split", "value", *_INTERVAL, "n", "clusters", "p", "published_model", "published_place"),
        *("published", "difference", "published_status", "published_note"),
    ),
    "tracing": (
        *(*_CHECKPOINT, "design", "side", "score", "measure", "layer", "depth", "value", *_INTERVAL),
        *("draw_sd", "n", "draws", "note", "published_model", "published_place", "published", "difference"),
        *("published_status", "published_note"),
    ),
    "checkpoints": (
        *("model", "revision", "step", "commit", "weights_sha256", "tokenizer_sha256", "parameters"),
        *("status", "tokens", "nll", "perplexity", "bits_per_byte", "adds_bos", "nll_other_bos"),
        *("vocabulary", "twins", "flags", "note"),
    ),
    "decisions": DECISION,
    "gates": ("dataset", "profile", "gate", "threshold", "value", "passed", "worst"),
    "floors": (
        *("dataset", "scheme", "kind", "group", "pairs", "decided_pairs", "features"),
        *("accuracy", *_INTERVAL, "floor", "floor_low", "floor_high", "floor_at_chance"),
        *("below_chance", "likely_cause"),
    ),
    "scale": (*KEY, "layer", "depth", *GEOMETRY, "ceiling_critical_noise", "ceiling_state"),
    **CURATION_COLUMNS,
    **ROUTING_COLUMNS,
}

TEXT = frozenset(
    (
        *(*KEY, *WHICH, "state", "ceiling_state", "band", "selection", "group", "kind"),
        *("over", "tested_on"),
        *("level", "measure", "mode", "split", "other", "task", "states", "method"),
        *("design", "side", "score"),
        *("published_model", "published_place", "published_status", "published_note"),
        *("rule", "first", "second", "falls", "above_spread", "real", "note"),
        *("commit", "weights_sha256", "tokenizer_sha256", "status", "adds_bos", "twins", "flags"),
        *("profile", "gate", "passed", "worst", "scheme", "below_chance", "likely_cause"),
        *CURATION_TEXT,
        *ROUTING_TEXT,
    )
) - {"step"}
