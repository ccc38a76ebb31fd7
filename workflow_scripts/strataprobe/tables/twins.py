"""Which checkpoints have byte-identical weights: the same grouping for every table.

The room `checkpoints` knows twins too, but would bring the hub's client into whatever reads a table.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

Name = TypeVar("Name", bound=Hashable)


def twins(checkpoints: Iterable[tuple[Name, str | None]]) -> dict[Name, list[Name]]:
    """For each name, the others whose weights have the same checksum, in the order given.

    Args:
        checkpoints: (name, checksum of the weights); a name may come more than once. None has no twins.
    """
    checksums = dict(checkpoints)
    groups: dict[str, list[Name]] = {}
    for name, checksum in checksums.items():
        if checksum is not None:
            groups.setdefault(checksum, []).append(name)
    return {
        name: [other for other in groups.get(checksum or "", []) if other != name]
        for name, checksum in checksums.items()
    }


def twin_column(summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    """For each summary, the other revisions of its model here with the same weights, ";" between them.

    Args:
        summaries: each with `model`, `revision` and, in the frame, the checksum of the weights; one without
            it (results that others published) has no twins.
    """
    names = [(summary.get("model"), summary.get("revision")) for summary in summaries]
    checksums = [_checksum(summary) for summary in summaries]
    # The model goes with the checksum, so that another model's twin is none here.
    keyed = [
        None if checksum is None else f"{model}/{checksum}"
        for (model, _), checksum in zip(names, checksums, strict=True)
    ]
    beside = twins(zip(names, keyed, strict=True))
    return [";".join(str(revision) for _, revision in beside[name]) for name in names]


def _checksum(summary: Mapping[str, Any]) -> str | None:
    extra = (summary.get("model_info") or {}).get("extra") or {}
    return extra.get("weights_sha256")
