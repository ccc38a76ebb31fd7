"""Transfer between groups and lift over the lexical floor: one (model, dataset), revision by revision."""

from dataclasses import asdict

from strataprobe import cache, files, probes, transfer
from strataprobe.datasets import floors, gates
from strataprobe.datasets.pairs import read_pairs
from strataprobe.logs import job_log, progress
from strataprobe.provenance import made_from


def main(caches, identities, dataset, floor_file, outputs, *, name, settings, floor_settings):
    pairs, lexical = read_pairs(dataset, name), files.read_json(floor_file)
    places = list(zip(caches, identities, outputs, strict=True))
    for path, identity, out in progress(places, desc="checkpoints", unit="checkpoint"):
        checkpoint = files.read_json(identity)
        with cache.open_activations(path, made_from(checkpoint)) as acts:
            found = measure(acts, pairs, lexical, settings, floor_settings)
            result = probes.framed(
                found,
                benchmark="leave_group_out_transfer",
                identity=checkpoint,
                dataset=name,
                seed=None,
                metadata={key: settings[key] for key in ("conventions", "pooling")},
                settings=settings,
                activations=acts.provenance,
            )
        files.write_json(out, result)


def measure(acts, pairs, lexical, settings, floor_settings):
    pooling = settings["pooling"]
    found = transfer.measure(acts.stack(pooling), acts.labels, acts.pairs, acts.groups, settings=settings)
    by_group = {group: kinds["unigrams"]["floor"] for group, kinds in lexical["groups"].items()}
    embedding = acts.embed(pooling) if "embed" in acts.layers else None
    return {
        **found,
        "lift": transfer.lift(found["within_group"], by_group, singled_out=settings["singled_out"]),
        "floors": {
            **floors.model_floors(pairs, acts.token_counts, embedding, settings=floor_settings),
            "transfer": lexical["transfer"]["unigrams"],
        },
        "validation_gate": floors.gate(
            found["in_distribution"]["accuracy"],
            lexical["whole"]["unigrams"]["floor"],
            floor_settings["margin"],
        ),
        "tokens": asdict(gates.token_gate(acts.token_counts, acts.pairs, acts.ids)),
    }


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.activations,
            snakemake.input.identities,
            snakemake.input.dataset,
            snakemake.input.floors,
            list(snakemake.output),
            name=snakemake.wildcards.dataset,
            settings=snakemake.params.transfer,
            floor_settings=snakemake.params.floors,
        )
