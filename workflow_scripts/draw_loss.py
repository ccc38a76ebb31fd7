"""Draw the training loss of a model made here."""

from strataprobe import tabular
from strataprobe.figures import loss, style
from strataprobe.logs import job_log


def main(losses, svg, png, *, settings):
    figure = style.drawn(
        loss.draw,
        tabular.read_table(losses),
        title=settings["title"],
        checkpoints=[step for _, step in settings["checkpoints"]],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.losses,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
