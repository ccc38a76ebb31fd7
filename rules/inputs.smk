"""What datasets are read from and tables made from. No rule stands here."""


def dataset_files(wildcards):
    """The file, and the lists of words its gates need, by name."""
    entry = DATASETS[wildcards.dataset]
    lists = {name: getattr(entry, name) for name in ("keywords", "blocklist", "animate")}
    return {"dataset": entry.path, **{name: path for name, path in lists.items() if path is not None}}


def dataset_entry(name):
    """How a dataset is read, as one sorted dict."""
    entry = DATASETS[name]
    return {
        "design": entry.design,
        "fields": entry.fields,
        "kind": entry.kind,
        "name": name,
        "path": entry.path,
        "prompts": entry.prompts,
    }


def dataset_sources(name):
    """Every file that a dataset is read from."""
    entry = DATASETS[name]
    return [path for path in (entry.path, entry.prompts, entry.fields, entry.design) if path is not None]


def dataset_file(wildcards):
    return DATASETS[wildcards.dataset].path


def gate_settings(wildcards):
    """What is asked of a dataset, as one sorted dict."""
    entry = DATASETS[wildcards.dataset]
    return {
        "dataset": wildcards.dataset,
        "profile": entry.profile,
        "thresholds": dict(sorted(entry.thresholds.items())),
    }


def floor_settings(wildcards):
    """How floors are measured; their own split is that of the probes, seed by seed."""
    seeds = sorted({seed for model in MODELS.values() for seed in dataset_seeds(model, wildcards.dataset)})
    return {
        **settings("floors"),
        "dataset": wildcards.dataset,
        "seeds": seeds,
        "test_fraction": STUDY.config.probe.test_fraction,
    }


def dataset_seeds(model, dataset):
    return STUDY.seeds(model, dataset) if dataset in STUDY.tasks(model) else ()


def with_floors():
    """Datasets that some model's transfer is measured on, or whose floors are drawn."""
    drawn = [spec.datasets for spec in STUDY.config.figures.values() if spec.kind == "floors"]
    return sorted({dataset for _, dataset in measured("transfer")}.union(*drawn))


TABLES_OF = {
    "probing": "probes",
    "onsets": "probes",
    "fragility": "fragility",
    "trajectory": "fragility",
    "scale": "fragility",
    "transfer": "transfer",
    "foundations": "foundations",
    "controls": "controls",
    "levels": "levels",
    "levels_layers": "levels",
    "routing_cells": "routing",
    "routing_counts": "routing",
    "routing_words": "routing",
    "routing_leakage": "routing",
    "routing_sensitivity": "routing",
    "many_class": "many_class",
    "patching": "patching",
    "steering": "steering",
    "tracing": "tracing",
}

# Measures without a file a seed, and where their summaries lie.
WHOLE = {
    "transfer": ["transfer"],
    "levels": ["behavior", "readout", "recoverability"],
    "routing": ["routing"],
    "many_class": ["many_class"],
    "patching": ["patching"],
    "steering": ["steering"],
    "tracing": ["tracing"],
}


def summaries(kind, wildcards):
    """Summary files of all revisions and seeds of a (model, dataset)."""
    model = MODELS[wildcards.model]
    return available(
        LAYOUT.measure(kind, model.name, revision.name, wildcards.dataset, seed, "summary.json")
        for revision in model.revisions
        for seed in STUDY.seeds(model, wildcards.dataset)
    )


def wholes(kind, wildcards):
    """Files of a measure without seeds, of all its revisions of a (model, dataset)."""
    model = MODELS[wildcards.model]
    measure = next(name for name, places in WHOLE.items() if kind in places)
    return available(
        LAYOUT.whole(kind, model.name, revision.name, wildcards.dataset)
        for revision in model.measured_at(measure)
    )


def parts(wildcards):
    """Of each (model, dataset) that has the table's measure, or of each experiment and dataset."""
    compared = wildcards.table in CURATION_TABLES
    pairs = COMPARED if compared else measured(TABLES_OF[wildcards.table])
    return [LAYOUT.table_part(wildcards.table, *pair) for pair in pairs]


def part(table):
    return LAYOUT.table_part(table, "{model}", "{dataset}")


def onset_settings():
    """When accuracy counts as risen, and the bootstrap behind its interval, as one sorted dict."""
    return {
        "bootstrap": STUDY.config.probe.bootstrap,
        "seed": STUDY.config.seeds[0],
        "threshold": STUDY.config.step_onset_threshold,
    }


def levels_together(wildcards, kind):
    """Summaries of one level of every model and control dataset, at every revision."""
    return available(
        LAYOUT.whole(kind, model, revision.name, dataset)
        for model, dataset in measured("levels")
        for revision in MODELS[model].measured_at("levels")
    )


def model_relations():
    """Which models belong together, as the tables over models ask."""
    return [
        {"base": entry.base, "family": entry.family, "name": name}
        for name, entry in MODELS.items()
        if name in {model for model, _ in measured("levels")}
    ]


def decision_settings():
    return {name: rule.model_dump(mode="json") for name, rule in sorted(STUDY.config.decision_rules.items())}


def decision_trajectories():
    """Trajectory tables that the configured tests of a decline read, each once."""
    tested = {(rule.model, rule.dataset): None for rule in STUDY.config.decision_rules.values()}
    return [LAYOUT.table_part("trajectory", *pair) for pair in tested]


def over_training(measure):
    """(model, dataset) pairs of a measure whose models have more than one checkpoint."""
    return [pair for pair in measured(measure) if len(MODELS[pair[0]].revisions) > 1]


def paper_inputs():
    """What the tables are made from, by name; only what the study measures."""
    found = {
        "trajectory": [LAYOUT.table_part("trajectory", *pair) for pair in over_training("fragility")],
        "foundations": [LAYOUT.table_part("foundations", *pair) for pair in over_training("foundations")],
        "floors": [LAYOUT.table("floors")] if with_floors() else [],
    }
    return {name: paths for name, paths in found.items() if paths}


def paper_outputs():
    """Which tables the study can fill, by name."""
    of = {"trajectory": ["table1", "table2", "table3"], "foundations": ["tableA"], "floors": ["tableD2"]}
    return [table for name in paper_inputs() for table in of[name]]
