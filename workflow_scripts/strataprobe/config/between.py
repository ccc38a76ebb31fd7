"""Faults of a config that lie between its entries: names that nothing bears, files that are not there.

They are found in the raw config, so that they show beside all others.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from strataprobe.config.drawn import HOLDS, figure_faults
from strataprobe.config.models import BUILT_ON, KIND_OF
from strataprobe.config.raw import (
    asked_of,
    expanded_names,
    mapping,
    nearest,
    nearest_file,
    revisions_of,
    sequence,
    twice,
)
from strataprobe.config.tuned import seeds_of, tuning_faults
from strataprobe.errors import numbered


def cross_faults(raw: Mapping[str, Any], base: Path | None) -> Iterator[str]:
    """A line for each.

    Args:
        base: folder that paths are relative to; None leaves files unchecked.
    """
    datasets, models = mapping(raw.get("datasets")), mapping(raw.get("models"))
    if "models" in raw and not models:
        yield "models: the study has no model; give at least one"
    if any("predictions" not in mapping(mapping(entry).get("source")) for entry in models.values()):
        # Predictions made elsewhere need neither.
        missing = [key for key in ("seeds", "datasets") if key not in raw]
        yield from (f"{key}: is missing, and has no default" for key in missing)
        if "datasets" in raw and not datasets:
            yield "datasets: the study has no dataset; give at least one"
    for name, entry in datasets.items():
        for key in ("path", "prompts", "fields", "design", "keywords", "blocklist", "animate"):
            path = mapping(entry).get(key)
            if base is not None and isinstance(path, str) and not (base / path).is_file():
                yield f"datasets.{name}.{key}: there is no file {path!r}{nearest_file(base, path)}"
        yield from _test_faults(str(name), mapping(entry).get("tests"), datasets)
        yield from _kind_faults(str(name), mapping(entry))
    for name, entry in models.items():
        yield from _model_faults(str(name), mapping(entry), raw)
        for dataset in sequence(mapping(entry).get("datasets")):
            if isinstance(dataset, str) and dataset not in datasets:
                yield (
                    f"models.{name}.datasets: {dataset!r} is not among the study's datasets"
                    f"{nearest(str(dataset), list(map(str, datasets)))}"
                )
        known = revisions_of(name, models)
        for measure, chosen in mapping(mapping(entry).get("at")).items():
            for revision in sequence(chosen):
                if isinstance(revision, str) and known and revision not in known:
                    near = nearest(revision, known)
                    yield f"models.{name}.at.{measure}: {revision!r} is not a revision of that model{near}"
        yield from _built_on_faults(str(name), mapping(entry), raw)
        if base is not None:
            yield from _missing_directories(name, entry, base)
    names = expanded_names(models)
    for name, entry in models.items():
        base_model = mapping(entry).get("base")
        if base_model is not None and (base_model not in names or base_model == name):
            near = nearest(str(base_model), [other for other in names if other != name])
            yield f"models.{name}.base: {base_model!r} is not another model of this study{near}"
    yield from (f"models: two models would be called {name!r}" for name in sorted(twice(names)))
    yield from figure_faults(raw, datasets, names)
    yield from tuning_faults(raw, base)
    yield from _lens_faults(raw, base)
    yield from _perplexity_faults(raw, base)
    yield from _question_faults(raw, datasets)
    for rule, entry in mapping(raw.get("decision_rules")).items():
        yield from _decision_faults(f"decision_rules.{rule}", mapping(entry), raw, names)


# Keys of a dataset that only one kind has.
_KEYS_OF_KIND = {"prompts": "control", "fields": "control", "design": "vocabulary", "partition": "pairs"}


def _kind_faults(name: str, entry: Mapping[str, Any]) -> Iterator[str]:
    """Keys of another kind of dataset, a vocabulary without its design, a partition without two sides."""
    kind = entry.get("kind", "pairs")
    for key, owner in _KEYS_OF_KIND.items():
        if entry.get(key) is not None and kind != owner and kind in HOLDS:
            yield f"datasets.{name}.{key}: only {HOLDS[owner]} have it; did you mean kind: {owner}?"
    if kind == "vocabulary" and entry.get("design") is None:
        yield f"datasets.{name}.design: is missing; a vocabulary needs the file with its words and scopes"
    yield from partition_faults(f"datasets.{name}.partition", entry.get("partition"), "group", "groups")


def partition_faults(place: str, partition: Any, noun: str, nouns: str) -> Iterator[str]:
    """What is wrong with two sides and what is on each, as far as the config alone tells."""
    if not isinstance(partition, Mapping):
        return
    if len(partition) != 2:
        sides = numbered(len(partition), "side")
        yield f"{place}: has {sides}; a property has two, each with its list of {nouns}"
    for side, members in partition.items():
        if members == []:
            yield f"{place}.{side}: has no {noun}; a partition needs some on both sides"
    named = [
        member for members in partition.values() for member in sequence(members) if isinstance(member, str)
    ]
    yield from (f"{place}: {noun} {member!r} is given more than once" for member in sorted(twice(named)))


def _model_faults(name: str, entry: Mapping[str, Any], raw: Mapping[str, Any]) -> Iterator[str]:
    """Blocks that are not said, or at which words cannot be read; a partition that is none."""
    source = mapping(entry.get("source"))
    if entry.get("layers") is None and "predictions" not in source:
        yield f"models.{name}.layers: is missing, and has no default"
    predictions = mapping(source.get("predictions"))
    yield from partition_faults(
        f"models.{name}.source.predictions.partition", predictions.get("partition"), "class", "classes"
    )
    layers, chosen = entry.get("layers"), sequence(entry.get("vocabulary_layers"))
    for layer in chosen:
        if isinstance(layers, int) and isinstance(layer, int) and layer >= layers:
            yield f"models.{name}.vocabulary_layers: {layer} is not one of the blocks 0 to {layers - 1}"
    words = [
        str(own)
        for own, said in mapping(raw.get("datasets")).items()
        if mapping(said).get("kind") == "vocabulary" and "routing" in asked_of(name, own, raw)
    ]
    if words and entry.get("vocabulary_layers") is None:
        yield (
            f"models.{name}.vocabulary_layers: is missing; the words of {', '.join(map(repr, words))} are "
            "read at some of its blocks, such as [4, 7, 10]"
        )


def _built_on_faults(name: str, entry: Mapping[str, Any], raw: Mapping[str, Any]) -> Iterator[str]:
    """A measure that starts from another one's results, where that one is not taken."""
    for measure, below in BUILT_ON.items():
        asked = [own for own in mapping(raw.get("datasets")) if measure in asked_of(name, str(own), raw)]
        for dataset in asked:
            if below not in asked_of(name, str(dataset), raw) and KIND_OF[measure] == _kind_of(dataset, raw):
                yield (
                    f"models.{name}.measures: {measure} of {dataset!r} starts from the results of {below}, "
                    f"which are not asked for; add {below}"
                )
        at = mapping(entry.get("at"))
        known = [one for one in sequence(at.get(below)) if isinstance(one, str)]
        for revision in sequence(at.get(measure)):
            if known and isinstance(revision, str) and revision not in known:
                near = nearest(revision, known)
                yield f"models.{name}.at.{measure}: {below} is not measured at {revision!r}{near}"


def _kind_of(dataset: Any, raw: Mapping[str, Any]) -> str:
    return str(mapping(mapping(raw.get("datasets")).get(dataset)).get("kind", "pairs"))


def _missing_directories(name: str, entry: Any, base: Path) -> Iterator[str]:
    """A local model whose folder, before any `{revision}`, is not there, or files made elsewhere."""
    predictions = mapping(mapping(mapping(entry).get("source")).get("predictions")).get("path")
    if isinstance(predictions, str) and not (base / predictions).is_file():
        near = nearest_file(base, predictions)
        yield f"models.{name}.source.predictions.path: there is no file {predictions!r}{near}"
    published = mapping(mapping(mapping(entry).get("source")).get("published")).get("directory")
    if isinstance(published, str) and not (base / published).is_dir():
        yield f"models.{name}.source.published.directory: there is no folder {published!r}"
    directory = mapping(mapping(mapping(entry).get("source")).get("local")).get("directory")
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
    elif mapping(datasets[tested]).get("tests") is not None:
        yield f"datasets.{name}.tests: {tested!r} itself tests another dataset, so it has no probes"


def _lens_faults(raw: Mapping[str, Any], base: Path | None) -> Iterator[str]:
    """A readout by the tuned lens without a corpus to train it on, or with one that is not there."""
    lens = mapping(raw.get("tuned_lens"))
    asked = "tuned" in sequence(mapping(raw.get("readout")).get("definitions"))
    if asked and not lens:
        yield "tuned_lens: is missing; the readout 'tuned' needs its corpus (a file with a text a line)"
    corpus = lens.get("corpus")
    if base is not None and isinstance(corpus, str) and not (base / corpus).is_file():
        yield f"tuned_lens.corpus: there is no file {corpus!r}{nearest_file(base, corpus)}"


def _perplexity_faults(raw: Mapping[str, Any], base: Path | None) -> Iterator[str]:
    """A text that is not there, one of a model that is not tried on any, or one without a model."""
    asked = mapping(raw.get("perplexity"))
    texts = {"perplexity.text": asked.get("text")}
    for name, entry in mapping(raw.get("models")).items():
        place, own = f"models.{name}.perplexity_text", mapping(entry).get("perplexity_text")
        texts[place] = own
        if own is not None and not asked:
            yield f"{place}: the study measures no perplexity; add a section perplexity with its text"
        if own is not None and "published" in mapping(mapping(entry).get("source")):
            yield f"{place}: published results have no model to try it on; leave it out"
    for place, path in texts.items():
        if base is not None and isinstance(path, str) and not (base / path).is_file():
            yield f"{place}: there is no file {path!r}{nearest_file(base, path)}"


def _question_faults(raw: Mapping[str, Any], datasets: Mapping[str, Any]) -> Iterator[str]:
    """A dataset that is traced without a question, or a question of one that is not there."""
    questions = mapping(mapping(raw.get("tracing")).get("questions"))
    known = list(map(str, datasets))
    for dataset in questions:
        if dataset not in datasets:
            near = nearest(str(dataset), known)
            yield f"tracing.questions: {dataset!r} is not a dataset of this study{near}"
    for dataset in datasets:
        asking = [name for name in mapping(raw.get("models")) if "tracing" in asked_of(name, dataset, raw)]
        if asking and dataset not in questions and _kind_of(dataset, raw) == "pairs":
            yield (
                f"tracing.questions.{dataset}: is missing; tracing of {dataset!r} needs the text behind a "
                "sentence and its answers, such as {text: ' Is this morally acceptable?', expected: ' No', "
                "other: ' Yes'}"
            )


def _decision_faults(
    place: str, entry: Mapping[str, Any], raw: Mapping[str, Any], names: list[str]
) -> Iterator[str]:
    """A decline asked for between checkpoints that are not there, or where seeds cannot differ."""
    datasets, models = mapping(raw.get("datasets")), mapping(raw.get("models"))
    model, dataset, first, second = (entry.get(key) for key in ("model", "dataset", "first", "second"))
    for key, value, known in (("model", model, names), ("dataset", dataset, list(map(str, datasets)))):
        if isinstance(value, str) and value not in known:
            yield f"{place}.{key}: {value!r} is not a {key} of this study{nearest(value, known)}"
    known = revisions_of(model, models)
    for key, revision in (("first", first), ("second", second)):
        if isinstance(revision, str) and known and revision not in known:
            near = nearest(revision, known)
            yield f"{place}.{key}: {revision!r} is not a revision of that model{near}"
    if first is not None and first == second:
        yield f"{place}.second: {second!r} is the first checkpoint too; a decline is between two"
    if model not in names or not isinstance(dataset, str) or dataset not in datasets:
        return
    if "fragility" not in asked_of(model, dataset, raw):
        yield f"{place}: critical noise of {dataset!r} is not measured in {model!r}"
    seeds = seeds_of(model, dataset, raw)
    if seeds and len(seeds) < 2:
        yield f"{place}: a spread over seeds needs at least 2; {dataset!r} has {seeds} in {model!r}"
