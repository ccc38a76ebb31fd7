"""Section 4.3 of the fragility paper from this study's fine-tuning, the published numbers beside ours."""

from strataprobe import tables
from strataprobe.logs import job_log
from strataprobe.published import curation_tables, formatted, paper_tables, read_numbers


def main(numbers, curation, outputs):
    rows = curation_tables.section4_3(
        [row for part in curation for row in tables.read_rows(part)], read_numbers([numbers])
    )
    tables.write_csv(outputs[curation_tables.TABLE], rows, paper_tables.COLUMNS)
    formatted.write_page(outputs[f"{curation_tables.TABLE}_page"], curation_tables.TABLE, rows)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(snakemake.input.numbers, snakemake.input.curation, dict(snakemake.output.items()))
