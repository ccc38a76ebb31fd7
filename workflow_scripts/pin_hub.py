"""Pin a revision of a hub repository to its commit."""

from strataprobe import checkpoints, files
from strataprobe.logs import job_log


def main(settings, identity):
    pinned = checkpoints.pin(
        settings["source"]["repo"],
        settings["ref"],
        model=settings["model"],
        revision=settings["revision"],
        step=settings["step"],
        layers=settings["layers"],
        commit=settings.get("commit"),
    )
    files.write_json(identity, pinned)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(snakemake.params.revision, snakemake.output.identity)
