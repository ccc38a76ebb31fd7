"""The checkpoints of a job, loaded one after the other, and what results of running them belong to."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from strataprobe import checkpoints, lm, provenance
from strataprobe.capture.windows import Settings


def loaded(
    identities: Sequence[str],
    weights: Sequence[str],
    settings: Settings,
    *,
    layers: int | None,
    disk_gigabytes: float | None = None,
    placements: Mapping[str, lm.Placement] | None = None,
) -> Iterator[tuple[dict[str, Any], lm.LoadedLM]]:
    """Each checkpoint's identity and the checkpoint, loaded when it is its turn.

    Args:
        identities, weights, disk_gigabytes: see `checkpoints.opened`.
        settings: how it is run.
        layers: blocks the study says it has, or None.
        placements: where weights go, by model; the others are on one device.

    Raises:
        CheckpointError, ModelError: see `checkpoints.open_weights` and `lm.load`.
    """
    opened = checkpoints.opened(identities, weights, disk_gigabytes=disk_gigabytes)
    for identity, directory, adapter in opened:
        yield (
            identity,
            lm.load(
                directory,
                adapter=adapter,
                dtype=settings.dtype,
                device=settings.device,
                layers=layers,
                placement=(placements or {}).get(identity["model"]),
                batch_tokens=settings.batch_tokens,
                threads=settings.threads,
            ),
        )


def made_from(
    stage: str,
    model: lm.LoadedLM,
    dataset: Any,
    identity: Mapping[str, Any],
    *,
    packages: Sequence[str],
    **further: Any,
) -> dict[str, Any]:
    """What scores belong to: checkpoint, items and how the model was run.

    Args:
        dataset: with its `name` and `sha256`.
        packages: whose versions are kept.
        further: what else a stage's scores hang on.
    """
    return provenance.provenance(
        stage,
        {"device": model.device, "dtype": model.dtype, "shares_rows": model.sharing_limit > 0},
        packages=packages,
        **provenance.made_from(identity),
        dataset=dataset.name,
        dataset_sha256=dataset.sha256,
        **further,
    )
