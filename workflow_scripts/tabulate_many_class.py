"""The table of one (model, dataset of pairs) whose groups are the classes of a probe."""

from strataprobe import files, tables
from strataprobe.logs import job_log


def main(summaries, out):
    rows = tables.routing_rows("many_class", [files.read_json(path) for path in summaries])
    tables.write_csv(out, rows, tables.COLUMNS["many_class"])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(snakemake.input.summaries, snakemake.output.many_class)
