"""Causal tracing of pairs, loading each checkpoint once."""

from functools import partial

from strataprobe import checkpoints, files, lm, probes, tracing
from strataprobe.capture import Settings
from strataprobe.datasets.reading import read_dataset
from strataprobe.lm.memory import keep_freed_memory
from strataprobe.logs import job_log, progress
from strataprobe.provenance import provenance

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy")


def main(identities, weights, summaries, runs, *, datasets, settings, disk_gigabytes=None, placements=None):
    capture = dict(settings["capture"])
    layers = capture.pop("layers", None)
    capture = Settings(**capture)
    bundle = [read_dataset(entry) for entry in datasets]
    places = zip(summaries, runs, strict=True)
    for identity, directory in checkpoints.opened(identities, weights, disk_gigabytes=disk_gigabytes):
        loaded = lm.load(
            directory,
            dtype=capture.dtype,
            device=capture.device,
            layers=layers,
            placement=(placements or {}).get(identity["model"]),
            batch_tokens=capture.batch_tokens,
            threads=capture.threads,
        )
        for dataset in bundle:
            summary, rows = next(places)
            with progress((), desc=f"sentences of {dataset.name}", unit="sentence") as bar:
                found = tracing.measure(loaded, dataset, settings, progress=partial(show, bar))
            write(found, summary, rows, loaded, dataset, identity, settings)


def show(bar, count, total):
    bar.total = total
    bar.update(count)


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
            activations=made_from(loaded, dataset, identity),
        ),
    )
    tracing.write_rows(runs, rows)


def made_from(loaded, dataset, identity):
    """What the scores belong to: checkpoint, pairs and how the model was run."""
    return provenance(
        "tracing",
        {"device": loaded.device, "dtype": loaded.dtype, "shares_rows": loaded.sharing_limit > 0},
        packages=PACKAGES,
        model=identity["model"],
        revision=identity["revision"],
        weights_sha256=identity["weights_sha256"],
        tokenizer_sha256=identity["tokenizer_sha256"],
        dataset=dataset.name,
        dataset_sha256=dataset.sha256,
    )


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
