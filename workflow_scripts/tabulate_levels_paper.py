"""The levels paper's tables of what this study measured, the published numbers beside ours."""

from strataprobe import tables
from strataprobe.datasets.reading import read_dataset
from strataprobe.logs import job_log
from strataprobe.published import formatted, levels_tables, read_numbers
from strataprobe.published.levels_results import Results


def main(numbers, levels, layers, outputs, *, datasets=(), models=()):
    published = read_numbers([numbers])
    results = [
        found
        for of_levels, of_layers in zip(levels, layers, strict=True)
        for found in Results.last(tables.read_rows(of_levels), tables.read_rows(of_layers))
    ]
    made = {
        name: levels_tables.beside([row for one in results for row in of(one)], published, name, models)
        for name, of in levels_tables.OF_RESULTS.items()
    }
    made[levels_tables.PROMPTS] = [
        row for entry in datasets for row in levels_tables.prompt_rows(read_dataset(entry))
    ]
    for name in levels_tables.TABLES:
        if name in outputs:
            tables.write_csv(outputs[name], made[name], levels_tables.columns(name))
            formatted.write_page(outputs[f"{name}_page"], name, made[name])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.numbers,
            snakemake.input.levels,
            snakemake.input.layers,
            dict(snakemake.output.items()),
            datasets=snakemake.params.datasets,
            models=snakemake.params.models,
        )
