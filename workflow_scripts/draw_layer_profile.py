"""Draw the layer profile of one checkpoint."""

from strataprobe import tabular
from strataprobe.figures import layer_profile, style
from strataprobe.logs import job_log


def main(probing, fragility, scale, svg, png, *, settings):
    frames = [tabular.read_table(path) for path in (probing, fragility, scale)]
    figure = style.drawn(
        layer_profile.draw,
        *(frame[frame["revision"] == settings["revision"]] for frame in frames),
        title=settings["title"],
        onset=settings["layer_onset"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.probing,
            snakemake.input.fragility,
            snakemake.input.scale,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
