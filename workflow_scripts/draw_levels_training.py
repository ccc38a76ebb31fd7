"""Draw when control is encoded, read out and deployed over training."""

from strataprobe import tabular
from strataprobe.figures import levels_training, style
from strataprobe.logs import job_log


def main(levels, layers, svg, png, *, settings):
    figure = style.drawn(
        levels_training.draw,
        tabular.read_parts(levels),
        tabular.read_parts(layers),
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
