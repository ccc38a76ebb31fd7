"""Perplexity of a fixed text at every checkpoint: a sanity row, taken whatever else is measured."""

# Models that are tried on a text, and the text of each.
TRIED = {name: model.perplexity_text for name, model in MODELS.items() if model.perplexity_text}


def perplexity_settings(model):
    """How a model is run, as one sorted dict; from when on a row is odd, only its table asks."""
    capture = settings("capture")
    return {
        "device": capture["device"],
        "dtype": MODELS[model].dtype,
        "layers": MODELS[model].layers,
        "threads": capture["threads"],
    }


def tried_identities(wildcards):
    """Identities of every checkpoint of the study that can be run: a twin may go by another model's name."""
    return available(
        LAYOUT.identity(name, revision.name) for name in TRIED for revision in MODELS[name].revisions
    )


def perplexities(wildcards):
    """Of every checkpoint of a model."""
    return available(
        LAYOUT.perplexity(wildcards.model, revision.name) for revision in MODELS[wildcards.model].revisions
    )


def oddity_settings():
    """From when on a checkpoint's perplexity is odd, as one sorted dict."""
    return {name: value for name, value in settings("perplexity").items() if name != "text"}


for model, text in TRIED.items():
    revisions, place = revisions_of(model)
    at = at_revision(place)

    rule:
        name:
            f"measure_perplexity_{model}"
        input:
            identities=identities(model),
            weights=made_weights(model, revisions),
            text=text,
        output:
            [LAYOUT.perplexity(model, revision) for revision in revisions],
        log:
            LAYOUT.log(f"measure_perplexity_{model}", *place),
        benchmark:
            LAYOUT.benchmark(f"measure_perplexity_{model}", *place)
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
            code=modules("measure_perplexity"),
            perplexity=perplexity_settings(model),
        message:
            f"Perplexity of {text} under {model}{at}"
        script:
            "../workflow_scripts/measure_perplexity.py"


if TRIED:

    rule:
        name:
            "tabulate_checkpoints"
        input:
            identities=tried_identities,
            perplexities=perplexities,
        output:
            table=LAYOUT.checkpoints_part("{model}"),
        log:
            LAYOUT.log("tabulate_checkpoints", "{model}"),
        benchmark:
            LAYOUT.benchmark("tabulate_checkpoints", "{model}")
        wildcard_constraints:
            model="|".join(map(re.escape, TRIED)),
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=table_memory,
            runtime=table_minutes,
        params:
            code=modules("tabulate_checkpoints"),
            limits=oddity_settings(),
        message:
            "Table of the checkpoints of {wildcards.model}"
        script:
            "../workflow_scripts/tabulate_checkpoints.py"

    rule:
        name:
            "join_checkpoints"
        input:
            parts=[LAYOUT.checkpoints_part(model) for model in TRIED],
        output:
            table=LAYOUT.table("checkpoints"),
            page=report(
                LAYOUT.page("checkpoints"),
                caption="../report/checkpoints_table.rst",
                category="Models",
                subcategory="all",
                labels={"figure": "table of checkpoints", "model": ", ".join(TRIED), "dataset": "-"},
            ),
        log:
            LAYOUT.log("join_checkpoints"),
        benchmark:
            LAYOUT.benchmark("join_checkpoints")
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=table_memory,
            runtime=table_minutes,
        params:
            code=modules("join_checkpoints"),
        message:
            "Table of all checkpoints, and its page"
        script:
            "../workflow_scripts/join_checkpoints.py"

    COLLECTIONS["fragility"].append([LAYOUT.table("checkpoints"), LAYOUT.page("checkpoints")])
