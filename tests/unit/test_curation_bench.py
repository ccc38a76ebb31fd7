"""The benchmark of fine-tuning trains the same model on both sides."""

from dataclasses import replace

import numpy as np
import pytest
from safetensors.torch import load_file

from bench import lora
from bench.setup import setup
from strataprobe import lm
from tests.tiny_models import save_tiny_model

SETTINGS = replace(lora.SETTINGS, rank=2, dropout=0.0, sequence_length=8, steps=3, save_every=3)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return save_tiny_model("llama", tmp_path_factory.mktemp("bench") / "model")


def test_both_sides_train_the_same_modules(checkpoint, tmp_path):
    loaded = lm.load(checkpoint, dtype="float32", device="cpu")
    rows = np.random.default_rng(0).integers(3, 300, (12, 8))
    ours = load_file(lora.ours(loaded, rows, SETTINGS, tmp_path / "ours", 1))
    theirs = load_file(lora.trainer(loaded, rows, SETTINGS, tmp_path / "theirs", 1))
    assert {name: own.shape for name, own in ours.items()} == {
        name: own.shape for name, own in theirs.items()
    }
    assert all(own.abs().max() > 0 for own in (*ours.values(), *theirs.values()))


def test_it_says_tokens_a_second_of_both(checkpoint):
    found = lora.measure(setup(str(checkpoint), None, threads=1), SETTINGS, repeats=1)
    assert found.passed is not None
    assert list(found.numbers) == ["Trainer with peft", "ours", "times as fast"]
    assert all(float(value.split()[0]) > 0 for value in found.numbers.values())
