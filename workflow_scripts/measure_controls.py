"""Controls on the probes of one (model, dataset, seed), and other sets they are tried on."""

from strataprobe import cache, controls, files, probes
from strataprobe.datasets.pairs import read_pairs
from strataprobe.logs import job_log, progress
from strataprobe.provenance import made_from


def main(caches, identities, weights, dataset, tests, outputs, *, name, seed, settings):
    pairs = read_pairs(dataset, name)
    wanted = settings["tests"]
    tried = [tests[first : first + len(wanted)] for first in range(0, len(tests), len(wanted) or 1)]
    places = list(zip(caches, identities, weights, tried or [[] for _ in caches], outputs, strict=True))
    for path, identity, trained, beside, out in progress(places, desc="checkpoints", unit="checkpoint"):
        checkpoint = files.read_json(identity)
        expected = made_from(checkpoint)
        with cache.open_activations(path, expected) as acts:
            probe, problem, trained_with = probes.load(trained, acts)
            found = controls.measure(
                problem,
                [pair.contrast for pair in pairs.pairs],
                seed=seed,
                settings={**trained_with, **settings},
                groups=pairs.groups,
            )
            found["validity"] = {
                test: try_on(place, expected, profile, probe, problem, seed, settings)
                for (test, profile), place in zip(wanted.items(), beside, strict=True)
            }
            result = probes.framed(
                found,
                benchmark="probe_controls",
                identity=checkpoint,
                dataset=name,
                seed=seed,
                metadata=probes.metadata(problem, trained_with),
                settings={**settings, "probe": trained_with},
                activations=acts.provenance,
            )
        files.write_json(out, result)


def try_on(place, expected, profile, probe, problem, seed, settings):
    """Accuracy of the trained probes on another dataset: paraphrases by id, anything else as it stands."""
    test, replicates = problem.test, settings["bootstrap"]
    with cache.open_activations(place, expected) as acts:
        states = acts.stack(problem.pooling)
        if profile == "paraphrase":
            match = controls.matched_items([problem.ids[item] for item in test], acts.ids)
            return controls.paraphrase_transfer(
                probe, problem.test_states, states[:, match], problem.labels[test], problem.pairs[test],
                replicates, seed,
            )  # fmt: skip
        return controls.adversarial_transfer(
            probe, problem.test_states, problem.labels[test], problem.pairs[test],
            states, acts.labels.astype(int), acts.pairs, acts.groups, replicates, seed,
        )  # fmt: skip


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        main(
            snakemake.input.activations,
            snakemake.input.identities,
            snakemake.input.weights,
            snakemake.input.dataset,
            list(snakemake.input.get("tests", [])),
            list(snakemake.output),
            name=snakemake.wildcards.dataset,
            seed=int(snakemake.wildcards.seed),
            settings=snakemake.params.controls,
        )
