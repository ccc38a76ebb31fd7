"""The table of activation patching of one (model, dataset)."""

from strataprobe import files, tables
from strataprobe.logs import job_log


def main(summaries, out, *, settings):
    rows = tables.patching_rows([files.read_json(path) for path in summaries], settings)
    tables.write_csv(out, rows, tables.COLUMNS["patching"])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.summaries,
            snakemake.output.patching,
            settings=snakemake.params.patching,
        )
