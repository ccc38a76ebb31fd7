"""Faults of a config that lie between its entries: names that nothing bears, files that are not there.

They are found in the raw config, so that they show beside all others.
"""

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from strataprobe.config.models import StudyConfig
from strataprobe.config.sources import checkpoint_names


def nearest(word: str, known: list[str]) -> str:
    """What to add to a message about a word that is not known."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known here: {', '.join(sorted(known))}" if known else ""


def cross_faults(raw: Mapping[str, Any], base: Path | None) -> Iterator[str]:
    """A line for each.

    Args:
        base: folder that paths are relative to; None leaves files unchecked.
    """
    datasets, models = _mapping(raw.get("datasets")), _mapping(raw.get("models"))
    if "models" in raw and not models:
        yield "models: the study has no model; give at least one"
    if "datasets" in raw and not datasets:
        yield "datasets: the study has no dataset; give at least one"
    for name, entry in datasets.items():
        for key in ("path", "prompts", "fields", "keywords", "blocklist", "animate"):
            path = _mapping(entry).get(key)
            if base is not None and isinstance(path, str) and not (base / path).is_file():
                yield f"datasets.{name}.{key}: there is no file {path!r}{_nearest_file(base, path)}"
        yield from _test_faults(str(name), _mapping(entry).get("tests"), datasets)
        for key in ("prompts", "fields"):
            if _mapping(entry).get(key) is not None and _mapping(entry).get("kind") != "control":
                yield f"datasets.{name}.{key}: only control items have it; did you mean kind: control?"
    for name, entry in models.items():
        for dataset in _sequence(_mapping(entry).get("datasets")):
            if isinstance(dataset, str) and dataset not in datasets:
                yield (
                    f"models.{name}.datasets: {dataset!r} is not among the study's datasets"
                    f"{nearest(str(dataset), list(map(str, datasets)))}"
                )
        known = _revisions_of(name, models)
        for measure, chosen in _mapping(_mapping(entry).get("at")).items():
            for revision in _sequence(chosen):
                if isinstance(revision, str) and known and revision not in known:
                    near = nearest(revision, known)
                    yield f"models.{name}.at.{measure}: {revision!r} is not a revision of that model{near}"
        if base is not None:
            yield from _missing_directories(name, entry, base)
    names = _expanded_names(models)
    for name, entry in models.items():
        base_model = _mapping(entry).get("base")
        if base_model is not None and (base_model not in names or base_model == name):
            near = nearest(str(base_model), [other for other in names if other != name])
            yield f"models.{name}.base: {base_model!r} is not another model of this study{near}"
    yield from (f"models: two models would be called {name!r}" for name in sorted(_twice(names)))
    yield from _figure_faults(raw, datasets, names)
    yield from _lens_faults(raw, base)
    for rule, entry in _mapping(raw.get("decision_rules")).items():
        yield from _decision_faults(f"decision_rules.{rule}", _mapping(entry), raw, names)


def _missing_directories(name: str, entry: Any, base: Path) -> Iterator[str]:
    """A local model whose folder, before any `{revision}`, is not there, or a folder of published files."""
    published = _mapping(_mapping(_mapping(entry).get("source")).get("published")).get("directory")
    if isinstance(published, str) and not (base / published).is_dir():
        yield f"models.{name}.source.published.directory: there is no folder {published!r}"
    directory = _mapping(_mapping(_mapping(entry).get("source")).get("local")).get("directory")
    if isinstance(directory, str):
        before = directory.split("{revision}")[0]
        # A revision's own folder is looked for when it is opened: one that fails must not end the rest.
        partial = "{revision}" in directory and not before.endswith("/")
        folder = (base / before).parent if partial else base / before
        if not folder.is_dir():
            yield f"models.{name}.source.local.directory: there is no folder {directory!r}"


def _test_faults(name: str, tested: Any, datasets: Mapping[str, Any]) -> Iterator[str]:
    """A dataset that tests the probes of one that is not there, or that has none itself."""
    if not isinstance(tested, str):
        return
    if tested not in datasets or tested == name:
        near = nearest(str(tested), [str(other) for other in datasets if other != name])
        yield f"datasets.{name}.tests: {tested!r} is not another dataset of this study{near}"
    elif _mapping(datasets[tested]).get("tests") is not None:
        yield f"datasets.{name}.tests: {tested!r} itself tests another dataset, so it has no probes"


def _lens_faults(raw: Mapping[str, Any], base: Path | None) -> Iterator[str]:
    """A readout by the tuned lens without a corpus to train it on, or with one that is not there."""
    lens = _mapping(raw.get("tuned_lens"))
    asked = "tuned" in _sequence(_mapping(raw.get("readout")).get("definitions"))
    if asked and not lens:
        yield "tuned_lens: is missing; the readout 'tuned' needs its corpus (a file with a text a line)"
    corpus = lens.get("corpus")
    if base is not None and isinstance(corpus, str) and not (base / corpus).is_file():
        yield f"tuned_lens.corpus: there is no file {corpus!r}{_nearest_file(base, corpus)}"


def _figure_faults(raw: Mapping[str, Any], datasets: Mapping[str, Any], names: list[str]) -> Iterator[str]:
    for figure, entry in _mapping(raw.get("figures")).items():
        spec, place = _mapping(entry), f"figures.{figure}"
        for key in ("model", "models"):
            for model in _sequence(spec.get(key)) or [spec.get(key)]:
                if isinstance(model, str) and model not in names:
                    near = nearest(model, names)
                    yield f"{place}.{key}: {model!r} is not a model of this study{near}"
        revision, known = spec.get("revision"), _revisions_of(spec.get("model"), _mapping(raw.get("models")))
        if revision is not None and known and revision not in known:
            near = nearest(str(revision), known)
            yield f"{place}.revision: {revision!r} is not a revision of that model{near}"
        for key in ("dataset", "datasets"):
            for dataset in _sequence(spec.get(key)) or [spec.get(key)]:
                if isinstance(dataset, str):
                    yield from _drawn_dataset(f"{place}.{key}", dataset, spec.get("kind"), datasets)
        yield from _missing_in_figure(str(figure), spec)


def _drawn_dataset(place: str, dataset: str, kind: Any, datasets: Mapping[str, Any]) -> Iterator[str]:
    """A dataset that is not there, or of the kind that this figure does not show."""
    if dataset not in datasets:
        near = nearest(dataset, list(map(str, datasets)))
        yield f"{place}: {dataset!r} is not a dataset of this study{near}"
        return
    holds = "control" if _mapping(datasets[dataset]).get("kind") == "control" else "pairs"
    wanted = "control" if kind in OF_LEVELS else "pairs"
    if isinstance(kind, str) and holds != wanted:
        needs = {"control": "control items", "pairs": "minimal pairs"}
        yield f"{place}: {dataset!r} holds {needs[holds]}; a figure of kind {kind!r} shows {needs[wanted]}"


OF_LEVELS = (
    "levels", "recoverability_depth", "levels_tuning", "deployment_gap", "order_bias", "verb_out",
    "levels_training",
)  # fmt: skip
"""Kinds of figure that show control items."""

# What a figure of each kind must name; the others need a model and one dataset.
_FIGURE_NEEDS = {
    "loss": ("model",),
    "emergence": ("model", "datasets"),
    "floors": ("model", "datasets"),
    "gates": ("datasets",),
    **dict.fromkeys(OF_LEVELS, ("models", "dataset")),
    "levels_training": ("model", "dataset"),
}


def _missing_in_figure(figure: str, spec: Mapping[str, Any]) -> Iterator[str]:
    kind = spec.get("kind")
    for key in _FIGURE_NEEDS.get(kind, ("model", "dataset")) if isinstance(kind, str) else ():
        if spec.get(key) is None:
            wanted = "a list of them" if key in ("datasets", "models") else "one"
            yield f"figures.{figure}.{key}: is missing; a figure of kind {kind!r} needs {wanted}"


def _decision_faults(
    place: str, entry: Mapping[str, Any], raw: Mapping[str, Any], names: list[str]
) -> Iterator[str]:
    """A decline asked for between checkpoints that are not there, or where seeds cannot differ."""
    datasets, models = _mapping(raw.get("datasets")), _mapping(raw.get("models"))
    model, dataset, first, second = (entry.get(key) for key in ("model", "dataset", "first", "second"))
    for key, value, known in (("model", model, names), ("dataset", dataset, list(map(str, datasets)))):
        if isinstance(value, str) and value not in known:
            yield f"{place}.{key}: {value!r} is not a {key} of this study{nearest(value, known)}"
    known = _revisions_of(model, models)
    for key, revision in (("first", first), ("second", second)):
        if isinstance(revision, str) and known and revision not in known:
            near = nearest(revision, known)
            yield f"{place}.{key}: {revision!r} is not a revision of that model{near}"
    if first is not None and first == second:
        yield f"{place}.second: {second!r} is the first checkpoint too; a decline is between two"
    if model not in names or not isinstance(dataset, str) or dataset not in datasets:
        return
    if not _has_critical_noise(model, dataset, raw):
        yield f"{place}: critical noise of {dataset!r} is not measured in {model!r}"
    of_dataset, of_model = _mapping(datasets[dataset]).get("seeds"), _entry_of(model, models).get("seeds")
    seeds = of_dataset or of_model or raw.get("seeds")
    if isinstance(seeds, list) and len(seeds) < 2:
        yield f"{place}: a spread over seeds needs at least 2; {dataset!r} has {seeds} in {model!r}"


def _has_critical_noise(model: Any, dataset: str, raw: Mapping[str, Any]) -> bool:
    """Whether the study asks for the fragility of this model's probes of this dataset."""
    datasets, entry = _mapping(raw.get("datasets")), _entry_of(model, _mapping(raw.get("models")))
    own = _mapping(datasets[dataset])
    asked = entry.get("measures") or raw.get("measures") or StudyConfig.model_fields["measures"].default
    return (
        dataset in (_sequence(entry.get("datasets")) or list(datasets))
        and own.get("tests") is None
        and all("fragility" in _sequence(measures) for measures in (asked, own.get("measures") or asked))
    )


def _entry_of(model: Any, models: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the config says of a model: its entry, or that of which it is a further pre-training seed."""
    found = (entry for name, entry in models.items() if model in _expanded_names({name: entry}))
    return _mapping(next(found, None))


def _revisions_of(model: Any, models: Mapping[str, Any]) -> list[str]:
    """Names of a model's revisions, listed or made here; empty where neither says them."""
    entry = _entry_of(model, models)
    pretrain = _mapping(_mapping(entry.get("source")).get("pretrain"))
    steps = [step for step in _sequence(pretrain.get("checkpoints")) if isinstance(step, int)]
    if steps:
        return checkpoint_names(steps)
    given = _sequence(entry.get("revisions"))
    return [str(entry.get("name")) if isinstance(entry, Mapping) else str(entry) for entry in given]


def _expanded_names(models: Mapping[str, Any]) -> list[str]:
    """Model names as the study will have them: one a pre-training seed."""
    names: list[str] = []
    for name, entry in models.items():
        pretrain = _mapping(_mapping(_mapping(entry).get("source")).get("pretrain"))
        seeds = _sequence(pretrain.get("seeds")) or [None]
        names.extend(str(name) if place == 0 else f"{name}-p{seed}" for place, seed in enumerate(seeds))
    return names


def _twice(names: list[str]) -> set[str]:
    return {name for name in names if names.count(name) > 1}


def _nearest_file(base: Path, path: str) -> str:
    folder = (base / path).parent
    near = difflib.get_close_matches(Path(path).name, [p.name for p in folder.glob("*")], n=1, cutoff=0.6)
    return f"; did you mean {str(Path(path).parent / near[0])!r}?" if near else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
