"""The probing table of one (model, dataset)."""

from strataprobe import files, tables
from strataprobe.logs import job_log


def main(probes, probing):
    rows = tables.probing_rows([files.read_json(path) for path in probes])
    tables.write_csv(probing, rows, tables.COLUMNS["probing"])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(snakemake.input.probes, snakemake.output.probing)
