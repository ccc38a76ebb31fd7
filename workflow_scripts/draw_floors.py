"""Draw onset step against the height of the lexical floor, a point a dataset."""

from strataprobe import tabular
from strataprobe.figures import floors, style
from strataprobe.logs import job_log


def main(floor_table, onset_tables, svg, png, *, settings):
    figure = style.drawn(
        floors.draw,
        tabular.read_table(floor_table),
        tabular.read_parts(onset_tables),
        title=settings["title"],
        last_step=max((step for _, step in settings["checkpoints"] if step is not None), default=None),
        style=settings["style"],
    )
    style.save(figure, svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.floors,
            snakemake.input.onsets,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
