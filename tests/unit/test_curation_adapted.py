"""Derived checkpoints: merged weights do what the adapter does; the base stays; both are in the identity."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from strataprobe import lm
from strataprobe.checkpoints import identify_adapted, identify_directory, open_tokenizer, opened
from strataprobe.checkpoints import weights as checked
from strataprobe.curation.lora import Settings
from strataprobe.curation.training import train
from strataprobe.errors import CheckpointError, ModelError
from strataprobe.files import sha256_file, write_json
from strataprobe.lm.adapters import merged
from strataprobe.provenance import made_from
from tests.tiny_models import save_tiny_model

TARGETS = {"llama": ("q_proj", "v_proj"), "olmo2": ("q_proj", "v_proj"), "gpt2": ("c_attn",)}
SETTINGS = Settings(
    rank=4, alpha=8, learning_rate=0.02, warmup_steps=2, sequence_length=8, steps=6, save_every=3
)
ROWS = np.random.default_rng(5).integers(3, 300, (6, 8))


def load(place: Path) -> lm.LoadedLM:
    return lm.load(place, dtype="float32", device="cpu")


def identity(place: Path) -> dict:
    return identify_directory(place, model="tiny", revision="main", step=5, source="local", layers=2)


@pytest.fixture(scope="module", params=list(TARGETS))
def derived(request, tmp_path_factory) -> tuple[Path, dict, Path]:
    """A base checkpoint, its identity before training, and the folder of two adapters."""
    folder = tmp_path_factory.mktemp(request.param)
    place = save_tiny_model(request.param, folder / "base")
    before = identity(place)
    train(
        load(place), ROWS, replace(SETTINGS, target_modules=TARGETS[request.param]), seed=1, base=before,
        out_for=lambda step: folder / f"step{step:04d}", scratch=folder / "scratch",
        loss_csv=folder / "loss.csv",
    )  # fmt: skip
    return place, before, folder


def test_merged_and_unmerged_logits_agree_and_the_base_is_untouched(derived):
    """The unmerged side is peft's own loading of the directory onto transformers' own model."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    place, before, folder = derived
    tokens = torch.tensor(ROWS)
    plain = AutoModelForCausalLM.from_pretrained(place).eval()
    base_logits = plain(tokens).logits.detach()
    unmerged = PeftModel.from_pretrained(plain, folder / "step0006")(tokens).logits.detach()
    ours = merged(load(place), folder / "step0006")
    found = ours.model(tokens).logits
    assert (found - unmerged).abs().max() < 1e-4
    assert (found - base_logits).abs().max() > 1e-2, "the adapter does nothing"
    assert identity(place) == before


def test_a_merged_model_is_captured_like_any_other(derived):
    """The parts that capture reads are still those that the model runs."""
    place, _, folder = derived
    ours = merged(load(place), folder / "step0006")
    tokens = torch.tensor(ROWS[:1])
    batch = ours.batch(ROWS[:1].tolist())
    states = ours.model(tokens, output_hidden_states=True).hidden_states[-1]
    assert torch.equal(ours.run_decoder(batch)[0], states)
    assert [name for name, _ in ours.model.named_modules() if "lora" in name] == []
    assert not any(own.requires_grad for own in ours.model.parameters())
    assert str(folder / "step0006") in ours.name


ENTRIES = {"model": "tiny-lora-fables-s1", "revision": "step0003", "step": 3}


def test_an_identity_hangs_on_base_and_adapter(derived):
    _, before, folder = derived
    one = identify_adapted(before, None, folder / "step0003", **ENTRIES)
    assert {"source": "lora", **ENTRIES}.items() <= one.items()
    assert before.keys() <= one.keys()
    assert one["base"] == before
    assert one["tokenizer_sha256"] == before["tokenizer_sha256"]
    other = identify_adapted(before, None, folder / "step0006", **ENTRIES)
    moved = identify_adapted({**before, "weights_sha256": "0" * 64}, None, folder / "step0003", **ENTRIES)
    assert len({own["weights_sha256"] for own in (before, one, other, moved)}) == 4
    made = made_from(one)
    assert made["base_weights_sha256"] == before["weights_sha256"]
    assert made["adapter_sha256"] == one["adapter_sha256"] != other["adapter_sha256"]
    assert "adapter_sha256" not in made_from(before)


@pytest.mark.parametrize("derived", ["llama"], indirect=True)
def test_a_derived_checkpoint_is_opened_by_base_and_adapter_and_neither_may_have_changed(derived, tmp_path):
    """A base that the study made lies where the identity says; its name is kept as it was given."""
    place, before, folder = derived
    made = {**before, "source": "pretrain", "directory": None}
    one = identify_adapted(made, place, folder / "step0003", **ENTRIES)
    write_json(tmp_path / "one.json", one)
    weights = [str(folder / "step0003" / "adapter_model.safetensors"), str(place / "model.safetensors")]
    ((identity, whole, adapter),) = opened([str(tmp_path / "one.json")], weights)
    assert (identity, whole, adapter) == (one, place, folder / "step0003")
    assert open_tokenizer(one, None) == place
    by_load = lm.load(whole, dtype="float32", device="cpu", adapter=adapter)
    tokens = torch.tensor(ROWS)
    assert torch.equal(by_load.model(tokens).logits, merged(load(place), adapter).model(tokens).logits)

    write_json(tmp_path / "one.json", one | {"files": {**one["files"], "adapter_config.json": "0" * 64}})
    with pytest.raises(CheckpointError, match=r"adapter_config\.json: sha256 is .*, expected 0000"):
        list(opened([str(tmp_path / "one.json")], weights))
    files = {**before["files"], "model.safetensors": "0" * 64}
    write_json(tmp_path / "one.json", one | {"base": {**one["base"], "files": files}})
    with pytest.raises(CheckpointError, match=r"tiny main: .*\n?.*model\.safetensors: sha256 is"):
        list(opened([str(tmp_path / "one.json")], weights))


@pytest.mark.parametrize("derived", ["llama"], indirect=True)
def test_a_base_in_common_is_compared_once_and_every_adapter(derived, tmp_path, monkeypatch):
    """A base of gigabytes, read through again for each of ten adapters, would cost more than its states."""
    place, before, folder = derived
    read = []
    monkeypatch.setattr(checked, "sha256_file", lambda path: (read.append(path), sha256_file(path))[1])
    names = ("step0003", "step0006")
    for name in names:
        write_json(tmp_path / f"{name}.json", identify_adapted(before, None, folder / name, **ENTRIES))
    adapters = [str(folder / name / "adapter_model.safetensors") for name in names]
    found = list(opened([str(tmp_path / f"{name}.json") for name in names], adapters))
    assert [(whole, adapter) for _, whole, adapter in found] == [(place, folder / name) for name in names]
    assert read.count(place / "model.safetensors") == 1
    assert [path for path in read if path.name == "adapter_model.safetensors"] == [*map(Path, adapters)]


def test_an_adapter_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"adapter_model\.safetensors: not there"):
        identify_adapted({}, None, tmp_path, model="m", revision="r", step=1)


def damaged(folder: Path, tmp_path: Path, change) -> Path:
    """A copy of an adapter with other weights."""
    tensors = load_file(folder / "step0006" / "adapter_model.safetensors")
    place = tmp_path / "damaged"
    place.mkdir()
    save_file(change(tensors), place / "adapter_model.safetensors")
    (place / "adapter_config.json").write_bytes((folder / "step0006" / "adapter_config.json").read_bytes())
    return place


@pytest.mark.parametrize("derived", ["llama"], indirect=True)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tensors: dict(list(tensors.items())[1:]), "not in the adapter"),
        (lambda tensors: {**tensors, "base_model.model.x.lora_A.weight": torch.ones(2)}, "not in the model"),
        (lambda tensors: {name: own[:1].clone() for name, own in tensors.items()}, "size mismatch"),
        (lambda tensors: {name: own * float("nan") for name, own in tensors.items()}, "NaN or inf"),
    ],
    ids=["missing", "unexpected", "shape", "nan"],
)
def test_an_adapter_that_does_not_fit_is_refused_and_the_model_stays(change, said, derived, tmp_path):
    place, _, folder = derived
    base = load(place)
    logits = base.model(torch.tensor(ROWS)).logits
    with pytest.raises(ModelError, match=said):
        merged(base, damaged(folder, tmp_path, change))
    assert torch.equal(base.model(torch.tensor(ROWS)).logits, logits)


def test_an_adapter_without_a_config_is_refused(derived, tmp_path):
    with pytest.raises(ModelError, match=r"adapter_config\.json: not there"):
        merged(load(derived[0]), tmp_path)
