"""Capture the states at the anchors of one (model, vocabulary), revision by revision."""

from itertools import repeat
from pathlib import Path

from strataprobe import checkpoints, files, lm
from strataprobe.capture import Settings
from strataprobe.capture.chosen import capture_vocabulary
from strataprobe.datasets.reading import read_dataset
from strataprobe.lm.memory import keep_freed_memory
from strataprobe.logs import job_log, progress


def main(identities, weights, caches, *, dataset, capture, blocks):
    layers = capture.pop("layers")
    settings = Settings(**capture)
    vocabulary = read_dataset(dataset)
    made = [Path(path).parent for path in weights] or repeat(None)
    jobs = zip(map(files.read_json, identities), made, caches, strict=False)
    with progress((), total=len(caches) * len(vocabulary.stimuli), desc="stimuli", unit="stimulus") as bar:
        for identity, directory, path in jobs:
            loaded = lm.load(
                checkpoints.open_weights(identity, directory),
                dtype=settings.dtype,
                device=settings.device,
                layers=layers,
            )
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
        )
