"""Draw transfer to a group left out, and lift over the lexical floor, over training."""

from strataprobe import tabular
from strataprobe.figures import style, transfer
from strataprobe.logs import job_log


def main(table, svg, png, *, settings):
    figure = style.drawn(
        transfer.draw,
        tabular.read_table(table),
        title=settings["title"],
        expected=settings["checkpoints"],
        singled_out=settings["singled_out"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.transfer,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
