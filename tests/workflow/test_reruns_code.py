"""What a change in scripts and modules makes Snakemake do, and what a mere touch does not."""

import os
import time

import pytest

from tests.workflow.study import (
    NOTHING,
    capturing,
    checking,
    drawing,
    identifying,
    joining,
    measuring,
    tabulating,
)
from tests.workflow.trees import PARTS, differing

_AFTER_FRAGILITY = tabulating(of=["fragility"]) | joining(["fragility", "scale", "trajectory"]) | drawing()
_AFTER_PROBES = measuring() | tabulating() | joining() | drawing()

# Every table is one import away from all of them; noise curves are drawn from no table.
_AFTER_TABLES = tabulating() | checking([]) | joining() | (drawing() - {"draw_noise_curves"})

# Each module with the jobs of the stages that import it, and of all that hangs on them.
CHANGES = {
    "strataprobe/checkpoints/identity.py": identifying() | capturing() | _AFTER_PROBES,
    "strataprobe/capture/pooling.py": capturing() | _AFTER_PROBES,
    "strataprobe/probes/training.py": _AFTER_PROBES,
    "strataprobe/onsets.py": _AFTER_TABLES,
    "strataprobe/datasets/profiles.py": checking(),
    "strataprobe/fragility/ceiling.py": measuring(["measure_fragility"]) | _AFTER_FRAGILITY,
    "join_table.py": joining(),
    "strataprobe/figures/frames.py": drawing(),
    "strataprobe/pretraining/corpus.py": NOTHING,
}


@pytest.mark.parametrize("module", CHANGES)
def test_a_changed_module_reruns_exactly_the_stages_that_run_it(study, module):
    with (study / "workflow_scripts" / module).open("a") as handle:
        handle.write("\n# another content\n")
    assert study.plan() == CHANGES[module]


def test_a_changed_module_of_one_figure_redraws_it_the_same(study, finished):
    with (study / "workflow_scripts/strataprobe/figures/saturation.py").open("a") as handle:
        handle.write("\n# another content\n")
    assert study.run().done == drawing(["saturation"])
    assert differing(study.results(), finished.results()) == []
    assert study.plan() == NOTHING


@pytest.mark.parametrize(
    "path",
    [
        "workflow_scripts/capture.py",
        "workflow_scripts/strataprobe/files.py",
        "data/care.jsonl",
        "rules/probes.smk",
    ],
)
def test_a_touched_file_with_the_same_content_reruns_nothing(study, path):
    (study / path).touch()
    assert study.plan() == NOTHING


def test_a_tree_checked_out_anew_reruns_nothing(study):
    now = time.time()
    for part in (*PARTS, "data", "weights", "config.yaml"):
        place = study / part
        for path in [place, *place.rglob("*")]:
            os.utime(path, (now, now))
    assert study.plan() == NOTHING
