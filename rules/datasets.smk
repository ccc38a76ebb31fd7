"""Datasets by themselves: does a file keep what its profile promises, and what does a bag of words reach?"""


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
        runtime=table_minutes,
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
        runtime=table_minutes,
    params:
        code=modules("measure_floors"),
        floors=floor_settings,
    script:
        "../workflow_scripts/measure_floors.py"


rule tabulate_gates:
    input:
        gates=[LAYOUT.gates(dataset) for dataset in PAIRS],
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
        runtime=table_minutes,
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
        runtime=table_minutes,
    params:
        code=modules("tabulate_floors"),
    script:
        "../workflow_scripts/tabulate_floors.py"


if PAIRS:
    COLLECTIONS["datasets"].append([LAYOUT.table("gates")])
if with_floors():
    COLLECTIONS["structure"].append([LAYOUT.table("floors")])
