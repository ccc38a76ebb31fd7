"""Draw the gate report: what each dataset's profile promises, and what was found."""

from strataprobe import tabular
from strataprobe.figures import gates, style
from strataprobe.logs import job_log


def main(table, svg, png, *, settings):
    found = tabular.read_table(table)
    chosen = found[found["dataset"].isin(settings["datasets"])]
    style.save(style.drawn(gates.draw, chosen, title=settings["title"], style=settings["style"]), svg, png)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.gates,
            snakemake.output.svg,
            snakemake.output.png,
            settings=snakemake.params.figure,
        )
