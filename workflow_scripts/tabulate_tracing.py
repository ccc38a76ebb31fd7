"""The table of causal tracing of one (model, dataset), beside where its probes peak."""

from strataprobe import files, tables
from strataprobe.logs import job_log
from strataprobe.published import read_numbers


def main(summaries, probes, numbers, table):
    read = [[files.read_json(path) for path in paths] for paths in (summaries, probes)]
    tables.write_csv(table, tables.tracing_rows(*read, read_numbers([numbers])), tables.COLUMNS["tracing"])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.summaries,
            snakemake.input.get("probes", []),
            snakemake.input.numbers,
            snakemake.output.tracing,
        )
