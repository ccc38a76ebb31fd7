"""The groups of one (model, dataset of pairs) as the classes of a probe, coarsened, revision by revision."""

from strataprobe import cache, files, probes, routing
from strataprobe.concentration import Partition, Thresholds
from strataprobe.logs import job_log, progress
from strataprobe.provenance import made_from


def main(caches, identities, outputs, *, dataset, partition, settings):
    sides = Partition(
        tuple(partition), {group: side for side, groups in partition.items() for group in groups}
    )
    places = list(zip(caches, identities, outputs, strict=True))
    for path, identity, out in progress(places, desc="checkpoints", unit="checkpoint"):
        checkpoint = files.read_json(identity)
        with cache.open_activations(path, made_from(checkpoint)) as acts:
            rows = routing.many_class_rows(
                acts.stack(settings["pooling"]),
                acts.ids,
                acts.labels,
                acts.groups,
                name=" | ".join(partition),
                dataset=dataset,
                partition=sides,
                settings=settings["routing"],
                thresholds=Thresholds.of(settings["concentration"]),
            )
            result = probes.framed(
                {"many_class": rows},
                benchmark="many_class",
                identity=checkpoint,
                dataset=dataset,
                seed=None,
                metadata={
                    "solver": "logistic",
                    "C": settings["routing"]["C"],
                    "pooling": settings["pooling"],
                },
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
            dataset=snakemake.wildcards.dataset,
            partition=snakemake.params.many_class["partition"],
            settings=snakemake.params.many_class["settings"],
        )
