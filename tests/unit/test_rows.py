"""Sequences that begin alike share a row: the same states, for fewer tokens."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from strataprobe import capture as capture_room
from strataprobe import lm as lm_room
from strataprobe.errors import ModelError
from strataprobe.lm.checks import check_rows
from strataprobe.lm.rows import Row, batch_rows, plan_rows
from tests.tiny_models import FAMILIES, save_tiny_model

PAIRS = [
    "The nurse comforted the frightened child.",
    "The nurse counted the frightened child.",
    "She told the truth about the money, and he kept his word.",
    "She told the clerk about the money, and he kept his word.",
    "Über die Brücke fährt der Händler.",
    "Über die Brücke",
    "He ran.",
    "He ran.",
]
IDS = [f"half {i}" for i in range(len(PAIRS))]


def load(directory, dtype="float32"):
    return lm_room.load(directory, dtype=dtype, device="cpu")


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return load(save_tiny_model("llama", tmp_path_factory.mktemp("llama"), layers=3))


def captured(lm, batch_tokens=64, positions=("mean", "mean_rest", "last")):
    """(layers, texts, positions, d), and the shape of each batch that was run."""
    settings = capture_room.Settings(
        dtype=lm.dtype, device="cpu", batch_tokens=batch_tokens, embed=True, threads=1, window_mb=8
    )
    shapes = []
    hook = lm.blocks[0].register_forward_hook(
        lambda _m, _a, out: shapes.append(tuple(lm_room.first_tensor(out).shape[:2]))
    )
    with lm_room.attached([hook]):
        (window,) = capture_room.capture(lm, PAIRS, ids=IDS, positions=positions, settings=settings)
    return np.stack(list(window.layers.values())), shapes


@pytest.mark.parametrize("batch_tokens", [1, 64, 4096])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_pair_in_one_row_has_the_states_of_its_halves_alone(family, batch_tokens, tmp_path):
    window = {"sliding_window": 32} if family == "gemma2" else {}
    lm = load(save_tiny_model(family, tmp_path, layers=3, **window))
    assert lm.sharing_limit > 0
    together, shapes = captured(lm, batch_tokens)
    alone, many = captured(replace(lm, sharing_limit=0), 1)
    np.testing.assert_allclose(together, alone, atol=1e-5, rtol=1e-5)
    assert len(many) == len(PAIRS)
    assert sum(rows for rows, _ in shapes) == len(PAIRS) // 2


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_moves_no_further_than_it_rounds(dtype, tmp_path):
    lm = load(save_tiny_model("llama", tmp_path, layers=3), dtype)
    together, _ = captured(lm)
    alone, _ = captured(replace(lm, sharing_limit=0), 1)
    assert np.abs(together - alone).max() / np.abs(alone).max() < 2e-2


def test_the_common_beginning_runs_once_and_its_rests_do_not_see_each_other(llama):
    tokens = [[5, 6, 7, 8], [5, 6, 9], [5, 1]]
    (row,) = plan_rows(tokens[:2], [0, 1], 100)
    assert row == Row((0, 1), 2, 5)
    batch, ((first, second),) = batch_rows(llama, tokens, [row])
    assert batch["input_ids"].tolist() == [[5, 6, 7, 8, 9]]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 3, 2]]
    assert first.tolist() == [0, 1, 2, 3]
    assert second.tolist() == [0, 1, 4]
    seen = (batch["attention_mask"][0, 0] == 0).int().tolist()
    assert seen == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 0, 0, 1]]


def test_only_neighbours_that_spare_enough_are_joined_and_only_within_the_limit():
    long = [1, *range(10, 30)]
    tokens = [[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3, 6], [7, 8], [1, 2, 3, 7], long, [1, *range(40, 60)]]
    rows = plan_rows(tokens, range(7), 100)
    assert [row.members for row in rows] == [(0, 1), (2,), (3,), (4,), (5,), (6,)]
    assert [row.length for row in rows] == [5, 4, 2, 4, 21, 21]
    assert all(len(row.members) == 1 for row in plan_rows(tokens, range(7), 20))
    assert all(len(row.members) == 1 for row in plan_rows(tokens, range(7), 0))


def test_a_decoder_that_takes_no_mask_of_ours_keeps_texts_apart(llama):
    def two_dimensional(_module, args, kwargs):
        mask = kwargs["attention_mask"]
        if mask is not None and mask.ndim != 2:
            raise ValueError("attention_mask must have two dimensions")
        return args, kwargs

    def forgetful(_module, args, kwargs):
        return args, {**kwargs, "position_ids": None}

    sample = llama.encode(["The nurse comforted the child."])[0][:6]
    for hook in (two_dimensional, forgetful):
        handle = llama.decoder.register_forward_pre_hook(hook, with_kwargs=True)
        with lm_room.attached([handle]):
            assert check_rows(llama, sample) == 0
    assert check_rows(llama, sample) > 0


def test_no_row_is_shared_beside_a_text_longer_than_the_attention_window(tmp_path):
    lm = load(save_tiny_model("gemma2", tmp_path, layers=3, sliding_window=9))
    assert lm.sharing_limit == 9
    together, shapes = captured(lm, 4096)
    alone, _ = captured(replace(lm, sharing_limit=0), 1)
    np.testing.assert_allclose(together, alone, atol=1e-5, rtol=1e-5)
    assert sum(rows for rows, _ in shapes) == len(PAIRS)


def test_a_row_that_does_not_fit_is_taken_apart_before_a_text_is_refused(llama):
    clean, _ = captured(llama)
    longest = max(map(len, llama.encode(PAIRS)))

    def little_memory(limit):
        def refuse(_module, args, kwargs):
            if lm_room.block_input(args, kwargs).shape[:2].numel() > limit:
                raise torch.OutOfMemoryError("no")

        return refuse

    hook = llama.blocks[1].register_forward_pre_hook(little_memory(longest), with_kwargs=True)
    with lm_room.attached([hook]):
        small, _ = captured(llama, 4096)
    np.testing.assert_allclose(small, clean, atol=1e-5)
    hook = llama.blocks[1].register_forward_pre_hook(little_memory(longest - 1), with_kwargs=True)
    with lm_room.attached([hook]), pytest.raises(ModelError, match=r"memory ran out on half 2 alone"):
        captured(llama, 4096)
