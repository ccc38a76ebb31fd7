"""Activation caches: one load of a checkpoint serves every dataset of a bundle."""


def capture_settings(model):
    return {**settings("capture"), "dtype": MODELS[model].dtype, "layers": MODELS[model].layers}


def made_weights(model, revisions):
    """Weights that this workflow made, or adapters and then their base."""
    return made_weights_of([model], revisions)


def made_weights_of(models, revisions):
    """Likewise of several models of one kind. `ancient`: whether they changed, their identities say."""
    entry = MODELS[models[0]]
    place = {"pretrain": LAYOUT.weights, "wheel": LAYOUT.weights, "lora": LAYOUT.adapter}.get(entry.kind)
    own = [ancient(place(model, revision)) for model in models for revision in revisions if place]
    return own + (
        made_weights(entry.source["base"], [entry.source["revision"]]) if entry.kind == "lora" else []
    )


def needed_by(members):
    """The measure whose revisions are all that these datasets are captured at, or None: at every one."""
    kind, *others = {DATASETS[name].kind for name in members}
    return next((measure for measure, of in KIND_OF.items() if of == kind and not others), None)


for unit, models in job_units().items():
    model, entry = models[0], MODELS[models[0]]
    for bundle, members in STUDY.bundles(entry).items():
        revisions, place = revisions_of(model, needed_by(members))

        rule:
            name:
                f"capture_{unit}_{bundle}"
            input:
                identities=[LAYOUT.identity(model, revision) for model in models for revision in revisions],
                weights=made_weights_of(models, revisions),
                datasets=[path for name in members for path in dataset_sources(name)],
            output:
                [
                    LAYOUT.activations(model, revision, name)
                    for model in models
                    for revision in revisions
                    for name in members
                ],
            log:
                LAYOUT.log(f"capture_{unit}_{bundle}", *place),
            benchmark:
                LAYOUT.benchmark(f"capture_{unit}_{bundle}", *place)
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
                code=modules("capture"),
                capture=capture_settings(model),
                datasets=[dataset_entry(name) for name in members],
            message:
                f"Capturing activations of {unit} ({len(members)} datasets of bundle {bundle})"
            script:
                "../workflow_scripts/capture.py"
