"""Draw the saturation figure: accuracy flattens, critical noise does not."""

from strataprobe import tabular
from strataprobe.figures import saturation, style
from strataprobe.logs import job_log


def main(trajectory, svg, png, *, settings):
    figure = style.drawn(
        saturation.draw,
        tabular.read_table(trajectory),
        title=settings["title"],
        expected=settings["checkpoints"],
        seeds=settings["seeds"],
        onset=settings["step_onset"],
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.trajectory,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
