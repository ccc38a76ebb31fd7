"""Where probes of many classes send the words of one (model, vocabulary), revision by revision."""

from strataprobe import cache, checkpoints, files, probes, routing
from strataprobe.concentration import Thresholds
from strataprobe.datasets.reading import read_dataset
from strataprobe.logs import job_log, progress
from strataprobe.provenance import made_from


def main(caches, identities, weights, summaries, predictions, *, dataset, layers, settings):
    vocabulary = read_dataset(dataset)
    stimuli = vocabulary.items().sha256
    thresholds = Thresholds.of(settings["concentration"])
    places = zip(
        caches, checkpoints.opened_tokenizers(identities, weights), summaries, predictions, strict=True
    )
    bar = progress((), desc="sets of probes", unit="set")
    for number, (path, (checkpoint, directory), summary, everything) in enumerate(places):
        tokenize = routing.read_tokenizer(directory)
        expected = made_from(checkpoint) | {"dataset_sha256": stimuli}
        with cache.open_activations(path, expected) as acts:

            def shown(done, of_all, before=number):
                bar.total = of_all * len(summaries)
                bar.update(before * of_all + done - bar.n)

            found, crossings = routing.measure(
                acts,
                vocabulary,
                tokenize,
                layers=layers,
                settings=settings["routing"],
                thresholds=thresholds,
                progress=shown,
            )
            result = probes.framed(
                found,
                benchmark="routing",
                identity=checkpoint,
                dataset=vocabulary.name,
                seed=None,
                metadata={"solver": "logistic", "C": settings["routing"]["C"]},
                settings=settings,
                activations=acts.provenance,
            )
        routing.write_predictions(everything, crossings, settings["routing"])
        files.write_json(summary, result)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.activations,
            snakemake.input.identities,
            snakemake.input.get("weights", []),
            snakemake.output.summaries,
            snakemake.output.predictions,
            dataset=snakemake.params.dataset,
            layers=snakemake.params.layers,
            settings=snakemake.params.routing,
        )
