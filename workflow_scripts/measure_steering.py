"""Steering and the amnesic check on control items, loading each checkpoint once."""

from strataprobe import files, lm, probes, steering
from strataprobe.capture import Settings, running
from strataprobe.datasets.reading import read_dataset
from strataprobe.lm.memory import keep_freed_memory
from strataprobe.logs import counted, job_log

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "scipy", "concept-erasure")


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
            with counted(desc=f"steered items of {dataset.name}", unit="item") as shown:
                found = steering.measure(loaded, dataset, files.read_json(probed), settings, progress=shown)
            write(found, summary, rows, loaded, dataset, identity, settings)


def write(found, summary, runs, loaded, dataset, identity, settings):
    measured, rows = found
    files.write_json(
        summary,
        probes.framed(
            measured,
            benchmark="control_steering",
            identity=identity,
            dataset=dataset.name,
            seed=settings["steering"]["seed"],
            metadata={"conventions": settings["steering"]["conventions"], "chat": settings["chat"]},
            settings=settings,
            activations=running.made_from("steering", loaded, dataset, identity, packages=PACKAGES),
        ),
    )
    steering.write_rows(runs, rows)


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
            settings=snakemake.params.steering,
            disk_gigabytes=snakemake.config.get("downloads", {}).get("disk_gigabytes"),
            placements=lm.placements(snakemake.config),
        )
