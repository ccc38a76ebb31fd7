"""Three levels on the same control items: behaviour, LM-head readout, probe recoverability."""


def level_settings(model):
    """How prompts are put and states read out, as one sorted dict."""
    return {"capture": capture_settings(model), "chat": MODELS[model].chat, "readout": settings("readout")}


def tuned_lenses(model):
    """Of each revision, where the study reads states by them."""
    if "tuned" not in STUDY.config.readout.definitions:
        return []
    return [LAYOUT.tuned_lens(model, revision) for revision in revisions_of(model, "levels")[0]]


def lens_settings(model):
    """How a tuned lens is trained, as one sorted dict."""
    training = settings("tuned_lens")
    threads = training.pop("threads")
    training.pop("corpus")
    entry = MODELS[model]
    return {
        "device": STUDY.config.capture.device,
        "dtype": entry.dtype,
        "layers": entry.layers,
        "threads": threads,
        "training": training,
    }


def control_sources(wildcards):
    return dataset_sources(wildcards.dataset)


def control_entry(wildcards):
    return dataset_entry(wildcards.dataset)


def level_files(kind, model):
    """Summaries of one level, dataset by dataset for each revision."""
    return [
        LAYOUT.whole(kind, model, revision, name)
        for revision in revisions_of(model, "levels")[0]
        for name in STUDY.controls_of(MODELS[model])
    ]


for model, entry in RUNNABLE.items():
    if not STUDY.controls_of(entry) or "levels" not in entry.measures:
        continue
    revisions, place = revisions_of(model, "levels")
    at = at_revision(place)

    rule:
        name:
            f"measure_levels_{model}"
        input:
            identities=identities(model, "levels"),
            weights=made_weights(model, revisions),
            tuned=tuned_lenses(model),
            datasets=[path for name in STUDY.controls_of(entry) for path in dataset_sources(name)],
        output:
            behavior=level_files("behavior", model),
            readout=level_files("readout", model),
            scores=[
                LAYOUT.scores(model, revision, name)
                for revision in revisions
                for name in STUDY.controls_of(entry)
            ],
        log:
            LAYOUT.log(f"measure_levels_{model}", *place),
        benchmark:
            LAYOUT.benchmark(f"measure_levels_{model}", *place)
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
            code=modules("measure_levels"),
            datasets=[dataset_entry(name) for name in STUDY.controls_of(entry)],
            levels=level_settings(model),
        message:
            f"Behaviour and LM-head readout of {model}{at}"
        script:
            "../workflow_scripts/measure_levels.py"

    rule:
        name:
            f"measure_recoverability_{model}"
        input:
            activations=caches(model, "levels"),
            identities=identities(model, "levels"),
            dataset=control_sources,
        output:
            [LAYOUT.whole("recoverability", model, revision, "{dataset}") for revision in revisions],
        log:
            LAYOUT.log(f"measure_recoverability_{model}", *place, "{dataset}"),
        benchmark:
            LAYOUT.benchmark(f"measure_recoverability_{model}", *place, "{dataset}")
        wildcard_constraints:
            dataset="|".join(map(re.escape, STUDY.controls_of(entry))),
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=structure_memory,
            runtime=structure_minutes,
        params:
            code=modules("measure_recoverability"),
            dataset=control_entry,
            recoverability=settings("recoverability"),
        message:
            f"Probe recoverability of {model} for {{wildcards.dataset}}{at}"
        script:
            "../workflow_scripts/measure_recoverability.py"

    if "tuned" in STUDY.config.readout.definitions:

        rule:
            name:
                f"train_tuned_lens_{model}"
            input:
                identity=LAYOUT.identity(model, "{revision}"),
                weights=made_weights(model, ["{revision}"]),
                corpus=STUDY.config.tuned_lens.corpus,
            output:
                LAYOUT.tuned_lens(model, "{revision}"),
            log:
                LAYOUT.log(f"train_tuned_lens_{model}", "{revision}"),
            benchmark:
                LAYOUT.benchmark(f"train_tuned_lens_{model}", "{revision}")
            priority: earlier_first(model)
            conda:
                "../envs/torch.yaml"
            threads: STUDY.config.tuned_lens.threads
            resources:
                mem_mb=partial(capture_memory, model),
                runtime=partial(capture_minutes, model),
                gpu=partial(capture_gpus, model),
                downloads=fetches(model),
            params:
                code=modules("train_tuned_lens"),
                tuned_lens=lens_settings(model),
            message:
                f"Tuned lens of {model} at {{wildcards.revision}}"
            script:
                "../workflow_scripts/train_tuned_lens.py"
