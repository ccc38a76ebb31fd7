"""Activation caches: one load of a checkpoint serves every dataset of a bundle."""


def capture_settings(model):
    return {**settings("capture"), "dtype": MODELS[model].dtype, "layers": MODELS[model].layers}


def made_weights(model, revisions):
    """Weights that this workflow made, or adapters and then their base. `ancient`: identities say what changed."""
    if MODELS[model].kind in ("pretrain", "wheel"):
        return [ancient(LAYOUT.weights(model, revision)) for revision in revisions]
    if MODELS[model].kind == "lora":
        adapters = [ancient(LAYOUT.adapter(model, revision)) for revision in revisions]
        return adapters + made_weights(MODELS[model].source["base"], [MODELS[model].source["revision"]])
    return []


def needed_by(members):
    """The measure whose revisions are all that these datasets are captured at, or None: at every one."""
    kind, *others = {DATASETS[name].kind for name in members}
    return next((measure for measure, of in KIND_OF.items() if of == kind and not others), None)


for model, entry in RUNNABLE.items():
    for bundle, members in STUDY.bundles(entry).items():
        revisions, place = revisions_of(model, needed_by(members))

        rule:
            name:
                f"capture_{model}_{bundle}"
            input:
                identities=[LAYOUT.identity(model, revision) for revision in revisions],
                weights=made_weights(model, revisions),
                datasets=[path for name in members for path in dataset_sources(name)],
            output:
                [LAYOUT.activations(model, revision, name) for revision in revisions for name in members],
            log:
                LAYOUT.log(f"capture_{model}_{bundle}", *place),
            benchmark:
                LAYOUT.benchmark(f"capture_{model}_{bundle}", *place)
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
                f"Capturing activations of {model} ({len(members)} datasets of bundle {bundle})"
            script:
                "../workflow_scripts/capture.py"
