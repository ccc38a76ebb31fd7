"""Draw coarse accuracy and per-item concentration over the readout scopes."""

from strataprobe import tabular
from strataprobe.figures import routing_paths, style
from strataprobe.logs import job_log


def main(cells, svg, png, *, settings):
    figure = style.drawn(
        routing_paths.draw,
        tabular.read_parts(cells),
        title=settings["title"],
        models=settings["models"],
        coarse_accuracy=settings["coarse_accuracy"],
        lucky=settings["lucky"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.routing_cells,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
