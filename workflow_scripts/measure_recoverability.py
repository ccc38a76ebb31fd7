"""Probe recoverability of one (model, control dataset), revision by revision."""

from strataprobe import cache, files, probes, recoverability
from strataprobe.datasets.reading import read_dataset
from strataprobe.logs import job_log, progress
from strataprobe.provenance import made_from


def main(caches, identities, outputs, *, dataset, settings):
    control = read_dataset(dataset)
    sentences = control.items().sha256
    places = list(zip(caches, identities, outputs, strict=True))
    for path, identity, out in progress(places, desc="checkpoints", unit="checkpoint"):
        checkpoint = files.read_json(identity)
        expected = made_from(checkpoint) | {"dataset_sha256": sentences}
        with cache.open_activations(path, expected) as acts:
            states, first = recoverability.read_states(acts)
            result = probes.framed(
                recoverability.measure(states, control, first_layer=first, settings=settings),
                benchmark="control_recoverability",
                identity=checkpoint,
                dataset=control.name,
                seed=None,
                metadata={"solver": "adam", "n_epochs": settings["epochs"], "lr": settings["learning_rate"]},
                settings=settings,
                activations=acts.provenance,
            )
        files.write_json(out, result)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.activations,
            snakemake.input.identities,
            list(snakemake.output),
            dataset=snakemake.params.dataset,
            settings=snakemake.params.recoverability,
        )
