"""Figures, one module a kind. Importing this imports no drawing library.

Every module has `draw(<tables>, *, title, ...)`, which returns a matplotlib figure and writes nothing;
`style.save` writes it.
"""

from importlib import import_module
from types import ModuleType

from strataprobe.errors import StrataprobeError

KINDS: dict[str, str] = {
    "saturation": "strataprobe.figures.saturation",
    "depth": "strataprobe.figures.depth",
    "noise_curves": "strataprobe.figures.noise_curves",
    "scale": "strataprobe.figures.scale",
    "layer_profile": "strataprobe.figures.layer_profile",
    "loss": "strataprobe.figures.loss",
    "emergence": "strataprobe.figures.emergence",
    "transfer": "strataprobe.figures.transfer",
    "foundations": "strataprobe.figures.foundations",
    "controls": "strataprobe.figures.controls",
    "floors": "strataprobe.figures.floors",
    "gates": "strataprobe.figures.gates",
    "levels": "strataprobe.figures.levels",
    "recoverability_depth": "strataprobe.figures.recoverability_depth",
    "levels_tuning": "strataprobe.figures.levels_tuning",
    "deployment_gap": "strataprobe.figures.deployment_gap",
    "order_bias": "strataprobe.figures.order_bias",
    "verb_out": "strataprobe.figures.verb_out",
    "levels_training": "strataprobe.figures.levels_training",
    "routing_matrix": "strataprobe.figures.routing_matrix",
    "routing_paths": "strataprobe.figures.routing_paths",
    "routing_plane": "strataprobe.figures.routing_plane",
    "routing_sensitivity": "strataprobe.figures.routing_sensitivity",
    "many_class": "strataprobe.figures.many_class",
    "steering": "strataprobe.figures.steering",
    "tracing_layers": "strataprobe.figures.tracing_layers",
    "tracing_depth": "strataprobe.figures.tracing_depth",
    "checkpoints": "strataprobe.figures.checkpoints",
    "patching_depth": "strataprobe.figures.patching_depth",
    "patching_cells": "strataprobe.figures.patching_cells",
    "curation": "strataprobe.figures.curation",
    "curation_heatmaps": "strataprobe.figures.curation_heatmaps",
    "curation_loss": "strataprobe.figures.curation_loss",
    "curation_differences": "strataprobe.figures.curation_differences",
}


def module(kind: str) -> ModuleType:
    """The module that draws figures of this kind.

    Raises:
        StrataprobeError: there is no such kind; names those there are.
    """
    if kind not in KINDS:
        raise StrataprobeError(f"no figure kind '{kind}'; there are: {', '.join(sorted(KINDS))}")
    return import_module(KINDS[kind])
