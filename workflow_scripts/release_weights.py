"""Drop what this workflow fetched of a revision's weights, now that the study is done with them."""

from strataprobe import files
from strataprobe.checkpoints import fetched
from strataprobe.checkpoints.disk import size
from strataprobe.logs import job_log


def main(identity, note, log):
    checkpoint = files.read_json(identity)
    name = f"{checkpoint['model']}/{checkpoint['revision']}"
    freed, needed = fetched.release(checkpoint["repo"], checkpoint["commit"], name)
    if needed:
        log.info("kept: another checkpoint or study still needs what was fetched")
    else:
        log.info("%s freed", size(freed))
    files.write_json(note, {name: checkpoint[name] for name in ("model", "revision", "repo", "commit")})


if __name__ == "__main__":
    with job_log(snakemake.log[0]) as log:
        main(snakemake.input.identity, snakemake.output[0], log)
