"""Rows of the three levels of control items: each accuracy and what they say together, layer by layer too."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from strataprobe.errors import StrataprobeError, listing
from strataprobe.tables.twins import twin_column
from strataprobe.tabular.columns import Row

if TYPE_CHECKING:
    from strataprobe.levels import Checkpoint
    from strataprobe.published import Numbers

Summary = Mapping[str, Any]


def levels_rows(
    behavior: Sequence[Summary],
    readout: Sequence[Summary],
    recoverability: Sequence[Summary],
    settings: Mapping[str, Any],
) -> list[Row]:
    """Every accuracy of every level, and surplus, ratio, deficit, order and erasure, with intervals.

    Args:
        behavior, readout, recoverability: summaries, one a checkpoint, in the same order.
        settings: `bootstrap` (replicates), `seed`, `conventions`.

    Raises:
        StrataprobeError: summaries of different checkpoints or items stand side by side, or a checkpoint is
            there twice.

    Source: levels paper, sections 3.2 and 4, appendix A.
    """
    from strataprobe.levels import Measured, observations  # numpy comes with it

    rows = []
    for key, checkpoint in _checkpoints(behavior, readout, recoverability, settings):
        for one in observations(Measured(checkpoint, settings)):
            rows.append(
                {
                    **key, "level": one.level, "measure": one.measure, "split": one.split,
                    "value": one.estimate.value, "interval_low": one.estimate.low,
                    "interval_high": one.estimate.high, "n": one.n, "clusters": one.clusters,
                    "note": one.note,
                }
            )  # fmt: skip
    return rows


def levels_layers_rows(
    behavior: Sequence[Summary],
    readout: Sequence[Summary],
    recoverability: Sequence[Summary],
    settings: Mapping[str, Any],
) -> list[Row]:
    """Readout and recoverability of every layer: hidden states as the paper counts them, blocks as we do.

    Args, raises: as `levels_rows`.
    """
    from strataprobe.levels import layer_observations

    rows = []
    for key, checkpoint in _checkpoints(behavior, readout, recoverability, settings):
        blocks = checkpoint.summaries["recoverability"]["layers"][-1]["layer"]
        for one in layer_observations(checkpoint):
            rows.append(
                {
                    **key, "level": one.level, "measure": one.measure, "mode": one.mode, "split": one.split,
                    "hidden_state": one.hidden_state,
                    "layer": one.hidden_state - 1 if one.hidden_state else None,
                    "depth": one.hidden_state / blocks, "value": one.value, "sd": one.sd, "note": one.note,
                }
            )  # fmt: skip
    return rows


def levels_models_rows(
    behavior: Sequence[Summary],
    readout: Sequence[Summary],
    recoverability: Sequence[Summary],
    models: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
    numbers: "Numbers | None" = None,
) -> list[Row]:
    """What several models show on each dataset, each at its last checkpoint, and what the paper prints of it.

    Args:
        behavior, readout, recoverability, settings: as `levels_rows`.
        models: `name`, and where there is one `base` (the model it was tuned from) and `family`.
        numbers: the published ones; without them nothing stands beside ours.

    Raises:
        StrataprobeError: as `levels_rows`; or models were measured on different items of a dataset.

    Source: levels paper, sections 4.1, 4.2 and 4.5.
    """
    from strataprobe.levels import Measured, over_models
    from strataprobe.published.levels_models import beside

    last: dict[str, dict[str, tuple[Row, Checkpoint]]] = {}
    for key, checkpoint in _checkpoints(behavior, readout, recoverability, settings):
        known = last.setdefault(key["dataset"], {})
        before = known.get(key["model"])
        if before is None or (key["step"] or 0) >= (before[0]["step"] or 0):
            known[key["model"]] = key, checkpoint
    rows = []
    for dataset, found in last.items():
        measured = {name: Measured(checkpoint, settings) for name, (_, checkpoint) in found.items()}
        for one in over_models(measured, models):
            rows.append(
                {
                    "quantity": one.name, "model": one.model, "other": one.other, "dataset": dataset,
                    "split": one.split, "value": one.estimate.value, "interval_low": one.estimate.low,
                    "interval_high": one.estimate.high, "note": one.note, **beside(one, dataset, numbers),
                }
            )  # fmt: skip
    return rows


def _checkpoints(
    behavior: Sequence[Summary],
    readout: Sequence[Summary],
    recoverability: Sequence[Summary],
    settings: Mapping[str, Any],
) -> Iterator[tuple[Row, "Checkpoint"]]:
    """Key columns and levels of each checkpoint."""
    from strataprobe.levels import read_checkpoint

    counts = {len(behavior), len(readout), len(recoverability)}
    if len(counts) > 1:
        raise StrataprobeError(
            f"levels: {len(behavior)} summaries of behaviour, {len(readout)} of readout and "
            f"{len(recoverability)} of recoverability; each checkpoint needs one of each"
        )
    keys = [{name: one[name] for name in ("model", "revision", "step", "dataset")} for one in behavior]
    twice = [key for place, key in enumerate(keys) if key in keys[:place]]
    if twice:
        said = [", ".join(f"{name} {value}" for name, value in key.items()) for key in twice]
        raise StrataprobeError(listing("levels", [f"there twice: {one}" for one in said]))
    columns = zip(keys, twin_column(behavior), behavior, readout, recoverability, strict=True)
    for key, twins, *summaries in columns:
        yield {**key, "twin_of": twins, "conventions": settings["conventions"]}, read_checkpoint(*summaries)
