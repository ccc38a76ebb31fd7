"""Each bad input gives one clear error, at the end of a run that did everything else it could."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.workflow.study import (
    NOTHING,
    capturing,
    drawing,
    job,
    pairs,
    study_config,
    tabulating,
    write_pairs,
)
from tests.workflow.trees import Run, Tree, built_once, differing, errors, half_files

_BROKEN = [
    {
        "id": "good",
        "positive": "The cook saw a huge stone.",
        "negative": "The cook saw a grey stone.",
        "group": "a",
    },
    {"id": "void", "positive": "The cook saw a huge stone.", "negative": "  ", "group": "a"},
    {
        "id": "nul",
        "positive": "The cook saw\0 a huge stone.",
        "negative": "The cook saw a stone.",
        "group": "a",
    },
    '{"id": "half", "positive": "The cook \\ud800 saw.", "negative": "The cook saw.", "group": "a"}',
    '{"id": "cut", "positive": "The cook saw',
    {"id": 7, "positive": ["The cook"], "negative": "The cook saw.", "group": "a"},
    {"id": "odd", "positive": "The cook saw.", "negative": "The cook ate.", "group": "a", "grup": "b"},
    {"id": "good", "positive": "The guard saw.", "negative": "The guard ate.", "group": "a"},
]
_LONG = "The cook saw " + "a huge stone and " * 20 + "a key."


def write_datasets(tree: Tree) -> None:
    write_pairs(tree / "data/broken.jsonl", _BROKEN)
    rows = pairs("size")
    write_pairs(tree / "data/long.jsonl", [{**rows[0], "positive": _LONG}, *rows[1:]])
    write_pairs(tree / "data/one_class.jsonl", [{**row, "negative": row["positive"]} for row in rows])
    write_pairs(tree / "data/few.jsonl", [*rows[:10], rows[10]])


def write_nan(directory: Path, source: Path) -> None:
    from safetensors.numpy import load_file, save_file

    shutil.copytree(source, directory)
    tensors = load_file(directory / "model.safetensors")
    name = next(name for name in tensors if "layers.1." in name and "mlp.up" in name)
    tensors[name] = tensors[name].copy()
    tensors[name][0, 0] = np.nan
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def bad_config() -> dict:
    config = study_config()
    config["seeds"] = [42]
    for dataset in ("broken", "long", "one_class", "few"):
        config["datasets"][dataset] = {"path": f"data/{dataset}.jsonl"}
    tiny = config["models"]["tiny"]
    tiny["revisions"] = ["step0200"]
    nan = {"local": {"directory": "weights/nan/{revision}"}}
    config["models"]["misfit"] = {**tiny, "layers": 3, "datasets": ["size"]}
    config["models"]["nan"] = {**tiny, "source": nan, "datasets": ["size"]}
    config["figures"] = {"noise_curves": config["figures"]["noise_curves"]}
    return config


@pytest.fixture(scope="session")
def bad(shared, finished) -> tuple[Tree, Run]:
    """One run of a study in which four datasets and two models are bad."""

    def build(place: Path) -> None:
        tree = finished.copy(place)
        write_datasets(tree)
        write_nan(tree / "weights/nan/step0200", tree / "weights/tiny/step0200")
        with tree.changed_config() as config:
            config.clear()
            config.update(bad_config())
        tree.remove("results/figures/*")
        run = tree.run(fails=True)
        (place.parent / "bad.json").write_text(json.dumps(vars(run)))

    place = built_once(shared / "bad" / "study", build)
    return Tree(place), Run(**json.loads((place.parent / "bad.json").read_text()))


def error_of(bad: tuple[Tree, Run], log: str) -> str:
    """The one error in a job's log."""
    (message,) = errors((bad[0] / f"logs/{log}.log").read_text())
    return message


def test_bad_input_loses_nothing_and_does_not_keep_the_rest_from_being_done(bad, finished):
    tree, run = bad
    failing = {
        job(f"capture_tiny_{dataset}", revision="step0200") for dataset in ("broken", "long", "one_class")
    }
    failing |= {
        job("identify_local_misfit", revision="step0200"),
        job("capture_nan_size", revision="step0200"),
    }
    failing |= {job("train_probes_tiny", revision="step0200", dataset="few", seed=42)}
    failing |= {job("check_dataset", dataset=dataset) for dataset in ("broken", "one_class")}
    fine = drawing(["noise_curves"]) | capturing(["step0200"], ["few"])
    fine |= {job("check_dataset", dataset=dataset) for dataset in ("long", "few")}
    fine |= {job("identify_local_nan", revision="step0200")}
    assert run.done == failing | fine | tabulating()
    kept = (
        "activations/tiny/**/*",
        "checkpoints/tiny/*",
        "probes/**/*",
        "fragility/**/*",
        "figures/noise_curves.*",
    )
    now, before = tree.results(*kept), finished.results(*kept)
    assert [name for name in differing(now, before) if name in before] == []
    assert half_files(tree) == []
    assert tree.plan("results/figures/noise_curves.svg") == NOTHING


def test_each_bad_input_is_one_error_without_a_traceback(bad):
    said = Counter(errors(bad[1].output))
    assert len(said) == 6
    assert "Traceback" not in bad[1].output
    # A file that cannot be read is told of by the job that checks it and by the one that captures it.
    of_files = {name: said.pop(error_of(bad, f"check_dataset/{name}")) for name in ("broken", "one_class")}
    assert of_files == {"broken": 2, "one_class": 2}
    assert set(said.values()) == {1}, "an error is told more than once"


def test_all_faults_of_a_dataset_file_are_told_at_once(bad):
    message = error_of(bad, "capture_tiny_broken/step0200")
    for fault in (
        "8 problems",
        "broken.jsonl:2: field 'negative' is empty (a pair needs both sides)",
        "broken.jsonl:3: field 'positive' holds a NUL byte at character 13",
        "broken.jsonl:4: field 'positive' holds half of a surrogate pair",
        "broken.jsonl:5: not readable as JSON at column 27",
        "broken.jsonl:6: field 'id': 7 is not a text in quotation marks",
        "broken.jsonl:6: field 'positive': [\"The cook\"] is not a text in quotation marks",
        "broken.jsonl:7: field 'grup' is unknown; did you mean 'group'?",
        "broken.jsonl:8: field 'id': 'good' is already the id of line 1",
    ):
        assert fault in message, f"not said: {fault}"


def test_a_sentence_too_long_for_the_model_is_named_with_both_lengths(bad):
    message = error_of(bad, "capture_tiny_long/step0200")
    assert "large00:positive" in message
    assert re.search(r"\d{3} tokens", message)
    assert "64" in message


def test_a_dataset_with_one_class_is_refused(bad):
    message = error_of(bad, "capture_tiny_one_class/step0200")
    assert "one_class.jsonl: only one class: in every pair both sentences are the same" in message


def test_too_few_pairs_for_the_split_name_the_group_and_what_is_enough(bad):
    message = error_of(bad, "train_probes_tiny/step0200/few/seed42")
    assert "group 'small' has too few pairs: 1" in message
    assert "5 pairs a group are enough at 0.2" in message


def test_layers_that_differ_from_the_config_name_both_numbers(bad):
    message = error_of(bad, "identify_local_misfit/step0200")
    assert "misfit step0200" in message
    assert "layers: the study says 3, config.json says 2" in message


def test_nan_in_the_weights_names_the_tensor(bad):
    message = error_of(bad, "capture_nan_size/step0200")
    assert "model.layers.1.mlp.up_proj.weight: NaN or inf" in message


def test_all_faults_of_a_config_are_told_at_once_and_nothing_runs(study):
    with study.changed_config() as config:
        config["models"]["tiny"]["layers"] = "six"
        config["datasets"]["care"]["bundel"] = config["datasets"]["care"].pop("bundle")
        config["datasets"]["truth"]["path"] = "data/trut.jsonl"
        config["seeds"] = [42, 42]
        config["figures"]["depth"]["model"] = "tniy"
        config["models"]["../out"] = config["models"]["tiny"]
    run = study.run(fails=True)
    for fault in (
        "models.tiny.layers: 'six' is not a whole number of at least 1",
        "datasets.care.bundel: unknown key; did you mean 'bundle'?",
        "datasets.truth.path: there is no file 'data/trut.jsonl'; did you mean 'data/truth.jsonl'?",
        "seeds: 42 given more than once",
        "figures.depth.model: 'tniy' is not a model of this study; did you mean 'tiny'?",
        "models.../out: '../out' cannot name a file",
    ):
        assert fault in run.output, f"not said: {fault}\n{run.output}"
    assert "Traceback" not in run.output
    assert run.jobs == []


def test_a_mistyped_target_names_the_nearest_one(study):
    run = study.run("results/figures/saturatoin.svg", fails=True)
    assert (
        "results/figures/saturatoin.svg: nothing makes it; did you mean 'results/figures/saturation.svg'?"
        in run.output
    )
    assert run.jobs == []
