"""A folder of result files of the reference implementation, read as a source of results."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strataprobe.errors import StrataprobeError, listing
from strataprobe.files import read_json, sha256_file
from strataprobe.published import experiments, results
from strataprobe.published.fields import Fields
from strataprobe.published.results import Frame, Summary

UNKNOWN_SEED = "unknown"
_STEP = re.compile(r"step[-_ ]?(\d+)", re.IGNORECASE)
# Benchmarks by name, and for files that carry another name (subclasses, tools of their own) by the field
# that makes them what they are.
_KINDS = {
    "layer_wise_moral_probe": "probing",
    "moral_fragility_test": "fragility",
    "foundation_specific_probe": "foundations",
    "moral_causal_tracer": "tracing",
    "lora_experiment": "lora",
}
_SIGNS = {
    "foundation_layer_scores": "foundations",
    "prompt_results": "tracing",
    "probe_snapshots": "lora",
    "noise_levels": "fragility",
    "layer_scores": "probing",
    "per_checkpoint": "checkpoints",
}
_READERS = {
    "probing": results.probing,
    "fragility": results.fragility,
    "foundations": experiments.foundations,
    "tracing": experiments.tracing,
}


@dataclass
class Published:
    """What a folder holds, in the form of our own summaries, by rising step.

    Attributes:
        probing: probe summaries, as `tables.probing_rows` and `trajectory_rows` take them.
        fragility: fragility summaries with the raw control on the sampled grid, for `fragility_rows` and
            `trajectory_rows`; they have no geometry and no ceiling, so there is no scale table of them.
        foundations: one dict a checkpoint; its `groups` maps each foundation to its accuracies and peak.
        tracing: one dict a checkpoint, with the mean indirect effect by layer.
        training: one dict a LoRA condition; its snapshots are in `probing` and `fragility`, under the model
            `{model}-lora-{condition}`.
        skipped: JSON files that are no results of these kinds.
    """

    probing: list[Summary] = field(default_factory=list)
    fragility: list[Summary] = field(default_factory=list)
    foundations: list[Summary] = field(default_factory=list)
    tracing: list[Summary] = field(default_factory=list)
    training: list[Summary] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def read_directory(
    directory: str | os.PathLike[str], *, dataset: str, model: str | None = None, seed: int | None = None
) -> Published:
    """Read every result file below a folder: layer probe, fragility, foundations, LoRA, causal tracing.

    A checkpoint's files stand in a folder of its own, of any name, which becomes the revision; file names do
    not matter. The step is the file's `checkpoint_step` (also inside `model_info`), else the number in the
    folder's name (`step1000`, `stage1-step1000-tokens3B`, `1000`); 0 is a step. A critical noise of null is
    a censored layer. One folder is of one dataset.

    Args:
        dataset: the name under which the results are to stand; the files do not say it.
        model: the same; by default the last part of the files' own model name.
        seed: of the split, where it is known; the files do not say it.

    Raises:
        StrataprobeError: a file has faults (all of all files are listed with file and field), two files are
            of the same thing, or there is no result file at all.
    """
    root = Path(directory)
    if not root.is_dir():
        raise StrataprobeError(f"{root} is not a folder; a published source is a folder of result files")
    found, faults = Published(), []
    given: dict[str, Any] = {"dataset": dataset, "seed": UNKNOWN_SEED if seed is None else seed}
    for path in sorted(root.rglob("*.json")):
        try:
            obj = read_json(path)
        except StrataprobeError as error:
            faults.append(str(error))
            continue
        source = Fields(obj if isinstance(obj, dict) else {}, path.relative_to(root).as_posix())
        kind = _kind(source.obj)
        if kind is None:
            found.skipped.append(source.file)
            continue
        for part, frame in _frames(source, kind, path, model, given):
            _add(found, kind, part, frame)
        faults += source.faults
    faults += _twice(found)
    if faults:
        raise StrataprobeError(listing(str(root), faults))
    if not any((found.probing, found.fragility, found.foundations, found.tracing)):
        raise StrataprobeError(
            f"{root} holds no result file; known are {', '.join(sorted(_KINDS))} (field 'benchmark_name')"
        )
    for summaries in (found.probing, found.fragility, found.foundations, found.tracing):
        summaries.sort(key=lambda summary: (summary["model"], summary["step"], summary["revision"]))
    return found


def _kind(obj: dict[str, Any]) -> str | None:
    named = obj.get("benchmark_name")
    if isinstance(named, str) and named in _KINDS:
        return _KINDS[named]
    found = next((kind for sign, kind in _SIGNS.items() if sign in obj), None)
    if found != "checkpoints":
        return found
    entries = obj["per_checkpoint"]
    first = next(iter(entries.values()), None) if isinstance(entries, dict) else None
    return found if isinstance(first, dict) and {"probe", "fragility"} & set(first) else None


def _frames(
    source: Fields, kind: str, path: Path, model: str | None, given: dict[str, Any]
) -> Iterator[tuple[Fields, Frame]]:
    """The parts of a file that are of one checkpoint each, with their frames."""
    info = source.obj.get("model_info")
    named = info.get("name") if isinstance(info, dict) else source.obj.get("model")
    named = model or (named.rsplit("/", 1)[-1].lower() if isinstance(named, str) and named else None)
    if named is None:
        source.fault("model_info.name", "is missing, and no model name was given")
    shared = {**given, "model": named or "", "file": source.file, "sha256": sha256_file(path)}
    if kind == "checkpoints":
        entries = source.inner("per_checkpoint")
        for name in entries.obj:
            entry = entries.inner(name)
            step = entry.whole("step")
            revision = entry.obj.get("revision") or f"step{name}"
            yield entry, Frame(**shared, revision=revision, step=-1 if step is None else step)
        return
    step, folder = _step(source, required=kind != "lora")
    yield source, Frame(**shared, revision=folder or f"step{step}", step=step)


def _step(source: Fields, *, required: bool) -> tuple[int, str | None]:
    """A file's step, and the name of its checkpoint's folder, if it stands in one."""
    info = source.inner("model_info", required=False)
    stated = source.whole("checkpoint_step", required=False)
    inside = info.whole("checkpoint_step", required=False)
    folder = Path(source.file).parent.name or None
    match = _STEP.search(folder or "")
    numbered = match.group(1) if match else folder if folder and folder.isdigit() else None
    said = {
        name: step
        for name, step in (
            ("checkpoint_step", stated),
            ("model_info.checkpoint_step", inside),
            (f"the folder {folder}", None if numbered is None else int(numbered)),
        )
        if step is not None
    }
    if required and len(set(said.values())) > 1:
        source.fault(
            "", "has several steps: " + ", ".join(f"{name} says {step}" for name, step in said.items())
        )
    if required and not said:
        source.fault("", "has no step: neither 'checkpoint_step' nor a folder named after it, like step1000")
    return next(iter(said.values()), 0), folder


def _add(found: Published, kind: str, source: Fields, frame: Frame) -> None:
    if kind == "lora":
        probes, curves, training = experiments.lora(source, frame)
        found.probing += probes
        found.fragility += curves
        found.training.append(training)
    elif kind == "checkpoints":
        if "probe" in source.obj:
            found.probing.append(results.probing(source.inner("probe"), frame))
        if "fragility" in source.obj:
            found.fragility.append(results.fragility(source.inner("fragility"), frame))
    else:
        getattr(found, kind).append(_READERS[kind](source, frame))


def _twice(found: Published) -> list[str]:
    """Two results of the same thing: which is meant cannot be known."""
    faults = []
    for kind in ("probing", "fragility", "foundations", "tracing"):
        seen: dict[tuple[Any, ...], str] = {}
        for summary in getattr(found, kind):
            if not summary:
                continue
            key = (summary["model"], summary["step"])
            file = summary["provenance"]["file"]
            if key in seen:
                faults.append(f"{file}: {kind} of {key[0]} at step {key[1]} stands in {seen[key]} already")
            seen.setdefault(key, file)
    return faults
