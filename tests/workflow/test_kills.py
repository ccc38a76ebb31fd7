"""`kill -9`, in the middle: what was finished stays, and the same command ends as if nothing had been."""

import os
import signal
from pathlib import Path

from tests.workflow.study import SEEDS, capturing, drawing, identifying, measuring
from tests.workflow.trees import Tree, differing, half_files, kill_group, started, wait_for

CACHE = "results/activations/tiny/step0200/size.h5"
STUCK = {"STRATAPROBE_TEST_STUCK": "tiny/step0200/.size."}


def half_cache(study: Tree) -> Path | None:
    """The temporary place of the cache that is being written, once it holds states."""
    found = list((study / CACHE).parent.glob(".size.*.h5"))
    return found[0] if found and found[0].stat().st_size > 10_000 else None


def test_a_killed_capture_costs_only_itself(study, finished, tmp_path):
    beside = "results/checkpoints/tiny/step0000.json"
    study.remove(CACHE, beside)
    log = tmp_path / "killed.log"
    snakemake = study.start(CACHE, beside, log=log, variables=STUCK)
    try:
        half = wait_for(lambda: half_cache(study), snakemake, log)
        wait_for((study / beside).exists, snakemake, log)
        os.kill(int(half.name.split("-")[1]), signal.SIGKILL)
        assert snakemake.wait(timeout=300) != 0
    finally:
        if snakemake.poll() is None:
            kill_group(snakemake)
    assert set(started(log)) == capturing(["step0200"], ["size"]) | identifying(["step0000"])
    assert "logs/capture_tiny_size/step0200.log" in log.read_text()
    assert not (study / CACHE).exists()
    assert (study / beside).exists(), "the job beside it was lost"

    assert study.run(CACHE, beside).done == capturing(["step0200"], ["size"])
    assert differing(study.results(), finished.results()) == []
    assert half_files(study) == []
    assert study.plan() == set()


def test_a_killed_snakemake_goes_on_after_the_documented_unlock(study, finished, tmp_path):
    study.remove("results/activations/tiny/step0[12]00/size.h5", "results/fragility/tiny/*/size")
    study.remove("results/probes/tiny/*/size", "results/tables/*.csv", "results/tables/parts/*/tiny/size.csv")
    study.remove("results/figures/scale.*")
    curves = study / "results/fragility/tiny/step0100/size"
    log = tmp_path / "killed.log"
    snakemake = study.start(log=log, variables=STUCK)
    try:
        wait_for(lambda: half_cache(study), snakemake, log)
        wait_for(lambda: list(curves.glob("*/summary.json")), snakemake, log)
    finally:
        kill_group(snakemake)
    assert capturing(["step0100", "step0200"], ["size"]) <= set(started(log))
    assert half_files(study) != []

    locked = study.run(fails=True)
    assert "--unlock" in locked.output
    assert locked.jobs == []
    study.run("--unlock")
    done = study.run().done
    assert done & capturing() == capturing(["step0200"], ["size"])
    assert measuring(revisions=["step0200"], datasets=["size"], seeds=SEEDS) | drawing(["scale"]) <= done
    assert differing(study.results(), finished.results()) == []
    assert half_files(study) == []
    assert study.plan() == set()
