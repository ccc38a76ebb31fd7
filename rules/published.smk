"""Published result files as a source: their numbers stand where ours would, so that tables and figures show them."""


def published_files(model):
    """Every JSON file below the model's folder."""
    return sorted(str(path) for path in Path(MODELS[model].source["directory"]).rglob("*.json"))


def summaries_of(kind, model):
    """A summary a revision: published files are of one dataset and one seed."""
    entry = MODELS[model]
    (dataset,), (seed,) = entry.datasets, entry.seeds
    return [
        LAYOUT.measure(kind, model, revision.name, dataset, seed, "summary.json")
        for revision in entry.revisions
    ]


def published_settings(model):
    """What the config says of a published model, as one sorted dict."""
    entry = MODELS[model]
    return {
        "dataset": entry.datasets[0],
        "directory": entry.source["directory"],
        "layers": entry.layers,
        "model": model,
        "revisions": [revision.name for revision in entry.revisions],
        "seed": entry.seeds[0],
    }


for model in [name for name, entry in MODELS.items() if entry.kind == "published"]:

    rule:
        name:
            f"read_published_{model}"
        input:
            files=published_files(model),
        output:
            **{kind: summaries_of(kind, model) for kind in MODELS[model].measures},
        log:
            LAYOUT.log(f"read_published_{model}"),
        benchmark:
            LAYOUT.benchmark(f"read_published_{model}")
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=table_memory,
            runtime=table_minutes,
        params:
            code=modules("read_published"),
            published=published_settings(model),
        script:
            "../workflow_scripts/read_published.py"
