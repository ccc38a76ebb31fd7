"""Capture the activations of a bundle of datasets, loading each checkpoint once."""

from strataprobe import lm
from strataprobe.capture import Settings, running
from strataprobe.capture.caching import capture_dataset
from strataprobe.datasets.reading import read_dataset
from strataprobe.lm.memory import keep_freed_memory
from strataprobe.logs import job_log, progress


def main(identities, weights, caches, *, datasets, capture, disk_gigabytes=None, placements=None):
    layers = capture.pop("layers")
    settings = Settings(**capture)
    bundle = [read_dataset(entry) for entry in datasets]
    places = (caches[start : start + len(bundle)] for start in range(0, len(caches), len(bundle)))
    each = running.loaded(
        identities, weights, settings, layers=layers, disk_gigabytes=disk_gigabytes, placements=placements
    )
    jobs = zip(each, places, strict=True)
    for (identity, loaded), outputs in progress(
        jobs, total=len(identities), desc="checkpoints", unit="checkpoint"
    ):
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
            disk_gigabytes=snakemake.config.get("downloads", {}).get("disk_gigabytes"),
            placements=lm.placements(snakemake.config),
        )
