"""Check what a dataset's profile promises, gate by gate. What is not kept is reported, and is no error."""

from strataprobe import files
from strataprobe.datasets import gates
from strataprobe.datasets.pairs import read_pairs
from strataprobe.logs import job_log


def main(path, lists, out, *, dataset, profile, thresholds):
    pairs = read_pairs(path, dataset)
    found = gates.check(pairs, profile=profile, thresholds=thresholds, **lists)
    files.write_json(out, gates.report(found, pairs, profile=profile))


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.dataset,
            {name: path for name, path in snakemake.input.items() if name != "dataset"},
            snakemake.output.gates,
            **snakemake.params.gates,
        )
