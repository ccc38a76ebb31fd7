"""Faults of fine-tuning experiments: a base, a revision or a corpus that is not there, or is not measured."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from strataprobe.config.raw import (
    asked_of,
    entry_of,
    expanded_names,
    mapping,
    nearest,
    nearest_file,
    revisions_of,
    sequence,
)

COMPARED = ("probes", "fragility")
"""Measures that conditions are compared by."""

_NO_WEIGHTS = {"lora": "fine-tuned itself", "published": "published results", "predictions": "predictions"}


def tuning_faults(raw: Mapping[str, Any], base: Path | None) -> Iterator[str]:
    """A line for each.

    Args:
        base: folder that paths are relative to; None leaves files unchecked.
    """
    for name, entry in mapping(raw.get("models")).items():
        lora = mapping(mapping(mapping(entry).get("source")).get("lora"))
        if lora:
            yield from _base_faults(f"models.{name}", mapping(entry), lora, raw)
            yield from _condition_faults(f"models.{name}.source.lora.conditions", lora, raw)
            yield from _unmeasured_base(str(name), lora, raw)
    for name, entry in mapping(raw.get("corpora")).items() if base is not None else ():
        given = mapping(entry)
        statements = mapping(given.get("statements")).get("path")
        for place, path in (("texts", given.get("texts")), ("statements.path", statements)):
            if isinstance(path, str) and not (base / path).is_file():
                yield f"corpora.{name}.{place}: there is no file {path!r}{nearest_file(base, path)}"


def _base_faults(
    place: str, entry: Mapping[str, Any], lora: Mapping[str, Any], raw: Mapping[str, Any]
) -> Iterator[str]:
    models = mapping(raw.get("models"))
    base, revision = lora.get("base"), lora.get("revision")
    if not isinstance(base, str):
        return
    there = entry_of(base, models)
    if base not in expanded_names(models):
        known = [name for name in expanded_names(models) if "-lora-" not in name]
        yield f"{place}.source.lora.base: {base!r} is not a model of this study{nearest(base, known)}"
        return
    kind = next((kind for kind in _NO_WEIGHTS if kind in mapping(there.get("source"))), None)
    if kind is not None:
        yield f"{place}.source.lora.base: {base!r} is {_NO_WEIGHTS[kind]}; a model with weights is needed"
        return
    known = revisions_of(base, models)
    if known and revision not in known:
        near = nearest(str(revision), known)
        yield f"{place}.source.lora.revision: {revision!r} is not a revision of {base!r}{near}"
    ours, theirs = (own.get("dtype", "float32") for own in (entry, there))
    if ours != theirs:
        yield f"{place}.dtype: is {ours!r}, but its base {base!r}, which stands as step 0, has {theirs!r}"
    ours, theirs = entry.get("layers"), there.get("layers")
    if isinstance(ours, int) and isinstance(theirs, int) and ours != theirs:
        yield f"{place}.layers: is {ours}, but its base {base!r} has {theirs}"


def _condition_faults(place: str, lora: Mapping[str, Any], raw: Mapping[str, Any]) -> Iterator[str]:
    corpora = list(map(str, mapping(raw.get("corpora"))))
    for condition, names in mapping(lora.get("conditions")).items():
        for name in sequence(names):
            if isinstance(name, str) and name not in corpora:
                missing = "; there is no section corpora" if not corpora else nearest(name, corpora)
                yield f"{place}.{condition}: {name!r} is not a corpus of this study{missing}"
        if condition == "base":
            yield f"{place}.{condition}: this name stands for the checkpoint itself; choose another"


def _unmeasured_base(name: str, lora: Mapping[str, Any], raw: Mapping[str, Any]) -> Iterator[str]:
    """What conditions are compared by, where the base is not measured so: nothing would stand at step 0."""
    models, base = mapping(raw.get("models")), lora.get("base")
    if base not in expanded_names(models):
        return
    for dataset in compared_datasets(name, raw):
        missing = [measure for measure in COMPARED if measure not in asked_of(base, dataset, raw)]
        seeds = [seed for seed in seeds_of(name, dataset, raw) if seed not in seeds_of(base, dataset, raw)]
        if missing:
            lack = " and ".join(missing)
            yield f"models.{name}: step 0 is {base!r}, where {lack} of {dataset!r} is not measured"
        elif seeds:
            yield f"models.{name}.seeds: {seeds} of {dataset!r} are not among those of its base {base!r}"


def compared_datasets(experiment: str, raw: Mapping[str, Any]) -> list[str]:
    """Datasets of minimal pairs that an experiment's conditions are compared on."""
    return [
        str(dataset)
        for dataset, entry in mapping(raw.get("datasets")).items()
        if mapping(entry).get("kind", "pairs") == "pairs"
        and all(measure in asked_of(experiment, str(dataset), raw) for measure in COMPARED)
    ]


def seeds_of(model: str, dataset: str, raw: Mapping[str, Any]) -> list[Any]:
    """The dataset's own seeds, or else the model's, or else the study's."""
    of_dataset = mapping(mapping(raw.get("datasets")).get(dataset)).get("seeds")
    of_model = entry_of(model, mapping(raw.get("models"))).get("seeds")
    return sequence(of_dataset or of_model or raw.get("seeds"))
