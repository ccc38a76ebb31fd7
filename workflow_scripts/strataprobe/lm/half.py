"""Whether a CPU computes in bfloat16, or only stores it so."""

import logging

import torch

_UNITS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 BF16", "bf16": "BF16", "sve_bf16": "SVE BF16"}
"""Of x86, then of ARM, by the names that torch has for them."""


def bfloat16_units() -> list[str]:
    """This CPU's units for bfloat16, which torch's matrix products use; without one they have to convert."""
    there = torch.cpu.get_capabilities()
    return [unit for name, unit in _UNITS.items() if there.get(name)]


def warn_if_slow(name: str, dtype: str, device: str) -> None:
    """Say in the log that half precision gains nothing on this CPU; the dtype stays what was asked for."""
    if device != "cpu" or dtype == "float32" or (dtype == "bfloat16" and bfloat16_units()):
        return
    # Measured, docs/large_models.md.
    reason = (
        f"this CPU has no unit for bfloat16 ({', '.join(_UNITS.values())})"
        if dtype == "bfloat16"
        else "CPUs hardly compute in float16"
    )
    logging.getLogger("strataprobe").warning(
        "%s: dtype %s takes half the memory, but float32 is as fast or faster here: %s", name, dtype, reason
    )
