"""Lucky defaults: where probes of many classes send what they have never seen."""


def routing_settings():
    """How probes of many classes are solved, and the gate, as one sorted dict."""
    gate = settings("concentration")
    beside = {key: gate[key] for key in ("bootstrap", "sensitivity")}
    return {"concentration": gate, "routing": {**beside, **settings("routing")}}


def many_class_settings(wildcards):
    """The sides of a dataset's groups, and how its probes are solved, as one sorted dict."""
    pooling = settings("probe")["pooling"]
    return {
        "partition": DATASETS[wildcards.dataset].partition,
        "settings": {**routing_settings(), "pooling": pooling},
    }


def elsewhere_settings(model):
    """What the config says of predictions made elsewhere, as one sorted dict."""
    return {
        "dataset": ELSEWHERE,
        "model": model,
        "partition": MODELS[model].source["partition"],
        "settings": routing_settings(),
    }


def states_checksum(wildcards):
    """What a vocabulary's states hang on: its design without the readouts that are asked of it."""
    return designs.states_checksum(DATASETS[wildcards.dataset].design)


def vocabulary_design(wildcards):
    """`ancient`: whether what states hang on has changed, a param says."""
    return ancient(DATASETS[wildcards.dataset].design)


def vocabulary_entry(wildcards):
    return dataset_entry(wildcards.dataset)


def vocabulary_sources(wildcards):
    return dataset_sources(wildcards.dataset)


for model, entry in RUNNABLE.items():
    names = measured_on("routing", model)
    if not names:
        continue
    revisions, place = revisions_of(model, "routing")
    at = at_revision(place)

    rule:
        name:
            f"capture_vocabulary_{model}"
        input:
            identities=identities(model, "routing"),
            weights=made_weights(model, revisions),
            dataset=dataset_file,
            design=vocabulary_design,
        output:
            caches(model, "routing"),
        log:
            LAYOUT.log(f"capture_vocabulary_{model}", *place, "{dataset}"),
        benchmark:
            LAYOUT.benchmark(f"capture_vocabulary_{model}", *place, "{dataset}")
        wildcard_constraints:
            dataset="|".join(map(re.escape, names)),
        priority: earlier_first(model)
        conda:
            "../envs/torch.yaml"
        threads: STUDY.config.capture.threads
        resources:
            mem_mb=partial(capture_memory, model),
            runtime=partial(capture_minutes, model),
            gpu=partial(capture_gpus, model),
            downloads=fetches(model),
        params:
            blocks=list(entry.vocabulary_layers),
            code=modules("capture_vocabulary"),
            capture=capture_settings(model),
            dataset=vocabulary_entry,
            states=states_checksum,
        message:
            f"Capturing {{wildcards.dataset}} of {model}{at}"
        script:
            "../workflow_scripts/capture_vocabulary.py"

    rule:
        name:
            f"measure_routing_{model}"
        input:
            activations=caches(model, "routing"),
            identities=identities(model, "routing"),
            weights=made_weights(model, revisions),
            datasets=vocabulary_sources,
        output:
            summaries=[LAYOUT.whole("routing", model, revision, "{dataset}") for revision in revisions],
            predictions=[LAYOUT.predictions(model, revision, "{dataset}") for revision in revisions],
        log:
            LAYOUT.log(f"measure_routing_{model}", *place, "{dataset}"),
        benchmark:
            LAYOUT.benchmark(f"measure_routing_{model}", *place, "{dataset}")
        wildcard_constraints:
            dataset="|".join(map(re.escape, names)),
        conda:
            "../envs/torch.yaml"
        threads: 1
        resources:
            mem_mb=partial(capture_memory, model),
            runtime=partial(capture_minutes, model),
        params:
            code=modules("measure_routing"),
            dataset=vocabulary_entry,
            layers=entry.layers,
            routing=routing_settings(),
        message:
            f"Where probes of {model} send words of {{wildcards.dataset}}{at}"
        script:
            "../workflow_scripts/measure_routing.py"


for model in RUNNABLE:
    names = measured_on("many_class", model)
    if not names:
        continue
    revisions, place = revisions_of(model, "many_class")
    at = at_revision(place)

    rule:
        name:
            f"measure_many_class_{model}"
        input:
            activations=caches(model, "many_class"),
            identities=identities(model, "many_class"),
        output:
            [LAYOUT.whole("many_class", model, revision, "{dataset}") for revision in revisions],
        log:
            LAYOUT.log(f"measure_many_class_{model}", *place, "{dataset}"),
        benchmark:
            LAYOUT.benchmark(f"measure_many_class_{model}", *place, "{dataset}")
        wildcard_constraints:
            dataset="|".join(map(re.escape, names)),
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=structure_memory,
            runtime=structure_minutes,
        params:
            code=modules("measure_many_class"),
            many_class=many_class_settings,
        message:
            f"Groups of {{wildcards.dataset}} as classes, {model}{at}"
        script:
            "../workflow_scripts/measure_many_class.py"


for model in [name for name, entry in MODELS.items() if entry.kind == "predictions"]:

    rule:
        name:
            f"read_predictions_{model}"
        input:
            predictions=MODELS[model].source["path"],
        output:
            LAYOUT.whole("routing", model, "main", ELSEWHERE),
        log:
            LAYOUT.log(f"read_predictions_{model}"),
        benchmark:
            LAYOUT.benchmark(f"read_predictions_{model}")
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=table_memory,
            runtime=table_minutes,
        params:
            code=modules("read_predictions"),
            predictions=elsewhere_settings(model),
        message:
            f"Reading the predictions of {model}"
        script:
            "../workflow_scripts/read_predictions.py"
