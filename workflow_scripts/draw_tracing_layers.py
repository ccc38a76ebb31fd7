"""Draw what every block of one checkpoint does to an answer."""

from strataprobe import tabular
from strataprobe.figures import style, tracing_layers
from strataprobe.logs import job_log


def main(tracing, svg, png, *, settings):
    ((_, revision),) = settings["models"]
    frame = tabular.read_parts(tracing)
    figure = style.drawn(
        tracing_layers.draw,
        frame[frame["revision"].astype(str) == revision],
        title=settings["title"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.tracing,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
