"""Draw a probe of many classes over depth: its accuracies, and where it sends groups it has never seen."""

from strataprobe import tabular
from strataprobe.figures import many_class, style
from strataprobe.logs import job_log


def main(table, svg, png, *, settings):
    figure = style.drawn(
        many_class.draw,
        tabular.read_table(table),
        title=settings["title"],
        models=settings["models"],
        coarse_accuracy=settings["coarse_accuracy"],
        lucky=settings["lucky"],
        sides=settings["sides"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.many_class,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
