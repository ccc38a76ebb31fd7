"""Draw where a property matters and where a probe finds it, over training."""

from strataprobe import tabular
from strataprobe.figures import style, tracing_depth
from strataprobe.logs import job_log


def main(tracing, svg, png, *, settings):
    figure = style.drawn(
        tracing_depth.draw,
        tabular.read_parts(tracing),
        title=settings["title"],
        expected=settings["checkpoints"],
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
