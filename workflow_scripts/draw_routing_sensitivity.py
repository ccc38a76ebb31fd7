"""Draw how many cells are flagged at each threshold, and the verdicts by scope."""

from strataprobe import tabular
from strataprobe.figures import routing_sensitivity, style
from strataprobe.logs import job_log
from strataprobe.published import read_numbers


def main(sensitivity, cells, numbers, svg, png, *, settings):
    figure = style.drawn(
        routing_sensitivity.draw,
        tabular.read_parts(sensitivity),
        tabular.read_parts(cells),
        read_numbers([numbers]),
        title=settings["title"],
        models=settings["models"],
        lucky=settings["lucky"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.routing_sensitivity,
            snakemake.input.routing_cells,
            snakemake.input.numbers,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
