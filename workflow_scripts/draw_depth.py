"""Draw the depth heatmaps: accuracy and critical noise by layer and step."""

from strataprobe import tabular
from strataprobe.figures import depth, style
from strataprobe.logs import job_log


def main(probing, fragility, svg, png, *, settings):
    figure = style.drawn(
        depth.draw,
        tabular.read_table(probing),
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
            snakemake.input.probing,
            snakemake.input.fragility,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
