"""The same job through the library: one capture, then probes and fragility of each seed, and all their files.

`python -m bench.ours JOB.json` runs it as a process of its own.
"""

import multiprocessing
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from strataprobe import cache, checkpoints, files, fragility, lm, probes
from strataprobe.capture import Settings
from strataprobe.capture.caching import capture_dataset
from strataprobe.datasets.pairs import read_pairs
from strataprobe.lm.memory import keep_freed_memory


def run(job: dict[str, Any]) -> None:
    """Capture once, then measure every seed from the same cache, as many at a time as there are threads."""
    out, stages = Path(job["out"]), job["stages"]
    settings = Settings(**stages["capture"])
    dataset = read_pairs(job["dataset"], "moral")
    with ThreadPoolExecutor(1) as beside:  # checksums, while the model is loaded
        checksums = beside.submit(
            checkpoints.identify_directory,
            job["checkpoint"], model="bench", revision="main", step=None, source="local", layers=None,
        )  # fmt: skip
        loaded = lm.load(job["checkpoint"], dtype=settings.dtype, device=settings.device)
        identity = checksums.result()
    capture_dataset(loaded, dataset, out / "moral.h5", identity=identity, settings=settings)
    with cache.open_activations(out / "moral.h5") as acts:
        acts.stack("mean"), acts.stack("mean_rest")
        if len(job["seeds"]) == 1:
            measure_all(acts, out, job["seeds"], stages, identity)
            return
        # Forked, they need not load anything again.
        fork = multiprocessing.get_context("fork")
        workers = [
            fork.Process(
                target=measure_all, args=(acts, out, job["seeds"][first :: job["threads"]], stages, identity)
            )
            for first in range(job["threads"])
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if any(worker.exitcode for worker in workers):
            raise RuntimeError("a seed could not be measured; see above")


def measure_all(
    acts: cache.ActivationCache, out: Path, seeds: list[int], stages: dict[str, Any], identity: dict[str, Any]
) -> None:
    """These seeds, one after the other, on one core: what a seed's job has in the workflow."""
    with threadpool_limits(1):
        for seed in seeds:
            measure(acts, out, seed, stages, identity)


def measure(
    acts: cache.ActivationCache, out: Path, seed: int, stages: dict[str, Any], identity: dict[str, Any]
) -> None:
    """Probes and fragility of one seed, written as the workflow writes them."""
    out, probe, noise = out / f"seed{seed}", stages["probe"], stages["fragility"]
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
