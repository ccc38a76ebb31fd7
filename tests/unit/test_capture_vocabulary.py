"""States of words at their anchors: the model's own, at the blocks asked for, and no block above them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from strataprobe import cache
from strataprobe import lm as lm_room
from strataprobe.capture import Settings
from strataprobe.capture.chosen import capture_vocabulary
from strataprobe.datasets.reading import read_dataset
from strataprobe.errors import CacheError, ModelError
from tests.tiny_models import FAMILIES, save_tiny_model
from tests.vocabulary_cases import write_files

IDENTITY = {"model": "tiny", "revision": "main", "weights_sha256": "w", "tokenizer_sha256": "t"}


def load(family, folder):
    return lm_room.load(save_tiny_model(family, folder, layers=4), dtype="float32", device="cpu")


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return load("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture
def dataset(tmp_path):
    return read_dataset({"name": "words", **write_files(tmp_path)})


def captured(lm, dataset, path, layers=(0, 2), **changes):
    settings = Settings(
        **{"dtype": "float32", "device": "cpu", "batch_tokens": 64, "embed": False, "threads": 1,
           "window_mb": 1, **changes}
    )  # fmt: skip
    capture_vocabulary(lm, dataset, path, layers=layers, identity=IDENTITY, settings=settings)
    with cache.open_activations(path) as acts:
        return {name: acts.stack(name) for name in acts.positions}, acts


def own_states(lm, text, span, layer):
    """The state at the last token that overlaps the span, of the text alone, as transformers gives it."""
    tokens, offsets = lm.encode_with_offsets([text])
    place = max(i for i, (start, end) in enumerate(offsets[0]) if start < span[1] and end > span[0])
    with torch.no_grad():
        hidden = lm.model(torch.tensor(tokens), output_hidden_states=True, use_cache=False).hidden_states
    return hidden[layer + 1][0, place].numpy()


@pytest.mark.parametrize("family", FAMILIES)
def test_states_are_those_of_each_text_alone_at_its_anchors_after_the_blocks_asked_for(
    family, dataset, tmp_path
):
    lm = load(family, tmp_path / family)
    states, acts = captured(lm, dataset, tmp_path / "a.h5")
    assert acts.blocks == [0, 2]
    assert acts.layers == ["layer_00", "layer_02"]
    assert acts.ids == [one.id for one in dataset.stimuli]
    for number in (0, 7, 12, 25, len(dataset.stimuli) - 1):
        one = dataset.stimuli[number]
        for name, found in states.items():
            for place, layer in enumerate((0, 2)):
                expected = (
                    own_states(lm, one.text, one.anchors[name], layer)
                    if name in one.anchors
                    else np.zeros(lm.hidden_size)
                )
                np.testing.assert_allclose(found[place, number], expected, atol=1e-5)


def test_no_block_above_the_highest_is_run_and_no_hook_stays(llama, dataset, tmp_path):
    run = []
    hooks = [
        block.register_forward_pre_hook(lambda _m, _a, number=number: run.append(number))
        for number, block in enumerate(llama.blocks)
    ]
    before = [len(block._forward_hooks) for block in llama.blocks]
    with lm_room.attached(hooks):
        captured(llama, dataset, tmp_path / "a.h5", layers=(1, 2))
        assert set(run) == {0, 1, 2}
        run.clear()
        captured(llama, dataset, tmp_path / "b.h5", layers=(3,))
        assert set(run) == {0, 1, 2, 3}
    assert [len(block._forward_hooks) for block in llama.blocks] == before


def test_small_batches_windows_and_threads_give_the_same_states(llama, dataset, tmp_path):
    whole, _ = captured(llama, dataset, tmp_path / "a.h5", batch_tokens=4096)
    small, _ = captured(llama, dataset, tmp_path / "b.h5", batch_tokens=16)
    for name, states in whole.items():
        np.testing.assert_allclose(small[name], states, atol=1e-5)
    captured(llama, dataset, tmp_path / "c.h5", threads=1)
    captured(llama, dataset, tmp_path / "d.h5", threads=3)
    for name in whole:
        with (
            cache.open_activations(tmp_path / "c.h5") as one,
            cache.open_activations(tmp_path / "d.h5") as other,
        ):
            np.testing.assert_array_equal(one.stack(name), other.stack(name))


def test_windows_of_a_few_stimuli_hold_the_same_states(llama, dataset, tmp_path):
    expected, _ = captured(llama, dataset, tmp_path / "a.h5")
    many = replace(dataset, stimuli=dataset.stimuli * 60)
    bytes_each = 2 * len(expected) * llama.hidden_size * 4
    assert len(many.stimuli) * bytes_each > 1 << 20  # more than one window
    found, _ = captured(llama, many, tmp_path / "b.h5", window_mb=1)
    for name, states in expected.items():
        np.testing.assert_allclose(found[name], np.tile(states, (1, 60, 1)), atol=1e-5)


def test_blocks_that_are_not_there_and_other_settings_are_refused(llama, dataset, tmp_path):
    with pytest.raises(ModelError, match=r"layers 1, 4 are asked for; the model has the blocks 0 to 3"):
        captured(llama, dataset, tmp_path / "a.h5", layers=(1, 4))
    with pytest.raises(ModelError, match="dtype is bfloat16"):
        captured(llama, dataset, tmp_path / "a.h5", dtype="bfloat16")
    assert not (tmp_path / "a.h5").exists()


def test_a_cache_of_another_vocabulary_or_checkpoint_is_stale(llama, dataset, tmp_path):
    captured(llama, dataset, tmp_path / "a.h5")
    with cache.open_activations(
        tmp_path / "a.h5", {"dataset_sha256": dataset.items().sha256, "blocks": [0, 2]}
    ):
        pass
    for expected in ({"dataset_sha256": "other"}, {"weights_sha256": "other"}, {"blocks": [0, 1]}):
        with pytest.raises(CacheError, match="is stale"), cache.open_activations(tmp_path / "a.h5", expected):
            pass
