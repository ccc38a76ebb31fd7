"""The job that fine-tunes: several runs on one base, and nothing of them lost before all is written."""

import json
from pathlib import Path

import pytest

import train_lora
from strataprobe import files
from strataprobe.checkpoints import identify_directory
from strataprobe.curation import training
from tests.tiny_models import save_tiny_model

STEPS = {"step0002": 2, "step0004": 4}
TRAINING = {
    "rank": 2, "alpha": 4.0, "dropout": 0.1, "target_modules": ["q_proj", "v_proj"], "learning_rate": 0.01,
    "warmup_steps": 1, "schedule": "cosine", "gradient_norm": 1.0, "weight_decay": 0.0, "batch_size": 2,
    "sequence_length": 8, "steps": 4, "save_every": 2,
}  # fmt: skip
TEXTS = ["The nurse comforted the child.", "The clerk counted the forms on the desk."]


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """A folder with a base that the study made, its identity, and a corpus."""
    folder = tmp_path_factory.mktemp("base")
    place = save_tiny_model("llama", folder / "weights", seed=0)
    identity = identify_directory(place, model="tiny", revision="r", step=1, source="pretrain", layers=2)
    files.write_json(folder / "r.json", identity)
    rows = [{"id": f"t{n}", "title": "T", "text": " ".join(TEXTS * 4)} for n in range(3)]
    (folder / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def run_of(base: Path, seed: int) -> dict:
    corpus = {
        "name": "own",
        "path": str(base / "texts.jsonl"),
        "texts": "x",
        "statements": None,
        "book": None,
    }
    source = {"training": TRAINING, "seed": seed, "tokens": None, "threads": 1, "condition": "own"}
    return {
        "model": f"tiny-lora-own-s{seed}", "layers": 2, "dtype": "float32", "device": "cpu", "source": source,
        "revisions": [list(own) for own in STEPS.items()], "corpora": [corpus],
    }  # fmt: skip


def call(base: Path, out: Path, seeds: list[int], code: str = "") -> None:
    models = [run_of(base, seed)["model"] for seed in seeds]
    train_lora.main(
        str(base / "r.json"),
        [str(base / "weights/model.safetensors")],
        [str(out / model / name / "adapter_model.safetensors") for model in models for name in STEPS],
        [out / model / f"{name}.json" for model in models for name in STEPS],
        [out / model / "loss.csv" for model in models],
        [out / model / "corpus.json" for model in models],
        runs=[run_of(base, seed) for seed in seeds],
        scratch=out / "scratch",
        code=code,
    )


def results(out: Path) -> dict[str, str]:
    """Checksums of all that was written, but for scratch."""
    paths = [path for path in sorted(out.rglob("*")) if path.is_file() and "scratch" not in path.parts]
    return {str(path.relative_to(out)): files.sha256_file(path) for path in paths}


def test_runs_of_one_job_are_as_if_each_had_one_of_its_own(base, tmp_path):
    call(base, tmp_path / "both", [1, 2])
    for seed in (1, 2):
        call(base, tmp_path / "alone", [seed])
    both, alone = results(tmp_path / "both"), results(tmp_path / "alone")
    assert both == alone
    assert len(both) == 2 * (2 * 3 + 2)
    assert [path for path in (tmp_path / "both/scratch").rglob("*") if path.is_file()] == []
    found = files.read_json(tmp_path / "both/tiny-lora-own-s1/step0004.json")
    assert found["base"]["directory"] == str(base / "weights")
    assert files.read_json(tmp_path / "both/tiny-lora-own-s1/corpus.json")["corpora"][0]["texts"] == 3


def test_the_card_says_how_much_of_each_corpus_is_in_rows_and_how_it_was_read(base, tmp_path, monkeypatch):
    """Cut to 24 tokens, the second of two corpora is not trained on at all."""
    run = run_of(base, 1)
    run["corpora"] = [run["corpora"][0], {**run["corpora"][0], "name": "other"}]
    run["source"] = {**run["source"], "tokens": 24}
    monkeypatch.setattr("tests.unit.test_train_lora_script.run_of", lambda *_: run)
    call(base, tmp_path, [1])
    card = files.read_json(tmp_path / "tiny-lora-own-s1/corpus.json")
    first, second = card["corpora"]
    assert (first["tokens_used"], second["tokens_used"], card["tokens_used"]) == (24, 0, 24)
    assert first["tokens"] == second["tokens"] > 24
    assert (card["rows"], card["passes"]) == (3, 4 * 2 / 3)
    assert card["provenance"]["settings"]["corpora"] == run["corpora"]


def test_a_state_that_another_program_left_is_not_taken_up(base, tmp_path, monkeypatch):
    """Adapters of two programs in one run would be the result of neither."""
    taken = []
    resume = training.Run.resume
    monkeypatch.setattr(training.Run, "resume", lambda run: (resume(run), taken.append(run.step)))
    monkeypatch.setattr(training.Run, "clear", lambda run: None)
    for code in ("one", "other", "one"):
        call(base, tmp_path, [1], code=code)
    assert taken == [0, 0, 4]


def test_a_job_that_is_stopped_while_it_writes_trains_no_step_again(base, tmp_path, monkeypatch):
    call(base, tmp_path / "whole", [1, 2])
    written = files.write_json

    def stopped(path, content):
        if Path(path).name == "corpus.json" and "s2" in str(path):
            raise KeyboardInterrupt
        written(path, content)

    monkeypatch.setattr(files, "write_json", stopped)
    with pytest.raises(KeyboardInterrupt):
        call(base, tmp_path / "stopped", [1, 2])
    monkeypatch.undo()
    trained = []
    monkeypatch.setattr(training.Run, "train_step", lambda run, rows: trained.append(run.step))
    call(base, tmp_path / "stopped", [1, 2])
    assert trained == [], "a run that was done was done again"
    assert results(tmp_path / "stopped") == results(tmp_path / "whole")
    assert [path for path in (tmp_path / "stopped/scratch").rglob("*") if path.is_file()] == []
