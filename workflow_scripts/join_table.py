"""One table from its parts."""

from strataprobe import tabular
from strataprobe.logs import job_log


def main(parts, table):
    tabular.concatenate(parts, table)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(snakemake.input.parts, snakemake.output.table)
