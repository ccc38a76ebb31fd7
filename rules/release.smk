"""Weights from the hub: dropped once nothing of the study needs them, so that a trajectory fits on a disk.

The DAG knows identities only. A job opens weights by commit, which fetches them where the hub's cache lacks them
and notes that; so after a release a dataset that is added later fetches again only what it needs.
"""

# Measures that run the model themselves, and where their results lie.
FROM_WEIGHTS = {
    "levels": "behavior",
    "patching": "patching",
    "steering": "steering",
    "tracing": "tracing",
}


def weight_consumers(model, wildcards):
    """What the study makes from the weights of a revision; with `gaps: draw`, of that what there is."""
    revision = wildcards.revision
    paths = run_from_weights(MODELS[model], revision)
    for tuned in MODELS.values():
        if tuned.kind == "lora" and (tuned.source["base"], tuned.source["revision"]) == (model, revision):
            for saved in tuned.revisions:
                paths += [LAYOUT.identity(tuned.name, saved.name), *run_from_weights(tuned, saved.name)]
    return available(paths)


def run_from_weights(entry, revision):
    """Results whose jobs open the weights of a model at a revision."""
    paths = [
        LAYOUT.activations(entry.name, revision, dataset)
        for name, dataset in STUDY.captured(entry)
        if name == revision
    ]
    for measure, place in FROM_WEIGHTS.items():
        if measure in entry.measures and revision in [at.name for at in entry.measured_at(measure)]:
            names = measured_on(measure, entry.name)
            paths += [LAYOUT.whole(place, entry.name, revision, dataset) for dataset in names]
    if entry.perplexity_text:
        paths.append(LAYOUT.perplexity(entry.name, revision))
    return paths


def downloads_at_once():
    """How many jobs may fetch at the same time, as the profile or the command line says; None where neither does."""
    limit = workflow.global_resources.get("downloads")
    return getattr(limit, "value", limit)


for model in FROM_HUB:
    COLLECTIONS["released"].append(
        [LAYOUT.released(model, revision.name) for revision in MODELS[model].revisions]
    )

    rule:
        name:
            f"release_weights_{model}"
        input:
            consumers=partial(weight_consumers, model),
            identity=LAYOUT.identity(model, "{revision}"),
        output:
            LAYOUT.released(model, "{revision}"),
        log:
            LAYOUT.log(f"release_weights_{model}", "{revision}"),
        benchmark:
            LAYOUT.benchmark(f"release_weights_{model}", "{revision}")
        priority: len(MODELS[model].revisions) + 1
        # Where the cache is, and at once: a queue would only keep the disk full.
        localrule: True
        conda:
            "../envs/torch.yaml"
        threads: 1
        params:
            code=modules("release_weights"),
        message:
            f"Done with the weights of {model} at {{wildcards.revision}}"
        script:
            "../workflow_scripts/release_weights.py"


try:
    downloads.refuse_more_than_fit(STUDY, downloads_at_once())
except StrataprobeError as error:
    raise WorkflowError(str(error))
