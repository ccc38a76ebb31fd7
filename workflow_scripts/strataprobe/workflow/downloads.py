"""Whether the weights that jobs fetch at the same time have room, before any of them begins."""

from strataprobe.config import Study
from strataprobe.errors import ConfigError


def refuse_more_than_fit(study: Study, at_once: int | None) -> None:
    """Refuse a run whose jobs could fetch more at once than the study allows on the disk.

    Args:
        at_once: how many jobs may fetch at the same time; None where nothing bounds it.

    Raises:
        ConfigError: says what they could take, and how many would fit. Sizes that no list of revisions has
            are not known, and not counted.
    """
    allowed = study.config.downloads.disk_gigabytes
    known = [
        (revision.bytes / 1e9, f"{model.name} {revision.name}")
        for model in study.models.values()
        for revision in model.revisions
        if revision.bytes is not None
    ]
    if allowed is None or not known:
        return
    largest, name = max(known)
    if largest > allowed:
        raise ConfigError(
            f"downloads.disk_gigabytes: {allowed:g} does not hold {name}, which takes {largest:.1f}; at "
            f"least {largest:.1f} would be right"
        )
    together = sum(sorted((size for size, _ in known), reverse=True)[:at_once])
    if at_once is not None and together > allowed:
        raise ConfigError(
            f"downloads.disk_gigabytes: {at_once} jobs at once may fetch {together:.1f}, more than "
            f"{allowed:g}; run with --resources downloads={int(allowed // largest)}, or raise it"
        )
