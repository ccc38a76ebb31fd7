"""Interventions on the residual stream: activation patching, steering, causal tracing."""


def intervention_settings(model, measure):
    """How prompts are put, the model is run and states are changed, as one sorted dict."""
    return {"capture": capture_settings(model), "chat": MODELS[model].chat, measure: settings(measure)}


def intervention_files(place, kind, model, datasets):
    """Files of an intervention, dataset by dataset for each revision: `place` is one of LAYOUT's methods."""
    revisions = revisions_of(model, kind)[0]
    return [place(kind, model, revision, name) for revision in revisions for name in datasets]


# Activation patching


def patched_together(wildcards):
    """Summaries of patching of every model and control dataset, at every revision."""
    return available(
        LAYOUT.whole("patching", model, revision.name, dataset)
        for model, dataset in measured("patching")
        for revision in MODELS[model].measured_at("patching")
    )


def patched_relations():
    """Which patched models were tuned from which."""
    patched = dict.fromkeys(model for model, _ in measured("patching"))
    return [{"base": MODELS[name].base, "name": name} for name in patched]


for model, entry in RUNNABLE.items():
    patched = measured_on("patching", model)
    if not patched:
        continue
    revisions, place = revisions_of(model, "patching")
    at = at_revision(place)

    rule:
        name:
            f"measure_patching_{model}"
        input:
            identities=identities(model, "patching"),
            weights=made_weights(model, revisions),
            recoverability=[
                LAYOUT.whole("recoverability", model, revision, name)
                for revision in revisions
                for name in patched
            ],
            datasets=[path for name in patched for path in dataset_sources(name)],
        output:
            summaries=intervention_files(LAYOUT.whole, "patching", model, patched),
            runs=intervention_files(LAYOUT.runs, "patching", model, patched),
        log:
            LAYOUT.log(f"measure_patching_{model}", *place),
        benchmark:
            LAYOUT.benchmark(f"measure_patching_{model}", *place)
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
            code=modules("measure_patching"),
            datasets=[dataset_entry(name) for name in patched],
            patching=intervention_settings(model, "patching"),
        message:
            f"Activation patching of {model}{at}"
        script:
            "../workflow_scripts/measure_patching.py"


if measured("patching"):
    COLLECTIONS["interventions"].append([LAYOUT.table("patching_models")])


# Steering


def steering_settings(model):
    """As of any intervention, and how the probe is trained whose direction is taken."""
    training = settings("recoverability")
    probe = {name: training[name] for name in ("epochs", "learning_rate")}
    return dict(sorted({**intervention_settings(model, "steering"), "probe": probe}.items()))


def was_tuned(wildcards):
    return MODELS[wildcards.model].base is not None


for model, entry in RUNNABLE.items():
    steered = measured_on("steering", model)
    if not steered:
        continue
    revisions, place = revisions_of(model, "steering")
    at = at_revision(place)

    rule:
        name:
            f"measure_steering_{model}"
        input:
            identities=identities(model, "steering"),
            weights=made_weights(model, revisions),
            recoverability=[
                LAYOUT.whole("recoverability", model, revision, name)
                for revision in revisions
                for name in steered
            ],
            datasets=[path for name in steered for path in dataset_sources(name)],
        output:
            summaries=intervention_files(LAYOUT.whole, "steering", model, steered),
            runs=intervention_files(LAYOUT.runs, "steering", model, steered),
        log:
            LAYOUT.log(f"measure_steering_{model}", *place),
        benchmark:
            LAYOUT.benchmark(f"measure_steering_{model}", *place)
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
            code=modules("measure_steering"),
            datasets=[dataset_entry(name) for name in steered],
            steering=steering_settings(model),
        message:
            f"Steering of {model}{at}"
        script:
            "../workflow_scripts/measure_steering.py"


# Causal tracing


def probed_too(wildcards):
    """Summaries of the probes of the traced checkpoints, where the study trains any on these pairs."""
    if (wildcards.model, wildcards.dataset) not in measured("probes"):
        return []
    model = MODELS[wildcards.model]
    return available(
        LAYOUT.measure("probes", model.name, revision.name, wildcards.dataset, seed, "summary.json")
        for revision in model.measured_at("tracing")
        for seed in STUDY.seeds(model, wildcards.dataset)
    )


for model, entry in RUNNABLE.items():
    traced = measured_on("tracing", model)
    if not traced:
        continue
    revisions, place = revisions_of(model, "tracing")
    at = at_revision(place)

    rule:
        name:
            f"measure_tracing_{model}"
        input:
            identities=identities(model, "tracing"),
            weights=made_weights(model, revisions),
            datasets=[path for name in traced for path in dataset_sources(name)],
        output:
            summaries=intervention_files(LAYOUT.whole, "tracing", model, traced),
            runs=intervention_files(LAYOUT.runs, "tracing", model, traced),
        log:
            LAYOUT.log(f"measure_tracing_{model}", *place),
        benchmark:
            LAYOUT.benchmark(f"measure_tracing_{model}", *place)
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
            code=modules("measure_tracing"),
            datasets=[dataset_entry(name) for name in traced],
            tracing=intervention_settings(model, "tracing"),
        message:
            f"Causal tracing of {model}{at}"
        script:
            "../workflow_scripts/measure_tracing.py"
