"""The table of one model's checkpoints: what each is, how it predicts a fixed text, what is odd about it."""

from strataprobe import files, tables
from strataprobe.logs import job_log


def main(identities, perplexities, table, *, model, limits):
    read = [[files.read_json(path) for path in paths] for paths in (identities, perplexities)]
    tables.write_csv(table, tables.checkpoint_rows(model, *read, limits), tables.COLUMNS["checkpoints"])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.get("identities", []),
            snakemake.input.get("perplexities", []),
            snakemake.output.table,
            model=snakemake.wildcards.model,
            limits=snakemake.params.limits,
        )
