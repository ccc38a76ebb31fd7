"""Lexical floors of one dataset: what a bag of words reaches on its pairs, without a model."""

from strataprobe import files
from strataprobe.datasets import floors
from strataprobe.datasets.pairs import read_pairs
from strataprobe.logs import job_log
from strataprobe.provenance import provenance


def main(path, out, *, dataset, seeds, test_fraction, **settings):
    pairs = read_pairs(path, dataset)
    found = floors.measure(pairs, seeds=seeds, settings=settings, test_fraction=test_fraction)
    made = provenance(
        "floors",
        {**settings, "seeds": seeds, "test_fraction": test_fraction},
        packages=("numpy", "scikit-learn"),
        dataset_sha256=pairs.sha256,
    )
    files.write_json(out, {"dataset": dataset, **found, "provenance": made})


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(snakemake.input.dataset, snakemake.output.floors, **snakemake.params.floors)
