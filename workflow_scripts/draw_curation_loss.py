"""Draw critical noise of a fine-tuning experiment against its training loss, a path a condition."""

from strataprobe import tabular
from strataprobe.figures import curation_loss, style
from strataprobe.logs import job_log


def main(table, svg, png, *, settings):
    figure = style.drawn(
        curation_loss.draw,
        tabular.read_table(table),
        title=settings["title"],
        conditions=settings["conditions"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.curation,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
