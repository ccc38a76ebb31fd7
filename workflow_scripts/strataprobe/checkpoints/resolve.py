"""What a hub repository has for a study: every ref with its commit, what is missing, and what fetching costs.

The only time the hub is asked which revisions there are; no weights are fetched.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strataprobe import revisions
from strataprobe.checkpoints import disk, hub
from strataprobe.checkpoints.disk import size
from strataprobe.checkpoints.identity import SINGLE, missing_files, wanted_files
from strataprobe.errors import CheckpointError, numbered
from strataprobe.logs import progress

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

# Refs that no listing has: a commit (or its first digits), and what the hub keeps of pull requests.
_UNLISTED = re.compile(r"[0-9a-f]{7,40}|refs/.+")


@dataclass(frozen=True)
class File:
    """One file of a revision: its content's checksum, its size in bytes, whether the hub's cache has it."""

    content: str
    bytes: int
    cached: bool
    weights: bool


@dataclass
class Resolved:
    """A model's revisions as the hub has them now.

    Attributes:
        model: its name in the study.
        table: every ref of the repository.
        files: what a study fetches, by ref, of the revisions asked for.
        faults: what is missing or cannot be used, a text each.
    """

    model: str
    table: revisions.Table
    files: dict[str, list[File]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def twins(self) -> list[list[str]]:
        """Refs whose weights are byte for byte the same, a list of two or more a group."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for row in self.table.rows:
            weights = sorted(file.content for file in self.files.get(row.ref, ()) if file.weights)
            if weights:
                groups.setdefault(tuple(weights), []).append(row.ref)
        return [refs for refs in groups.values() if len(refs) > 1]


def resolve(
    model: str,
    repo: str,
    asked: Mapping[str, Any] | Sequence[str],
    *,
    known: revisions.Table | None = None,
    endpoint: str | None = None,
) -> Resolved:
    """List the refs of a repository and describe those that a study asks for.

    Args:
        model: its name in the study.
        repo: "owner/name".
        asked: a choice as `revisions.choose` takes it, or refs.
        known: an earlier list of it; sizes of its commits, which cannot change, are kept.
        endpoint: the hub to ask instead of the configured one.

    Raises:
        CheckpointError: no such repository, access refused, or no connection.
    """
    commits = hub.refs(repo, endpoint=endpoint)
    wanted, faults = _wanted(asked, revisions.listed(repo, commits, {}))
    files: dict[str, list[File]] = {}
    for ref in progress(wanted, total=len(wanted), desc=f"asking for {repo}", unit="revision"):
        try:
            info = hub.describe(repo, ref, endpoint=endpoint)
        except CheckpointError as error:
            if ref in commits:
                raise  # the hub has just listed it, so the others would fail as well
            faults.append(str(error))
            continue
        commits[ref] = info.sha
        files[ref] = _files(repo, info)
        faults += [f"{ref}: {fault}" for fault in missing_files(_top(info))]
    earlier = known.rows if known is not None and known.repo == repo else ()
    sizes = {row.ref: row.bytes for row in earlier if row.bytes and commits.get(row.ref) == row.commit}
    sizes |= {ref: sum(file.bytes for file in of_ref) for ref, of_ref in files.items()}
    table = revisions.listed(repo, commits, sizes)
    return Resolved(model, table, files, [f"models.{model}.revisions: {fault}" for fault in faults])


def _wanted(asked: Mapping[str, Any] | Sequence[str], table: revisions.Table) -> tuple[list[str], list[str]]:
    """The refs asked for of which the repository may have one, and a text for each other."""
    if isinstance(asked, Mapping):
        rows, faults = revisions.choose(asked, table)
        return [row.ref for row in rows], faults
    refs = list(dict.fromkeys(asked))
    gone = [ref for ref in refs if ref not in table.by_ref and not _UNLISTED.fullmatch(ref)]
    faults = [f"{table.repo} has no ref {ref!r}; {revisions.instead(ref, table)}" for ref in gone]
    return [ref for ref in refs if ref not in gone], faults


def _top(info: "ModelInfo") -> dict[str, Any]:
    """The files of a revision that lie in no folder, by name."""
    return {entry.rfilename: entry for entry in info.siblings or [] if "/" not in entry.rfilename}


def _files(repo: str, info: "ModelInfo") -> list[File]:
    """What a study fetches of a revision, without having read which shards its index names."""
    there = _top(info)
    shards = [SINGLE] if SINGLE in there else [name for name in there if name.endswith(".safetensors")]
    return [
        File(
            content=there[name].lfs.sha256 if there[name].lfs else there[name].blob_id or name,
            bytes=there[name].size or 0,
            cached=hub.cached(repo, info.sha, name) is not None,
            weights=name in shards,
        )
        for name in wanted_files(there, shards)
    ]


def report(found: Sequence[Resolved], megabytes_per_second: float) -> str:
    """What was found, and an estimate of download, disk and time, as text.

    Args:
        found: the models of a study.
        megabytes_per_second: what to reckon with (10^6 bytes).
    """
    if not found:
        return "there is no model whose revisions the hub lists"
    lines = [line for resolved in found for line in _described(resolved)]
    files = [list(of_ref) for resolved in found for of_ref in resolved.files.values()]
    contents = {file.content: file for of_ref in files for file in of_ref}
    cached = {file.content for of_ref in files for file in of_ref if file.cached}
    fetched = sum(file.bytes for name, file in contents.items() if name not in cached)
    kept = sum(file.bytes for file in contents.values())
    largest = max((sum(file.bytes for file in of_ref) for of_ref in files), default=0)
    free = disk.free()
    lines += [
        f"all models: {numbered(len(files), 'revision')}",
        f"  to fetch  {size(fetched)}; {size(kept - fetched)} are in the hub's cache already",
        f"  on disk   {size(kept)} where all are kept, {size(largest)} for the largest revision alone; "
        f"{size(free)} are free where the cache lies",
        f"  time      {duration(fetched / (megabytes_per_second * 1e6))} at {megabytes_per_second:g} MB/s "
        "(downloads.megabytes_per_second in the config; 20 where it does not say)",
    ]
    if fetched > free:
        lines.append("  The disk cannot hold all of it at once: HF_HOME says where the cache lies")
    return "\n".join(lines)


def _described(resolved: Resolved) -> list[str]:
    """What there is of one model."""
    table = resolved.table
    contents = {file.content: file.bytes for files in resolved.files.values() for file in files}
    lines = [
        f"{resolved.model} ({table.repo}): {len(resolved.files)} of {numbered(len(table.rows), 'ref')}, "
        f"{size(sum(contents.values()))}; all are listed in {revisions.place(resolved.model)}"
    ]
    odd = [row.ref for row in table.rows if not row.said.understood]
    if odd:
        lines.append(f"  no known scheme, so ordered by name: {revisions.shortened(odd)}")
    lines += [f"  the same weights, byte for byte: {revisions.shortened(refs)}" for refs in resolved.twins]
    return lines


def duration(seconds: float) -> str:
    """Seconds in words: 3 h 23 min."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return "less than a minute"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
