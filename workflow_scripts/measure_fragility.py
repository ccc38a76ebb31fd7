"""Fragility of the probes of one (model, dataset, seed), revision by revision: a curve a layer, a summary."""

from strataprobe import cache, files, fragility, probes
from strataprobe.layout import by_checkpoint
from strataprobe.logs import job_log, progress
from strataprobe.provenance import made_from


def main(activations, identity, weights, layers, summary, *, dataset, seed, settings):
    checkpoint = files.read_json(identity)
    with cache.open_activations(activations, made_from(checkpoint)) as acts:
        trained, problem, trained_with = probes.load(weights, acts)
        curves, measured = fragility.measure(trained, problem, acts, seed=seed, settings=settings)
        result = probes.framed(
            measured,
            benchmark="moral_fragility_test",
            identity=checkpoint,
            dataset=dataset,
            seed=seed,
            metadata={
                **probes.metadata(problem, trained_with),
                "fragility_threshold": settings["threshold"],
                "noise_levels": settings["noise_levels"],
                "draws": settings["draws"],
            },
            settings={**settings, "probe": trained_with},
            activations=acts.provenance,
        )
    for path, curve in zip(layers, curves, strict=True):
        files.write_json(path, curve)
    files.write_json(summary, result)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        given, made = snakemake.input, snakemake.output
        layers = by_checkpoint(made.layers, len(made.summaries))
        places = zip(given.activations, given.identities, given.weights, layers, made.summaries, strict=True)
        for place in progress(list(places), desc="checkpoints", unit="checkpoint"):
            main(
                *place,
                dataset=snakemake.wildcards.dataset,
                seed=int(snakemake.wildcards.seed),
                settings=snakemake.params.fragility,
            )
