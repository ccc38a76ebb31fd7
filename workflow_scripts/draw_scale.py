"""Draw the scale figure: what activation size does to critical noise."""

from strataprobe import tables
from strataprobe.figures import scale, style
from strataprobe.logs import job_log


def main(scale_table, fragility, svg, png, *, settings):
    figure = style.drawn(
        scale.draw,
        tables.read_table(scale_table),
        tables.read_table(fragility),
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
