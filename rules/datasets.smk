"""Datasets by themselves: does a file keep what its profile promises, and what does a bag of words reach?"""


def dataset_files(wildcards):
    """The file, and the lists of words its gates need, by name."""
    entry = DATASETS[wildcards.dataset]
    lists = {name: getattr(entry, name) for name in ("keywords", "blocklist", "animate")}
    return {"dataset": entry.path, **{name: path for name, path in lists.items() if path is not None}}


def dataset_file(wildcards):
    return DATASETS[wildcards.dataset].path


def gate_settings(wildcards):
    """What is asked of a dataset, as one sorted dict."""
    entry = DATASETS[wildcards.dataset]
    return {
        "dataset": wildcards.dataset,
        "profile": entry.profile,
        "thresholds": dict(sorted(entry.thresholds.items())),
    }


def floor_settings(wildcards):
    """How floors are measured; their own split is that of the probes, seed by seed."""
    seeds = sorted({seed for model in MODELS.values() for seed in dataset_seeds(model, wildcards.dataset)})
    return {
        **settings("floors"),
        "dataset": wildcards.dataset,
        "seeds": seeds,
        "test_fraction": STUDY.config.probe.test_fraction,
    }


def dataset_seeds(model, dataset):
    return STUDY.seeds(model, dataset) if dataset in STUDY.tasks(model) else ()


def with_floors():
    """Datasets that some model's transfer is measured on, or whose floors are drawn."""
    drawn = [spec.datasets for spec in STUDY.config.figures.values() if spec.kind == "floors"]
    return sorted({dataset for _, dataset in measured("transfer")}.union(*drawn))


rule check_dataset:
    input:
        unpack(dataset_files),
    output:
        gates=LAYOUT.gates("{dataset}"),
    log:
        LAYOUT.log("check_dataset", "{dataset}"),
    benchmark:
        LAYOUT.benchmark("check_dataset", "{dataset}")
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
    params:
        code=modules("check_dataset"),
        gates=gate_settings,
    script:
        "../workflow_scripts/check_dataset.py"


rule measure_floors:
    input:
        dataset=dataset_file,
    output:
        floors=LAYOUT.floors("{dataset}"),
    log:
        LAYOUT.log("measure_floors", "{dataset}"),
    benchmark:
        LAYOUT.benchmark("measure_floors", "{dataset}")
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
    params:
        code=modules("measure_floors"),
        floors=floor_settings,
    script:
        "../workflow_scripts/measure_floors.py"


rule tabulate_gates:
    input:
        gates=[LAYOUT.gates(dataset) for dataset in DATASETS],
    output:
        table=LAYOUT.table("gates"),
    log:
        LAYOUT.log("tabulate_gates"),
    benchmark:
        LAYOUT.benchmark("tabulate_gates")
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
    params:
        code=modules("tabulate_gates"),
    script:
        "../workflow_scripts/tabulate_gates.py"


rule tabulate_floors:
    input:
        floors=[LAYOUT.floors(dataset) for dataset in with_floors()],
    output:
        table=LAYOUT.table("floors"),
    log:
        LAYOUT.log("tabulate_floors"),
    benchmark:
        LAYOUT.benchmark("tabulate_floors")
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
    params:
        code=modules("tabulate_floors"),
    script:
        "../workflow_scripts/tabulate_floors.py"


COLLECTIONS["datasets"].append([LAYOUT.table("gates")])
if with_floors():
    COLLECTIONS["structure"].append([LAYOUT.table("floors")])
