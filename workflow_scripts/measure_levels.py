"""Behaviour and LM-head readout of control items, loading each checkpoint once."""

from itertools import repeat

from strataprobe import behavior as deployment
from strataprobe import files, lm, probes
from strataprobe import readout as lens
from strataprobe.capture import Settings, running
from strataprobe.datasets.reading import read_dataset
from strataprobe.lm.memory import keep_freed_memory
from strataprobe.logs import job_log, progress

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "scipy")


def main(
    identities,
    weights,
    behavior,
    items,
    readout,
    *,
    datasets,
    settings,
    tuned=(),
    disk_gigabytes=None,
    placements=None,
):
    capture = dict(settings["capture"])
    layers = capture.pop("layers", None)
    capture = Settings(**capture)
    bundle = [read_dataset(entry) for entry in datasets]
    each = running.loaded(
        identities, weights, capture, layers=layers, disk_gigabytes=disk_gigabytes, placements=placements
    )
    outputs = zip(behavior, items, readout, strict=True)
    shown = Shown(len(identities) * len(bundle))
    for (identity, loaded), maps in zip(each, tuned or repeat(None), strict=False):
        own = lens.load_tuned(maps, loaded) if maps else None
        for dataset in bundle:
            found = lens.measure_levels(loaded, dataset, settings, tuned=own, progress=shown.texts)
            write(found, next(outputs), loaded, dataset, identity, settings, own)
            shown.done()


class Shown:
    """One progress bar over the texts of all jobs."""

    def __init__(self, jobs):
        self.jobs, self.bar = jobs, progress((), desc="continuations", unit="text")

    def texts(self, count, of_this_job):
        # The jobs to come are taken to have as many texts as this one: most often they are the same.
        if self.bar.total is None or self.bar.total <= self.bar.n:
            self.bar.total = self.bar.n + of_this_job * self.jobs
        self.bar.update(count)

    def done(self):
        self.jobs -= 1
        self.bar.total = None if self.jobs else self.bar.total
        if not self.jobs:
            self.bar.close()


def write(found, places, loaded, dataset, identity, settings, tuned):
    deployed, rows, read = found
    behavior, items, readout = places
    definitions = settings["readout"]["definitions"]
    common = {
        "identity": identity,
        "dataset": dataset.name,
        "seed": None,
        "settings": settings,
        "activations": running.made_from(
            "levels",
            loaded,
            dataset,
            identity,
            packages=PACKAGES,
            tuned_lens=dict(tuned.facts) if tuned else None,
        ),
    }
    metadata = {"conventions": settings["readout"].get("conventions", "default"), "chat": settings["chat"]}
    files.write_json(
        behavior, probes.framed(deployed, benchmark="control_behavior", metadata=metadata, **common)
    )
    deployment.write_rows(items, rows)
    metadata = metadata | {"definitions": definitions}
    files.write_json(readout, probes.framed(read, benchmark="control_readout", metadata=metadata, **common))


if __name__ == "__main__":
    keep_freed_memory()
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.identities,
            snakemake.input.get("weights", []),
            snakemake.output.behavior,
            snakemake.output.scores,
            snakemake.output.readout,
            datasets=snakemake.params.datasets,
            settings=snakemake.params.levels,
            tuned=snakemake.input.get("tuned", []),
            disk_gigabytes=snakemake.config.get("downloads", {}).get("disk_gigabytes"),
            placements=lm.placements(snakemake.config),
        )
