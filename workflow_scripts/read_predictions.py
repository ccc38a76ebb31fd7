"""The lucky-defaults diagnostic on a csv of predictions that were made elsewhere."""

from strataprobe import concentration, files, routing
from strataprobe.logs import job_log
from strataprobe.provenance import provenance

PACKAGES = ("numpy", "scipy")


def main(predictions, out, *, model, dataset, partition, settings):
    of = {name: side for side, classes in partition.items() for name in classes}
    read = concentration.read_predictions(predictions, concentration.Partition(tuple(partition), of))
    thresholds = concentration.Thresholds.of(settings["concentration"])
    result = {
        "benchmark_name": "routing",
        "model": model,
        "revision": "main",
        "step": None,
        "dataset": dataset,
        "seed": None,
        **routing.summary_of(read, thresholds=thresholds, settings=settings["routing"]),
        "provenance": provenance(
            "routing", settings, packages=PACKAGES, predictions_sha256=files.sha256_file(predictions)
        ),
    }
    files.write_json(out, result)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.predictions,
            snakemake.output[0],
            **snakemake.params.predictions,
        )
