"""The fragility paper's tables of what this study measured, the published numbers beside ours."""

from strataprobe import tables
from strataprobe.logs import job_log
from strataprobe.published import formatted, paper_tables, read_numbers


def main(numbers, trajectories, foundations, floors, outputs, *, onset):
    published = read_numbers([numbers])
    made = {"table1": [], "table2": [], "table3": [], "tableA": [], "tableD2": []}
    for path in trajectories:
        rows = tables.read_rows(path)
        model, dataset = rows[0]["model"], rows[0]["dataset"]
        curves = {dataset: tables.curves_of(rows, quantity="mean_accuracy")}
        made["table1"] += paper_tables.table1(curves, published, model=model, threshold=onset)
        made["table2"] += paper_tables.table2(rows, published)
        made["table3"] += paper_tables.table3(rows, published)
    for path in foundations:
        rows = tables.read_rows(path)
        groups = dict.fromkeys(row["group"] for row in rows)
        curves = {group: tables.curves_of(rows, quantity="peak_accuracy", group=group) for group in groups}
        made["tableA"] += paper_tables.table_a(
            curves, published, model=rows[0]["model"], dataset=rows[0]["dataset"]
        )
    for path in floors:
        found = [
            row for row in tables.read_rows(path) if row["scheme"] == "folds" and row["kind"] == "unigrams"
        ]
        for dataset in dict.fromkeys(row["dataset"] for row in found):
            own = [row for row in found if row["dataset"] == dataset]
            by_group = {"" if row["group"] == "all" else row["group"]: row["floor"] for row in own}
            made["tableD2"] += paper_tables.table_d2(by_group, published, dataset=dataset)
    for name in made:
        if name in outputs:
            tables.write_csv(outputs[name], made[name], paper_tables.COLUMNS)
            formatted.write_page(outputs[f"{name}_page"], name, made[name])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.numbers,
            *(snakemake.input.get(name, []) for name in ("trajectory", "foundations", "floors")),
            dict(snakemake.output.items()),
            onset=snakemake.params.onset,
        )
