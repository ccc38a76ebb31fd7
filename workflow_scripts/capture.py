"""Capture the activations of a bundle of datasets, loading each checkpoint once."""

from itertools import repeat
from pathlib import Path

from strataprobe import checkpoints, files, lm
from strataprobe.capture import Settings
from strataprobe.capture.caching import capture_dataset
from strataprobe.datasets.reading import read_dataset
from strataprobe.lm.memory import keep_freed_memory
from strataprobe.logs import job_log, progress


def main(identities, weights, caches, *, datasets, capture):
    layers = capture.pop("layers")
    settings = Settings(**capture)
    bundle = [read_dataset(entry) for entry in datasets]
    made = [Path(path).parent for path in weights] or repeat(None)
    places = (caches[start : start + len(bundle)] for start in range(0, len(caches), len(bundle)))
    jobs = list(zip(map(files.read_json, identities), made, places, strict=False))
    for identity, directory, outputs in progress(
        jobs, total=len(jobs), desc="checkpoints", unit="checkpoint"
    ):
        loaded = lm.load(
            checkpoints.open_weights(identity, directory),
            dtype=settings.dtype,
            device=settings.device,
            layers=layers,
        )
        for dataset, path in zip(bundle, outputs, strict=True):
            capture_dataset(loaded, dataset, path, identity=identity, settings=settings)


if __name__ == "__main__":
    keep_freed_memory()
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.identities,
            snakemake.input.get("weights", []),
            list(snakemake.output),
            datasets=snakemake.params.datasets,
            capture=dict(snakemake.params.capture),
        )
