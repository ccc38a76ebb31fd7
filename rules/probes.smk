"""Probes and fragility curves: all layers of one (model, revision, dataset, seed) in one job."""


def layer_files(kind, model):
    return [
        LAYOUT.layer(kind, model, "{revision}", "{dataset}", "{seed}", layer)
        for layer in range(MODELS[model].layers)
    ]


def measure_file(kind, model, name):
    return LAYOUT.measure(kind, model, "{revision}", "{dataset}", "{seed}", name)


def probe_memory(wildcards, attempt):
    return 1500 * attempt


for model in RUNNABLE:

    rule:
        name:
            f"train_probes_{model}"
        input:
            activations=LAYOUT.activations(model, "{revision}", "{dataset}"),
            identity=LAYOUT.identity(model, "{revision}"),
        output:
            layers=layer_files("probes", model),
            weights=measure_file("probes", model, "weights.h5"),
            summary=measure_file("probes", model, "summary.json"),
        log:
            LAYOUT.log(f"train_probes_{model}", "{revision}", "{dataset}", "seed{seed}"),
        benchmark:
            LAYOUT.benchmark(f"train_probes_{model}", "{revision}", "{dataset}", "seed{seed}")
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=probe_memory,
        params:
            code=modules("train_probes"),
            probe=settings("probe"),
        script:
            "../workflow_scripts/train_probes.py"

    rule:
        name:
            f"measure_fragility_{model}"
        input:
            activations=LAYOUT.activations(model, "{revision}", "{dataset}"),
            identity=LAYOUT.identity(model, "{revision}"),
            weights=measure_file("probes", model, "weights.h5"),
        output:
            layers=layer_files("fragility", model),
            summary=measure_file("fragility", model, "summary.json"),
        log:
            LAYOUT.log(f"measure_fragility_{model}", "{revision}", "{dataset}", "seed{seed}"),
        benchmark:
            LAYOUT.benchmark(f"measure_fragility_{model}", "{revision}", "{dataset}", "seed{seed}")
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=probe_memory,
        params:
            code=modules("measure_fragility"),
            fragility=settings("fragility"),
        script:
            "../workflow_scripts/measure_fragility.py"
