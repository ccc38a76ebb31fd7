"""What several models show on the same control items: families left out, tuning, cells in order."""

from strataprobe import files, tables
from strataprobe.logs import job_log
from strataprobe.published import read_numbers


def main(behavior, readout, recoverability, out, *, models, settings, numbers=None):
    summaries = [[files.read_json(path) for path in paths] for paths in (behavior, readout, recoverability)]
    published = None if numbers is None else read_numbers([numbers])
    rows = tables.levels_models_rows(*summaries, models, settings, published)
    tables.write_csv(out, rows, tables.COLUMNS["levels_models"])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.behavior,
            snakemake.input.readout,
            snakemake.input.recoverability,
            snakemake.output.levels_models,
            models=snakemake.params.models,
            settings=snakemake.params.levels,
            numbers=snakemake.input.numbers,
        )
