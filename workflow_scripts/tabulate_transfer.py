"""The transfer table of one (model, dataset)."""

from strataprobe import files, tables
from strataprobe.logs import job_log


def main(summaries, out):
    rows = tables.transfer_rows([files.read_json(path) for path in summaries])
    tables.write_csv(out, rows, tables.COLUMNS["transfer"])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(snakemake.input.transfer, snakemake.output.transfer)
