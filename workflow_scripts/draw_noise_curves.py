"""Draw the noise curves of one checkpoint: sampled points on exact lines."""

from strataprobe import files
from strataprobe.figures import noise_curves, style
from strataprobe.logs import job_log


def main(summary, layers, svg, png, *, settings):
    whole = files.read_json(summary)
    whole["layer_scores"] = [files.read_json(path) for path in layers]
    figure = style.drawn(
        noise_curves.draw,
        whole,
        title=settings["title"],
        threshold=settings["threshold"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.summary,
            snakemake.input.layers,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
