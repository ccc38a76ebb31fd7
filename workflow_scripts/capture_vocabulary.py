"""Capture the states at the anchors of one (model, vocabulary), revision by revision."""

from strataprobe import lm
from strataprobe.capture import Settings, running
from strataprobe.capture.chosen import capture_vocabulary
from strataprobe.datasets.reading import read_dataset
from strataprobe.lm.memory import keep_freed_memory
from strataprobe.logs import job_log, progress


def main(identities, weights, caches, *, dataset, capture, blocks, disk_gigabytes=None, placements=None):
    layers = capture.pop("layers")
    settings = Settings(**capture)
    vocabulary = read_dataset(dataset)
    each = running.loaded(
        identities, weights, settings, layers=layers, disk_gigabytes=disk_gigabytes, placements=placements
    )
    jobs = zip(each, caches, strict=True)
    with progress((), total=len(caches) * len(vocabulary.stimuli), desc="stimuli", unit="stimulus") as bar:
        for (identity, loaded), path in jobs:
            capture_vocabulary(
                loaded,
                vocabulary,
                path,
                layers=blocks,
                identity=identity,
                settings=settings,
                progress=bar.update,
            )


if __name__ == "__main__":
    keep_freed_memory()
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.identities,
            snakemake.input.get("weights", []),
            list(snakemake.output),
            dataset=snakemake.params.dataset,
            capture=dict(snakemake.params.capture),
            blocks=snakemake.params.blocks,
            disk_gigabytes=snakemake.config.get("downloads", {}).get("disk_gigabytes"),
            placements=lm.placements(snakemake.config),
        )
