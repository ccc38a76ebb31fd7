"""Train one linear probe per layer for one (model, dataset, seed), revision by revision."""

from strataprobe import cache, files, probes
from strataprobe.layout import by_checkpoint
from strataprobe.logs import job_log, progress
from strataprobe.provenance import made_from


def main(activations, identity, layers, weights, summary, *, dataset, seed, probe):
    checkpoint = files.read_json(identity)
    with cache.open_activations(activations, made_from(checkpoint)) as acts:
        problem = probes.Problem.of(
            acts, seed=seed, pooling=probe["pooling"], test_fraction=probe["test_fraction"]
        )
        trained, by_layer, measured = probes.measure(problem, seed=seed, settings=probe)
        result = probes.framed(
            measured,
            benchmark="layer_wise_moral_probe",
            identity=checkpoint,
            dataset=dataset,
            seed=seed,
            metadata=probes.metadata(problem, probe),
            settings=probe,
            activations=acts.provenance,
        )
    for path, record in zip(layers, by_layer, strict=True):
        files.write_json(path, record)
    probes.save(weights, trained, problem, probe)
    files.write_json(summary, result)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        given, made = snakemake.input, snakemake.output
        layers = by_checkpoint(made.layers, len(made.summaries))
        places = zip(given.activations, given.identities, layers, made.weights, made.summaries, strict=True)
        for place in progress(list(places), desc="checkpoints", unit="checkpoint"):
            main(
                *place,
                dataset=snakemake.wildcards.dataset,
                seed=int(snakemake.wildcards.seed),
                probe=snakemake.params.probe,
            )
