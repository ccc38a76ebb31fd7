"""Draw differences between the conditions of a fine-tuning experiment, with their intervals."""

from strataprobe import tabular
from strataprobe.figures import curation_differences, style
from strataprobe.logs import job_log


def main(table, svg, png, *, settings):
    figure = style.drawn(
        curation_differences.draw,
        tabular.read_table(table),
        title=settings["title"],
        conditions=settings["conditions"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.curation_differences,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
