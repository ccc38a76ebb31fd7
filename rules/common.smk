"""Helpers the rules share. No rule stands here, and no measure is computed here."""

import os
import re
import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(workflow.basedir) / "workflow_scripts"))

from snakemake.cli import get_argument_parser

from strataprobe.config import ELSEWHERE, KIND_OF, MEASURE_OF, Study
from strataprobe.errors import StrataprobeError
from strataprobe.workflow import designs, downloads, imports, scheduling, targets, timing

STARTED = time.time()
FAILURE_ADVICE = (
    "Some jobs failed; each says why above and in its log under logs/. What was finished is kept: the same "
    "command goes on from there. To draw figures of what there is, add --config gaps=draw. After Snakemake itself "
    "was killed, unlock first: snakemake --unlock."
)
SCRIPTS = Path(os.path.relpath(Path(workflow.basedir) / "workflow_scripts"))

PUBLISHED = os.path.relpath(Path(workflow.basedir) / "resources/published")

CONFIG_FILES = ", ".join(str(path) for path in workflow.overwrite_configfiles) or "config.yaml"


def only_resolving():
    """Whether nothing is asked for but which revisions there are: only then may the list of them be missing."""
    resolves = re.compile(r"resolve(_.+)?")
    if not any(map(resolves.fullmatch, sys.argv[1:])):
        return False
    wanted = get_argument_parser().parse_known_args(sys.argv[1:])[0].targets
    return bool(wanted) and all(map(resolves.fullmatch, wanted))


RESOLVING = only_resolving()

try:
    STUDY = Study.load(config, where=CONFIG_FILES, base=Path.cwd(), resolving=RESOLVING)
except StrataprobeError as error:
    raise WorkflowError(str(error))
LAYOUT = STUDY.layout
MODELS = STUDY.models
# Models whose weights can be run; of the others only results are there.
RUNNABLE = {name: model for name, model in MODELS.items() if model.kind not in ("published", "predictions")}
DATASETS = STUDY.config.datasets
PAIRS = [name for name, entry in DATASETS.items() if entry.kind == "pairs"]


wildcard_constraints:
    model="|".join(map(re.escape, MODELS)),
    revision="|".join(sorted({re.escape(r.name) for m in MODELS.values() for r in m.revisions})),
    dataset="|".join(map(re.escape, [*DATASETS, ELSEWHERE])),
    seed=r"\d+",


def modules(script):
    """Checksum of the script and of every library module it runs: what a rule states as its code.

    A changed module changes exactly the rules whose scripts run it; a touched one changes none. As a param
    and not as twenty inputs a job: those made a dry run of a large study a quarter slower.
    """
    return imports.checksum(SCRIPTS / f"{script}.py")


def settings(stage):
    """A stage's settings as one sorted dict: what its rule states as params."""
    return STUDY.settings(stage)


def rules_targets(collection):
    """What a collection asks for; an input function, since the rules that make it come later."""
    return partial(collected, collection)


def collected(collection, wildcards):
    return [path for paths in COLLECTIONS[collection] for path in paths]


def capture_memory(model, wildcards, attempt):
    """MB for a job that loads the model; half as much again at each further attempt."""
    return int(MODELS[model].memory_mb * (1 + 0.5 * (attempt - 1)))


def capture_minutes(model, wildcards, attempt):
    """Minutes for such a job, where a scheduler asks: half an hour, and 5 for each 1000 MB of its memory."""
    return (30 + MODELS[model].memory_mb // 200) * attempt


def job_units():
    """Models whose captures and trainings are one job, by its name: the runs of a small experiment, or one model."""
    joint = {
        run.model: name for name, entry in STUDY.experiments.items() if entry.together for run in entry.runs
    }
    units = {}
    for model in RUNNABLE:
        units.setdefault(joint.get(model, model), []).append(model)
    return units


def fetches(model):
    """Whether a job that opens the model's weights may fetch them from the hub: a share of `downloads`."""
    entry = MODELS[model]
    return int("hub" in (entry.kind, entry.kind == "lora" and MODELS[entry.source["base"]].kind))


def earlier_first(model):
    """Priority of jobs that open weights from the hub: those of earlier revisions go first, so that few are held.

    What is fine-tuned from one goes before them all: its base is held until the last of it is measured.
    """
    if MODELS[model].kind == "lora" and fetches(model):
        return len(MODELS[MODELS[model].source["base"]].revisions) + 1
    if MODELS[model].kind != "hub":
        return 0
    names = [revision.name for revision in MODELS[model].revisions]
    return partial(from_the_end, {name: len(names) - place for place, name in enumerate(names)})


def from_the_end(places, wildcards):
    return places[wildcards.revision]


def capture_gpus(model, wildcards):
    """GPUs for a job that runs the model: one, or as many as it is spread over.

    None with `cpu`, or with `auto` on a laptop that has none.

    Profiles bound it: to 1 on a laptop, where jobs take turns, to 0 on a cluster without GPUs.
    """
    device = STUDY.config.capture.device
    if device == "cpu" or (device == "auto" and workflow.local_exec and not gpu_is_here()):
        return 0
    placement = STUDY.config.models[model].placement if model in STUDY.config.models else None
    return placement.gpus if placement else 1


def gpu_is_here():
    """Whether this machine shows a GPU. Torch would know better, and takes seconds to import."""
    devices = Path(os.sep, "dev")
    return sys.platform == "darwin" or any((devices / name).exists() for name in ("nvidiactl", "kfd", "dxg"))


def table_memory(wildcards, attempt):
    return 1000 * attempt


def table_minutes(wildcards, attempt):
    return 15 * attempt


def available(paths):
    """The paths to read: all of them, or with `gaps: draw` those that exist."""
    if STUDY.config.gaps == "refuse":
        return list(paths)
    return [path for path in paths if Path(path).exists()]


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


COLLECTION_OF_MEASURE = {
    "probes": "fragility",
    "fragility": "fragility",
    "levels": "levels",
    "routing": "lucky_defaults",
    "many_class": "lucky_defaults",
    "patching": "interventions",
    "steering": "interventions",
    "tracing": "interventions",
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


def revisions_of(model, measure=None):
    """Revisions that one job goes through, and the wildcards of its log and its benchmark.

    A model made here has all those of a measure in one job where one costs little beside starting a process.
    """
    if MODELS[model].made_here:
        return [revision.name for revision in MODELS[model].measured_at(measure)], []
    return ["{revision}"], ["{revision}"]


def at_revision(place):
    """What a rule's message says of the revision: nothing where one job goes through all of them."""
    return " at {wildcards.revision}" if place else ""


def caches(model, measure=None):
    """Activation caches that one job of a (model, dataset) reads."""
    return [LAYOUT.activations(model, revision, "{dataset}") for revision in revisions_of(model, measure)[0]]


def identities(model, measure=None):
    """Identities of the checkpoints behind `caches`."""
    return [LAYOUT.identity(model, revision) for revision in revisions_of(model, measure)[0]]


def measuring(measure):
    """Models that are run here of which the study asks for a measure."""
    return [name for name, entry in RUNNABLE.items() if measure in entry.measures]


def measured(measure):
    return STUDY.measured(measure)


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


def print_time_per_rule():
    rows = timing.time_per_rule(Path(LAYOUT.benchmarks), since=STARTED)
    print(timing.report(rows, time.time() - STARTED), file=sys.stderr)


def refuse_unknown_targets():
    """Name the nearest valid path for a mistyped one.

    Costs a look through the rules for each word of the command line that could be a result; only when
    nothing makes it is the command line parsed to see whether it was asked for.
    """
    made = partial(is_made, list(workflow.rules))
    if all(made(word) for word in sys.argv[1:] if word.startswith(f"{LAYOUT.base}/")):
        return
    wanted = get_argument_parser().parse_known_args(sys.argv[1:])[0].targets
    message = targets.unknown_targets(wanted or [], made, known_paths)
    if message:
        raise WorkflowError(message)


def is_made(rules_known, target):
    return (
        any(rule.name == target or rule.is_producer(target) for rule in rules_known) or Path(target).exists()
    )


def known_paths():
    """Every path this study can make that a person would ask for by name, and the names of its rules."""
    paths = [rule.name for rule in workflow.rules]
    paths += [path for paths in COLLECTIONS.values() for group in paths for path in group]
    elsewhere = [name for name, model in MODELS.items() if model.kind == "predictions"]
    paths += [LAYOUT.whole("routing", model, "main", ELSEWHERE) for model in elsewhere]
    for model in RUNNABLE.values():
        asked = [
            (kind, name) for kind in model.measures for owner, name in measured(kind) if owner == model.name
        ]
        for revision in model.revisions:
            paths.append(LAYOUT.identity(model.name, revision.name))
            for dataset in model.datasets:
                if DATASETS[dataset].kind == "vocabulary" and ("routing", dataset) not in asked:
                    continue
                if revision in model.measured_at(needed_by([dataset])):
                    paths.append(LAYOUT.activations(model.name, revision.name, dataset))
            for kind, dataset in asked:
                if revision in model.measured_at(kind):
                    paths += result_paths(kind, model, revision.name, dataset)
    return paths


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


def result_paths(kind, model, revision, dataset):
    """Results of one measure at one checkpoint, as far as a mistyped path is looked for among them."""
    if kind in WHOLE:
        return [LAYOUT.whole(place, model.name, revision, dataset) for place in WHOLE[kind]]
    place = model.name, revision, dataset, STUDY.seeds(model, dataset)[0]
    layers = [LAYOUT.layer(kind, *place, 0)] if kind in ("probes", "fragility") else []
    return [LAYOUT.measure(kind, *place, "summary.json"), *layers]


# What each collection asks for: filled by the rule files, read when the DAG is built.
COLLECTIONS = {
    "datasets": [],
    "fragility": [],
    "structure": [],
    "levels": [],
    "lucky_defaults": [],
    "interventions": [],
    "curation": [],
    "released": [],
}
