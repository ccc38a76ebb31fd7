"""Differences between the conditions of one LoRA experiment on one dataset, with their intervals."""

from strataprobe import tabular
from strataprobe.curation import differences, margins
from strataprobe.logs import job_log, progress


def main(probes, caches, out, *, experiment):
    columns = tabular.COLUMNS["curation_differences"]
    if not probes:  # a study with gaps, in which nothing can be compared yet
        tabular.write_csv(out, [], columns)
        return
    found = {}
    checkpoints = margins.checkpoints(experiment, experiment["seeds"], probes, caches)
    for checkpoint in progress(checkpoints, desc="checkpoints", unit="checkpoint"):
        found |= margins.read(checkpoint)
    curation = experiment["curation"]
    resampled = differences.Resampled(
        found,
        levels=experiment["noise_levels"]["raw"],
        threshold=experiment["threshold"],
        bootstrap=curation["bootstrap"],
        seed=curation["seed"],
    )
    rows = differences.difference_rows(
        resampled,
        matched_within=curation["matched_within"],
        experiment=experiment["name"],
        **{name: experiment[name] for name in ("dataset", "conventions", "pooling")},
    )
    tabular.write_csv(out, rows, columns)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.probes,
            snakemake.input.caches,
            snakemake.output[0],
            experiment=snakemake.params.experiment,
        )
