"""Draw each group by itself: peak accuracy over training, against the peak that chance gives."""

from strataprobe import tabular
from strataprobe.figures import foundations, style
from strataprobe.logs import job_log


def main(table, svg, png, *, settings):
    figure = style.drawn(
        foundations.draw,
        tabular.read_table(table),
        title=settings["title"],
        expected=settings["checkpoints"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.foundations,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
