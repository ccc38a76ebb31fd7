"""A study through a real Slurm: what was asked of it, a job that it kills, the same bytes as without it."""

import os
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from tests.cluster import slurm
from tests.tiny_models import save_tiny_model
from tests.workflow.study import SEEDS, pairs, study_config, write_pairs
from tests.workflow.trees import Tree, differing, kill_group

WANTED = [f"results/fragility/tiny/step0200/care/seed{seed}/summary.json" for seed in SEEDS]
# Comments of the jobs, as the plugin writes them, and what each asks for: CPUs, MB, time, GPUs. Probes and
# curves of a checkpoint are one job: two chains side by side, each of two jobs of 10 minutes.
NONE = ""
CAPTURE = "rule_capture_tiny_core_wildcards_step0200"
ASKED = {
    "rule_identify_local_tiny_wildcards_step0200": ("1", "1000M", "00:40:00", NONE),
    CAPTURE: ("1", "2000M", "00:40:00", "gres:gpu:1"),
    "rule_probes_step0200_measure_fragility_tiny_train_probes_tiny": ("2", "3000M", "00:20:00", NONE),
}
# Half as much memory again, and twice the time.
AGAIN = ("1", "3000M", "01:20:00", "gres:gpu:1")


@pytest.fixture
def cluster() -> Iterator[None]:
    """Slurm's daemons; without them the test is skipped, but never in CI."""
    try:
        with slurm.cluster():
            yield
    except slurm.NoSlurmError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture
def tree(tmp_path) -> Tree:
    """One checkpoint, one dataset, two seeds; on a GPU where there is one."""
    tree = Tree.new(tmp_path / "study")
    config = study_config()
    config["datasets"] = {"care": config["datasets"]["care"]}
    config["models"]["tiny"]["revisions"] = ["step0200"]
    config["figures"] = {}
    config["capture"]["device"] = "auto"
    write_pairs(tree / "data/care.jsonl", pairs("care"))
    save_tiny_model("llama", tree / "weights/tiny/step0200", seed=2, max_positions=64)
    (tree / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    return tree


def running(comment: str) -> str | None:
    """The number of the job with this comment, while it runs."""
    return next(
        (job["JobId"] for job in slurm.jobs() if job["Comment"] == comment and job["JobState"] == "RUNNING"),
        None,
    )


def test_a_study_on_slurm_asks_for_what_its_rules_say_survives_a_kill_and_writes_the_same_bytes(
    cluster, tree, tmp_path
):
    local = tree.copy(tmp_path / "local")
    partition = "slurm_partition: "
    tree.edit("profiles/slurm/config.yaml", f"# {partition}partition", partition + slurm.OTHER_PARTITION)
    log = tmp_path / "slurm.log"
    often = ("--slurm-init-seconds-before-status-checks", "8")
    snakemake = tree.start("--workflow-profile", "profiles/slurm", *often, *WANTED, log=log)
    try:
        killed = slurm.waited(lambda: running(CAPTURE), seconds=200)
        assert killed, log.read_text()[-6000:]
        subprocess.run(["scancel", killed], check=True)
        code = snakemake.wait(timeout=300)
    finally:
        if snakemake.poll() is None:
            kill_group(snakemake)
    said = log.read_text()
    assert code == 0, said[-6000:]
    assert f"SLURM-job '{killed}' failed, SLURM status is: 'CANCELLED'" in said

    jobs = slurm.jobs()
    assert {job["Partition"] for job in jobs} == {slurm.OTHER_PARTITION}
    assert {job["NumNodes"] for job in jobs} == {"1"}
    assert {job["JobId"]: job["JobState"] for job in jobs if job["JobState"] != "COMPLETED"} == {
        killed: "CANCELLED"
    }
    needs = ("Comment", "NumCPUs", "MinMemoryNode", "TimeLimit", "TresPerJob")
    asked = [tuple(job.get(need, NONE) for need in needs) for job in jobs]
    first = [(comment, *limits) for comment, limits in ASKED.items()]
    assert sorted(asked) == sorted([*first, (CAPTURE, *AGAIN)])

    local.run(*WANTED)
    assert differing(tree.results(), local.results()) == []
    assert len(tree.results()) > 10
    assert tree.plan(*WANTED) == set()
