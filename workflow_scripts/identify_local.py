"""Identify a checkpoint in a user's own directory."""

from strataprobe import checkpoints, files
from strataprobe.logs import job_log


def main(settings, identity):
    directory = settings["source"]["directory"].replace("{revision}", settings["ref"])
    found = checkpoints.identify_directory(
        directory,
        model=settings["model"],
        revision=settings["revision"],
        step=settings["step"],
        source="local",
        layers=settings["layers"],
    )
    files.write_json(identity, found)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(snakemake.params.revision, snakemake.output.identity)
