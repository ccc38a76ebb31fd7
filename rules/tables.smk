"""Tables: long and tidy, one part a (model, dataset), and the parts of a kind joined for reading."""


rule tabulate_probes:
    input:
        probes=partial(summaries, "probes"),
    output:
        probing=part("probing"),
    log:
        LAYOUT.log("tabulate_probes", "{model}", "{dataset}"),
    benchmark:
        LAYOUT.benchmark("tabulate_probes", "{model}", "{dataset}")
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
        runtime=table_minutes,
    params:
        code=modules("tabulate_probes"),
    message:
        "Table of the probes of {wildcards.model} for {wildcards.dataset}"
    script:
        "../workflow_scripts/tabulate_probes.py"


rule tabulate_fragility:
    input:
        probes=partial(summaries, "probes"),
        fragility=partial(summaries, "fragility"),
    output:
        fragility=part("fragility"),
        trajectory=part("trajectory"),
        scale=part("scale"),
    log:
        LAYOUT.log("tabulate_fragility", "{model}", "{dataset}"),
    benchmark:
        LAYOUT.benchmark("tabulate_fragility", "{model}", "{dataset}")
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
        runtime=table_minutes,
    params:
        code=modules("tabulate_fragility"),
    message:
        "Tables of the fragility of {wildcards.model} for {wildcards.dataset}"
    script:
        "../workflow_scripts/tabulate_fragility.py"


rule tabulate_onsets:
    input:
        probes=partial(summaries, "probes"),
    output:
        onsets=part("onsets"),
    log:
        LAYOUT.log("tabulate_onsets", "{model}", "{dataset}"),
    benchmark:
        LAYOUT.benchmark("tabulate_onsets", "{model}", "{dataset}")
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
        runtime=table_minutes,
    params:
        code=modules("tabulate_onsets"),
        onsets=onset_settings(),
    message:
        "Onsets of {wildcards.model} for {wildcards.dataset}"
    script:
        "../workflow_scripts/tabulate_onsets.py"


rule tabulate_transfer:
    input:
        transfer=partial(wholes, "transfer"),
    output:
        transfer=part("transfer"),
    log:
        LAYOUT.log("tabulate_transfer", "{model}", "{dataset}"),
    benchmark:
        LAYOUT.benchmark("tabulate_transfer", "{model}", "{dataset}")
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
        runtime=table_minutes,
    params:
        code=modules("tabulate_transfer"),
    script:
        "../workflow_scripts/tabulate_transfer.py"


rule tabulate_foundations:
    input:
        foundations=partial(summaries, "foundations"),
    output:
        foundations=part("foundations"),
    log:
        LAYOUT.log("tabulate_foundations", "{model}", "{dataset}"),
    benchmark:
        LAYOUT.benchmark("tabulate_foundations", "{model}", "{dataset}")
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
        runtime=table_minutes,
    params:
        code=modules("tabulate_foundations"),
    script:
        "../workflow_scripts/tabulate_foundations.py"


rule tabulate_controls:
    input:
        controls=partial(summaries, "controls"),
    output:
        controls=part("controls"),
    log:
        LAYOUT.log("tabulate_controls", "{model}", "{dataset}"),
    benchmark:
        LAYOUT.benchmark("tabulate_controls", "{model}", "{dataset}")
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
        runtime=table_minutes,
    params:
        code=modules("tabulate_controls"),
    script:
        "../workflow_scripts/tabulate_controls.py"


rule tabulate_many_class:
    input:
        summaries=partial(wholes, "many_class"),
    output:
        many_class=part("many_class"),
    log:
        LAYOUT.log("tabulate_many_class", "{model}", "{dataset}"),
    benchmark:
        LAYOUT.benchmark("tabulate_many_class", "{model}", "{dataset}")
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
        runtime=table_minutes,
    params:
        code=modules("tabulate_many_class"),
    script:
        "../workflow_scripts/tabulate_many_class.py"


rule tabulate_routing:
    input:
        summaries=partial(wholes, "routing"),
    output:
        routing_cells=part("routing_cells"),
        routing_counts=part("routing_counts"),
        routing_words=part("routing_words"),
        routing_leakage=part("routing_leakage"),
        routing_sensitivity=part("routing_sensitivity"),
    log:
        LAYOUT.log("tabulate_routing", "{model}", "{dataset}"),
    benchmark:
        LAYOUT.benchmark("tabulate_routing", "{model}", "{dataset}")
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
        runtime=table_minutes,
    params:
        code=modules("tabulate_routing"),
    message:
        "Where words go, {wildcards.model} on {wildcards.dataset}"
    script:
        "../workflow_scripts/tabulate_routing.py"


rule tabulate_levels:
    input:
        behavior=partial(wholes, "behavior"),
        readout=partial(wholes, "readout"),
        recoverability=partial(wholes, "recoverability"),
    output:
        levels=part("levels"),
        layers=part("levels_layers"),
    log:
        LAYOUT.log("tabulate_levels", "{model}", "{dataset}"),
    benchmark:
        LAYOUT.benchmark("tabulate_levels", "{model}", "{dataset}")
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
        runtime=table_minutes,
    params:
        code=modules("tabulate_levels"),
        levels=settings("levels"),
    message:
        "Three levels of {wildcards.model} for {wildcards.dataset}"
    script:
        "../workflow_scripts/tabulate_levels.py"


rule tabulate_levels_models:
    input:
        behavior=partial(levels_together, kind="behavior"),
        readout=partial(levels_together, kind="readout"),
        recoverability=partial(levels_together, kind="recoverability"),
        numbers=f"{PUBLISHED}/levels.csv",
    output:
        levels_models=LAYOUT.table("levels_models"),
    log:
        LAYOUT.log("tabulate_levels_models"),
    benchmark:
        LAYOUT.benchmark("tabulate_levels_models")
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
        runtime=table_minutes,
    params:
        code=modules("tabulate_levels_models"),
        levels=settings("levels"),
        models=model_relations(),
    message:
        "Three levels over models"
    script:
        "../workflow_scripts/tabulate_levels_models.py"


rule tabulate_patching:
    input:
        summaries=partial(wholes, "patching"),
    output:
        patching=part("patching"),
    log:
        LAYOUT.log("tabulate_patching", "{model}", "{dataset}"),
    benchmark:
        LAYOUT.benchmark("tabulate_patching", "{model}", "{dataset}")
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
        runtime=table_minutes,
    params:
        code=modules("tabulate_patching"),
        patching=settings("patching"),
    message:
        "Tables of the patching of {wildcards.model} on {wildcards.dataset}"
    script:
        "../workflow_scripts/tabulate_patching.py"


rule tabulate_patching_models:
    input:
        summaries=patched_together,
        numbers=f"{PUBLISHED}/levels.csv",
    output:
        table=LAYOUT.table("patching_models"),
    log:
        LAYOUT.log("tabulate_patching_models"),
    benchmark:
        LAYOUT.benchmark("tabulate_patching_models")
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
        runtime=table_minutes,
    params:
        code=modules("tabulate_patching_models"),
        models=patched_relations(),
        patching=settings("patching"),
    message:
        "Where patching has its effect, over models"
    script:
        "../workflow_scripts/tabulate_patching_models.py"


rule tabulate_steering:
    input:
        summaries=partial(wholes, "steering"),
        numbers=f"{PUBLISHED}/levels.csv",
    output:
        steering=part("steering"),
    log:
        LAYOUT.log("tabulate_steering", "{model}", "{dataset}"),
    benchmark:
        LAYOUT.benchmark("tabulate_steering", "{model}", "{dataset}")
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
        runtime=table_minutes,
    params:
        code=modules("tabulate_steering"),
        tuned=was_tuned,
    message:
        "Table of the steering of {wildcards.model} on {wildcards.dataset}"
    script:
        "../workflow_scripts/tabulate_steering.py"


rule tabulate_tracing:
    input:
        summaries=partial(wholes, "tracing"),
        probes=probed_too,
        numbers=f"{PUBLISHED}/fragility.csv",
    output:
        tracing=part("tracing"),
    log:
        LAYOUT.log("tabulate_tracing", "{model}", "{dataset}"),
    benchmark:
        LAYOUT.benchmark("tabulate_tracing", "{model}", "{dataset}")
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
        runtime=table_minutes,
    params:
        code=modules("tabulate_tracing"),
    message:
        "Table of the causal tracing of {wildcards.model} for {wildcards.dataset}"
    script:
        "../workflow_scripts/tabulate_tracing.py"


rule tabulate_decisions:
    input:
        trajectories=decision_trajectories(),
    output:
        table=LAYOUT.table("decisions"),
    log:
        LAYOUT.log("tabulate_decisions"),
    benchmark:
        LAYOUT.benchmark("tabulate_decisions")
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
        runtime=table_minutes,
    params:
        code=modules("tabulate_decisions"),
        rules=decision_settings(),
    message:
        "Tests of a decline between two checkpoints"
    script:
        "../workflow_scripts/tabulate_decisions.py"


rule join_table:
    input:
        parts=parts,
    output:
        table=LAYOUT.table("{table}"),
    log:
        LAYOUT.log("join_table", "{table}"),
    benchmark:
        LAYOUT.benchmark("join_table", "{table}")
    wildcard_constraints:
        table="|".join([*TABLES_OF, *CURATION_TABLES]),
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=table_memory,
        runtime=table_minutes,
    params:
        code=modules("join_table"),
    message:
        "Joining the parts of table {wildcards.table}"
    script:
        "../workflow_scripts/join_table.py"


for table, measure in TABLES_OF.items():
    if measured(measure):
        COLLECTIONS[COLLECTION_OF_MEASURE.get(measure, "structure")].append([LAYOUT.table(table)])

if STUDY.config.decision_rules:
    COLLECTIONS["fragility"].append([LAYOUT.table("decisions")])

if measured("levels"):
    COLLECTIONS["levels"].append([LAYOUT.table("levels_models")])
