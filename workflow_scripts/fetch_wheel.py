"""Fetch a model shipped in a wheel, convert it once, and write its identity."""

from pathlib import Path

from strataprobe import checkpoints, files
from strataprobe.checkpoints import wheel
from strataprobe.logs import job_log


def main(model, layers, source, revisions, *, weights, identities):
    for (revision, step), place, path in zip(revisions, weights, identities, strict=True):
        directory = Path(place).parent
        made_from = wheel.make(source, directory)
        identity = checkpoints.identify_directory(
            directory,
            model=model,
            revision=revision,
            step=step,
            source="wheel",
            layers=layers,
            origin=made_from,
        )
        files.write_json(path, identity)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        settings = snakemake.params.wheel
        main(
            settings["model"],
            settings["layers"],
            settings["source"],
            settings["revisions"],
            weights=snakemake.output.weights,
            identities=snakemake.output.identities,
        )
