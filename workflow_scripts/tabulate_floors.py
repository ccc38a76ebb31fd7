"""The table of all datasets' lexical floors."""

from strataprobe import files, tables
from strataprobe.logs import job_log


def main(measured, out):
    rows = tables.floor_rows([files.read_json(path) for path in measured])
    tables.write_csv(out, rows, tables.COLUMNS["floors"])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(snakemake.input.floors, snakemake.output.table)
