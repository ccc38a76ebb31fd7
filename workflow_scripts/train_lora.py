"""Fine-tune a base checkpoint by LoRA: every adapter with its identity, the loss, and the corpus' card."""

from pathlib import Path

from strataprobe import checkpoints, files, lm
from strataprobe.curation import lora, reading, training
from strataprobe.curation.packing import joined, pack, token_stream
from strataprobe.lm.memory import keep_freed_memory
from strataprobe.logs import job_log, progress
from strataprobe.provenance import made_from, provenance

PACKAGES = ("torch", "transformers", "tokenizers", "peft", "safetensors", "numpy")


def main(base, weights, adapters, identities, loss, card, *, run, scratch, disk_gigabytes=None):
    source, directories = run["source"], [Path(path).parent for path in adapters]
    settings = lora.Settings(**source["training"])
    ((identity, directory, _adapter),) = checkpoints.opened([base], weights, disk_gigabytes=disk_gigabytes)
    loaded = lm.load(directory, dtype=run["dtype"], device=run["device"], layers=run["layers"])
    corpora = [reading.read(entry) for entry in run["corpora"]]
    streams = [token_stream(loaded, [text.text for text in one.texts], name=one.name) for one in corpora]
    rows = pack(
        joined(loaded, streams),
        sequence_length=settings.sequence_length,
        tokens=source["tokens"],
        name=source["condition"],
    )
    by_step = dict(zip((step for _, step in run["revisions"]), directories, strict=True))
    training.train(
        loaded,
        rows,
        settings,
        seed=source["seed"],
        base=identity,
        out_for=by_step.__getitem__,
        scratch=Path(scratch),
        loss_csv=Path(loss),
        threads=source["threads"],
        progress=progress,
    )
    places = zip(run["revisions"], directories, identities, strict=True)
    for (revision, step), adapter, path in places:
        made_in = Path(weights[0]).parent if weights else None
        found = checkpoints.identify_adapted(
            identity, made_in, adapter, model=run["model"], revision=revision, step=step
        )
        files.write_json(path, found)
    counted = reading.card(
        corpora,
        [len(stream) for stream in streams],
        rows.size,
        rows=len(rows),
        steps=settings.steps,
        batch_size=settings.batch_size,
    )
    made = provenance(
        "lora", source, packages=PACKAGES, device=loaded.device, dtype=loaded.dtype, base=made_from(identity)
    )
    files.write_json(
        card, {"model": run["model"], "condition": source["condition"], **counted, "provenance": made}
    )


if __name__ == "__main__":
    keep_freed_memory()
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.base,
            snakemake.input.get("weights", []),
            snakemake.output.adapters,
            snakemake.output.identities,
            snakemake.output.loss,
            snakemake.output.card,
            run=snakemake.params.run,
            scratch=snakemake.params.scratch,
            disk_gigabytes=snakemake.config.get("downloads", {}).get("disk_gigabytes"),
        )
