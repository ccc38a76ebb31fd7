"""The same job through the library: one capture, then probes and fragility of each seed, and all their files.

`python -m bench.ours JOB.json` runs it as a process of its own.
"""

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from strataprobe import cache, checkpoints, files, fragility, lm, probes
from strataprobe.capture import Settings
from strataprobe.capture.caching import capture_dataset
from strataprobe.datasets.pairs import read_pairs
from strataprobe.lm.memory import keep_freed_memory


def run(job: dict[str, Any]) -> None:
    """Capture once, then measure every seed from the same cache, as many at a time as there are threads."""
    out, stages = Path(job["out"]), job["stages"]
    settings = Settings(**stages["capture"])
    identity = checkpoints.identify_directory(
        job["checkpoint"], model="bench", revision="main", step=None, source="local", layers=None
    )
    dataset = read_pairs(job["dataset"], "moral")
    loaded = lm.load(job["checkpoint"], dtype=settings.dtype, device=settings.device)
    capture_dataset(loaded, dataset, out / "moral.h5", identity=identity, settings=settings)
    jobs = [(out, seed, stages, identity) for seed in job["seeds"]]
    if len(jobs) == 1:
        measure(*jobs[0])
        return
    # Seeds are jobs of their own in the workflow; forked, they need not load anything again.
    with ProcessPoolExecutor(job["threads"], multiprocessing.get_context("fork")) as pool:
        list(pool.map(measure, *zip(*jobs, strict=True)))


def measure(out: Path, seed: int, stages: dict[str, Any], identity: dict[str, Any]) -> None:
    """Probes and fragility of one seed, written as the workflow writes them."""
    with cache.open_activations(out / "moral.h5") as acts:
        _measure(acts, out / f"seed{seed}", seed, stages, identity)


def _measure(
    acts: cache.ActivationCache, out: Path, seed: int, stages: dict[str, Any], identity: dict[str, Any]
) -> None:
    probe, noise = stages["probe"], stages["fragility"]
    problem = probes.Problem.of(
        acts, seed=seed, pooling=probe["pooling"], test_fraction=probe["test_fraction"]
    )
    trained, layers, summary = probes.measure(problem, seed=seed, settings=probe)
    curves, curve_summary = fragility.measure(trained, problem, acts, seed=seed, settings=noise)
    shared = {"identity": identity, "dataset": "moral", "seed": seed, "activations": acts.provenance}
    about = probes.metadata(problem, probe)
    for name, records, result, used in (
        ("probes", layers, summary, probe),
        ("fragility", curves, curve_summary, noise),
    ):
        for layer, record in enumerate(records):
            files.write_json(out / name / f"layer{layer:02d}.json", record)
        framed = probes.framed(result, benchmark=name, metadata=about, settings=used, **shared)
        files.write_json(out / name / "summary.json", framed)
    probes.save(out / "probes" / "weights.h5", trained, problem, probe)


if __name__ == "__main__":
    keep_freed_memory()
    run(files.read_json(sys.argv[1]))
