"""The checkpoints of all models in one table, and as a page to read."""

from strataprobe import tables
from strataprobe.logs import job_log


def main(parts, table, page):
    tables.concatenate(parts, table)
    tables.write_checkpoints_page(page, tables.read_rows(table))


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(snakemake.input.parts, snakemake.output.table, snakemake.output.page)
