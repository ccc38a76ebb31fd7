"""The table of steering and the amnesic check, of one (model, control dataset)."""

from strataprobe import files, tables
from strataprobe.logs import job_log
from strataprobe.published import read_numbers


def main(summaries, numbers, table, *, tuned):
    read = [files.read_json(path) for path in summaries]
    rows = tables.steering_rows(read, read_numbers([numbers]), tuned=tuned)
    tables.write_csv(table, rows, tables.COLUMNS["steering"])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.summaries,
            snakemake.input.numbers,
            snakemake.output.steering,
            tuned=snakemake.params.tuned,
        )
