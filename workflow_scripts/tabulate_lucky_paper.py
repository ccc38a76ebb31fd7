"""The lucky-defaults paper's tables of what this study measured, the published numbers beside ours."""

from strataprobe import tables
from strataprobe.logs import job_log
from strataprobe.published import formatted, lucky_tables, read_numbers


def main(numbers, cells, sensitivity, outputs, *, hhi, max_share):
    made = lucky_tables.made(
        [row for part in cells for row in tables.read_rows(part)],
        [row for part in sensitivity for row in tables.read_rows(part)],
        read_numbers([numbers]),
        hhi=hhi,
        max_share=max_share,
    )
    for name, rows in made.items():
        tables.write_csv(outputs[name], rows, lucky_tables.COLUMNS)
        formatted.write_page(outputs[f"{name}_page"], name, rows)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.numbers,
            snakemake.input.cells,
            snakemake.input.sensitivity,
            dict(snakemake.output.items()),
            **snakemake.params.gate,
        )
