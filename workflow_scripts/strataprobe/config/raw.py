"""Looking at a config as it was written, before it is checked: whatever stands there, nothing breaks."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strataprobe.config.derived import raw_names, raw_revisions
from strataprobe.config.models import StudyConfig
from strataprobe.config.sources import checkpoint_names


def nearest(word: str, known: list[str]) -> str:
    """What to add to a message about a word that is not known."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known here: {', '.join(sorted(known))}" if known else ""


def nearest_file(base: Path, path: str) -> str:
    folder = (base / path).parent
    near = difflib.get_close_matches(Path(path).name, [p.name for p in folder.glob("*")], n=1, cutoff=0.6)
    return f"; did you mean {str(Path(path).parent / near[0])!r}?" if near else ""


def entry_of(model: Any, models: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the config says of a model: its entry, or that of which it is a further seed or a condition."""
    if isinstance(model, str) and model in models:
        return mapping(models[model])
    found = (entry for name, entry in models.items() if model in expanded_names({name: entry}))
    return mapping(next(found, None))


def revisions_of(model: Any, models: Mapping[str, Any]) -> list[str]:
    """Names of a model's revisions, listed or made here; empty where neither says them."""
    entry = entry_of(model, models)
    pretrain = mapping(mapping(entry.get("source")).get("pretrain"))
    steps = [step for step in sequence(pretrain.get("checkpoints")) if isinstance(step, int)]
    if steps:
        return checkpoint_names(steps)
    if lora := mapping(mapping(entry.get("source")).get("lora")):
        return raw_revisions(lora)
    given = sequence(entry.get("revisions"))
    return [str(entry.get("name")) if isinstance(entry, Mapping) else str(entry) for entry in given]


def asked_of(model: Any, dataset: str, raw: Mapping[str, Any]) -> list[str]:
    """Measures that the study asks of a dataset in a model, whether or not they are of its kind."""
    datasets, entry = mapping(raw.get("datasets")), entry_of(model, mapping(raw.get("models")))
    own = mapping(datasets.get(dataset))
    if dataset not in (sequence(entry.get("datasets")) or list(datasets)) or own.get("tests") is not None:
        return []
    if made_elsewhere(model, raw):
        return []
    asked = sequence(
        entry.get("measures") or raw.get("measures") or StudyConfig.model_fields["measures"].default
    )
    return [measure for measure in asked if measure in (sequence(own.get("measures")) or asked)]


def made_elsewhere(model: Any, raw: Mapping[str, Any]) -> bool:
    """Whether a model of this name stands for predictions made elsewhere."""
    return "predictions" in mapping(entry_of(model, mapping(raw.get("models"))).get("source"))


def expanded_names(models: Mapping[str, Any]) -> list[str]:
    """Model names as the study will have them: one a pre-training seed, or a fine-tuning run."""
    names: list[str] = []
    for name, entry in models.items():
        if lora := mapping(mapping(mapping(entry).get("source")).get("lora")):
            names.extend(raw_names(lora))
            continue
        pretrain = mapping(mapping(mapping(entry).get("source")).get("pretrain"))
        seeds = sequence(pretrain.get("seeds")) or [None]
        names.extend(str(name) if place == 0 else f"{name}-p{seed}" for place, seed in enumerate(seeds))
    return names


def twice(names: list[str]) -> set[str]:
    return {name for name in names if names.count(name) > 1}


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
