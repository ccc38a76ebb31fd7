"""Where patching has its effect in several models, against their probe peaks and the published numbers."""

from strataprobe import files, tables
from strataprobe.logs import job_log
from strataprobe.published import read_numbers


def main(summaries, out, *, models, settings, numbers=None):
    published = None if numbers is None else read_numbers([numbers])
    found = [files.read_json(path) for path in summaries]
    rows = tables.patching_models_rows(found, models, settings, published)
    tables.write_csv(out, rows, tables.COLUMNS["patching_models"])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.summaries,
            snakemake.output.table,
            models=snakemake.params.models,
            settings=snakemake.params.patching,
            numbers=snakemake.input.numbers,
        )
