"""Draw what the probes' accuracy rests on at one checkpoint."""

from strataprobe import tabular
from strataprobe.figures import controls, style
from strataprobe.logs import job_log


def main(table, svg, png, *, settings):
    frame = tabular.read_table(table)
    figure = style.drawn(
        controls.draw,
        frame[frame["revision"] == settings["revision"]],
        title=settings["title"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.controls,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
