"""Draw what is lost on verbs that the probe has not seen, by depth and model."""

from strataprobe import tabular
from strataprobe.figures import style, verb_out
from strataprobe.logs import job_log


def main(parts, svg, png, *, settings):
    figure = style.drawn(
        verb_out.draw,
        tabular.read_parts(parts),
        title=settings["title"],
        models=settings["models"],
        clean_gap=settings["clean_gap"],
        leak_gap=settings["leak_gap"],
        clean_window=settings["clean_window"],
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
