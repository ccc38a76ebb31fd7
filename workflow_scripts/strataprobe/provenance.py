"""What a result was made with: it travels inside the result."""

import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Installed versions of Python and of `packages` (those that are not installed are left out)."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return dict(sorted(found.items()))


def provenance(
    stage: str, settings: dict[str, Any], *, packages: Iterable[str], **facts: Any
) -> dict[str, Any]:
    """Provenance block of a result: stage, settings used, software, and what it was made from.

    No wall-clock time and no host name: equal inputs give equal bytes.
    """
    return {"stage": stage, "settings": settings, "software": versions(packages), **facts}


def made_from(identity: Mapping[str, Any]) -> dict[str, Any]:
    """What a result keeps of the checkpoint it was made from: names and checksums.

    Of a checkpoint with an adapter on it, also those of its base and of the adapter; `weights_sha256` is then
    over both.
    """
    kept = {key: identity[key] for key in ("model", "revision", "weights_sha256", "tokenizer_sha256")}
    if "adapter_sha256" in identity:
        kept["adapter_sha256"] = identity["adapter_sha256"]
        kept["base_weights_sha256"] = identity["base"]["weights_sha256"]
    return kept
