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


def measured(measure):
    return STUDY.measured(measure)


def measured_on(measure, model):
    """Datasets on which the study asks for a measure of this model."""
    return [dataset for owner, dataset in measured(measure) if owner == model]


def measuring(measure):
    """Models run here of which the study asks for a measure."""
    return [model for model in RUNNABLE if measured_on(measure, model)]
