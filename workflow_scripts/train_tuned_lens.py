"""Train a tuned lens for one checkpoint on a text corpus, one text a line."""

from pathlib import Path

import torch

from strataprobe import checkpoints, files, lm
from strataprobe.errors import DatasetError
from strataprobe.lm.memory import keep_freed_memory
from strataprobe.logs import job_log, progress
from strataprobe.provenance import made_from
from strataprobe.readout import train_tuned


def main(identity, weights, corpus, out, *, settings, disk_gigabytes=None, placements=None):
    training = dict(settings["training"])
    torch.set_num_threads(settings["threads"])
    ((checkpoint, directory, adapter),) = checkpoints.opened(
        [identity], weights, disk_gigabytes=disk_gigabytes
    )
    loaded = lm.load(
        directory,
        adapter=adapter,
        dtype=settings["dtype"],
        device=settings["device"],
        layers=settings.get("layers"),
        placement=(placements or {}).get(checkpoint["model"]),
        batch_tokens=training["batch_tokens"],
    )
    bar = progress((), total=training["steps"], desc="steps", unit="step")

    def shown(_step, divergence):
        bar.set_postfix(kl=f"{divergence:.3f}", refresh=False)
        bar.update(1)

    facts = made_from(checkpoint) | {"corpus_sha256": files.sha256_file(corpus)}
    train_tuned(loaded, read_corpus(corpus), settings=training, facts=facts, progress=shown).save(out)
    bar.close()


def read_corpus(path):
    """The lines of a text file that are not empty."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"cannot read the corpus {path}: {error}") from error
    texts = [line for line in lines if line.strip()]
    if not texts:
        raise DatasetError(f"{path}: no texts in the corpus (one a line)")
    return texts


if __name__ == "__main__":
    keep_freed_memory()
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.identity,
            snakemake.input.get("weights", []),
            snakemake.input.corpus,
            snakemake.output[0],
            settings=snakemake.params.tuned_lens,
            disk_gigabytes=snakemake.config.get("downloads", {}).get("disk_gigabytes"),
            placements=lm.placements(snakemake.config),
        )
