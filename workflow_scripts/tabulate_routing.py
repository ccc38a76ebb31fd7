"""The tables of where probes of many classes send words, of one (model, vocabulary)."""

from strataprobe import files, tables
from strataprobe.logs import job_log


def main(summaries, outputs):
    read = [files.read_json(path) for path in summaries]
    for table, path in outputs.items():
        tables.write_csv(path, tables.routing_rows(table, read), tables.COLUMNS[table])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(snakemake.input.summaries, dict(snakemake.output.items()))
