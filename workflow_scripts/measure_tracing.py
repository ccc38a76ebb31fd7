"""Causal tracing of pairs, loading each checkpoint once."""

from strataprobe import files, lm, probes, tracing
from strataprobe.capture import Settings, running
from strataprobe.datasets.reading import read_dataset
from strataprobe.lm.memory import keep_freed_memory
from strataprobe.logs import counted, job_log

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy")


def main(identities, weights, summaries, runs, *, datasets, settings, disk_gigabytes=None, placements=None):
    capture = dict(settings["capture"])
    layers = capture.pop("layers", None)
    capture = Settings(**capture)
    bundle = [read_dataset(entry) for entry in datasets]
    places = zip(summaries, runs, strict=True)
    each = running.loaded(
        identities, weights, capture, layers=layers, disk_gigabytes=disk_gigabytes, placements=placements
    )
    for identity, loaded in each:
        for dataset in bundle:
            summary, rows = next(places)
            with counted(desc=f"sentences of {dataset.name}", unit="sentence") as shown:
                found = tracing.measure(loaded, dataset, settings, progress=shown)
            write(found, summary, rows, loaded, dataset, identity, settings)


def write(found, summary, runs, loaded, dataset, identity, settings):
    measured, rows = found
    files.write_json(
        summary,
        probes.framed(
            measured,
            benchmark="causal_tracing",
            identity=identity,
            dataset=dataset.name,
            seed=settings["tracing"]["seed"],
            metadata={"conventions": settings["tracing"]["conventions"], "chat": settings["chat"]},
            settings=settings,
            activations=running.made_from("tracing", loaded, dataset, identity, packages=PACKAGES),
        ),
    )
    tracing.write_rows(runs, rows)


if __name__ == "__main__":
    keep_freed_memory()
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.identities,
            snakemake.input.get("weights", []),
            snakemake.output.summaries,
            snakemake.output.runs,
            datasets=snakemake.params.datasets,
            settings=snakemake.params.tracing,
            disk_gigabytes=snakemake.config.get("downloads", {}).get("disk_gigabytes"),
            placements=lm.placements(snakemake.config),
        )
