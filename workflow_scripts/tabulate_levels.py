"""The tables of the three levels of one (model, dataset)."""

from strataprobe import files, tables
from strataprobe.logs import job_log


def main(behavior, readout, recoverability, levels_out, layers_out, *, settings):
    summaries = [[files.read_json(path) for path in paths] for paths in (behavior, readout, recoverability)]
    tables.write_csv(levels_out, tables.levels_rows(*summaries, settings), tables.COLUMNS["levels"])
    rows = tables.levels_layers_rows(*summaries, settings)
    tables.write_csv(layers_out, rows, tables.COLUMNS["levels_layers"])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.behavior,
            snakemake.input.readout,
            snakemake.input.recoverability,
            snakemake.output.levels,
            snakemake.output.layers,
            settings=snakemake.params.levels,
        )
