"""The frame around a measure's numbers: whose they are and how they were made.

Field names from the fragility paper's appendix E.6, so that tools for its result files can read ours.
"""

from typing import Any

from strataprobe.provenance import provenance

PACKAGES = ("numpy", "scipy", "h5py", "scikit-learn")


def framed(
    summary: dict[str, Any],
    *,
    benchmark: str,
    identity: dict[str, Any],
    dataset: str,
    seed: int | None,
    metadata: dict[str, Any],
    settings: dict[str, Any],
    activations: dict[str, Any],
) -> dict[str, Any]:
    """A summary with its names, the reference's `model_info` and `metadata`, and its provenance.

    Args:
        summary: the measure's own fields.
        benchmark: what the reference calls the measure.
        identity: of the checkpoint.
        metadata: the fields the reference keeps there, and ours.
        settings: the stage's settings.
        activations: provenance of the cache the measure was taken from.
    """
    return {
        "benchmark_name": benchmark,
        "model_info": {
            "name": identity["model"],
            "provider": identity["source"],
            "access_tier": 3,
            "n_layers": identity["layers"],
            "n_params": identity.get("parameters"),
            "checkpoint_step": identity["step"],
            "extra": {"revision": identity["revision"], "weights_sha256": identity["weights_sha256"]},
        },
        "model": identity["model"],
        "revision": identity["revision"],
        "step": identity["step"],
        "checkpoint_step": identity["step"],
        "dataset": dataset,
        "seed": seed,
        **summary,
        "metadata": metadata,
        "provenance": provenance(benchmark, settings, packages=PACKAGES, seed=seed, activations=activations),
    }
