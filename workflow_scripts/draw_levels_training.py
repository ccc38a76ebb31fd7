"""Draw when control is encoded, read out and deployed over training."""

import pandas as pd

from strataprobe import tables
from strataprobe.figures import levels_training, style
from strataprobe.logs import job_log


def main(levels, layers, svg, png, *, settings):
    figure = style.drawn(
        levels_training.draw,
        *(pd.concat([tables.read_table(path) for path in paths]) for paths in (levels, layers)),
        title=settings["title"],
        expected=settings["checkpoints"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.levels,
            snakemake.input.levels_layers,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
