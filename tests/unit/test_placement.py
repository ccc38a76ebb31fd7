"""Weights over several places or block by block: the same numbers, each block loaded once, memory bounded."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from accelerate.utils import OffloadedWeightsLoader
from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    MixtralConfig,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import CausalLMOutput

from bench import offload, setup
from strataprobe import capture as capture_room
from strataprobe import lm as lm_room
from strataprobe.capture.caching import capture_dataset
from strataprobe.config.models import ModelEntry
from strataprobe.datasets.pairs import read_pairs
from strataprobe.errors import ModelError
from strataprobe.lm import loading
from strataprobe.lm.batches import Batches
from strataprobe.lm.placement import (
    Placement,
    block_bytes,
    device_map,
    room_for_blocks,
    skeleton,
    spread_homes,
)
from strataprobe.lm.rooms import Rooms
from tests.tiny_models import FAMILIES, randomise, save_tiny_model, tiny_tokenizer

TEXTS = [
    "The nurse comforted the frightened child.",
    "The nurse counted the frightened child.",
    "He ran.",
    "She told the truth about the money, and he kept his word.",
    "She told the clerk about the money, and he kept his word.",
    "Über die Brücke fährt der Händler.",
    "他 在 河边 看见 了 小狗",
] * 3
IDS = [f"item {i}" for i in range(len(TEXTS))]
BLOCKWISE = {"weights": "blockwise"}
ON_DISK = {"weights": "spread", "cpu_mb": 0}


def load(directory, dtype="float32", **settings):
    return lm_room.load(directory, dtype=dtype, device="cpu", **settings)


def captured(lm, **changes):
    """name -> (texts, positions, d) of all windows."""
    settings = capture_room.Settings(
        **{
            "dtype": lm.dtype,
            "device": "cpu",
            "batch_tokens": 64,
            "embed": True,
            "threads": 2,
            "window_mb": 1,
            **changes,
        }
    )
    windows = list(
        capture_room.capture(lm, TEXTS, ids=IDS, positions=("mean", "mean_rest", "last"), settings=settings)
    )
    return {name: np.concatenate([w.layers[name] for w in windows]) for name in windows[0].layers}


def assert_same_bits(one, other):
    assert list(one) == list(other)
    for name, states in one.items():
        assert np.array_equal(states, other[name]), name


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return save_tiny_model("llama", tmp_path_factory.mktemp("llama"), layers=4)


@pytest.fixture(scope="module")
def whole(directory):
    return load(directory)


@pytest.fixture(scope="module")
def blockwise(directory):
    return load(directory, placement=BLOCKWISE)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_placement_changes_no_bit_on_a_cpu(family, dtype, tmp_path):
    directory = save_tiny_model(family, tmp_path, layers=3)
    expected = load(directory, dtype)
    wanted = captured(expected)
    for placement in (BLOCKWISE, {**BLOCKWISE, "states_mb": 0}, ON_DISK):
        placed = load(directory, dtype, placement=placement)
        assert {weight.device.type for weight in placed.blocks.parameters()} == {"meta"}
        assert placed.sharing_limit == expected.sharing_limit
        assert_same_bits(wanted, captured(placed))


def test_experts_that_are_put_together_anew_are_run_block_by_block_too(tmp_path):
    config = MixtralConfig(
        vocab_size=len(tiny_tokenizer()),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        initializer_range=0.15,
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    randomise(model, 0).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    assert_same_bits(captured(load(tmp_path)), captured(load(tmp_path, placement=BLOCKWISE)))


def test_windows_and_threads_move_no_bit_either(whole, blockwise, monkeypatch):
    # Windows of five texts: all of them pass a block together, and come one by one.
    monkeypatch.setattr(capture_room.Settings, "texts_a_window", lambda *_: 5)
    wanted = captured(whole, threads=1)
    for threads in (1, 3):
        assert_same_bits(wanted, captured(blockwise, threads=threads))


def test_a_cache_is_the_same_file_wherever_the_weights_lay(tmp_path, tmp_path_factory):
    directory = save_tiny_model("llama", tmp_path_factory.mktemp("long"), layers=3, max_positions=256)
    lines = [
        {"id": str(i), "positive": f"{a} {i}", "negative": f"{b} {i}", "group": "g"}
        for i, (a, b) in enumerate(zip(TEXTS[::2], TEXTS[1::2], strict=False))
    ]
    data = tmp_path / "pairs.jsonl"
    data.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    identity = dict.fromkeys(("model", "revision", "weights_sha256", "tokenizer_sha256"), "x")
    settings = capture_room.Settings(
        dtype="float32", device="cpu", batch_tokens=256, embed=False, threads=1, window_mb=1
    )
    made = []
    for name, placement in (("whole", None), ("blockwise", BLOCKWISE), ("spread", ON_DISK)):
        path = tmp_path / f"{name}.h5"
        capture_dataset(
            load(directory, placement=placement), read_pairs(data, "pairs"), path,
            identity=identity, settings=settings,
        )  # fmt: skip
        made.append(path.read_bytes())
    assert made[0] == made[1] == made[2]


def test_each_block_is_loaded_once_a_pass_and_one_is_there_at_a_time(blockwise, monkeypatch):
    loads, there = [], []
    original = OffloadedWeightsLoader.__getitem__

    def counted(self, key):
        loads.append(key)
        return original(self, key)

    def look(_module, _args):
        kinds = [next(block.parameters()).device.type for block in blockwise.blocks]
        there.append([block for block, kind in enumerate(kinds) if kind != "meta"])

    monkeypatch.setattr(OffloadedWeightsLoader, "__getitem__", counted)
    hooks = [block.mlp.register_forward_pre_hook(look) for block in blockwise.blocks]
    with lm_room.attached(hooks):
        captured(blockwise, batch_tokens=1)
    assert len(loads) == len(set(loads)) == sum(1 for _ in blockwise.blocks.parameters())
    assert len(there) > 4 * 5
    assert there == sorted(there)
    assert {tuple(own) for own in there} == {(0,), (1,), (2,), (3,)}
    assert {weight.device.type for weight in blockwise.blocks.parameters()} == {"meta"}


def test_states_at_chosen_tokens_and_blocks_are_the_same_and_nothing_above_is_loaded(
    whole, blockwise, monkeypatch
):
    tokens = whole.encode(TEXTS)
    places = [[0, len(own) - 1] for own in tokens]

    def states(lm):
        found = {}
        layers = [2, lm_room.EMBED, 0]
        for part in lm_room.states_at(lm, tokens, places, ids=IDS, layers=layers, batch_tokens=64):
            found |= {number: own.clone() for number, own in part.each()}
        return found

    loads = []
    original = OffloadedWeightsLoader.__getitem__
    monkeypatch.setattr(
        OffloadedWeightsLoader, "__getitem__", lambda self, key: loads.append(key) or original(self, key)
    )
    wanted, found = states(whole), states(blockwise)
    assert sorted(found) == list(range(len(TEXTS)))
    assert all(torch.equal(wanted[number], found[number]) for number in wanted)
    assert {key.split(".")[2] for key in loads} == {"0", "1", "2"}


def failing(block, error):
    def fail(*_):
        raise error

    return lm_room.attached([block.mlp.register_forward_pre_hook(fail)])


@pytest.mark.parametrize("block", [0, 2])
def test_where_memory_runs_out_at_a_block_its_batch_begins_anew_in_halves(block, whole, directory):
    lm = load(directory, placement=BLOCKWISE)
    sizes = []

    def run_out(_module, args):
        sizes.append(len(args[0]))
        if len(args[0]) > 2:
            raise torch.OutOfMemoryError("out of memory")

    alone = captured(replace(whole, sharing_limit=0))
    lm = replace(lm, sharing_limit=0)
    with lm_room.attached([lm.blocks[block].mlp.register_forward_pre_hook(run_out)]):
        found = captured(lm, batch_tokens=10**4)
    with failing(lm.blocks[block], MemoryError), pytest.raises(ModelError, match="memory ran out on item"):
        captured(lm)
    assert max(sizes) > 2
    for name, states in alone.items():
        np.testing.assert_allclose(found[name], states, atol=1e-5)


def test_after_an_error_the_model_is_as_it_was(blockwise):
    def state():
        return [
            (block.forward, len(block._forward_hooks), next(block.parameters()).device.type)
            for block in blockwise.blocks
        ]

    before, wanted = state(), captured(blockwise)
    with failing(blockwise.blocks[1], ZeroDivisionError), pytest.raises(ZeroDivisionError):
        captured(blockwise)
    assert state() == before
    assert_same_bits(wanted, captured(blockwise))


def test_a_weight_that_is_not_a_number_is_named_with_its_block(directory, tmp_path):
    for path in directory.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = load_file(directory / "model.safetensors")
    weights["model.layers.2.mlp.up_proj.weight"][3, 5] = torch.nan
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"block 2: mlp\.up_proj\.weight: NaN or inf"):
        load(tmp_path, placement=BLOCKWISE)
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"layers\.1\.mlp\.up_proj\.weight: not in the checkpoint"):
        load(tmp_path, placement=BLOCKWISE)


def test_where_weights_come_and_go_one_batch_runs_at_a_time(directory, whole, blockwise):
    for lm, workers in ((whole, 3), (blockwise, 1), (load(directory, placement=ON_DISK), 1)):
        assert Batches(lm, [], [], 1, 3).workers == workers


class HandingConfig(PretrainedConfig):
    model_type = "handing"

    def __init__(self, vocab_size=360, hidden_size=16, num_hidden_layers=3, hands=True, **extra):
        self.vocab_size, self.hidden_size, self.num_hidden_layers = vocab_size, hidden_size, num_hidden_layers
        self.hands = hands
        super().__init__(**{"tie_word_embeddings": False, **extra})


class HandingBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, stream, first):
        own = torch.tanh(self.inner(stream))
        return stream + own + (0 if first is None else first), own


class HandingModel(PreTrainedModel):
    """Its blocks hand each other a second state where `hands` says so."""

    config_class = HandingConfig

    def __init__(self, config):
        super().__init__(config)
        self.embedder = nn.Embedding(config.vocab_size, config.hidden_size)
        self.tower = nn.ModuleList(HandingBlock(config.hidden_size) for _ in range(config.num_hidden_layers))
        self.closing = nn.LayerNorm(config.hidden_size)
        self.unembedder = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.embedder

    def get_output_embeddings(self):
        return self.unembedder

    def forward(self, input_ids, output_hidden_states=False):
        states, first = [self.embedder(input_ids)], None
        for block in self.tower:
            stream, own = block(states[-1], first)
            first = own if self.config.hands else None
            states.append(stream)
        states[-1] = self.closing(states[-1])
        listed = tuple(states) if output_hidden_states else None
        return CausalLMOutput(logits=self.unembedder(states[-1]), hidden_states=listed)


AutoConfig.register("handing", HandingConfig)
AutoModelForCausalLM.register(HandingConfig, HandingModel)


@pytest.mark.parametrize("hands", [True, False])
def test_blocks_that_hand_on_more_than_the_stream_are_refused_by_name(hands, tmp_path):
    torch.manual_seed(0)
    HandingModel(HandingConfig(hands=hands)).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    wanted = captured(load(tmp_path))
    assert_same_bits(wanted, captured(load(tmp_path, placement=ON_DISK)))
    if hands:
        with pytest.raises(ModelError, match=r"HandingModel gives other states .* at layer 01.*spread"):
            load(tmp_path, placement=BLOCKWISE)
    else:
        assert_same_bits(wanted, captured(load(tmp_path, placement=BLOCKWISE)))


def test_what_is_beyond_the_budget_waits_in_files_that_go(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Rooms(4 * 10) as rooms:
        inside = rooms.room((2, 5), torch.float32)
        assert list(tmp_path.iterdir()) == []
        outside = [rooms.room((3, 4), torch.bfloat16) for _ in range(2)]
        for number, room in enumerate([inside, *outside]):
            room.fill_(number)
        assert [int(room.sum()) for room in (inside, *outside)] == [0, 12, 24]
        (folder,) = tmp_path.iterdir()
        assert sorted(path.stat().st_size for path in folder.iterdir()) == [24, 24]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_a_device_map_places_every_weight_and_splits_no_block(family, tmp_path):
    model, name, blocks = skeleton(save_tiny_model(family, tmp_path, layers=3), torch.float32)
    assert {weight.device.type for weight in model.parameters()} == {"meta"}
    placed = device_map(model, name, [0, 1, "disk"], 0)
    for weight, _ in model.named_parameters():
        homes = {home for part, home in placed.items() if weight == part or weight.startswith(f"{part}.")}
        inside = weight.startswith(f"{name}.")
        assert homes == ({[0, 1, "disk"][int(weight[len(name) + 1 :].split(".")[0])]} if inside else {0})
    assert len(blocks) == 3


def test_blocks_fill_one_device_after_the_other():
    four = [10, 10, 10, 10]
    assert spread_homes(four, {0: 20, 1: 20, "cpu": 0}) == [0, 0, 1, 1]
    assert spread_homes(four, {0: 29, 1: 9, 2: 15, "cpu": 99}) == [0, 2, "cpu", "cpu"]
    # The first device keeps room for the block that is loaded there to be run, where one is.
    assert spread_homes(four, {0: 20, "cpu": 10}) == [0, "cpu", "disk", "disk"]
    assert spread_homes(four, {0: 30, 1: 9, "cpu": 10}) == [0, 0, "cpu", "disk"]
    assert spread_homes(four, {"cpu": 40}) == ["cpu"] * 4
    assert spread_homes(four, {"cpu": 30}) == ["cpu", "cpu", "disk", "disk"]
    assert spread_homes(four, {0: -5, "cpu": 0}) == ["disk"] * 4
    # One that fits nowhere sends those after it to the disk, too.
    assert spread_homes([10, 50, 10], {0: 20, 1: 40, "cpu": 9}) == [1, "disk", "disk"]


@pytest.mark.parametrize("family", FAMILIES)
def test_bytes_of_a_block_are_those_of_its_weights(family, tmp_path):
    directory = save_tiny_model(family, tmp_path, layers=2)
    _, name, blocks = skeleton(directory, torch.bfloat16)
    weights = load_file(directory / "model.safetensors")
    stored = [sum(w.numel() * 2 for key, w in weights.items() if f"{name}.{n}." in key) for n in (0, 1)]
    buffers = sum(buffer.numel() * buffer.dtype.itemsize for buffer in blocks[0].buffers())
    assert block_bytes(blocks, torch.bfloat16) == [size + buffers for size in stored]


def test_room_for_blocks_is_what_batches_and_other_weights_leave():
    free = {0: 1000, 1: 800, 2: 700, "cpu": 5 << 20}.get
    sizes = {"rest": 300, "batch": 100, "free": free}
    two = Placement("spread", gpus=2)
    assert room_for_blocks("cuda", two, visible=3, **sizes) == {0: 600, 1: 700, "cpu": 5 << 20}
    assert room_for_blocks("cuda", two, visible=1, **sizes) == {0: 600, "cpu": 5 << 20}
    capped = Placement("spread", cpu_mb=2)
    assert room_for_blocks("cuda", capped, visible=1, **sizes) == {0: 600, "cpu": 2 << 20}
    assert room_for_blocks("cpu", capped, visible=0, **sizes) == {"cpu": 2 << 20}
    assert room_for_blocks("cpu", Placement("spread"), visible=0, **sizes) == {"cpu": (5 << 20) - 400}


def test_part_of_the_blocks_stays_in_memory_where_it_may(directory, whole, monkeypatch):
    size = sum(weight.numel() * 4 for weight in whole.blocks[0].parameters())
    monkeypatch.setattr(loading, "room_for_blocks", lambda *_args, **_sizes: {"cpu": 3 * size})
    placed = load(directory, placement={"weights": "spread"})
    assert [next(block.parameters()).device.type for block in placed.blocks] == ["cpu", "cpu", "meta", "meta"]
    assert_same_bits(captured(whole), captured(placed))


@pytest.mark.parametrize(
    ("placement", "fault"),
    [
        ({"weights": "blockwise", "gpus": 2}, "gpus: goes with weights: spread, not with blockwise"),
        ({"cpu_mb": 5, "gpus": 2}, "gpus: goes with .*; cpu_mb: goes with weights: spread, not with whole"),
        ({"weights": "spread", "states_mb": 5}, "states_mb: goes with weights: blockwise, not with spread"),
        ({"weights": "many"}, "whole.*spread.*blockwise"),
        ({"weights": "spread", "cpu_mb": "1GB"}, "not a whole number"),
    ],
)
def test_settings_that_nothing_heeds_are_refused(placement, fault):
    entry = {"source": {"hub": {"repo": "a/b"}}, "revisions": ["main"]}
    assert ModelEntry.model_validate(entry).placement is None
    with pytest.raises(ValidationError, match=fault):
        ModelEntry.model_validate({**entry, "placement": placement})


def test_a_studys_placements_are_those_of_the_models_that_say_so():
    config = {"models": {"a": {"placement": {"weights": "blockwise", "states_mb": 7}}, "b": {"dtype": "x"}}}
    assert lm_room.placements(config) == {"a": Placement("blockwise", states_mb=7)}
    with pytest.raises(ModelError, match="'elsewhere' is unknown"):
        Placement.of({"weights": "elsewhere"})


def test_the_bench_runs_both_ways_over_the_same_texts(tmp_path):
    directory = save_tiny_model("llama", tmp_path / "model", layers=3, hidden=64, max_positions=256)
    pairs = [
        {"id": str(n), "positive": f"{one} {n}", "negative": f"{other} {n}", "group": "g"}
        for n, (one, other) in enumerate(pairwise(TEXTS))
    ]
    data = tmp_path / "pairs.jsonl"
    data.write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8")
    job = setup.setup(str(directory), str(data), threads=1)
    found = []
    for way in offload.WAYS:
        out = tmp_path / way
        out.mkdir()
        stages = {**job.stages, offload.NAME: {"way": way}}
        offload.run({"checkpoint": str(directory), "dataset": str(data), "stages": stages, "out": str(out)})
        written = json.loads((out / "found.json").read_text())
        assert written["seconds"] > 0
        found.append(np.load(out / "states.npy"))
    assert found[0].shape == (3 + job.stages["capture"]["embed"], 40, 2, 64)
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)
    assert offload.measure(setup.setup(str(tmp_path), None, threads=1)).passed is None
