"""Faults of a study's figures: models and datasets that are not there, or of another kind than they show."""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from strataprobe.config.models import KIND_OF, FigureEntry
from strataprobe.config.raw import (
    asked_of,
    entry_of,
    made_elsewhere,
    mapping,
    nearest,
    revisions_of,
    sequence,
)
from strataprobe.config.tuned import compared_datasets

KINDS = get_args(FigureEntry.model_fields["kind"].annotation)
HOLDS = {"control": "control items", "pairs": "minimal pairs", "vocabulary": "words"}
"""What a dataset of each kind holds, in words."""


def figure_faults(raw: Mapping[str, Any], datasets: Mapping[str, Any], names: list[str]) -> Iterator[str]:
    for figure, entry in mapping(raw.get("figures")).items():
        spec, place = mapping(entry), f"figures.{figure}"
        if spec.get("kind") not in KINDS:  # a fault of its own; what the figure needs is not known then
            spec = {**spec, "kind": None}
        for key in ("model", "models"):
            for model in sequence(spec.get(key)) or [spec.get(key)]:
                if isinstance(model, str) and model not in names:
                    near = nearest(model, names)
                    yield f"{place}.{key}: {model!r} is not a model of this study{near}"
        for key in ("dataset", "datasets"):
            for dataset in sequence(spec.get(key)) or [spec.get(key)]:
                if isinstance(dataset, str):
                    yield from _drawn_dataset(f"{place}.{key}", dataset, spec.get("kind"), datasets)
        shown = [name for name in (spec.get("model"), *sequence(spec.get("models"))) if name in names]
        elsewhere = [name for name in shown if made_elsewhere(name, raw)]
        yield from _revision_faults(f"{place}.revision", spec, shown, raw)
        yield from _missing_in_figure(str(figure), spec, bool(shown) and elsewhere == shown)
        if spec.get("kind") == "checkpoints":
            yield from _untried(place, shown, raw)
        yield from _experiment_faults(place, spec, raw)
        yield from _unmeasured(place, spec, [name for name in shown if name not in elsewhere], elsewhere, raw)


def _revision_faults(
    place: str, spec: Mapping[str, Any], shown: list[str], raw: Mapping[str, Any]
) -> Iterator[str]:
    """A revision that one of the models has not, or at which the study does not measure what is drawn."""
    revision, kind = spec.get("revision"), spec.get("kind")
    measure = MEASURE_OF.get(kind)
    for name in shown if revision is not None else ():
        called = "that model" if name == spec.get("model") else repr(name)
        known = ["main"] if made_elsewhere(name, raw) else revisions_of(name, mapping(raw.get("models")))
        at = mapping(entry_of(name, mapping(raw.get("models"))).get("at"))
        chosen = [one for one in sequence(at.get(measure)) if one in known]
        if known and revision not in known:
            yield f"{place}: {revision!r} is not a revision of {called}{nearest(str(revision), known)}"
        elif chosen and revision not in chosen:
            yield (
                f"{place}: {measure} of {called} is not taken at {revision!r}{nearest(str(revision), chosen)}"
            )


def _experiment_faults(place: str, spec: Mapping[str, Any], raw: Mapping[str, Any]) -> Iterator[str]:
    """An experiment that is none, that is not compared on the dataset, or in a figure that shows none."""
    name, dataset, models = spec.get("experiment"), spec.get("dataset"), mapping(raw.get("models"))
    if not isinstance(name, str):
        return
    known = [str(own) for own, entry in models.items() if "lora" in mapping(mapping(entry).get("source"))]
    if isinstance(spec.get("kind"), str) and spec["kind"] not in OF_CURATION:
        yield f"{place}.experiment: a figure of kind {spec['kind']!r} shows none; leave it out"
    elif name not in known:
        near = nearest(name, known) or "; the study has no model with a source lora"
        yield f"{place}.experiment: {name!r} is not a fine-tuning experiment of this study{near}"
    elif isinstance(dataset, str) and dataset not in (compared := compared_datasets(name, raw)):
        near = nearest(dataset, compared)
        yield f"{place}.dataset: probes and fragility of {dataset!r} are not measured in {name!r}{near}"


def _untried(place: str, models: list[str], raw: Mapping[str, Any]) -> Iterator[str]:
    """A figure of checkpoints that the study tries on no text, or of results without checkpoints."""
    if not mapping(raw.get("perplexity")):
        yield f"{place}: the study measures no perplexity; add a section perplexity with its text"
    for name in models:
        if "published" in mapping(mapping(entry_of(name, mapping(raw.get("models")))).get("source")):
            yield f"{place}.model: {name!r} holds published results; checkpoints are of a model"


def _drawn_dataset(place: str, dataset: str, kind: Any, datasets: Mapping[str, Any]) -> Iterator[str]:
    """A dataset that is not there, or of the kind that this figure does not show."""
    if dataset not in datasets:
        near = nearest(dataset, list(map(str, datasets)))
        yield f"{place}: {dataset!r} is not a dataset of this study{near}"
        return
    holds = mapping(datasets[dataset]).get("kind", "pairs")
    wanted = KIND_OF.get(MEASURE_OF.get(kind), "pairs") if isinstance(kind, str) else None
    if isinstance(kind, str) and holds in HOLDS and holds != wanted:
        yield f"{place}: {dataset!r} holds {HOLDS[holds]}; a figure of kind {kind!r} shows {HOLDS[wanted]}"


def _unmeasured(
    place: str, spec: Mapping[str, Any], models: list[str], elsewhere: list[str], raw: Mapping[str, Any]
) -> Iterator[str]:
    """A figure of a measure that the study does not take, or of predictions it has not."""
    kind, dataset = spec.get("kind"), spec.get("dataset")
    own = mapping(mapping(raw.get("datasets")).get(dataset)) if isinstance(dataset, str) else {}
    measure = MEASURE_OF.get(kind) if kind not in OF_LEVELS else None
    if isinstance(kind, str) and measure != "routing":
        yield from (
            f"{place}: {name!r} holds predictions made elsewhere; a figure of kind {kind!r} shows a model"
            for name in elsewhere
        )
    elif elsewhere and models:
        beside = ", ".join(map(repr, elsewhere))
        yield f"{place}.models: {beside}: predictions made elsewhere need a figure of their own"
    elif elsewhere and dataset is not None:
        yield f"{place}.dataset: predictions made elsewhere are of no dataset of this study; leave it out"
    if own.get("kind", "pairs") != KIND_OF.get(measure, "pairs") or not own:
        return
    if measure == "many_class" and own.get("partition") is None:
        yield f"{place}.dataset: {dataset!r} has no partition of its groups into two sides"
    for name in models if measure else ():
        if measure not in asked_of(name, dataset, raw):
            yield f"{place}: {measure} of {dataset!r} is not among the measures of {name!r}"


OF_LEVELS = (
    "levels", "recoverability_depth", "levels_tuning", "deployment_gap", "order_bias", "verb_out",
    "levels_training",
)  # fmt: skip
"""Kinds of figure that show the three levels of control items."""

OF_PATCHING = ("patching_depth", "patching_cells")
"""Kinds of figure that show activation patching."""

OF_TRACING = ("tracing_layers", "tracing_depth")
"""Kinds of figure that show causal tracing."""

OF_CURATION = ("curation", "curation_heatmaps", "curation_loss", "curation_differences")
"""Kinds of figure that show fine-tuning experiments."""

OF_ROUTING = ("routing_matrix", "routing_paths", "routing_plane", "routing_sensitivity")
"""Kinds of figure that show words put to probes of many classes, or predictions made elsewhere."""

MEASURE_OF = {
    **dict.fromkeys(OF_LEVELS, "levels"),
    **dict.fromkeys(OF_ROUTING, "routing"),
    **dict.fromkeys(OF_PATCHING, "patching"),
    "steering": "steering",
    **dict.fromkeys(OF_TRACING, "tracing"),
    "many_class": "many_class",
}
"""The measure that a figure shows, of those that a study may take at some revisions only."""

# What a figure of each kind must name; the others need a model and one dataset.
_FIGURE_NEEDS = {
    "loss": ("model",),
    "checkpoints": ("model",),
    "emergence": ("model", "datasets"),
    "floors": ("model", "datasets"),
    "gates": ("datasets",),
    **dict.fromkeys(OF_LEVELS, ("models", "dataset")),
    "levels_training": ("model", "dataset"),
    **dict.fromkeys(OF_PATCHING, ("models", "dataset")),
    "steering": ("models", "dataset"),
    **dict.fromkeys(OF_ROUTING, ("models", "dataset")),
    "routing_matrix": ("model", "dataset"),
    **dict.fromkeys(OF_CURATION, ("experiment", "dataset")),
}


def _missing_in_figure(figure: str, spec: Mapping[str, Any], elsewhere: bool) -> Iterator[str]:
    kind = spec.get("kind")
    for key in _FIGURE_NEEDS.get(kind, ("model", "dataset")) if isinstance(kind, str) else ():
        if spec.get(key) is None and not (elsewhere and kind in OF_ROUTING and key == "dataset"):
            wanted = "a list of them" if key in ("datasets", "models") else "one"
            yield f"figures.{figure}.{key}: is missing; a figure of kind {kind!r} needs {wanted}"
