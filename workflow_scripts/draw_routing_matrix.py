"""Draw where each invented word goes, in one cell over the readout scopes."""

from strataprobe import tabular
from strataprobe.figures import routing_matrix, style
from strataprobe.logs import job_log


def main(counts, cells, svg, png, *, settings):
    figure = style.drawn(
        routing_matrix.draw,
        tabular.read_parts(counts),
        tabular.read_parts(cells),
        title=settings["title"],
        models=settings["models"],
        lucky=settings["lucky"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.routing_counts,
            snakemake.input.routing_cells,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
