"""Pre-training: the tokenizer, the data of a step, the loss, and runs that are stopped and go on."""

import csv
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from strataprobe.errors import ModelError
from strataprobe.pretraining import corpus, data, tokenizer, train

ROOT = Path(__file__).resolve().parents[2]
RESOURCES = ROOT / "resources" / "corpora" / "nano"


def tiny_settings(**training) -> dict:
    return {
        "architecture": {
            "hidden_size": 16,
            "layers": 2,
            "heads": 2,
            "intermediate_size": 24,
            "vocab_size": 400,
            "max_positions": 64,
        },
        "corpus": {"seed": 5, "documents": 400},
        "training": {
            "batch_size": 4,
            "sequence_length": 24,
            "learning_rate": 0.01,
            "warmup_steps": 3,
            "weight_decay": 0.1,
            "gradient_norm": 1.0,
            "schedule": "cosine",
            **training,
        },
        "checkpoints": [0, 3, 6, 12],
        "threads": 1,
    }


def run(out: Path, scratch: Path, settings: dict | None = None, progress=None, seed: int = 1) -> None:
    train.pretrain(
        settings or tiny_settings(),
        seed=seed,
        resources=RESOURCES,
        out_for=lambda step: out / f"step{step:04d}",
        scratch=scratch,
        loss_csv=out / "loss.csv",
        progress=progress,
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    run(folder / "out", folder / "scratch")
    assert not any((folder / "scratch").iterdir()), "scratch is to be empty after success"
    return folder / "out"


def stop_at(step: int):
    def progress(steps, **_):
        for number in steps:
            if number == step:
                raise KeyboardInterrupt
            yield number

    return progress


@pytest.mark.parametrize("step", [1, 3, 5, 12])
def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(step, undisturbed, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "out", tmp_path / "scratch", progress=stop_at(step))
    assert not (tmp_path / "out").exists(), "nothing may stand in place before the run is done"
    run(tmp_path / "out", tmp_path / "scratch")
    assert contents(tmp_path / "out") == contents(undisturbed)


def test_a_resumed_run_does_not_begin_anew(undisturbed, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "out", tmp_path / "scratch", progress=stop_at(8))
    seen: list[int] = []

    def watch(steps, **_):
        for step in steps:
            seen.append(step)
            yield step

    run(tmp_path / "out", tmp_path / "scratch", progress=watch)
    assert seen == list(range(7, 13))


def test_a_killed_process_leaves_a_state_that_goes_on_to_the_same_bytes(undisturbed, tmp_path):
    code = (
        "import sys, time; from pathlib import Path; sys.path[:0] = [{tests!r}, {library!r}]\n"
        "import test_pretraining as t\n"
        "def slow(steps, **_):\n"
        "    for step in steps:\n"
        "        print(step, flush=True); time.sleep(0.2 if step > 6 else 0); yield step\n"
        "t.run(Path({out!r}), Path({scratch!r}), progress=slow)"
    ).format(
        tests=str(Path(__file__).parent),
        library=str(ROOT / "workflow_scripts"),
        out=str(tmp_path / "out"),
        scratch=str(tmp_path / "scratch"),
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.strip() == "8":
            break
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    run(tmp_path / "out", tmp_path / "scratch")
    assert contents(tmp_path / "out") == contents(undisturbed)


def test_other_settings_do_not_take_up_a_foreign_state(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "out", tmp_path / "scratch", progress=stop_at(8))
    seen: list[int] = []

    def first(steps, **_):
        seen.append(next(iter(steps)))
        raise KeyboardInterrupt
        yield

    for settings, seed in ((tiny_settings(learning_rate=0.02), 1), (tiny_settings(), 2)):
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "out", tmp_path / "scratch", settings, first, seed)
    assert seen == [1, 1]


def test_the_weights_do_not_depend_on_how_often_they_are_saved(undisturbed, tmp_path):
    settings = tiny_settings()
    settings["checkpoints"] = [12]
    run(tmp_path / "out", tmp_path / "scratch", settings)
    last = "step0012/model.safetensors"
    assert (tmp_path / "out" / last).read_bytes() == (undisturbed / last).read_bytes()


def test_a_loss_that_is_no_number_names_its_step_and_keeps_the_state(tmp_path, monkeypatch):
    loss = train.next_token_loss

    def broken(model, rows):
        value = loss(model, rows)
        broken.calls += value.requires_grad
        return value * float("nan") if broken.calls == 8 else value

    broken.calls = 0
    monkeypatch.setattr(train, "next_token_loss", broken)
    with pytest.raises(ModelError, match="nan at step 8 of 12"):
        run(tmp_path / "out", tmp_path / "scratch")
    assert not (tmp_path / "out").exists()
    assert list((tmp_path / "scratch").glob("*/state.safetensors"))


def test_the_fused_loss_and_its_gradients_agree_with_the_models_own():
    settings = tiny_settings()
    model = train.build_model(settings, 3)
    rows = torch.from_numpy(np.random.default_rng(0).integers(3, 400, (5, 17)))
    ours = train.next_token_loss(model, rows)
    (3 * ours).backward()
    gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    theirs = model(input_ids=rows, labels=rows).loss
    (3 * theirs).backward()
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-5)
    for name, parameter in model.named_parameters():
        assert torch.allclose(gradients[name], parameter.grad, atol=1e-5), name


def test_training_lowers_the_held_out_loss_below_the_unigram_entropy(tmp_path):
    settings = tiny_settings(learning_rate=0.02)
    settings["checkpoints"] = [0, 120]
    settings["training"]["batch_size"] = 16
    run(tmp_path / "out", tmp_path / "scratch", settings)
    _, rows, heldout = data.prepare(settings, RESOURCES)
    counts = np.bincount(rows.ravel(), minlength=400) + 1.0
    unigram = -np.log(counts / counts.sum())[heldout[:, 1:]].mean()
    curve = list(csv.DictReader((tmp_path / "out" / "loss.csv").open()))
    assert float(curve[0]["heldout_loss"]) == pytest.approx(np.log(400), abs=1.0)
    assert float(curve[-1]["heldout_loss"]) < unigram - 0.5


def test_the_loss_curve_has_a_row_a_step_and_a_held_out_loss_at_every_checkpoint(undisturbed):
    rows = list(csv.DictReader((undisturbed / "loss.csv").open()))
    assert list(rows[0]) == ["step", "loss", "learning_rate", "tokens", "heldout_loss"]
    assert [int(row["step"]) for row in rows] == list(range(13))
    assert [int(row["step"]) for row in rows if row["heldout_loss"]] == [0, 3, 6, 12]
    assert rows[0]["loss"] == ""
    assert int(rows[-1]["tokens"]) == 12 * 4 * 24
    rates = [float(row["learning_rate"]) for row in rows[1:]]
    assert rates[:3] == pytest.approx([0.01 / 3, 0.02 / 3, 0.01], rel=1e-4)
    assert rates[-1] == pytest.approx(0.001, rel=1e-4)


def test_a_checkpoint_is_a_complete_model_that_transformers_opens(undisturbed):
    files = {path.name for path in (undisturbed / "step0006").iterdir()}
    assert files == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    model = AutoModelForCausalLM.from_pretrained(undisturbed / "step0006")
    words = AutoTokenizer.from_pretrained(undisturbed / "step0006")
    assert type(model).__name__ == "Olmo2ForCausalLM"
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert torch.isfinite(model(**words("The steward wept.", return_tensors="pt")).logits).all()
    assert oct((undisturbed / "step0006" / "model.safetensors").stat().st_mode & 0o777) == "0o644"


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    documents = corpus.generate(RESOURCES, seed=5, documents=400)
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save(tokenizer.train(documents, 500), folder, max_positions=64)
    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize(
    "text", ["The steward wept.", "He lied; 雨 fell – naïvely! 🙂", "walking walks walked", " two  spaces"]
)
def test_any_text_survives_with_exactly_one_bos(text, words):
    ids = words(text)["input_ids"]
    assert ids[0] == words.bos_token_id
    assert ids.count(words.bos_token_id) == 1
    assert words.eos_token_id not in ids
    assert words.decode(ids[1:]) == text


def test_padding_is_a_reserved_token_and_spans_lie_on_their_words(words):
    assert (words.pad_token_id, words.bos_token_id, words.eos_token_id) == (0, 1, 2)
    text = "The steward tortured Ottoline."
    offsets = words(text, return_offsets_mapping=True)["offset_mapping"]
    covered = "".join(text[start:end] for start, end in offsets)
    assert covered == text.replace(" ", "")
    batch = words(["He wept.", "She thanked the old porter."], padding=True)
    assert (np.array(batch["input_ids"])[np.array(batch["attention_mask"]) == 0] == 0).all()


def test_the_tokenizer_is_the_same_for_the_same_documents():
    documents = corpus.generate(RESOURCES, seed=5, documents=200)
    assert tokenizer.train(documents, 400).to_str() == tokenizer.train(documents, 400).to_str()


@pytest.mark.parametrize(("size", "reason"), [(100, "too small"), (60000, "tokens only")])
def test_a_vocabulary_that_cannot_be_is_refused(size, reason):
    with pytest.raises(ModelError, match=reason):
        tokenizer.train(["a few words only", "a few more"], size)


def test_rows_begin_where_a_document_begins_and_hold_no_padding():
    rows = data.pack([[1, 5, 6], [1, 7, 8, 9, 10], [1, 11, 12, 13], [1, 3]], 5)
    assert rows.tolist() == [[1, 5, 6, 2, 1], [1, 11, 12, 13, 2]]
    assert data.pack([[1, 3]], 5).shape == (0, 5)


def test_every_row_is_seen_once_a_pass_and_a_step_does_not_depend_on_earlier_ones():
    steps = [data.batch_rows(10, 4, 7, step) for step in range(1, 6)]
    assert sorted(np.concatenate(steps)[:10]) == list(range(10))
    assert sorted(np.concatenate(steps)[10:]) == list(range(10))
    assert data.batch_rows(10, 4, 7, 5).tolist() == steps[4].tolist()
    assert data.batch_rows(10, 10, 7, 1).tolist() != data.batch_rows(10, 10, 8, 1).tolist()


def test_torch_is_left_as_it_was_found(undisturbed):
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.utils.deterministic.fill_uninitialized_memory


def test_too_few_documents_are_refused(tmp_path):
    settings = tiny_settings()
    settings["corpus"]["documents"] = 60
    settings["architecture"]["vocab_size"] = 300
    with pytest.raises(ModelError, match=r"raise corpus\.documents"):
        run(tmp_path / "out", tmp_path / "scratch", settings)
