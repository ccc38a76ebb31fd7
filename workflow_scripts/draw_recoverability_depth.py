"""Draw at what depth probes recover, and the LM head reads out, the controller."""

from strataprobe import tabular
from strataprobe.figures import recoverability_depth, style
from strataprobe.logs import job_log


def main(parts, svg, png, *, settings):
    figure = style.drawn(
        recoverability_depth.draw,
        tabular.read_parts(parts),
        title=settings["title"],
        models=settings["models"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.levels_layers,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
