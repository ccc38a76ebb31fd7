"""List what the repositories of a study's models have, each ref with its commit; estimate the download."""

from strataprobe import revisions
from strataprobe.checkpoints import resolve
from strataprobe.errors import CheckpointError, listing
from strataprobe.logs import job_log


def main(models, megabytes_per_second, log):
    found, faults = [], []
    for model in models:
        place = revisions.place(model["model"])
        # One with faults, or of another repository, is written anew like one that is not there.
        known = revisions.read(place, place, [])
        try:
            resolved = resolve.resolve(model["model"], model["repo"], model["revisions"], known=known)
        except CheckpointError as error:
            faults.append(f"models.{model['model']}: {error}")
            continue
        revisions.write(place, resolved.table)
        found.append(resolved)
        faults += resolved.faults
    log.info("%s", resolve.report(found, megabytes_per_second))
    if faults:
        raise CheckpointError(listing("revisions that the hub does not have as asked", faults))


if __name__ == "__main__":
    with job_log(snakemake.log[0]) as job:
        main(**snakemake.params.hub, log=job)
