"""Fine-tune a base checkpoint by LoRA: every adapter with its identity, the loss, and the corpus' card."""

from pathlib import Path

from strataprobe import checkpoints, files, lm
from strataprobe.curation import lora, reading, training
from strataprobe.curation.packing import joined, pack, token_stream
from strataprobe.layout import by_checkpoint
from strataprobe.lm.memory import keep_freed_memory
from strataprobe.logs import job_log, progress
from strataprobe.provenance import made_from, provenance

PACKAGES = ("torch", "transformers", "tokenizers", "peft", "safetensors", "numpy")


def main(base, weights, adapters, identities, losses, cards, *, runs, scratch, code="", disk_gigabytes=None):
    """One run after the other, on the base that is loaded once; all of one device, dtype and base."""
    ((identity, directory, _adapter),) = checkpoints.opened([base], weights, disk_gigabytes=disk_gigabytes)
    first = runs[0]
    loaded = lm.load(directory, dtype=first["dtype"], device=first["device"], layers=first["layers"])
    own = (by_checkpoint(paths, len(runs)) for paths in (adapters, identities))
    clears = []
    for run, places, names, loss, card in zip(runs, *own, losses, cards, strict=True):
        directories = [Path(path).parent for path in places]
        counted, clear = train(
            loaded,
            identity,
            directories,
            Path(loss),
            run=run,
            scratch=Path(scratch) / run["model"],
            code=code,
        )
        made_in = Path(weights[0]).parent if weights else None
        for (revision, step), adapter, path in zip(run["revisions"], directories, names, strict=True):
            found = checkpoints.identify_adapted(
                identity, made_in, adapter, model=run["model"], revision=revision, step=step
            )
            files.write_json(path, found)
        files.write_json(card, counted)
        clears.append(clear)
    # Not before everything is written: a job that is killed loses its outputs, and goes on from there.
    for clear in clears:
        clear()


def train(loaded, identity, directories, loss, *, run, scratch, code):
    """One run; returns what it was trained on, and what removes its state from scratch."""
    source, settings = run["source"], lora.Settings(**run["source"]["training"])
    corpora = [reading.read(entry) for entry in run["corpora"]]
    streams = [token_stream(loaded, [text.text for text in one.texts], name=one.name) for one in corpora]
    rows = pack(
        joined(loaded, streams),
        sequence_length=settings.sequence_length,
        tokens=source["tokens"],
        name=source["condition"],
    )
    by_step = dict(zip((step for _, step in run["revisions"]), directories, strict=True))
    clear = training.train(
        loaded,
        rows,
        settings,
        seed=source["seed"],
        base=identity,
        out_for=by_step.__getitem__,
        scratch=scratch,
        loss_csv=loss,
        threads=source["threads"],
        code=code,
        progress=progress,
        clear=False,
    )
    ends = [len(joined(loaded, streams[: place + 1])) for place in range(len(streams))]
    passes = settings.steps * settings.batch_size / len(rows)
    counted = reading.card(corpora, ends, [len(stream) for stream in streams], rows, passes)
    how = {"device": loaded.device, "dtype": loaded.dtype, "base": made_from(identity)}
    made = provenance("lora", {**source, "corpora": run["corpora"]}, packages=PACKAGES, **how)
    return {"model": run["model"], "condition": source["condition"], **counted, "provenance": made}, clear


if __name__ == "__main__":
    keep_freed_memory()
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.base,
            snakemake.input.get("weights", []),
            snakemake.output.adapters,
            snakemake.output.identities,
            snakemake.output.losses,
            snakemake.output.cards,
            runs=snakemake.params.runs,
            scratch=snakemake.params.scratch,
            code=snakemake.params.code,
            disk_gigabytes=snakemake.config.get("downloads", {}).get("disk_gigabytes"),
        )
