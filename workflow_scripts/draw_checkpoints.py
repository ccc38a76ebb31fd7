"""Draw the perplexity of a model's checkpoints, with what is odd about them."""

from strataprobe import tabular
from strataprobe.figures import checkpoints as figures
from strataprobe.figures import style
from strataprobe.logs import job_log


def main(checkpoints, svg, png, *, settings):
    figure = style.drawn(
        figures.draw,
        tabular.read_table(checkpoints),
        title=settings["title"],
        expected=settings["checkpoints"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.checkpoints,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
