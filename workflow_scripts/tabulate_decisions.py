"""The configured tests of a decline, a row each."""

from strataprobe import tables
from strataprobe.logs import job_log


def main(trajectories, out, *, rules):
    rows = [row for path in trajectories for row in tables.read_rows(path)]
    tested = [tables.decision_row(name, rule, rows) for name, rule in rules.items()]
    tables.write_csv(out, tested, tables.COLUMNS["decisions"])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(snakemake.input.trajectories, snakemake.output.table, rules=snakemake.params.rules)
