"""The scripts: from checkpoints and control items to summaries and item-level rows."""

import csv
import json

import pytest

import measure_levels
import train_tuned_lens
from strataprobe import files
from strataprobe.checkpoints import identify_directory
from strataprobe.errors import DatasetError, ModelError
from tests import control_cases as cases
from tests.tiny_models import save_tiny_model

CAPTURE = {
    "dtype": "float32", "device": "cpu", "batch_tokens": 512, "embed": True, "threads": 1, "window_mb": 8,
    "layers": 3,
}  # fmt: skip
SETTINGS = {
    "capture": CAPTURE,
    "chat": False,
    "readout": {"conventions": "default", "definitions": ["default", "paper"], "flips": 50, "seed": 1729},
}


def checkpoint(directory, revision, seed):
    weights = save_tiny_model("llama", directory / revision, seed=seed, layers=3, max_positions=256)
    identity = identify_directory(
        weights, model="tiny", revision=revision, step=seed, source="pretrain", layers=3
    )
    path = directory / f"{revision}.json"
    files.write_json(path, identity)
    return path, weights / "config.json"


def entry(directory, name, languages):
    data, prompts = cases.write(directory / name, cases.rows(languages))
    return {"name": name, "kind": "control", "path": str(data), "prompts": str(prompts)}


def run(tmp_path, settings=SETTINGS, **extra):
    made = [checkpoint(tmp_path / "weights", name, seed) for seed, name in enumerate(("step0", "step1"))]
    datasets = [entry(tmp_path, "all", ["en", "zh", "de"]), entry(tmp_path, "english", ["en"])]
    places = [tmp_path / f"out/{revision}/{name}" for revision in "01" for name in ("all", "english")]
    measure_levels.main(
        [identity for identity, _ in made],
        [weights for _, weights in made],
        [place / "behavior.json" for place in places],
        [place / "items.csv" for place in places],
        [place / "readout.json" for place in places],
        datasets=datasets,
        settings=settings,
        **extra,
    )
    return places


def test_every_checkpoint_and_dataset_has_its_summaries_and_rows(tmp_path, capfd):
    places = run(tmp_path)
    deployed = [json.loads((place / "behavior.json").read_text()) for place in places]
    read = [json.loads((place / "readout.json").read_text()) for place in places]
    for found, benchmark in ((deployed, "control_behavior"), (read, "control_readout")):
        assert [one["benchmark_name"] for one in found] == [benchmark] * 4
        assert [(one["revision"], one["dataset"]) for one in found] == [
            ("step0", "all"), ("step0", "english"), ("step1", "all"), ("step1", "english"),
        ]  # fmt: skip
        assert found[0]["items"]["languages"] == ["en", "en", "zh", "zh", "de", "de"]
        assert found[0]["metadata"]["conventions"] == "default"
        assert found[0]["metadata"]["chat"] is False
        made_from = found[0]["provenance"]["activations"]
        assert made_from["dataset_sha256"] != found[1]["provenance"]["activations"]["dataset_sha256"]
        assert made_from["weights_sha256"] == found[1]["provenance"]["activations"]["weights_sha256"]
        assert "torch" in made_from["software"]
    assert read[0]["metadata"]["definitions"] == ["default", "paper"]
    assert deployed[0]["variants"]["qa"]["scores_a"][:2] == deployed[1]["variants"]["qa"]["scores_a"]
    assert deployed[0]["variants"]["qa"]["scores_a"] != deployed[2]["variants"]["qa"]["scores_a"]
    with (places[1] / "items.csv").open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    first = next(row for row in rows if (row["variant"], row["candidate"]) == ("qa", "a"))
    assert float(first["score"]) == deployed[1]["variants"]["qa"]["scores_a"][0]
    assert "100%" in capfd.readouterr().err


def test_settings_are_left_as_they_were_and_equal_runs_give_equal_bytes(tmp_path):
    before = json.dumps(SETTINGS)
    one, other = (run(tmp_path / name) for name in ("one", "other"))
    assert json.dumps(SETTINGS) == before
    for place, again in zip(one, other, strict=True):
        for name in ("behavior.json", "items.csv", "readout.json"):
            assert (place / name).read_bytes() == (again / name).read_bytes()


def test_a_lens_is_trained_and_read_with_for_its_own_checkpoint_alone(tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("The nurse comforted the child.\n\nThe clerk counted the forms.\n", encoding="utf-8")
    training = {"optimizer": "adam", "learning_rate": 0.01, "steps": 3, "batch_tokens": 32, "seed": 1}
    lenses = []
    for seed, revision in enumerate(("step0", "step1")):
        identity, weights = checkpoint(tmp_path / "weights", revision, seed)
        lenses.append(tmp_path / f"{revision}.safetensors")
        train_tuned_lens.main(
            identity, [weights] if weights else [], corpus, lenses[-1],
            settings={"training": training, "threads": 1, "dtype": "float32", "device": "cpu", "layers": 3},
        )  # fmt: skip
    settings = {**SETTINGS, "readout": {**SETTINGS["readout"], "definitions": ["default", "tuned"]}}
    places = run(tmp_path, settings, tuned=lenses)
    found = json.loads((places[2] / "readout.json").read_text())
    assert set(found["definitions"]) == {"default", "tuned"}
    facts = found["provenance"]["activations"]["tuned_lens"]
    assert (facts["revision"], facts["texts"]) == ("step1", 2)
    assert facts["corpus_sha256"] == files.sha256_file(corpus)
    with pytest.raises(ModelError, match="was not trained for"):
        run(tmp_path, settings, tuned=lenses[::-1])


def test_a_corpus_without_texts_is_refused(tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n \n", encoding="utf-8")
    with pytest.raises(DatasetError, match="no texts in the corpus"):
        train_tuned_lens.read_corpus(empty)
    with pytest.raises(DatasetError, match="cannot read the corpus"):
        train_tuned_lens.read_corpus(tmp_path / "none.txt")
