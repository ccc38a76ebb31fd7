"""Where the probe peak stands: from there on layers are patched, and there states are steered."""

from collections.abc import Mapping
from typing import Any

from strataprobe.errors import StrataprobeError

_PREFERRED = {
    # As Table 1 of the paper has it.
    "published": (("paper", "item_out"), ("decorrelated", "item_out")),
    # As our three levels are compared: pairs left out together, the mean over seeds.
    "default": (
        *(("decorrelated", "pair_out"), ("decorrelated", "item_out")),
        *(("paper", "pair_out"), ("paper", "item_out")),
    ),
}
_PUBLISHED_SEED = "1729"


def probe_peak(recoverability: Mapping[str, Any], conventions: str) -> dict[str, Any]:
    """Layer and mode of the best probe of all items, and which probe that is.

    Args:
        recoverability: a checkpoint's summary.
        conventions: `published` takes the seed that the paper names, `default` the mean over seeds.

    Returns:
        `layer` (number in `hidden_states`), `block`, `depth`, `mode`, `accuracy`, `coding`, `scheme`, `seed`.

    Raises:
        StrataprobeError: the summary has no probe.
    """
    for coding, scheme in _PREFERRED[conventions]:
        own = recoverability["codings"].get(coding, {})
        found = (own if scheme == "item_out" else own.get(scheme, {})).get("pick")
        if found is None:  # the coding is not asked for, or the items do not allow the scheme
            continue
        seed = None
        if conventions == "published":
            seed = _PUBLISHED_SEED if _PUBLISHED_SEED in found["seeds"] else min(found["seeds"], key=int)
        pick = found["global"] if seed is None else found["seeds"][seed]
        named = {name: pick[name] for name in ("layer", "block", "depth", "mode", "accuracy")}
        return named | {"coding": coding, "scheme": scheme, "seed": None if seed is None else int(seed)}
    raise StrataprobeError(
        f"recoverability of {recoverability.get('model')} {recoverability.get('revision')} has no best "
        "layer, and interventions are compared with one"
    )
