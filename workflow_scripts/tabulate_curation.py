"""The tables of one LoRA experiment on one dataset: over its steps, and layer by layer."""

from strataprobe import files, tabular
from strataprobe.logs import job_log
from strataprobe.tables import curation


def main(trajectory, probing, fragility, losses, corpora, outputs, *, experiment):
    trajectory, probing, fragility, losses = (
        [tabular.read_rows(path) for path in paths] for paths in (trajectory, probing, fragility, losses)
    )
    rows = curation.curation_rows(
        experiment,
        trajectory=trajectory,
        fragility=fragility,
        losses=losses,
        corpora=[files.read_json(path) for path in corpora],
    )
    layers = curation.curation_layers_rows(experiment, probing=probing, fragility=fragility)
    tabular.write_csv(outputs["curation"], rows, tabular.COLUMNS["curation"])
    tabular.write_csv(outputs["layers"], layers, tabular.COLUMNS["curation_layers"])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.trajectory,
            snakemake.input.probing,
            snakemake.input.fragility,
            snakemake.input.losses,
            snakemake.input.corpora,
            dict(snakemake.output.items()),
            experiment=snakemake.params.experiment,
        )
