"""Probes of each group by itself for one (model, dataset, seed), revision by revision."""

from strataprobe import cache, files, probes
from strataprobe.logs import job_log, progress
from strataprobe.probes import by_group
from strataprobe.provenance import made_from


def main(caches, identities, outputs, *, dataset, seed, settings):
    probe = {**settings["probe"], "permutations": settings["permutations"]}
    places = list(zip(caches, identities, outputs, strict=True))
    for path, identity, out in progress(places, desc="checkpoints", unit="checkpoint"):
        checkpoint = files.read_json(identity)
        with cache.open_activations(path, made_from(checkpoint)) as acts:
            problem = probes.Problem.of(
                acts, seed=seed, pooling=probe["pooling"], test_fraction=probe["test_fraction"]
            )
            result = probes.framed(
                by_group.measure(problem, acts.groups, seed=seed, settings=probe),
                benchmark="foundation_specific_probe",
                identity=checkpoint,
                dataset=dataset,
                seed=seed,
                metadata={**by_group.metadata(probe), "pooling": probe["pooling"]},
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
            seed=int(snakemake.wildcards.seed),
            settings=snakemake.params.foundations,
        )
