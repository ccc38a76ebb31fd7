"""Running on from a changed state gives what the whole model gives with a hook that makes the change."""

import numpy as np
import pytest
import torch

from strataprobe import lm
from strataprobe.errors import ModelError
from strataprobe.lm import plan_trees
from strataprobe.lm.edited import Edit, keep, keeping, over
from tests.tiny_models import FAMILIES, save_tiny_model

TEXTS = [
    "The nurse comforted the frightened child in the corridor.",
    "The nurse comforted the frightened child in the office.",
]


@pytest.fixture(scope="module", params=FAMILIES)
def model(request, tmp_path_factory):
    folder = save_tiny_model(request.param, tmp_path_factory.mktemp(request.param), layers=4)
    return lm.load(folder, dtype="float32", device="cpu")


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = save_tiny_model("llama", tmp_path_factory.mktemp("llama"), layers=4)
    return lm.load(folder, dtype="float32", device="cpu")


def kept_row(model, texts=TEXTS):
    tokens = model.encode(texts)
    rows = plan_trees(tokens, range(len(tokens)), model.sharing_limit)
    with keeping(model):
        return tokens, rows[0], keep(model, tokens, rows[0])


def by_hooks(model, sequence, edits):
    """(length, d) states after the last block of a whole forward pass of one text, edited by hooks."""

    def change(layer):
        def hook(_module, args, output=None, kwargs=None):
            states = (lm.first_tensor(output) if output is not None else lm.block_input(args, {})).clone()
            for edit in edits:
                if edit.layer == layer:
                    places = torch.from_numpy(np.asarray(edit.columns))
                    states[0, places] = states[0, places] + edit.states if edit.add else edit.states
            return (states, *output[1:]) if isinstance(output, tuple) else states

        return hook

    handles = [model.blocks[layer].register_forward_hook(change(layer)) for layer in range(model.n_layers)]
    if any(edit.layer == lm.EMBED for edit in edits):
        embedding = next(edit for edit in edits if edit.layer == lm.EMBED)

        def before(_module, args, kwargs):
            states = lm.block_input(args, kwargs).clone()
            places = torch.from_numpy(np.asarray(embedding.columns))
            new = states[0, places] + embedding.states if embedding.add else embedding.states
            states[0, places] = new
            if args:
                return (states, *args[1:]), kwargs
            return args, {**kwargs, "hidden_states": states}

        handles.append(model.blocks[0].register_forward_pre_hook(before, with_kwargs=True))
    last = []
    handles.append(
        model.blocks[-1].register_forward_hook(lambda _m, _a, out: last.append(lm.first_tensor(out)))
    )
    try:
        with torch.inference_mode():
            model.run_decoder(model.batch([sequence]))
    finally:
        for handle in handles:
            handle.remove()
    return last[0][0]


def some_edits(model, seed=0):
    """Conditions of every kind: each layer, the embedding, several places, added, several layers together."""
    generator = torch.Generator().manual_seed(seed)

    def states(count):
        return torch.randn(count, model.hidden_size, generator=generator)

    return [
        *[[Edit(layer, np.array([2, 5]), states(2))] for layer in range(model.n_layers)],
        [Edit(lm.EMBED, np.array([1, 3]), states(2), add=True)],
        [Edit(1, np.array([4]), states(1), add=True)],
        [Edit(1, np.array([2]), states(1)), Edit(2, np.array([2]), states(1))],
        [Edit(lm.EMBED, np.array([3]), states(1), add=True), Edit(2, np.array([3]), states(1))],
    ]


def test_it_is_what_hooks_in_a_whole_forward_pass_give(model):
    tokens, row, kept = kept_row(model)
    conditions = some_edits(model)
    for member, columns in zip(row.members, kept.columns, strict=True):
        got = kept.run(conditions, columns, batch_tokens=1000)
        for edits, states in zip(conditions, got, strict=True):
            # The edited tokens are shared, so that their columns are their places in the text.
            wanted = by_hooks(model, tokens[member], edits)
            assert torch.allclose(states, wanted, rtol=1e-4, atol=1e-4)


def test_the_kept_states_are_the_model_s(model):
    tokens, row, kept = kept_row(model)
    for member, columns in zip(row.members, kept.columns, strict=True):
        wanted = by_hooks(model, tokens[member], [])
        assert torch.allclose(kept.at([model.n_layers - 1], columns)[0], wanted, rtol=1e-4, atol=1e-5)


def test_a_change_that_changes_nothing_gives_the_kept_states_bit_for_bit(model):
    _, _, kept = kept_row(model)
    place = np.array([2, 5])
    same = [[Edit(layer, place, kept.at([layer], place)[0])] for layer in (lm.EMBED, *range(model.n_layers))]
    zero = [[Edit(layer, place, torch.zeros(2, model.hidden_size), add=True)] for layer in (0, 2)]
    read = np.arange(kept.length)
    found = kept.run([*same, *some_edits(model), *zero, []], read, batch_tokens=1000)
    for number in (*range(len(same)), -3, -2, -1):
        assert torch.equal(found[number], kept.at([model.n_layers - 1], read)[0])


def test_a_change_reaches_no_token_before_it(model):
    """And at the last block none but its own."""
    _, _, kept = kept_row(model)
    clean = kept.at([model.n_layers - 1], np.arange(kept.length))[0]
    last = [Edit(model.n_layers - 1, np.array([4]), torch.ones(1, model.hidden_size))]
    first = [Edit(0, np.array([4]), torch.ones(1, model.hidden_size))]
    at_last, at_first = kept.run([last, first], np.arange(kept.length), batch_tokens=1000)
    others = [column for column in range(kept.length) if column != 4]
    assert torch.equal(at_last[others], clean[others])
    assert torch.allclose(at_first[:4], clean[:4], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(at_first[4:6], clean[4:6], rtol=1e-2, atol=1e-2)


def test_neither_order_nor_batch_size_matters(model):
    _, _, kept = kept_row(model)
    conditions = some_edits(model)
    read = np.arange(kept.length)
    whole = kept.run(conditions, read, batch_tokens=10_000)
    single = kept.run(conditions, read, batch_tokens=1)
    turned = kept.run(conditions[::-1], read, batch_tokens=10_000).flip(0)
    for other in (single, turned):
        assert torch.allclose(whole, other, rtol=1e-5, atol=1e-5)


def test_a_row_run_anew_keeps_every_state_and_can_be_changed_again(model):
    """Corrupt, then restore: as causal tracing does."""
    tokens, _, _ = kept_row(model)
    alone = plan_trees(tokens, [0], model.sharing_limit)[0]
    with keeping(model):
        kept = keep(model, tokens, alone)
    noise = Edit(lm.EMBED, np.array([2, 3]), torch.ones(2, model.hidden_size), add=True)
    corrupt = kept.changed([noise])
    read = np.arange(kept.length)
    noised = corrupt.at([model.n_layers - 1], read)[0]
    assert torch.allclose(noised, by_hooks(model, tokens[0], [noise]), rtol=1e-4, atol=1e-4)
    place = np.array([2, 3, 4])
    restore = Edit(1, place, kept.at([1], place)[0])
    got = corrupt.run([[restore]], read, batch_tokens=1000)[0]
    assert torch.allclose(got, by_hooks(model, tokens[0], [noise, restore]), rtol=1e-4, atol=1e-4)


def test_hooks_are_gone_after_an_exception(llama):
    def hooks():
        return sum(len(block._forward_hooks) + len(block._forward_pre_hooks) for block in llama.blocks)

    before = hooks()

    def fail():
        assert hooks() == before + 2 * llama.n_layers
        raise KeyError

    with pytest.raises(KeyError), keeping(llama):
        fail()
    assert hooks() == before
    with pytest.raises(RuntimeError, match="within `keeping`"):
        keep(llama, llama.encode(TEXTS), plan_trees(llama.encode(TEXTS), [0], 0)[0])


@pytest.mark.parametrize("threads", [1, 2])
def test_jobs_come_in_order_and_their_number_of_threads_changes_no_bit(llama, threads):
    tokens = llama.encode(TEXTS * 6)

    def work(number):
        kept = keep(llama, tokens, plan_trees(tokens, [number], llama.sharing_limit)[0])
        return number, kept.run(some_edits(llama, number), np.arange(4), batch_tokens=50)

    with keeping(llama):
        found = list(over(range(12), work, lm=llama, threads=threads))
        wanted = list(over(range(12), work, lm=llama, threads=1))
    assert [number for number, _ in found] == list(range(12))
    assert all(torch.equal(one[1], other[1]) for one, other in zip(found, wanted, strict=True))


def test_where_memory_runs_out_the_batch_is_halved(llama, monkeypatch):
    _, _, kept = kept_row(llama)
    conditions = some_edits(llama)
    read = np.arange(kept.length)
    wanted = kept.run(conditions, read, batch_tokens=10_000)
    sizes = []
    real = type(kept)._together

    def scarce(self, chosen, places):
        sizes.append(len(chosen))
        if len(chosen) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(self, chosen, places)

    monkeypatch.setattr(type(kept), "_together", scarce)
    assert torch.allclose(kept.run(conditions, read, batch_tokens=10_000), wanted, rtol=1e-5, atol=1e-5)
    assert max(sizes) == len(conditions)
    monkeypatch.setattr(type(kept), "_together", lambda *_: (_ for _ in ()).throw(MemoryError()))
    with pytest.raises(ModelError, match="memory ran out on one changed row of"):
        kept.run(conditions, read, batch_tokens=10_000)
