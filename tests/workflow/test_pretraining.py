"""A model made here: one training job for all its checkpoints, resumable, and the same by seed."""

import os
import signal
from pathlib import Path

import pytest
import yaml

from tests.workflow.study import job, pairs, write_pairs
from tests.workflow.trees import Tree, built_once, differing, half_files, kill_group, wait_for

STEPS = (0, 20, 400)
REVISIONS = tuple(f"step{step:04d}" for step in STEPS)
MADE = job("pretrain_nano")


def config() -> dict:
    training = {"batch_size": 8, "sequence_length": 32, "learning_rate": 0.003, "warmup_steps": 5}
    source = {
        "seeds": [1],
        "architecture": {
            "hidden_size": 32,
            "heads": 2,
            "intermediate_size": 64,
            "vocab_size": 512,
            "max_positions": 64,
        },
        "corpus": {"seed": 1, "documents": 400},
        "training": {**training, "weight_decay": 0.1, "gradient_norm": 1.0},
        "checkpoints": list(STEPS),
    }
    return {
        "seeds": [42],
        "datasets": {"size": {"path": "data/size.jsonl"}},
        "models": {"nano": {"source": {"pretrain": source}, "layers": 2}},
        "capture": {"device": "cpu"},
        "probe": {"bootstrap": 20},
        "fragility": {"bootstrap": 10},
        "figures": {
            "loss": {"kind": "loss", "model": "nano"},
            "saturation": {"kind": "saturation", "model": "nano", "dataset": "size"},
        },
    }


@pytest.fixture(scope="session")
def trained(shared) -> Tree:
    """The finished study of a model made here: nobody changes it."""

    def build(place: Path) -> None:
        tree = Tree.new(place)
        write_pairs(tree / "data/size.jsonl", pairs("size"))
        (tree / "config.yaml").write_text(yaml.safe_dump(config(), sort_keys=False))
        measured = {
            job(f"{rule}_nano", dataset="size", seed=42) for rule in ("train_probes", "measure_fragility")
        }
        assert tree.run().done >= {MADE, job("capture_nano_size"), job("draw_loss")} | measured

    return Tree(built_once(shared / "trained" / "study", build))


def training_process(snakemake) -> int | None:
    """The training job's own process, in the process group of the Snakemake that started it."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command = (place / "cmdline").read_bytes().split(b"\0")
            if os.getpgid(int(place.name)) == snakemake.pid and command[1].endswith(b".pretrain.py"):
                return int(place.name)
        except (OSError, IndexError):
            continue
    return None


def saved(tree: Tree) -> Path | None:
    """The weights of step 20 in scratch, once the state to go on from has been written after them."""
    weights = next(tree.path.glob("scratch/pretrain/nano/*/step0020/model.safetensors"), None)
    if weights is None:
        return None
    state = weights.parents[1] / "state.safetensors"
    return weights if state.is_file() and state.stat().st_mtime_ns > weights.stat().st_mtime_ns else None


def test_a_finished_model_has_nothing_to_do_and_leaves_no_scratch(trained):
    assert trained.plan() == set()
    assert [path for path in (trained / "scratch").rglob("*") if path.is_file()] == []
    assert half_files(trained) == []


def test_a_killed_training_goes_on_from_its_last_checkpoint_to_the_same_bytes(trained, tmp_path):
    study = trained.copy(tmp_path / "study")
    study.remove("results/checkpoints")
    target = "results/checkpoints/nano/loss.csv"
    log = tmp_path / "killed.log"
    snakemake = study.start(target, log=log)
    try:
        weights = wait_for(lambda: saved(study), snakemake, log)
        process = wait_for(lambda: training_process(snakemake), snakemake, log)
        os.kill(process, signal.SIGKILL)
        assert snakemake.wait(timeout=300) != 0
    finally:
        if snakemake.poll() is None:
            kill_group(snakemake)
    assert study.results("checkpoints/**/*") == {}, "a result of an unfinished training"
    first_time = weights.stat().st_ino

    assert study.run(target).done == {MADE}
    again = (study / "results/checkpoints/nano/step0020/model.safetensors").stat().st_ino
    assert again == first_time, "step 20 was trained once more instead of taken from scratch"
    assert differing(study.results(), trained.results()) == []
    assert half_files(study) == []
    assert [path for path in (study / "scratch").rglob("*") if path.is_file()] == []
    assert study.plan() == set()
