"""The table of all datasets' gates."""

from strataprobe import files, tables
from strataprobe.logs import job_log


def main(reports, out):
    rows = tables.gate_rows([files.read_json(path) for path in reports])
    tables.write_csv(out, rows, tables.COLUMNS["gates"])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(snakemake.input.gates, snakemake.output.table)
