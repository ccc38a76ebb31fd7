"""Draw what a push along a probe's direction does to answers, a row a model."""

from strataprobe import tabular
from strataprobe.figures import steering, style
from strataprobe.logs import job_log


def main(parts, svg, png, *, settings):
    figure = style.drawn(
        steering.draw,
        tabular.read_parts(parts),
        title=settings["title"],
        models=settings["models"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.steering,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
