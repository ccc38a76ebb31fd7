"""Draw the scale figure: what activation size does to critical noise."""

from strataprobe import tabular
from strataprobe.figures import scale, style
from strataprobe.logs import job_log


def main(scale_table, fragility, svg, png, *, settings):
    figure = style.drawn(
        scale.draw,
        tabular.read_table(scale_table),
        tabular.read_table(fragility),
        title=settings["title"],
        expected=settings["checkpoints"],
        seeds=settings["seeds"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.scale,
            snakemake.input.fragility,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
