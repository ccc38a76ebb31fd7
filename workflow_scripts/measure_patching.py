"""Activation patching of control items, loading each checkpoint once."""

from strataprobe import files, lm, probes
from strataprobe.capture import Settings, running
from strataprobe.datasets.reading import read_dataset
from strataprobe.lm.memory import keep_freed_memory
from strataprobe.logs import counted, job_log
from strataprobe.patching.measure import measure
from strataprobe.patching.rows import write_rows

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy")


def main(
    identities,
    weights,
    recoverability,
    summaries,
    runs,
    *,
    datasets,
    settings,
    disk_gigabytes=None,
    placements=None,
):
    capture = dict(settings["capture"])
    layers = capture.pop("layers", None)
    capture = Settings(**capture)
    bundle = [read_dataset(entry) for entry in datasets]
    places = zip(recoverability, summaries, runs, strict=True)
    each = running.loaded(
        identities, weights, capture, layers=layers, disk_gigabytes=disk_gigabytes, placements=placements
    )
    for identity, loaded in each:
        for dataset in bundle:
            probed, summary, rows = next(places)
            with counted(desc=f"runs of {dataset.name}", unit="run") as shown:
                found = measure(loaded, dataset, files.read_json(probed), settings, progress=shown)
            write(found, summary, rows, loaded, dataset, identity, settings)


def write(found, summary, runs, loaded, dataset, identity, settings):
    measured, rows = found
    files.write_json(
        summary,
        probes.framed(
            measured,
            benchmark="control_patching",
            identity=identity,
            dataset=dataset.name,
            seed=settings["patching"]["seed"],
            metadata={"conventions": settings["patching"]["conventions"], "chat": settings["chat"]},
            settings=settings,
            activations=running.made_from("patching", loaded, dataset, identity, packages=PACKAGES),
        ),
    )
    write_rows(runs, rows)


if __name__ == "__main__":
    keep_freed_memory()
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.identities,
            snakemake.input.get("weights", []),
            snakemake.input.recoverability,
            snakemake.output.summaries,
            snakemake.output.runs,
            datasets=snakemake.params.datasets,
            settings=snakemake.params.patching,
            disk_gigabytes=snakemake.config.get("downloads", {}).get("disk_gigabytes"),
            placements=lm.placements(snakemake.config),
        )
