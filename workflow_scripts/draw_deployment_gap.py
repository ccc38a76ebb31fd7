"""Draw the gap between recoverability and behaviour, by control type and model."""

from strataprobe import tabular
from strataprobe.figures import deployment_gap, style
from strataprobe.logs import job_log


def main(parts, svg, png, *, settings):
    figure = style.drawn(
        deployment_gap.draw,
        tabular.read_parts(parts),
        title=settings["title"],
        models=settings["models"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.levels,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
