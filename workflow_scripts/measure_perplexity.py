"""Perplexity of a fixed text under each checkpoint, with and without a BOS."""

from pathlib import Path

from strataprobe import checkpoints, files, lm
from strataprobe.lm.memory import keep_freed_memory
from strataprobe.logs import job_log, progress
from strataprobe.perplexity.measure import measure
from strataprobe.provenance import made_from, provenance

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy")


def main(identities, weights, text, outputs, *, settings, disk_gigabytes=None, placements=None):
    settings = dict(settings)
    layers, threads = settings.pop("layers"), settings["threads"]
    words = Path(text).read_text(encoding="utf-8")
    opened = checkpoints.opened(identities, weights, disk_gigabytes=disk_gigabytes)
    each = zip(opened, outputs, strict=True)
    for (identity, directory, adapter), path in progress(
        each, total=len(outputs), desc="checkpoints", unit="checkpoint"
    ):
        loaded = lm.load(
            directory,
            adapter=adapter,
            dtype=settings["dtype"],
            device=settings["device"],
            layers=layers,
            placement=(placements or {}).get(identity["model"]),
        )
        made = provenance(
            "perplexity",
            settings | {"device": loaded.device},
            packages=PACKAGES,
            **made_from(identity),
            text=text,
            text_sha256=files.sha256_file(text),
        )
        whose = {key: identity[key] for key in ("model", "revision", "step")}
        files.write_json(path, {**whose, **measure(loaded, words, threads=threads), "provenance": made})


if __name__ == "__main__":
    keep_freed_memory()
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.identities,
            snakemake.input.get("weights", []),
            snakemake.input.text,
            list(snakemake.output),
            settings=snakemake.params.perplexity,
            disk_gigabytes=snakemake.config.get("downloads", {}).get("disk_gigabytes"),
            placements=lm.placements(snakemake.config),
        )
