"""Draw at which depth patching changes answers, a line a model."""

from strataprobe import tabular
from strataprobe.figures import patching_depth, style
from strataprobe.logs import job_log


def main(parts, svg, png, *, settings):
    figure = style.drawn(
        patching_depth.draw,
        tabular.read_parts(parts),
        title=settings["title"],
        models=settings["models"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.patching,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
