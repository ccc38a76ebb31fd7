"""Draw accuracy and critical noise of the conditions of a fine-tuning experiment at their last step."""

from strataprobe import tabular
from strataprobe.figures import curation, style
from strataprobe.logs import job_log


def main(means, layers, svg, png, *, settings):
    figure = style.drawn(
        curation.draw,
        tabular.read_table(means),
        tabular.read_table(layers),
        title=settings["title"],
        conditions=settings["conditions"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.curation,
            snakemake.input.curation_layers,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
