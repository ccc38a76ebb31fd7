"""What a run would write and fetch: activation caches, weights made here, weights from the hub."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strataprobe import files, revisions
from strataprobe.checkpoints import fetched
from strataprobe.checkpoints.identity import SINGLE, wanted_files
from strataprobe.config import Model, Revision, Study
from strataprobe.datasets.reading import read_dataset
from strataprobe.workflow.dry_run import Job

FLOAT32 = 4
_ITEM_SIZE = {"float32": 4, "float16": 2, "bfloat16": 2}
# Pooled over all tokens, and over all but the first: every cache has both (`capture.caching`).
_MEANS = 2
_ASK = f"to ask the hub: {revisions.COMMAND}, with the same --configfile"


@dataclass
class Size:
    """Bytes of several things, of which some are not known.

    Attributes:
        things: how many there are.
        bytes: of those that are known.
        unknown: how many are not, by whose they are and why.
    """

    things: int = 0
    bytes: int = 0
    unknown: dict[str, int] = field(default_factory=dict)

    def add(self, size: int | None, whose: str) -> None:
        self.things += 1
        if size is None:
            self.unknown[whose] = self.unknown.get(whose, 0) + 1
        else:
            self.bytes += size


@dataclass
class Space:
    """Bytes that a run would add.

    Attributes:
        caches: activation caches, less what lies in their places now.
        weights: of models made here, likewise.
        fetched: weights from elsewhere, less what the hub's cache holds.
        largest: bytes of the largest single revision among the fetched.
    """

    caches: Size
    weights: Size
    fetched: Size
    largest: int = 0


def space(study: Study, jobs: Sequence[Job], tables: Mapping[str, revisions.Table], folder: Path) -> Space:
    """What the jobs of a plan would write and fetch.

    Args:
        tables: what the repositories of hub models list, where that is known.
        folder: what the study's paths are relative to.

    Raises:
        DatasetError: a dataset that is to be captured has faults.
    """
    made = {path for job in jobs for path in job.outputs}
    fetched, largest = _fetched(study, jobs, tables, folder)
    return Space(_caches(study, made, folder), _weights(study, made, folder), fetched, largest)


def _caches(study: Study, made: set[str], folder: Path) -> Size:
    total = Size()
    shapes: dict[str, tuple[int, int]] = {}
    for model in study.models.values():
        width = hidden_size(study, model, folder)
        for revision in model.revisions:
            for dataset in model.datasets:
                path = study.layout.activations(model.name, revision.name, dataset)
                if path not in made:
                    continue
                if dataset not in shapes:
                    shapes[dataset] = _shape(study, dataset, folder)
                items, positions = shapes[dataset]
                size = cache_layers(study, model, dataset) * items * positions * FLOAT32
                known = None if width is None else _growth(size * width, folder / path)
                total.add(known, f"{model.name} (its hidden size is in no identity yet)")
    return total


def _shape(study: Study, dataset: str, folder: Path) -> tuple[int, int]:
    """Items and positions of a dataset's caches."""
    entry = study.config.datasets[dataset].model_dump()
    places = {key: str(folder / entry[key]) for key in ("path", "prompts", "fields", "design") if entry[key]}
    items = read_dataset({**entry, **places, "name": dataset}).items()
    pooled = 0 if entry["kind"] == "vocabulary" else _MEANS
    return len(items.ids), pooled + len(items.anchors)


def cache_layers(study: Study, model: Model, dataset: str) -> int:
    """Layers that a cache stores: all blocks and perhaps the embedding, or for words a few blocks."""
    if study.config.datasets[dataset].kind == "vocabulary":
        return len(model.vocabulary_layers)
    return model.layers + int(study.config.capture.embed)


def hidden_size(study: Study, model: Model, folder: Path) -> int | None:
    """Width of a model's residual stream, from the config of one made here or any identity that is there."""
    if model.kind == "pretrain":
        return model.source["architecture"]["hidden_size"]
    if model.kind == "lora":
        return hidden_size(study, study.models[model.source["base"]], folder)
    found = (_identity(study, model, revision, folder) for revision in model.revisions)
    return next((identity["hidden_size"] for identity in found if identity.get("hidden_size")), None)


def _identity(study: Study, model: Model, revision: Revision, folder: Path) -> dict[str, Any]:
    """A checkpoint's identity; empty where there is none."""
    path = folder / study.layout.identity(model.name, revision.name)
    return files.read_json(path) if path.is_file() else {}


def _weights(study: Study, made: set[str], folder: Path) -> Size:
    total = Size()
    for model in study.models.values():
        for revision in model.revisions:
            adapter = study.layout.adapter(model.name, revision.name)
            if adapter in made and not (folder / adapter).is_file():
                total.add(None, f"{model.name} (adapters, whose size hangs on the modules they are put on)")
            path = study.layout.weights(model.name, revision.name)
            if path in made:
                size = _weights_size(model, _identity(study, model, revision, folder))
                known = None if size is None else _growth(size, folder / path)
                total.add(known, f"{model.name} (its parameters are in no identity yet)")
    return total


def _weights_size(model: Model, identity: Mapping[str, Any]) -> int | None:
    if model.kind == "pretrain":
        return FLOAT32 * parameters(layers=model.layers, **model.source["architecture"])
    if identity.get("parameters"):
        return identity["parameters"] * _ITEM_SIZE[model.source["dtype"]]
    return None


def parameters(
    *, layers: int, hidden_size: int, intermediate_size: int, vocab_size: int, **_others: int
) -> int:
    """Stored parameters of an OLMo-2 model with tied embeddings, as `pretraining.model` builds it.

    A block has four square projections of attention with a norm each on queries and keys, three projections
    of the MLP, and two norms on its branches.
    """
    block = 4 * hidden_size**2 + 3 * hidden_size * intermediate_size + 4 * hidden_size
    return vocab_size * hidden_size + layers * block + hidden_size


def _growth(size: int, path: Path) -> int:
    """How much more there is once a file of `size` bytes stands in this place."""
    return max(0, size - path.stat().st_size) if path.is_file() else size


def _fetched(
    study: Study, jobs: Sequence[Job], tables: Mapping[str, revisions.Table], folder: Path
) -> tuple[Size, int]:
    """What is fetched from the hub and the package index, and the largest revision of it."""
    total, largest = Size(), 0
    fetching = [job for job in jobs if job.downloads]
    read = {path for job in fetching for path in job.inputs}
    read |= _opened_bases(study, read)
    written = {path for job in fetching for path in job.outputs}
    for model in study.models.values():
        identities = {
            revision: study.layout.identity(model.name, revision.name) for revision in model.revisions
        }
        if model.kind == "wheel" and written.intersection(identities.values()):
            total.add(None, f"{model.name} (nobody has asked for the size of its wheel)")
        # A job that writes an identity only asks for checksums: weights are fetched by those that read one.
        for revision in (revision for revision, path in identities.items() if path in read):
            if model.kind == "hub":
                identity = _identity(study, model, revision, folder)
                size = _left_to_fetch(model, revision, identity, tables.get(model.name))
                total.add(size, f"{model.name} ({_ASK})")
                largest = max(largest, size or 0)
    return total, largest


def _opened_bases(study: Study, read: set[str]) -> set[str]:
    """Identities of bases whose weights are opened by jobs that read a fine-tuned checkpoint's own."""
    return {
        study.layout.identity(model.source["base"], model.source["revision"])
        for model in study.models.values()
        if model.kind == "lora"
        and any(study.layout.identity(model.name, revision.name) in read for revision in model.revisions)
    }


def _left_to_fetch(
    model: Model, revision: Revision, identity: Mapping[str, Any], table: revisions.Table | None
) -> int | None:
    """Bytes of a revision that the hub's cache lacks, or None where its size is not known."""
    commit = identity.get("commit") or revision.commit
    there = cached(model.source["repo"], commit) if commit else {}
    if identity.get("files") and there.keys() >= identity["files"].keys():
        return 0
    row = table.by_ref.get(revision.ref) if table is not None else None
    if row is None or row.bytes is None:
        return None
    return max(0, row.bytes - sum(there.values()))


def cached(repo: str, commit: str) -> dict[str, int]:
    """Bytes by name of those files of a commit in the hub's cache that a study reads."""
    there = {path.name: path.stat().st_size for path in _files_of(fetched.snapshot(repo, commit))}
    shards = [SINGLE] if SINGLE in there else [name for name in there if name.endswith(".safetensors")]
    return {name: there[name] for name in wanted_files(there, shards)}


def _files_of(place: Path) -> Iterable[Path]:
    return (path for path in place.iterdir() if path.is_file()) if place.is_dir() else ()
