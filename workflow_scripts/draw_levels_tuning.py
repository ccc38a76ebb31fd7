"""Draw the three levels of base and tuned models side by side, and what tuning changed."""

from strataprobe import tabular
from strataprobe.figures import levels_tuning, style
from strataprobe.logs import job_log


def main(parts, changes, svg, png, *, settings):
    figure = style.drawn(
        levels_tuning.draw,
        tabular.read_parts(parts),
        tabular.read_table(changes),
        title=settings["title"],
        pairs=settings["pairs"],
        models=settings["models"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.levels,
            snakemake.input.levels_models,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
