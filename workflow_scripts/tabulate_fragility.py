"""The fragility, trajectory and scale tables of one (model, dataset)."""

from strataprobe import files, tables
from strataprobe.logs import job_log


def main(probes, fragility, outputs):
    measured = [files.read_json(path) for path in fragility]
    rows = {
        "fragility": tables.fragility_rows(measured),
        "trajectory": tables.trajectory_rows([files.read_json(path) for path in probes], measured),
        "scale": tables.scale_rows(measured),
    }
    for name, path in outputs.items():
        tables.write_csv(path, rows[name], tables.COLUMNS[name])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(snakemake.input.probes, snakemake.input.fragility, dict(snakemake.output.items()))
