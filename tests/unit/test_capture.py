"""Capture: the same numbers in any batch, pooled over real tokens, in bounded memory."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch

from strataprobe import capture as capture_room
from strataprobe import lm as lm_room
from strataprobe.capture.pooling import pooling_weights
from strataprobe.errors import ModelError
from tests.tiny_models import FAMILIES, save_tiny_model

TEXTS = [
    "The nurse comforted the child.",
    "He ran.",
    "They walked along the river until the evening bells rang.",
    "Über die Brücke fährt der Händler.",
    "She told the truth, and he kept his word.",
    "他 在 河边 看见 了 小狗",
]
IDS = [f"item {i}" for i in range(len(TEXTS))]


def load(directory, dtype="float32"):
    return lm_room.load(directory, dtype=dtype, device="cpu")


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return load(save_tiny_model("llama", tmp_path_factory.mktemp("llama"), layers=3))


@pytest.fixture(scope="module")
def unshared(llama):
    """One text a row, for tests that count rows."""
    return replace(llama, sharing_limit=0)


def captured(lm, texts=TEXTS, ids=None, **changes):
    """All windows as one dict of arrays, and their token counts."""
    asked = {name: changes.pop(name) for name in ("positions", "anchors", "progress") if name in changes}
    settings = capture_room.Settings(
        **{
            "dtype": lm.dtype,
            "device": "cpu",
            "batch_tokens": 64,
            "embed": True,
            "threads": 1,
            "window_mb": 1,
            **changes,
        }
    )
    ids = IDS[: len(texts)] if ids is None else ids
    windows = list(capture_room.capture(lm, texts, ids=ids, settings=settings, **asked))
    layers = {name: np.concatenate([w.layers[name] for w in windows]) for name in windows[0].layers}
    return layers, np.concatenate([w.token_counts for w in windows])


def states_alone(lm, text):
    """(layers + 1, tokens, d) states before the final norm, from transformers' own list, text by text."""
    tokens = torch.tensor(lm.encode([text]))
    last = []
    with (
        torch.inference_mode(),
        lm_room.attached(
            [lm.blocks[-1].register_forward_hook(lambda _m, _a, out: last.append(lm_room.first_tensor(out)))]
        ),
    ):
        listed = lm.model(tokens, output_hidden_states=True, use_cache=False).hidden_states
    return torch.stack([*listed[:-1], last[0]])[:, 0].float().numpy()


def pad_on_the_left(monkeypatch):
    original = lm_room.LoadedLM.batch
    monkeypatch.setattr(lm_room.LoadedLM, "batch", lambda self, rows: original(self, rows, "left"))


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_texts_activations_are_the_same_alone_and_in_any_batch_with_either_padding(
    family, side, tmp_path, monkeypatch
):
    lm = load(save_tiny_model(family, tmp_path, layers=3, pad="e"))
    lm.tokenizer.padding_side = side
    if side == "left":
        pad_on_the_left(monkeypatch)
    positions = ("mean", "mean_rest", "last")
    for budget in (1, 40, 4096):
        layers, counts = captured(lm, batch_tokens=budget, positions=positions)
        assert list(layers) == ["embed", "layer_00", "layer_01", "layer_02"]
        for i, text in enumerate(TEXTS):
            alone = states_alone(lm, text)
            expected = np.stack([alone.mean(1), alone[:, 1:].mean(1), alone[:, -1]], axis=1)
            got = np.stack([states[i] for states in layers.values()])
            assert counts[i] == alone.shape[1]
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_decisions_do_not_depend_on_the_batch_in_any_dtype(dtype, tmp_path):
    lm = load(save_tiny_model("llama", tmp_path), dtype)
    one, _ = captured(lm, batch_tokens=1)
    many, _ = captured(lm, batch_tokens=4096)
    for name, states in one.items():
        direction = states[0, 0] - states[1, 0]
        margins = [(x[:, 0] - states[:2, 0].mean(0)) @ direction for x in (states, many[name])]
        clear = np.abs(margins[0]) > 0.05 * np.abs(margins[0]).max()
        assert clear[:2].all()
        assert np.array_equal(margins[0][clear] > 0, margins[1][clear] > 0)


def test_half_precision_states_are_averaged_in_float32(tmp_path):
    # Text by text, in rows of their own: another shape would round the states themselves otherwise.
    lm = replace(load(save_tiny_model("llama", tmp_path), "bfloat16"), sharing_limit=0)
    layers, _ = captured(lm, batch_tokens=1)
    expected = np.stack([states_alone(lm, text).mean(1) for text in TEXTS], axis=1)
    np.testing.assert_allclose(np.stack(list(layers.values()))[:, :, 0], expected, rtol=1e-5, atol=1e-6)


def test_a_real_token_with_the_pad_id_counts_in_the_mean(tmp_path):
    lm = load(save_tiny_model("llama", tmp_path, pad="e", bos=False))
    text = "e e ee"
    assert lm.tokenizer.pad_token_id in lm.encode([text])[0]
    layers, counts = captured(lm, [text, TEXTS[2]])
    assert counts[0] == len(lm.encode([text])[0])
    np.testing.assert_allclose(layers["layer_00"][0, 0], states_alone(lm, text)[1].mean(0), atol=1e-5)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_non_finite_states_at_padding_reach_no_mean(value, unshared):
    clean, _ = captured(unshared)
    longest = max(len(tokens) for tokens in unshared.encode(TEXTS))
    lengths = sorted((len(tokens) for tokens in unshared.encode(TEXTS)), reverse=True)

    def spoil(_module, _args, output):
        spoiled = lm_room.first_tensor(output).clone()
        for row, length in enumerate(lengths):
            spoiled[row, length:] = value
        return spoiled

    with lm_room.attached([unshared.blocks[-1].register_forward_hook(spoil)]):
        # With such a budget a batch more costs more than the padding of all.
        spoiled, _ = captured(unshared, batch_tokens=16 * longest * len(TEXTS))
    for name, states in clean.items():
        np.testing.assert_allclose(spoiled[name], states, atol=1e-5)


def test_weights_over_tokens_are_what_each_position_says():
    columns = [[np.array([2, 3, 4])], [np.array([0, 1]), np.array([0, 2])]]
    places = np.array([[2, 1], [1, 0], [0, 1]])
    weights = pooling_weights(columns, 5, ("last", "mean", "word", "mean_rest"), places)
    third, nothing = 1 / 3, [0.0] * 5
    expected = [
        [[0, 0, 0, 0, 1], [0, 0, third, third, third], [0, 0, 0, 1, 0], [0, 0, 0, 0.5, 0.5], *[nothing] * 4],
        [
            [0, 1, 0, 0, 0], [0.5, 0.5, 0, 0, 0], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0],
            [1, 0, 0, 0, 0], [0.5, 0, 0.5, 0, 0], [0, 0, 1, 0, 0], [0, 0, 1, 0, 0],
        ],
    ]  # fmt: skip
    np.testing.assert_allclose(weights, np.array(expected), rtol=1e-6)


def test_embed_is_what_enters_the_first_block_and_only_on_request(llama):
    with_embed, _ = captured(llama)
    tokens = llama.encode(TEXTS[:1])[0]
    expected = llama.model.get_input_embeddings().weight[tokens].mean(0).detach().numpy()
    np.testing.assert_allclose(with_embed["embed"][0, 0], expected, atol=1e-6)
    assert list(captured(llama, embed=False)[0]) == ["layer_00", "layer_01", "layer_02"]


def test_an_anchor_is_the_last_token_that_overlaps_its_span(llama):
    words = ["comforted", "ran", "bells", "Brücke", "truth", "小狗"]
    spans = [
        (text.index(word), text.index(word) + len(word)) for text, word in zip(TEXTS, words, strict=True)
    ]
    layers, _ = captured(llama, positions=("mean", "word"), anchors={"word": spans})
    for i, (text, word) in enumerate(zip(TEXTS, words, strict=True)):
        # Byte-level pieces decode to the text itself, so the prefix's length in tokens finds the word's end.
        before = text[: text.index(word) + len(word)]
        place = len(llama.encode([before])[0]) - 1
        np.testing.assert_allclose(layers["layer_02"][i, 1], states_alone(llama, text)[3, place], atol=1e-5)


def test_bad_spans_and_bad_texts_are_one_error_that_names_every_item(llama):
    texts = ["He ran.", "He ran.", "He ran.", "", "a\0b", "x" * 300]
    spans = [(0, 2), (3, 3), (0, 99), (0, 1), (0, 1), (0, 1)]
    for anchors, count in (({"word": spans}, 4), ({"word": [(0, 2), (3, 3), (7, 9), *spans[3:]]}, 5)):
        with pytest.raises(ModelError) as error:
            captured(llama, texts, positions=("mean", "word"), anchors=anchors)
        assert f"{count} problems" in str(error.value)
        assert "item 1: span 'word' [3, 3) is empty" in str(error.value)
        assert "item 3: is empty" in str(error.value)
    assert "item 2: span 'word' [7, 9) leaves the text" in str(error.value)


def test_a_single_token_has_no_mean_without_the_first(tmp_path):
    lm = load(save_tiny_model("gpt2", tmp_path, bos=False))
    with pytest.raises(ModelError, match="item 0: has a single token"):
        captured(lm, ["a", "a b c"])
    layers, _ = captured(lm, ["a", "a b c"], positions=("mean", "last"))
    np.testing.assert_array_equal(layers["layer_00"][0, 0], layers["layer_00"][0, 1])


def test_unknown_positions_and_settings_of_another_model_are_refused(llama):
    with pytest.raises(ModelError, match="'wrod' is unknown"):
        captured(llama, positions=("mean", "wrod"))
    with pytest.raises(ModelError, match="2 spans for 6 texts"):
        captured(llama, positions=("mean", "word"), anchors={"word": [(0, 1)] * 2})
    with pytest.raises(ModelError, match="loaded as float32"):
        captured(llama, dtype="bfloat16")
    with pytest.raises(ModelError, match="batch_tokens is 0"):
        captured(llama, batch_tokens=0)


def test_the_number_of_threads_changes_no_bit(llama):
    texts = TEXTS * 20
    ids = [str(i) for i in range(len(texts))]
    one, _ = captured(llama, texts, ids=ids, batch_tokens=100, threads=1)
    for threads in (2, 3):
        several, _ = captured(llama, texts, ids=ids, batch_tokens=100, threads=threads)
        for name, states in one.items():
            np.testing.assert_array_equal(several[name], states)


def test_windows_are_bounded_in_order_and_give_the_same_numbers(llama):
    whole, _ = captured(llama)
    texts = TEXTS * 200
    settings = capture_room.Settings(
        dtype="float32", device="cpu", batch_tokens=512, embed=True, threads=1, window_mb=1
    )
    done = []
    windows = list(
        capture_room.capture(
            llama, texts, ids=[str(i) for i in range(len(texts))], settings=settings, progress=done.append
        )
    )
    assert len(windows) > 1
    assert [w.start for w in windows[1:]] == [w.stop for w in windows[:-1]]
    assert all(sum(x.nbytes for x in w.layers.values()) <= 1 << 20 for w in windows)
    assert sum(done) == len(texts) == windows[-1].stop
    states = np.concatenate([w.layers["layer_02"] for w in windows])
    np.testing.assert_allclose(states, np.tile(whole["layer_02"], (200, 1, 1)), atol=1e-5)


def test_batches_are_formed_longest_first_within_the_token_budget(unshared):
    shapes = []
    hook = unshared.blocks[0].register_forward_hook(
        lambda _m, _a, out: shapes.append(lm_room.first_tensor(out).shape)
    )
    with lm_room.attached([hook]):
        captured(unshared, TEXTS * 3, ids=[str(i) for i in range(18)], batch_tokens=60)
    lengths = [shape[1] for shape in shapes]
    assert lengths == sorted(lengths, reverse=True)
    assert all(shape[0] * shape[1] <= 60 or shape[0] == 1 for shape in shapes)
    assert sum(shape[0] for shape in shapes) == 18


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("no"), RuntimeError("CUDA error: out of memory"), MemoryError()]
)
def test_out_of_memory_halves_the_batch_and_goes_on(error, unshared):
    clean, _ = captured(unshared)
    sizes = []

    def little_memory(_module, args, kwargs):
        size = lm_room.block_input(args, kwargs).shape[0]
        sizes.append(size)
        if size > 2:
            raise error

    with lm_room.attached([unshared.blocks[1].register_forward_pre_hook(little_memory, with_kwargs=True)]):
        small, _ = captured(unshared, batch_tokens=4096)
    assert sizes[0] == 6
    assert sizes[1] <= 3
    assert sum(size for size in sizes if size <= 2) == 6
    for name, states in clean.items():
        np.testing.assert_allclose(small[name], states, atol=1e-5)


def test_a_text_that_does_not_fit_alone_is_named_and_other_errors_pass(llama):
    def broken(_module, _args, _kwargs, message):
        raise RuntimeError(message)

    for message, kind, expected in (
        ("out of memory", ModelError, "memory ran out on item 2 alone"),
        ("shape mismatch", RuntimeError, "shape mismatch"),
    ):
        before = [len(b._forward_hooks) + len(b._forward_pre_hooks) for b in llama.blocks]
        hook = llama.blocks[1].register_forward_pre_hook(
            lambda m, a, k, text=message: broken(m, a, k, text), with_kwargs=True
        )
        with lm_room.attached([hook]), pytest.raises(kind, match=expected):
            captured(llama)
        assert [len(b._forward_hooks) + len(b._forward_pre_hooks) for b in llama.blocks] == before


def test_no_hook_stays_between_windows_or_when_the_reader_stops_early(llama):
    texts = TEXTS * 200
    settings = capture_room.Settings(
        dtype="float32", device="cpu", batch_tokens=512, embed=True, threads=1, window_mb=1
    )
    windows = capture_room.capture(llama, texts, ids=[str(i) for i in range(len(texts))], settings=settings)
    before = [len(b._forward_hooks) + len(b._forward_pre_hooks) for b in llama.blocks]
    next(windows)
    assert [len(b._forward_hooks) + len(b._forward_pre_hooks) for b in llama.blocks] == before
    assert not torch.is_inference_mode_enabled()


def test_nothing_keeps_whole_hidden_states_alive(llama):
    alive, most = weakref.WeakSet(), []

    def count(_module, _args, output):
        alive.add(lm_room.first_tensor(output))
        gc.collect()
        most.append(len(alive))

    gc.disable()
    try:
        with lm_room.attached([block.register_forward_hook(count) for block in llama.blocks]):
            captured(llama)
    finally:
        gc.enable()
    assert max(most) <= 2  # a block's input and its output
    gc.collect()
    assert len(alive) == 0


def test_float16_overflow_is_found_and_named_with_its_remedy(tmp_path):
    lm = load(save_tiny_model("llama", tmp_path, layers=3), "float16")
    with torch.no_grad():
        lm.blocks[1].mlp.down_proj.weight.mul_(60000.0)
        lm.blocks[1].mlp.up_proj.weight.mul_(60000.0)
    lm.blocks[1].mlp.down_proj.weight.nan_to_num_(posinf=65504.0, neginf=-65504.0)
    with pytest.raises(ModelError) as error:
        captured(lm)
    message = str(error.value)
    assert "not finite from layer_01 and 1 more on" in message
    assert "item 2" in message
    assert "float16" in message
    assert "bfloat16 or float32" in message
