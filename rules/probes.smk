"""Probes and fragility curves: all layers of one (model, revision, dataset, seed) in one job.

Of a model made here all revisions in one, and of a small experiment all runs: a probe takes less time than
starting a process does.
"""


def layer_files(kind, models):
    return [
        LAYOUT.layer(kind, model, revision, "{dataset}", "{seed}", layer)
        for model in models
        for revision in revisions_of(model)[0]
        for layer in range(MODELS[model].layers)
    ]


def measure_files(kind, models, name):
    return [
        LAYOUT.measure(kind, model, revision, "{dataset}", "{seed}", name)
        for model in models
        for revision in revisions_of(model)[0]
    ]


def of_all(files, models):
    """Input files of every one of these models: `files` gives those of one."""
    return [path for model in models for path in files(model)]


def together(place):
    """A probe and its curve are one job on a cluster; those of a checkpoint too, where group-components says so."""
    return "probes_{revision}" if place else "probes"


def probe_memory(wildcards, attempt):
    return 1500 * attempt


def probe_minutes(wildcards, attempt):
    return 10 * attempt


for unit, models in job_units().items():
    place = revisions_of(models[0])[1]
    at = at_revision(place)

    rule:
        name:
            f"train_probes_{unit}"
        input:
            activations=of_all(caches, models),
            identities=of_all(identities, models),
        output:
            layers=layer_files("probes", models),
            weights=measure_files("probes", models, "weights.h5"),
            summaries=measure_files("probes", models, "summary.json"),
        log:
            LAYOUT.log(f"train_probes_{unit}", *place, "{dataset}", "seed{seed}"),
        benchmark:
            LAYOUT.benchmark(f"train_probes_{unit}", *place, "{dataset}", "seed{seed}")
        group:
            together(place)
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=probe_memory,
            runtime=probe_minutes,
        params:
            code=modules("train_probes"),
            probe=settings("probe"),
        message:
            f"Probes of {unit} for {{wildcards.dataset}}, seed {{wildcards.seed}}{at}"
        script:
            "../workflow_scripts/train_probes.py"

    rule:
        name:
            f"measure_fragility_{unit}"
        input:
            activations=of_all(caches, models),
            identities=of_all(identities, models),
            weights=measure_files("probes", models, "weights.h5"),
        output:
            layers=layer_files("fragility", models),
            summaries=measure_files("fragility", models, "summary.json"),
        log:
            LAYOUT.log(f"measure_fragility_{unit}", *place, "{dataset}", "seed{seed}"),
        benchmark:
            LAYOUT.benchmark(f"measure_fragility_{unit}", *place, "{dataset}", "seed{seed}")
        group:
            together(place)
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=probe_memory,
            runtime=probe_minutes,
        params:
            code=modules("measure_fragility"),
            fragility=settings("fragility"),
        message:
            f"Fragility of {unit} for {{wildcards.dataset}}, seed {{wildcards.seed}}{at}"
        script:
            "../workflow_scripts/measure_fragility.py"
