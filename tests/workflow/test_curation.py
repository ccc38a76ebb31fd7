"""Fine-tuned checkpoints are like any other: made once, resumable, measured, and compared with their base."""

import csv
import os
import re
import signal
from pathlib import Path

import pytest
import yaml

from strataprobe import cache
from strataprobe.files import read_json
from tests.workflow import tuned
from tests.workflow.trees import Tree, built_once, differing, errors, half_files, kill_group, wait_for
from tests.workflow.tuned import COMPARING, DRAWING, JOINING, MODELS, PAPER, REVISIONS, TABULATING

FIRST = MODELS[0]
PLACE = "results/tables/parts/{}/tuned/size.csv"


@pytest.fixture(scope="session")
def whole(shared) -> Tree:
    """The finished study: nobody changes it."""

    def build(place: Path) -> None:
        tree = tuned.build(place)
        (tree / "config.yaml").write_text(yaml.safe_dump(tuned.tuned_config(), sort_keys=False))
        before = {path.name: path.read_bytes() for path in (tree / "weights/tiny/step0100").iterdir()}
        done = tree.run("curation").done
        wanted = tuned.training() | tuned.measuring() | COMPARING | TABULATING | JOINING | DRAWING | PAPER
        assert wanted <= done, wanted - done
        after = {path.name: path.read_bytes() for path in (tree / "weights/tiny/step0100").iterdir()}
        assert after == before, "fine-tuning wrote to its base"

    return Tree(built_once(shared / "fine_tuned" / "study", build))


@pytest.fixture
def study(whole, tmp_path) -> Tree:
    return whole.copy(tmp_path / "study")


def rows(tree: Tree, table: str) -> list[dict[str, str]]:
    with (tree / PLACE.format(table)).open() as handle:
        return list(csv.DictReader(handle))


def test_nothing_is_left_to_do_and_nothing_lies_about(whole):
    assert whole.plan("curation") == set()
    assert half_files(whole) == []
    assert [path for path in (whole / "scratch").rglob("*") if path.is_file()] == []


def test_a_cache_names_the_base_and_the_adapter(whole):
    base = read_json(whole / "results/checkpoints/tiny/step0100.json")
    found = set()
    for revision in REVISIONS:
        identity = read_json(whole / f"results/checkpoints/{FIRST}/{revision}.json")
        place = whole / f"results/activations/{FIRST}/{revision}/size.h5"
        with cache.open_activations(place) as acts:
            assert acts.provenance["base_weights_sha256"] == base["weights_sha256"]
            assert acts.provenance["adapter_sha256"] == identity["adapter_sha256"]
            assert acts.provenance["weights_sha256"] == identity["weights_sha256"]
        found.add(identity["weights_sha256"])
    assert len(found | {base["weights_sha256"]}) == 3


def test_the_tables_have_the_base_as_step_0_and_every_run(whole):
    found = rows(whole, "curation")
    assert {(row["condition"], row["run"]) for row in found if row["quantity"] == "peak_accuracy"} == {
        *(("base", run) for run in ("", "mean")),
        *((condition, run) for condition in tuned.CONDITIONS for run in ("1", "2", "mean")),
    }
    accuracies = [row for row in found if row["quantity"] == "mean_accuracy" and row["run"] != "mean"]
    steps = {(row["condition"], row["step"]) for row in accuracies}
    assert steps == {("base", "0"), *((name, step) for name in tuned.CONDITIONS for step in ("10", "20"))}
    (base,) = [row for row in accuracies if row["condition"] == "base"]
    probed = read_json(whole / "results/probes/tiny/step0100/size/seed42/summary.json")
    assert float(base["value"]) == pytest.approx(probed["mean_accuracy"], abs=1e-6)
    verdicts = {row["verdict"] for row in rows(whole, "curation_differences")}
    assert verdicts <= {"apart", "not apart", "survives", "in part", "undercut", "no separation", ""}
    assert len(rows(whole, "curation_layers")) > 0


def test_losses_differ_by_condition_and_are_the_same_on_every_run_of_the_same_seed(whole, study):
    curves = {model: (whole / f"results/checkpoints/{model}/loss.csv").read_bytes() for model in MODELS}
    assert len(set(curves.values())) == len(MODELS)
    study.remove(f"results/checkpoints/{FIRST}")
    assert study.run(f"results/checkpoints/{FIRST}/loss.csv").done == tuned.training([FIRST])
    assert differing(study.results("checkpoints/**/*"), whole.results("checkpoints/**/*")) == []


def test_another_condition_trains_only_itself(study):
    with study.changed_config() as config:
        config["models"]["tuned"]["source"]["lora"]["conditions"]["both"] = ["fables", "claims"]
    new = [f"tiny-lora-both-s{seed}" for seed in tuned.SEEDS]
    expected = tuned.training(new) | tuned.measuring(new) | COMPARING | TABULATING | JOINING | DRAWING | PAPER
    assert study.plan("curation") == expected


def test_runs_that_are_trained_together_are_one_job_of_each_kind_with_the_same_results(study, whole):
    """What one run depends on stays the same, so that only the jobs are others; all of it is made anew."""
    with study.changed_config() as config:
        config["models"]["tuned"]["source"]["lora"]["together"] = True
    own = [f"{kind}/tiny-lora-*" for kind in ("checkpoints", "activations", "probes", "fragility")]
    study.remove(*(f"results/{place}" for place in own))
    done = study.run("curation").done
    kinds = ("train_lora", "capture", "train_probes", "measure_fragility")
    assert {name for name in done if name.startswith(kinds)} == {
        tuned.job("train_lora_tuned"),
        tuned.job("capture_tuned_size"),
        tuned.job("train_probes_tuned", dataset="size", seed=42),
        tuned.job("measure_fragility_tuned", dataset="size", seed=42),
    }
    everything = [f"{place}/**/*" for place in own]
    assert differing(study.results(*everything), whole.results(*everything)) == []
    assert study.plan("curation") == set()


def test_how_conditions_are_compared_trains_nothing(study):
    with study.changed_config() as config:
        config["curation"]["bootstrap"] = 60
    differences = {tuned.job("join_table", table="curation_differences")}
    assert study.plan("curation") == COMPARING | differences | {tuned.job("draw_curation_differences")}


def test_a_killed_training_goes_on_from_its_last_adapter_to_the_same_bytes(study, whole, tmp_path):
    """Training of many steps, killed once the first adapter and the state after it are in scratch."""
    with study.changed_config() as config:
        config["models"]["tuned"]["source"]["lora"]["training"] |= {"steps": 200, "save_every": 10}
    target = f"results/checkpoints/{FIRST}/step0200.json"
    unbroken = study.copy(tmp_path / "unbroken")
    log = tmp_path / "killed.log"
    snakemake = study.start(target, log=log)
    try:
        adapter = wait_for(lambda: saved(study), snakemake, log)
        os.kill(wait_for(lambda: training_process(snakemake), snakemake, log), signal.SIGKILL)
        assert snakemake.wait(timeout=300) != 0
    finally:
        if snakemake.poll() is None:
            kill_group(snakemake)
    assert adapter.is_file()
    assert not (study / target).exists(), "a result of an unfinished training"

    again = study.run(target)
    assert again.done == tuned.training([FIRST])
    assert int(re.findall(r"fine-tuning:.*?\d+/(\d+)", again.output)[-1]) < 200, "the run began anew"
    assert unbroken.run(target).done == tuned.training([FIRST])
    pattern = f"checkpoints/{FIRST}/**/*"
    assert differing(study.results(pattern), unbroken.results(pattern)) == []
    assert half_files(study) == []


def saved(tree: Tree) -> Path | None:
    """The first adapter in scratch, once the state to go on from has been written after it."""
    weights = next(tree.path.glob(f"scratch/lora/{FIRST}/*/step0010/adapter_model.safetensors"), None)
    state = weights.parents[1] / "state.safetensors" if weights else None
    return weights if state is not None and state.is_file() else None


def training_process(snakemake) -> int | None:
    """The training job's own process, in the process group of the Snakemake that started it."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command = (place / "cmdline").read_bytes().split(b"\0")
            if os.getpgid(int(place.name)) == snakemake.pid and command[1].endswith(b".train_lora.py"):
                return int(place.name)
        except (OSError, IndexError):
            continue
    return None


def test_a_corpus_shorter_than_a_sequence_ends_its_own_runs_alone(study, whole):
    """The others finish, and with gaps drawn the figures are of these."""
    with study.changed_config() as config:
        config["corpora"]["short"] = {"texts": "data/short.jsonl"}
        config["models"]["tuned"]["source"]["lora"]["conditions"]["short"] = ["short"]
    (study / "data/short.jsonl").write_text('{"id": "a", "title": "A", "text": "Too short."}\n')
    run = study.run("curation", fails=True)
    assert {message for message in errors(run.output) if "short" in message} != set()
    assert any("do not fill one sequence of 16" in message for message in errors(run.output))
    assert study.run("curation", "--config", "gaps=draw").done == DRAWING, "figures of the others"
    found = {row["condition"] for row in rows(study, "curation")}
    assert found == {"base", *tuned.CONDITIONS}


def test_with_gaps_an_experiment_of_which_nothing_is_there_is_an_empty_table(tmp_path):
    """No model is run to say so, and no old table stays in its place."""
    study = tuned.build(tmp_path / "study")
    config = tuned.tuned_config() | {"gaps": "draw", "figures": {}}
    (study / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    done = study.run("results/tables/curation_differences.csv").done
    assert done == COMPARING | {tuned.job("join_table", table="curation_differences")}
    assert rows(study, "curation_differences") == []
