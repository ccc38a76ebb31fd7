"""The model's own output map, and states at chosen tokens in rows that share beginnings."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from torch import nn

from strataprobe import lm as lm_room
from strataprobe.errors import ModelError
from strataprobe.lm import EMBED, OutputMap, Row, Tree, batch_rows, output, plan_trees, states_at
from tests.tiny_models import FAMILIES, randomise, save_tiny_model, tiny_tokenizer

TEXTS = [
    "The nurse comforted the frightened child in the office.",
    "The nurse comforted the frightened clerk.",
    "The nurse comforted the frightened clerk.",
    "The nurse counted the forms.",
    "She told the truth about the money.",
    "Über die Brücke",
    "Über die Brücke fährt der Händler",
    "He",
]


def load(directory):
    return lm_room.load(directory, dtype="float32", device="cpu")


def own_logits(lm, tokens):
    with torch.inference_mode():
        return lm.model(torch.tensor([tokens])).logits[0]


def last_states(lm, tokens):
    (found,) = states_at(
        lm, [tokens], [range(len(tokens))], ids=["it"], layers=[lm.n_layers - 1], batch_tokens=99
    )
    return found.states[0]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_norm_and_head_of_the_last_block_give_the_models_own_logits(family, tied, tmp_path):
    lm = load(save_tiny_model(family, tmp_path, layers=3, tie_word_embeddings=tied))
    tokens = lm.encode([TEXTS[0]])[0]
    found = OutputMap.of(lm)
    with torch.inference_mode():
        logits = found.logits(found.normed(last_states(lm, tokens)))
    torch.testing.assert_close(logits, own_logits(lm, tokens), atol=1e-5, rtol=1e-5)
    assert (found.scale, found.cap) == (1.0, 1.0 if family == "gemma2" else None)


def save_scaled(directory, kind, **settings):
    tokenizer = tiny_tokenizer()
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, **settings,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    randomise(model, 0).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.mark.parametrize(
    ("kind", "settings", "scale"),
    [("Cohere", {"logit_scale": 0.25}, 0.25), ("Granite", {"logits_scaling": 8.0}, 1 / 8)],
)
def test_a_scale_on_the_logits_is_the_models_own(kind, settings, scale, tmp_path):
    lm = load(save_scaled(tmp_path, kind, **settings))
    tokens = lm.encode([TEXTS[1]])[0]
    found = OutputMap.of(lm)
    assert found.scale == scale
    with torch.inference_mode():
        logits = found.logits(found.normed(last_states(lm, tokens)))
    torch.testing.assert_close(logits, own_logits(lm, tokens), atol=1e-5, rtol=1e-5)


def test_an_output_map_that_is_not_known_is_refused_by_name(tmp_path):
    lm = load(save_tiny_model("llama", tmp_path))

    class Other(nn.Module):
        def forward(self, states):
            return lm.head(states) + torch.arange(lm.vocab_size)

    with pytest.raises(ModelError, match="LlamaForCausalLM gives as logits"):
        OutputMap.of(replace(lm, head=Other()))
    with pytest.raises(ModelError, match="LlamaForCausalLM has no output embeddings"):
        OutputMap.of(replace(lm, head=None))


@pytest.mark.parametrize("rows_at_a_time", [1, 3, 1000])
def test_log_probabilities_are_those_of_the_whole_distribution(rows_at_a_time, tmp_path, monkeypatch):
    lm = load(save_tiny_model("gemma2", tmp_path))
    monkeypatch.setitem(output._CHUNK_BYTES, "cpu", 4 * lm.vocab_size * rows_at_a_time)
    found = OutputMap.of(lm)
    tokens = lm.encode([TEXTS[0]])[0]
    asked, targets = torch.tensor([4, 0, 2, 4, 9]), torch.tensor([7, 300, 0, 11, 7])
    sizes = []
    watch = lm.head.register_forward_hook(lambda _m, _a, out: sizes.append(out.shape[0]))
    with torch.inference_mode(), lm_room.attached([watch]):
        ours = found.log_probabilities(found.normed(last_states(lm, tokens)), asked, targets)
    expected = own_logits(lm, tokens).log_softmax(dim=-1)[asked, targets]
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)
    assert max(sizes) <= rows_at_a_time


def test_log_probabilities_over_a_large_vocabulary_are_exact_to_six_digits(tmp_path):
    lm = load(save_tiny_model("llama", tmp_path))
    torch.manual_seed(0)
    head = nn.Linear(lm.hidden_size, 50_000)
    states, targets = 7 * torch.randn(40, lm.hidden_size), torch.arange(40)
    with torch.inference_mode():
        found = OutputMap(replace(lm, head=head, vocab_size=50_000), 1.0, None).log_probabilities(
            states, torch.arange(40), targets
        )
        logits = head(states)
        expected = logits.double().log_softmax(dim=-1)[targets, targets]
    assert logits.std() == pytest.approx(4, abs=0.5)  # as those of a trained model are
    torch.testing.assert_close(found.double(), expected, atol=5e-6, rtol=0)


@pytest.mark.parametrize("biased", [True, False])
def test_the_raw_unembedding_at_one_token_is_that_of_the_head(biased, tmp_path):
    lm = load(save_tiny_model("llama", tmp_path))
    head = nn.Linear(lm.hidden_size, lm.vocab_size, bias=biased)
    states, targets = torch.randn(3, 5, lm.hidden_size), torch.tensor([1, 2, 2, 300, 9])
    expected = torch.stack([head(states)[:, i, t] for i, t in enumerate(targets)], dim=1)

    class Wrapped(nn.Module):
        def forward(self, states):
            return head(states)

    with torch.inference_mode():
        for own in (head, Wrapped()):
            raw = OutputMap(replace(lm, head=own), 1.0, None).raw_at(states, targets)
            torch.testing.assert_close(raw, expected, atol=1e-5, rtol=1e-5)


def test_raw_logits_beyond_half_precision_are_still_numbers(tmp_path):
    lm = load(save_tiny_model("llama", tmp_path))
    head = nn.Linear(lm.hidden_size, lm.vocab_size, bias=False).half()
    with torch.inference_mode():
        head.weight.fill_(8.0)
        found = OutputMap(replace(lm, head=head, dtype="float16"), 1.0, None)
        states = torch.full((1, 1, lm.hidden_size), 3e4).half()
        raw = found.raw_at(states, torch.tensor([4]))
    assert float(raw[0, 0]) == pytest.approx(8 * float(states[0, 0, 0]) * lm.hidden_size)


# States at chosen tokens


def reported(lm, tokens):
    """(L + 1, tokens, d): transformers' hidden_states, the last before the final norm."""
    kept = []
    hook = lm.blocks[-1].register_forward_hook(lambda _m, _a, out: kept.append(lm_room.first_tensor(out)))
    with torch.inference_mode(), lm_room.attached([hook]):
        states = lm.model(torch.tensor([tokens]), output_hidden_states=True).hidden_states
    return torch.stack([*states[:-1], kept[0]])[:, 0]


def hooks(lm):
    return [len(block._forward_hooks) + len(block._forward_pre_hooks) for block in lm.blocks]


@pytest.mark.parametrize("batch_tokens", [1, 40, 4096])
@pytest.mark.parametrize("family", FAMILIES)
def test_states_are_those_that_transformers_reports_of_each_text_alone(family, batch_tokens, tmp_path):
    window = {"sliding_window": 48} if family == "gemma2" else {}
    lm = load(save_tiny_model(family, tmp_path, layers=3, **window))
    tokens = lm.encode(TEXTS)
    places = [[len(own) - 1, 0] if i % 2 else range(len(own)) for i, own in enumerate(tokens)]
    done, found, hooked = [], {}, hooks(lm)
    for selected in states_at(
        lm, tokens, places, ids=TEXTS, layers=[EMBED, 0, 1, 2], batch_tokens=batch_tokens, threads=2,
        progress=done.append,
    ):  # fmt: skip
        found |= dict(selected.each())
    assert sorted(found) == list(range(len(TEXTS)))
    assert sum(done) == len(TEXTS)
    assert hooks(lm) == hooked
    for number, own in enumerate(tokens):
        expected = reported(lm, own)[:, list(places[number])]
        torch.testing.assert_close(found[number], expected, atol=1e-5, rtol=1e-4)


def test_a_shared_token_is_run_and_selected_once(tmp_path):
    lm = load(save_tiny_model("llama", tmp_path))
    tokens = lm.encode(TEXTS[:3])
    shapes = []
    hook = lm.blocks[0].register_forward_hook(lambda _m, _a, out: shapes.append(out.shape[:2]))
    with lm_room.attached([hook]):
        (selected,) = states_at(
            lm, tokens, [range(len(own)) for own in tokens], ids=TEXTS[:3], batch_tokens=500
        )
    distinct = {tuple(own[: i + 1]) for own in tokens for i in range(len(own))}
    assert shapes == [(1, len(distinct))]
    assert selected.states.shape == (2, len(distinct), lm.hidden_size)
    assert selected.places[1].tolist() == selected.places[2].tolist()


def test_what_is_made_of_a_batch_is_made_again_on_halves_where_memory_runs_out(tmp_path):
    lm = load(save_tiny_model("llama", tmp_path))
    tokens = lm.encode(TEXTS)
    sizes = []

    def then(selected):
        assert torch.is_inference_mode_enabled()
        sizes.append(selected.states.shape[1])
        if len(sizes) == 1:
            raise MemoryError
        return sorted(selected.numbers)

    places = [[len(own) - 1] for own in tokens]
    made = list(states_at(lm, tokens, places, ids=TEXTS, batch_tokens=4096, then=then))
    assert sorted(number for part in made for number in part) == list(range(len(TEXTS)))
    assert max(sizes[1:]) < sizes[0]


def test_hooks_are_gone_after_a_fault(tmp_path):
    lm = load(save_tiny_model("llama", tmp_path))

    def then(_selected):
        raise ValueError("no")

    before = hooks(lm)
    with pytest.raises(ValueError, match="no"):
        list(states_at(lm, [[5, 6]], [[0]], ids=["it"], layers=[EMBED, 0], batch_tokens=8, then=then))
    assert hooks(lm) == before


# Rows as trees


def test_a_tree_places_each_beginning_once_and_every_member_in_order():
    tokens = [[1, 2, 3, 4], [1, 2, 3, 5, 6], [1, 2, 9], [1, 2, 3, 5, 6], [8, 8]]
    tree, last = plan_trees(tokens, range(5), limit=10)
    assert isinstance(tree, Tree)
    assert tree.members == (0, 1, 2, 3)
    assert tree.branches == ((0, 0), (0, 3), (0, 2), (1, 5))
    assert tree.length == 7
    assert [own.tolist() for own in tree.columns(tokens)] == [
        [0, 1, 2, 3],
        [0, 1, 2, 4, 5],
        [0, 1, 6],
        [0, 1, 2, 4, 5],
    ]
    assert (last.members, last.length) == ((4,), 2)
    assert [row.members for row in tree.alone(tokens)] == [(0,), (1,), (2,), (3,)]


def test_rows_stay_short_and_alone_where_nothing_can_be_shared():
    tokens = [[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3, 6], [7], [1] + [4] * 20]
    lengths = [row.length for row in plan_trees(tokens, range(3), limit=10, longest=5)]
    assert lengths == [5, 4]
    assert [row.members for row in plan_trees(tokens, range(5), limit=10)] == [(i,) for i in range(5)]
    # One token in twenty-one spares too little.
    assert [row.members for row in plan_trees(tokens, [0, 4], limit=99)] == [(0,), (4,)]
    assert plan_trees(tokens, [], limit=9) == []


def test_members_of_a_tree_do_not_see_each_other(tmp_path):
    lm = load(save_tiny_model("llama", tmp_path))
    tokens = [[5, 6, 7, 8], [5, 6, 9], [5, 6, 7, 10, 11]]
    (row,) = plan_trees(tokens, range(3), limit=10)
    batch, (columns,) = batch_rows(lm, tokens, [row, Row((1,), 0, 3)][:1])
    seen = batch["attention_mask"][0, 0] == 0
    for own, other in ((0, 1), (1, 2), (0, 2)):
        apart = np.setdiff1d(columns[other], columns[own])
        assert not seen[columns[own]][:, apart].any()
    assert batch["position_ids"][0].tolist() == [0, 1, 2, 3, 2, 3, 4]
