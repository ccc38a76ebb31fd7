"""Tracing gives what hooks in whole forward passes give, in any batch, and exact zeros where it must."""

import csv
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from strataprobe import lm, tracing
from strataprobe.errors import ModelError
from strataprobe.tracing import designs
from strataprobe.tracing.measure import traced_layers
from strataprobe.tracing.noise import draw_noise
from strataprobe.tracing.prompts import SIDES, chosen, prepare
from tests.tiny_models import FAMILIES, save_tiny_model
from tests.tracing_cases import QUESTION, dataset, settings

SCORES = ("expected", "other")


@pytest.fixture(scope="module", params=FAMILIES)
def model(request, tmp_path_factory):
    folder = save_tiny_model(request.param, tmp_path_factory.mktemp(request.param), layers=3)
    return lm.load(folder, dtype="float32", device="cpu")


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = save_tiny_model("llama", tmp_path_factory.mktemp("llama"), layers=3)
    return lm.load(folder, dtype="float32", device="cpu")


@pytest.fixture(scope="module")
def traced(llama):
    return tracing.measure(llama, dataset(), settings())


@contextmanager
def hooked(model, layer, change):
    """While it lasts, what enters the first block (`EMBED`) or leaves a block is changed."""

    def before(_module, args, kwargs):
        states = change(lm.block_input(args, kwargs))
        return ((states, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": states})

    def after(_module, _args, output):
        states = change(lm.first_tensor(output))
        return (states, *output[1:]) if isinstance(output, tuple) else states

    if layer == lm.EMBED:
        handle = model.blocks[0].register_forward_pre_hook(before, with_kwargs=True)
    else:
        handle = model.blocks[layer].register_forward_hook(after)
    try:
        yield
    finally:
        handle.remove()


def log_probability(model, tokens, span):
    """Sum over a continuation's tokens, from the whole model's own logits."""
    with torch.inference_mode():
        scores = torch.log_softmax(model.model(torch.tensor([tokens])).logits[0].double(), dim=-1)
    return sum(float(scores[at - 1, tokens[at]]) for at in range(*span))


def adding(sigma, noise, places=None):
    def change(states):
        states = states.clone()
        where = list(range(states.shape[1])) if places is None else list(places)
        states[0, where] += sigma * torch.from_numpy(noise)[where]
        return states

    return change


def kept_states(model, tokens, layer):
    found = []
    with hooked(model, layer, lambda states: found.append(states.clone()) or states), torch.inference_mode():
        model.model(torch.tensor([tokens]))
    return found[0][0]


def putting_back(clean, places):
    def change(states):
        states = states.clone()
        states[0, places] = clean[places]
        return states

    return change


def by_hooks(model, asked, place, side, answer, units, given, draw, layer, design):
    """One score of one condition, from whole forward passes of the one text."""
    number = asked.numbers(place, side)[SCORES.index(answer)]
    tokens, span = asked.continuations.tokens[number], asked.continuations.spans[number]
    noise = draw_noise(given["seed"], asked.pairs[place].id, draw, len(tokens), model.hidden_size)
    if design == "clean":
        return log_probability(model, tokens, span)
    if design == "restoration":
        subject = asked.subjects[place, side]
        clean = None if layer is None else kept_states(model, tokens, layer)
        sigma = given["embedding_sds"] * units["embedding_sd"]
        with hooked(model, lm.EMBED, adding(sigma, noise, subject)):
            if layer is None:
                return log_probability(model, tokens, span)
            with hooked(model, layer, putting_back(clean, subject)):
                return log_probability(model, tokens, span)
    sigma = given["raw_sigma"] if design == "published" else given["rms_sigma"] * units["rms"][layer]
    with hooked(model, layer, adding(sigma, noise)):
        return log_probability(model, tokens, span)


def test_every_score_is_what_hooks_in_a_whole_forward_pass_give(model):
    """The noise is on the tokens of an answer too, which here are several."""
    how = settings(draws=2, choice="first")
    summary, rows = tracing.measure(model, dataset(2), how)
    given = how["tracing"]
    asked = prepare(model, chosen(dataset(2).pairs, given["items"], given["choice"]), QUESTION, chat=False)
    assert max(map(max, summary["answer_tokens"].values())) > 1
    places = {pair.id: place for place, pair in enumerate(asked.pairs)}
    assert len(rows) == 2 * 2 * (1 + 2 * 3 * 2 + 2 * (1 + 3))
    for row in rows:
        layer = None if row["layer"] == "" else row["layer"]
        draw = 0 if row["draw"] == "" else row["draw"]
        for answer in SCORES:
            wanted = by_hooks(
                model, asked, places[row["pair"]], row["side"], answer, summary["scale"], given, draw, layer,
                row["design"],
            )  # fmt: skip
            assert row[answer] == pytest.approx(wanted, abs=1e-4), row


def test_the_summary_is_the_means_of_its_rows(traced):
    summary, rows = traced

    def mean(design, side, layer):
        own = [r for r in rows if (r["design"], r["side"], r["layer"]) == (design, side, layer)]
        return {
            "expected": np.mean([r["expected"] for r in own]),
            "contrast": np.mean([r["expected"] - r["other"] for r in own]),
        }

    seen = set()
    for result in summary["results"]:
        design, side, score = result["design"], result["side"], result["score"]
        seen.add((design, side, score))
        for one in result["layer_scores"]:
            by_side = {}
            for name in SIDES:
                base = mean("clean", name, "") if design != "restoration" else mean(design, name, "")
                sign = -1 if design == "restoration" else 1
                by_side[name] = sign * (base[score] - mean(design, name, one["layer"])[score])
            wanted = by_side["positive"] - by_side["negative"] if side == "difference" else by_side[side]
            assert one["mean_indirect_effect"] == pytest.approx(wanted, abs=1e-9)
        if design == "restoration" and side != "difference":
            total = mean("clean", side, "")[score] - mean(design, side, "")[score]
            assert result["total_effect"]["value"] == pytest.approx(total, abs=1e-9)
    assert len(seen) == len(summary["results"]) == 3 * 3 * 2


def test_no_noise_changes_no_bit(llama):
    _, rows = tracing.measure(llama, dataset(), settings(raw_sigma=0.0, rms_sigma=0.0, embedding_sds=0.0))
    clean = {(r["pair"], r["side"]): (r["expected"], r["other"]) for r in rows if r["design"] == "clean"}
    assert len(clean) == 10
    assert all((r["expected"], r["other"]) == clean[r["pair"], r["side"]] for r in rows)


def test_after_the_last_block_a_subject_that_predicts_nothing_brings_nothing_back(traced):
    """Exactly: nothing attends to it any more."""
    summary, rows = traced
    last = summary["layers"][-1]
    corrupted = {
        (r["pair"], r["side"], r["draw"]): (r["expected"], r["other"])
        for r in rows
        if r["design"] == "restoration" and r["layer"] == ""
    }
    restored = [r for r in rows if r["design"] == "restoration" and r["layer"] == last]
    assert len(restored) == len(corrupted) == 20
    assert all((r["expected"], r["other"]) == corrupted[r["pair"], r["side"], r["draw"]] for r in restored)
    # Before it they do come back: else the line above would hold for any reason.
    first = [r for r in rows if r["design"] == "restoration" and r["layer"] == 0]
    assert all(r["expected"] != corrupted[r["pair"], r["side"], r["draw"]][0] for r in first)


@pytest.mark.parametrize("other", [{"batch_tokens": 1}, {"batch_tokens": 10_000}])
def test_the_batch_s_size_moves_no_more_than_last_bits(llama, traced, other):
    _, rows = tracing.measure(llama, dataset(), settings(**other))
    for one, wanted in zip(rows, traced[1], strict=True):
        assert one | {"expected": 0, "other": 0} == wanted | {"expected": 0, "other": 0}
        assert [one[name] for name in SCORES] == pytest.approx([wanted[name] for name in SCORES], abs=1e-5)


def test_threads_draws_designs_and_layers_beside_it_change_no_score(llama, traced):
    """A sentence's noise is its own: what else is traced does not matter."""
    known = {key(row): row for row in traced[1]}
    _, threaded = tracing.measure(llama, dataset(), settings(threads=2))
    assert threaded == traced[1]
    for other in ({"draws": 1}, {"designs": ["rms"]}, {"blocks": 2}):
        _, rows = tracing.measure(llama, dataset(), settings(**other))
        for row in rows:
            wanted = known[key(row)]
            assert [row[name] for name in SCORES] == pytest.approx(
                [wanted[name] for name in SCORES], abs=1e-5
            )


def key(row):
    return tuple(row[name] for name in ("pair", "side", "design", "draw", "layer"))


def test_so_many_blocks_evenly_apart(tmp_path):
    assert traced_layers(30, 7) == [0, 5, 10, 14, 19, 24, 29]
    assert traced_layers(4, 7) == traced_layers(4, None) == [0, 1, 2, 3]
    assert traced_layers(30, 2) == [0, 29]
    folder = save_tiny_model("llama", tmp_path, layers=6)
    model = lm.load(folder, dtype="float32", device="cpu")
    summary, _ = tracing.measure(model, dataset(1), settings(blocks=3, designs=["published"], draws=1))
    assert summary["layers"] == [0, 2, 5]
    (one, *_) = summary["results"]
    assert [score["depth"] for score in one["layer_scores"]] == [0, 2 / 6, 5 / 6]
    assert all(score["draw_sd"] is None for score in one["layer_scores"])


def test_hooks_are_gone_after_an_exception(llama, monkeypatch):
    def hooks():
        return sum(len(block._forward_hooks) + len(block._forward_pre_hooks) for block in llama.blocks)

    before = hooks()
    during = []

    def fail(*_args, **_how):
        during.append(hooks())
        raise KeyError

    monkeypatch.setattr(designs, "score_changed", fail)
    with pytest.raises(KeyError):
        tracing.measure(llama, dataset(1), settings())
    assert during[0] > before == hooks()


def test_settings_that_cannot_be_used_are_named_together(llama):
    wrong = settings(designs=["published", "ablation"], questions={"syntax": QUESTION})
    with pytest.raises(ModelError) as caught:
        tracing.measure(llama, dataset(1), wrong)
    assert "design 'ablation' is unknown" in str(caught.value)
    assert "'moral' has no question (there is one of syntax)" in str(caught.value)


def test_rows_are_written_in_full(traced, tmp_path):
    tracing.write_rows(tmp_path / "items.csv", traced[1])
    with (tmp_path / "items.csv").open() as handle:
        read = list(csv.DictReader(handle))
    assert len(read) == len(traced[1])
    assert [float(row["expected"]) for row in read] == [row["expected"] for row in traced[1]]
    assert {row["draw"] for row in read if row["design"] == "clean"} == {""}
