"""Pre-train a model of this project's own, from the corpus to all its checkpoints and their identities."""

from pathlib import Path

from strataprobe import checkpoints, files, pretraining
from strataprobe.lm.memory import keep_freed_memory
from strataprobe.logs import job_log, progress


def main(model, layers, source, revisions, *, corpus, weights, identities, loss, scratch, code=""):
    directories = {step: Path(path).parent for (_, step), path in zip(revisions, weights, strict=True)}
    settings = {**source, "architecture": {**source["architecture"], "layers": layers}}
    clear = pretraining.pretrain(
        settings,
        seed=source["seed"],
        resources=corpus,
        out_for=directories.__getitem__,
        scratch=Path(scratch),
        loss_csv=Path(loss),
        code=code,
        progress=progress,
        clear=False,
    )
    for (revision, step), path in zip(revisions, identities, strict=True):
        identity = checkpoints.identify_directory(
            directories[step], model=model, revision=revision, step=step, source="pretrain", layers=layers
        )
        files.write_json(path, identity)
    clear()  # not before: a job that is killed loses its outputs, and goes on from there


if __name__ == "__main__":
    keep_freed_memory()
    with job_log(snakemake.log[0]):
        settings = snakemake.params.pretraining
        main(
            settings["model"],
            settings["layers"],
            settings["source"],
            settings["revisions"],
            corpus=Path(snakemake.input.corpus[0]).parent,
            weights=snakemake.output.weights,
            identities=snakemake.output.identities,
            loss=snakemake.output.loss,
            scratch=snakemake.params.scratch,
            code=snakemake.params.code,
        )
