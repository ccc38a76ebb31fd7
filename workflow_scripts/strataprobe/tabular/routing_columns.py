"""The columns of the routing tables, in order, and which of them hold text or whole numbers."""

ROUTING_KEY = ("model", "revision", "step", "dataset")

_CELL = ("direction", "train_anchor", "test_anchor", "layer")
_SHARES = ("p_top_min", "p_top_min_low", "p_top_min_high", "p_top_mean", "p_top_max")
_MARGINAL = ("max_share", "top_class", "hhi", "effective_targets", "side_mass")
_NULLS = (
    *("relabelling_mean", "relabelling_q95", "relabelling_p"),
    *("prototype_mean", "prototype_q95", "prototype_p"),
)
_SIZE = ("classes", "items", "stimuli")

ROUTING_COLUMNS: dict[str, tuple[str, ...]] = {
    "routing_cells": (
        *(*ROUTING_KEY, "scope", *_SIZE, *_CELL, "depth", "class_accuracy", "property_accuracy"),
        *("coarse_accuracy", "coarse_low", "coarse_high", *_SHARES, *_MARGINAL, "verdict", "path"),
        *(*_NULLS, "canonical_p_top_min", "canonical_p_top_mean"),
        *("swapped_property_accuracy", "swapped_coarse_accuracy"),
    ),
    "routing_counts": (
        *(*ROUTING_KEY, "scope", *_CELL, "item", "item_property", "canonical"),
        *("predicted", "predicted_property", "count"),
    ),
    "routing_words": (
        *(*ROUTING_KEY, "word", "canonical", "property", "pieces", "n_pieces", "target"),
        *("out_of_design", "real_words", "attracted"),
    ),
    "routing_leakage": (
        *(*ROUTING_KEY, "notation", "anchor", "layer", "classes", "folds_accuracy"),
        *("folds_property_accuracy", "held_out_accuracy", "held_out_property_accuracy"),
    ),
    "routing_sensitivity": (*ROUTING_KEY, "threshold", "flagged", "passed"),
    "many_class": (
        *(*ROUTING_KEY, "partition", "layer", "depth", *_SIZE, "class_accuracy", "property_accuracy"),
        *("in_p_top_min", "in_p_top_mean", "coarse_accuracy", "coarse_low", "coarse_high"),
        *("p_top_min", "p_top_mean", *_MARGINAL, "verdict", "relabelling_p", "prototype_p"),
    ),
}
"""The many-class probes of pairs datasets stand with them: they are judged by the same columns."""

ROUTING_TEXT = frozenset(
    (
        *("scope", "direction", "train_anchor", "test_anchor", "notation", "anchor", "partition"),
        *("item", "item_property", "canonical", "predicted", "predicted_property", "top_class"),
        *("word", "property", "pieces", "target", "out_of_design", "real_words", "verdict", "path"),
    )
)
ROUTING_WHOLE = frozenset((*_SIZE, "count", "n_pieces", "flagged"))
