"""Lift: how far a probe decodes a group above what its words alone give.

Source: fragility paper, sections 3.2 and 4.1 (1b).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from strataprobe.errors import ProbeError, listing


def lift(
    within_group: Mapping[str, Mapping[str, Any]],
    floors: Mapping[str, float | None],
    *,
    singled_out: Sequence[str] = (),
) -> dict[str, Any]:
    """Decodability within each group minus the group's floor.

    At two layers: `best`, the group's own best layer (as published; a maximum over layers, so optimistic),
    and `whole_set_layer`, the layer that is best over all groups in distribution.

    Args:
        within_group: as `transfer.measure` returns it.
        floors: {group: accuracy of its floor, or None where it has none}.
        singled_out: groups to repeat by themselves; those not here are passed over.

    Returns:
        `groups`: {group: {floor, best: {accuracy, layer, lift}, whole_set_layer: {...}}}; `mean`: {best,
        whole_set_layer} over the groups; `singled_out`: {group: ...}. A group whose floor is None has a lift
        of None, and so has the mean.

    Raises:
        ProbeError: a group without a floor, or a floor outside 0 to 1; names all.
    """
    _refuse(within_group, floors)
    groups = {}
    for name, found in within_group.items():
        best = found["best"], found["layer"]
        whole = found["at_whole_set_layer"], found["whole_set_layer"]
        groups[name] = {
            "floor": floors[name],
            "best": _above(*best, floors[name]),
            "whole_set_layer": _above(*whole, floors[name]),
        }
    return {
        "groups": groups,
        "mean": {at: _mean([group[at]["lift"] for group in groups.values()]) for at in _LAYERS},
        "singled_out": {name: groups[name] for name in singled_out if name in groups},
    }


_LAYERS = ("best", "whole_set_layer")


def _above(accuracy: float, layer: int, floor: float | None) -> dict[str, Any]:
    return {"accuracy": accuracy, "layer": layer, "lift": None if floor is None else accuracy - floor}


def _mean(lifts: list[float | None]) -> float | None:
    known = [value for value in lifts if value is not None]
    return sum(known) / len(known) if known and len(known) == len(lifts) else None


def _refuse(within_group: Mapping[str, Any], floors: Mapping[str, float | None]) -> None:
    faults = [f"group '{name}' has no floor" for name in within_group if name not in floors]
    for name, floor in floors.items():
        if floor is not None and not 0 <= floor <= 1:
            faults.append(f"group '{name}': floor {floor} is not between 0 and 1")
    if faults:
        raise ProbeError(listing("lift over the floor", faults))
