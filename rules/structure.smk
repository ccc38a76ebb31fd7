"""What a probe's accuracy rests on: transfer between groups, each group by itself, controls."""


def probes_under_test(model, wildcards):
    """Caches of the datasets that test this one's probes, revision by revision."""
    names = STUDY.tests_of(MODELS[model], wildcards.dataset)
    revisions = [getattr(wildcards, "revision", None) or name for name in revisions_of(model)[0]]
    return [LAYOUT.activations(model, revision, name) for revision in revisions for name in names]


def control_settings(model, wildcards):
    """How controls are measured, and how each dataset that tests the probes is read."""
    tests = {name: DATASETS[name].profile for name in STUDY.tests_of(MODELS[model], wildcards.dataset)}
    return {**settings("controls"), "tests": tests}


def structure_memory(wildcards, attempt):
    return 2000 * attempt


def structure_minutes(wildcards, attempt):
    return 60 * attempt


for model in measuring("transfer"):
    revisions, place = revisions_of(model)
    at = at_revision(place)

    rule:
        name:
            f"measure_transfer_{model}"
        input:
            activations=caches(model),
            identities=identities(model),
            dataset=dataset_file,
            floors=LAYOUT.floors("{dataset}"),
        output:
            [LAYOUT.whole("transfer", model, revision, "{dataset}") for revision in revisions],
        log:
            LAYOUT.log(f"measure_transfer_{model}", *place, "{dataset}"),
        benchmark:
            LAYOUT.benchmark(f"measure_transfer_{model}", *place, "{dataset}")
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=structure_memory,
            runtime=structure_minutes,
        params:
            code=modules("measure_transfer"),
            transfer=settings("transfer"),
            floors=settings("floors"),
        message:
            f"Transfer of {model} for {{wildcards.dataset}}{at}"
        script:
            "../workflow_scripts/measure_transfer.py"


for model in measuring("foundations"):
    revisions, place = revisions_of(model)
    at = at_revision(place)

    rule:
        name:
            f"measure_foundations_{model}"
        input:
            activations=caches(model),
            identities=identities(model),
        output:
            [
                LAYOUT.measure("foundations", model, revision, "{dataset}", "{seed}", "summary.json")
                for revision in revisions
            ],
        log:
            LAYOUT.log(f"measure_foundations_{model}", *place, "{dataset}", "seed{seed}"),
        benchmark:
            LAYOUT.benchmark(f"measure_foundations_{model}", *place, "{dataset}", "seed{seed}")
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=structure_memory,
            runtime=structure_minutes,
        params:
            code=modules("measure_foundations"),
            foundations=settings("foundations"),
        message:
            f"Groups by themselves of {model} for {{wildcards.dataset}}, seed {{wildcards.seed}}{at}"
        script:
            "../workflow_scripts/measure_foundations.py"


for model in measuring("controls"):
    revisions, place = revisions_of(model)
    at = at_revision(place)

    rule:
        name:
            f"measure_controls_{model}"
        input:
            activations=caches(model),
            identities=identities(model),
            weights=[
                LAYOUT.measure("probes", model, revision, "{dataset}", "{seed}", "weights.h5")
                for revision in revisions
            ],
            dataset=dataset_file,
            tests=partial(probes_under_test, model),
        output:
            [
                LAYOUT.measure("controls", model, revision, "{dataset}", "{seed}", "summary.json")
                for revision in revisions
            ],
        log:
            LAYOUT.log(f"measure_controls_{model}", *place, "{dataset}", "seed{seed}"),
        benchmark:
            LAYOUT.benchmark(f"measure_controls_{model}", *place, "{dataset}", "seed{seed}")
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=structure_memory,
            runtime=structure_minutes,
        params:
            code=modules("measure_controls"),
            controls=partial(control_settings, model),
        message:
            f"Controls of {model} for {{wildcards.dataset}}, seed {{wildcards.seed}}{at}"
        script:
            "../workflow_scripts/measure_controls.py"
