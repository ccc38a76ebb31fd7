"""Draw when each dataset's property becomes readable: mean accuracy of several probes on one step axis."""

from strataprobe import tabular
from strataprobe.figures import emergence, style
from strataprobe.logs import job_log


def main(trajectories, svg, png, *, settings):
    figure = style.drawn(
        emergence.draw,
        [tabular.read_table(path) for path in trajectories],
        title=settings["title"],
        expected=settings["checkpoints"],
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
