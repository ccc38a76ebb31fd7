"""When the mean accuracy of one (model, dataset) reaches the onset level, by seed and for the seeds' mean."""

from strataprobe import files, tables
from strataprobe.logs import job_log


def main(probes, out, *, settings):
    summaries = [files.read_json(path) for path in probes]
    rows = tables.onset_rows(
        summaries, settings["threshold"], replicates=settings["bootstrap"], seed=settings["seed"]
    )
    tables.write_csv(out, rows, tables.COLUMNS["onsets"])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(snakemake.input.probes, snakemake.output.onsets, settings=snakemake.params.onsets)
