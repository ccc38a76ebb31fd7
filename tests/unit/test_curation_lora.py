"""LoRA runs: the same bytes however often they are saved or stopped, checked against Trainer's own way."""

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from strataprobe import lm
from strataprobe.checkpoints import identify_directory
from strataprobe.curation.lora import Settings, learning_rate, with_adapter
from strataprobe.curation.training import LOSS_COLUMNS, next_token_loss, train
from strataprobe.errors import ModelError
from tests.tiny_models import save_tiny_model

ROOT = Path(__file__).resolve().parents[2]
SMALL = Settings(
    rank=2,
    alpha=4,
    dropout=0.1,
    learning_rate=0.01,
    warmup_steps=3,
    batch_size=2,
    sequence_length=8,
    steps=10,
    save_every=5,
)


def rows(count: int = 5, length: int = 8) -> np.ndarray:
    return np.random.default_rng(3).integers(3, 300, (count, length))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    return save_tiny_model("llama", tmp_path_factory.mktemp("base") / "llama")


@pytest.fixture(scope="module")
def base(checkpoint) -> dict:
    return identify_directory(checkpoint, model="tiny", revision="step0005", step=5, source="local", layers=2)


@pytest.fixture
def llama(checkpoint):
    return lm.load(checkpoint, dtype="float32", device="cpu")


def run(loaded, base, out: Path, settings: Settings = SMALL, *, seed: int = 7, progress=None) -> Path:
    train(
        loaded,
        rows(),
        settings,
        seed=seed,
        base=base,
        out_for=lambda step: out / f"step{step:04d}",
        scratch=out.parent / "scratch",
        loss_csv=out / "loss.csv",
        progress=progress,
    )
    return out


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def undisturbed(llama, base, tmp_path) -> dict[str, bytes]:
    return contents(run(llama, base, tmp_path / "whole" / "out"))


def stop_before(step: int):
    def progress(steps, **_):
        for number in steps:
            if number == step:
                raise KeyboardInterrupt
            yield number

    return progress


def test_the_schedule_is_that_of_the_published_runs():
    """Warm-up over 50 of 1000 steps to 2e-4, then half a cosine to zero; values from the published files."""
    published = {
        1: 4e-6,
        12: 4.8e-5,
        50: 2e-4,
        989: 6.615459566108317e-08,
        999: 5.467919892865325e-10,
        1000: 0,
    }
    for step, rate in published.items():
        assert learning_rate(step, Settings()) == pytest.approx(rate, rel=1e-6, abs=1e-20)
    assert learning_rate(700, Settings(schedule="constant")) == 2e-4


def test_training_is_that_of_transformers_trainer(llama, base, checkpoint, tmp_path):
    """Without dropout, at a constant rate, with all rows in each batch, nothing may differ but rounding."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

    plain = replace(
        SMALL, dropout=0.0, batch_size=5, steps=4, save_every=4, warmup_steps=0, schedule="constant",
        gradient_norm=0.05,
    )  # fmt: skip
    with with_adapter(llama, plain, seed=7, base=base) as ours:
        initial = {name: own.detach().clone() for name, own in ours.named_parameters() if own.requires_grad}
    config = LoraConfig(
        task_type="CAUSAL_LM", r=2, lora_alpha=4, lora_dropout=0.0, target_modules=["q_proj", "v_proj"]
    )
    theirs = get_peft_model(AutoModelForCausalLM.from_pretrained(checkpoint), config)
    with torch.no_grad():
        for name, own in theirs.named_parameters():
            if own.requires_grad:
                own.copy_(initial[name])
    arguments = TrainingArguments(
        output_dir=str(tmp_path / "trainer"), per_device_train_batch_size=5, max_steps=4, learning_rate=0.01,
        lr_scheduler_type="constant", weight_decay=0.01, max_grad_norm=0.05, logging_steps=1,
        save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    items = [{"input_ids": row.tolist(), "labels": row.tolist()} for row in rows()]
    trainer = Trainer(model=theirs, args=arguments, train_dataset=items)
    trainer.train()
    out = run(llama, base, tmp_path / "out", plain)
    with (out / "loss.csv").open() as handle:
        losses = [float(row["loss"]) for row in csv.DictReader(handle)]
    expected = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses == pytest.approx(expected, abs=1e-3)
    trained = load_file(out / "step0004" / "adapter_model.safetensors")
    parameters = dict(theirs.named_parameters())
    for name, own in trained.items():
        their = parameters[name.replace(".weight", ".default.weight")].detach()
        assert (own - their).abs().max() < 1e-5, name
        assert (own - initial[name.replace(".weight", ".default.weight")]).abs().max() > 1e-3, name


@pytest.mark.parametrize("family", ["gemma2", "gpt2"])
def test_loss_and_gradient_are_the_models_own(family, tmp_path):
    """Also where logits are soft-capped, which written-over logits could spoil."""
    model = lm.load(save_tiny_model(family, tmp_path / family), dtype="float32", device="cpu").model
    weight = model.get_input_embeddings().weight.requires_grad_(True)
    tokens = torch.tensor(rows())
    expected = model(input_ids=tokens, labels=tokens, use_cache=False).loss
    (slope,) = torch.autograd.grad(expected, weight)
    found = next_token_loss(model, tokens)
    assert found.item() == pytest.approx(expected.item(), abs=1e-6)
    (ours,) = torch.autograd.grad(2 * found, weight)
    assert (ours / 2 - slope).abs().max() < 1e-6
    assert slope.abs().max() > 1e-3


def test_how_often_it_is_saved_changes_no_byte(llama, base, undisturbed, tmp_path):
    other = contents(run(llama, base, tmp_path / "often" / "out", replace(SMALL, save_every=2)))
    assert sorted({name.split("/")[0] for name in other}) == [
        "loss.csv", "step0002", "step0004", "step0006", "step0008", "step0010",
    ]  # fmt: skip
    same = [name for name in undisturbed if name in other]
    assert sorted(same) == [
        "loss.csv", "step0010/adapter_config.json", "step0010/adapter_model.safetensors",
    ]  # fmt: skip
    assert [name for name in same if undisturbed[name] != other[name]] == []


@pytest.mark.parametrize("step", [3, 8])
def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(step, llama, base, undisturbed, tmp_path):
    out = tmp_path / "stopped" / "out"
    with pytest.raises(KeyboardInterrupt):
        run(llama, base, out, progress=stop_before(step))
    assert not out.exists(), "nothing may stand in place before the run is done"
    seen = []

    def watch(steps, **_):
        for number in steps:
            seen.append(number)
            yield number

    run(llama, base, out, progress=watch)
    assert seen[0] == (1 if step == 3 else 6)
    assert contents(out) == undisturbed
    assert list((out.parent / "scratch").iterdir()) == []


def test_another_seed_gives_another_adapter_and_the_loss_falls(llama, base, undisturbed, tmp_path):
    long = replace(SMALL, steps=40, save_every=40)
    out = run(llama, base, tmp_path / "other" / "out", long, seed=8)
    with (out / "loss.csv").open() as handle:
        table = list(csv.DictReader(handle))
    assert tuple(table[0]) == LOSS_COLUMNS
    assert [int(row["tokens"]) for row in table[:3]] == [16, 32, 48]
    losses = [float(row["loss"]) for row in table]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.2
    again = contents(run(llama, base, tmp_path / "another" / "out", seed=8))
    name = "step0010/adapter_model.safetensors"
    assert again[name] != undisturbed[name]


def test_the_model_is_afterwards_as_it_was_even_after_an_error(llama, base, tmp_path):
    tokens = torch.tensor(rows())
    names, before = list(llama.model.state_dict()), llama.model(tokens).logits
    run(llama, base, tmp_path / "one" / "out")
    with pytest.raises(KeyboardInterrupt):
        run(llama, base, tmp_path / "two" / "out", progress=stop_before(2))
    assert list(llama.model.state_dict()) == names
    assert torch.equal(llama.model(tokens).logits, before)
    assert not llama.model.training
    assert not any(own.requires_grad for own in llama.model.parameters())


def test_an_adapter_names_its_base_and_nothing_of_this_machine(llama, base, checkpoint, tmp_path):
    out = run(llama, base, tmp_path / "out")
    assert sorted(path.name for path in (out / "step0005").iterdir()) == [
        "adapter_config.json", "adapter_model.safetensors",
    ]  # fmt: skip
    text = (out / "step0005" / "adapter_config.json").read_text()
    config = json.loads(text)
    assert (config["base_model_name_or_path"], config["revision"]) == ("tiny", "step0005")
    assert (config["r"], config["lora_alpha"], config["lora_dropout"]) == (2, 4, 0.1)
    assert config["target_modules"] == ["q_proj", "v_proj"]
    assert str(checkpoint.parent) not in text
    assert str(Path.home()) not in text


def test_a_loss_that_becomes_nan_is_named_and_nothing_is_put_in_place(llama, base, tmp_path):
    wild = replace(SMALL, learning_rate=1e30, warmup_steps=0)
    said = r"is (nan|inf) at step 2 of 10.*lower learning_rate.*no adapter is kept yet"
    with pytest.raises(ModelError, match=said):
        run(llama, base, tmp_path / "out", wild)
    assert not (tmp_path / "out").exists()


def test_what_was_trained_before_a_nan_is_kept_and_taken_up(llama, base, undisturbed, tmp_path, monkeypatch):
    from strataprobe.curation import training

    real, calls = training.next_token_loss, []

    def broken(model, chosen):
        calls.append(1)
        return real(model, chosen) * (float("nan") if len(calls) == 8 else 1)

    monkeypatch.setattr(training, "next_token_loss", broken)
    with pytest.raises(ModelError, match=r"loss is nan at step 8 of 10.*the run is kept up to step 5 in "):
        run(llama, base, tmp_path / "out")
    assert contents(run(llama, base, tmp_path / "out")) == undisturbed
    assert len(calls) == 8 + 5


def test_target_modules_that_match_nothing_are_named_with_those_there_are(llama, base, tmp_path):
    wrong = replace(SMALL, target_modules=("q_proj", "v_porj", "c_attn"))
    with pytest.raises(ModelError) as caught:
        run(llama, base, tmp_path / "out", wrong)
    said = str(caught.value)
    assert "2 problems" in said
    assert "'v_porj' matches no linear module; there are down_proj, gate_proj, k_proj" in said
    assert "'q_proj'" not in said


def test_a_tied_head_is_no_target(base, tmp_path):
    tied = lm.load(
        save_tiny_model("olmo2", tmp_path / "tied", tie_word_embeddings=True), dtype="float32", device="cpu"
    )
    with pytest.raises(ModelError, match="'lm_head' is tied to the embedding"):
        run(tied, base, tmp_path / "out", replace(SMALL, target_modules=("lm_head",)))


def test_all_that_cannot_be_trained_is_said_at_once(llama, base, tmp_path):
    wrong = replace(SMALL, sequence_length=16, warmup_steps=11)
    with pytest.raises(ModelError, match="2 problems") as caught:
        run(llama, base, tmp_path / "out", wrong)
    assert "sequence_length is 16, but the rows have 8" in str(caught.value)
    assert "warmup_steps 11" in str(caught.value)


def test_another_process_with_another_hash_seed_writes_the_same_bytes(checkpoint, undisturbed, tmp_path):
    """Sets (peft keeps target modules in one) come in an order of chance."""
    code = (
        "from pathlib import Path; import tests.unit.test_curation_lora as t; from strataprobe import lm\n"
        f"place = Path({str(checkpoint)!r})\n"
        "facts = {'model': 'tiny', 'revision': 'step0005', 'step': 5, 'source': 'local', 'layers': 2}\n"
        "base = t.identify_directory(place, **facts)\n"
        f"t.run(lm.load(place, dtype='float32', device='cpu'), base, Path({str(tmp_path)!r}) / 'out')"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "workflow_scripts"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONHASHSEED": "4", "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, capture_output=True)
    assert contents(tmp_path / "out") == undisturbed
