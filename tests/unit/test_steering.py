"""Steering of a model: against hooks in a whole forward pass, and what must hold whatever the model."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from strataprobe import lm, steering
from strataprobe.errors import DatasetError, ModelError
from strataprobe.lm.edited import keeping
from strataprobe.recoverability.codings import coded
from strataprobe.steering import passes
from strataprobe.steering.amnesia import Amnesia
from strataprobe.steering.passes import Asking
from strataprobe.steering.pushes import Pushes
from tests import control_cases
from tests.steering_cases import STEERING, peak, settings
from tests.tiny_models import save_tiny_model

FAMILIES = ("gpt2", "llama", "gemma2")


@pytest.fixture(scope="module")
def items(tmp_path_factory):
    return control_cases.dataset(tmp_path_factory.mktemp("items"))


def made(family, folder, **how):
    return lm.load(
        save_tiny_model(family, folder, layers=3, max_positions=256, **how), dtype="float32", device="cpu"
    )


@pytest.fixture(scope="module", params=FAMILIES)
def model(request, tmp_path_factory):
    return made(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return made("llama", tmp_path_factory.mktemp("llama"))


def margins(rows, **chosen):
    """item -> score of a less that of b."""
    return {
        row["item"]: row["score_a"] - row["score_b"]
        for row in rows
        if all(row[name] == value for name, value in chosen.items())
    }


def by_hooks(model, asking, index, edit):
    """Score of candidate a by transformers' own pass, its states at the item's roles changed by a hook."""
    item = asking.dataset.controls[index].prompts["qa"]
    tokens, count = control_cases.continuation_tokens(model, item.prompt, item.a)
    places = asking.roles[index, "qa"].places

    def hook(_module, _args, output):
        states = lm.first_tensor(output).clone()
        if edit is not None:
            edit(states[0], places)
        return (states, *output[1:]) if isinstance(output, tuple) else states

    handle = model.blocks[0].register_forward_hook(hook)
    try:
        with torch.inference_mode():
            logits = model.model(torch.tensor([tokens])).logits[0].double()
    finally:
        handle.remove()
    logs = logits.log_softmax(dim=-1)
    return sum(float(logs[i - 1, tokens[i]]) for i in range(len(tokens) - count, len(tokens)))


def fitted(model, items, **changed):
    asked = STEERING | changed
    asking = Asking.of(model, items, ["qa"], chat=False, batch_tokens=4096, threads=1)
    coding = coded(items.controls, "decorrelated")
    training = {"learning_rate": 0.01, "epochs": 20}
    pushes = Pushes.fit(asking, "qa", [1], "ab", coding, asked, training)
    return asking, pushes, Amnesia.fit(pushes, items.controls, 1, asked, training)


def test_pushes_and_erasures_are_what_hooks_in_a_whole_pass_make(model, items):
    asking, pushes, amnesia = fitted(model, items)
    for index in (0, 1, 4):
        with keeping(model):
            found = asking.scored(
                index,
                "qa",
                lambda kept, columns, index=index: [
                    *pushes.conditions(index, columns),
                    *amnesia.conditions(index, kept, columns),
                ],
            )[:, 0]
        edits = [
            None,
            *(pushing(pushes, key, index) for key in pushes.keys),
            *(erasing(asking, pushes, erasers, index) for erasers in amnesia.erasers),
        ]
        for one, edit in zip(found, edits, strict=True):
            assert one == pytest.approx(by_hooks(model, asking, index, edit), abs=2e-3)


def played(pushes, index):
    """Places among a, b, v of roles A and B."""
    return [1, 0] if pushes.coding.swapped[index] else [0, 1]


def pushing(pushes, key, index):
    fit = pushes.fits["own_prompt", 1]
    units = pushes.random["own_prompt", 1][key.number] if key.method == "random" else fit.units[key.method]

    def edit(states, columns):
        for role, place in enumerate(played(pushes, index)):
            added = key.alpha * pushes.coding.labels[index] * fit.sigma[role] * units[role].astype(np.float64)
            states[columns[place]] += torch.from_numpy(added).float()

    return edit


def erasing(asking, pushes, erasers, index):
    heeded = asking.states("qa", [0], "own_prompt").heeded[index]

    def edit(states, columns):
        for role, place in enumerate(played(pushes, index)):
            if heeded[place]:
                states[columns[place]] = torch.from_numpy(erasers[role](states[columns[place]].numpy()))

    return edit


def test_a_push_moves_answers_and_strength_0_moves_none_by_a_bit(model, items):
    # Behind the first block: a sliding window of the last ones would not reach as far.
    summary, rows = steering.measure(model, items, peak(layer=1), settings())
    clean = margins(rows, method="none")
    assert len(clean) == len(items.controls)
    for method in ("probe", "means"):
        assert margins(rows, method=method, alpha=0.0) == clean
        assert margins(rows, method=method, alpha=40.0) != clean
    cells = summary["tasks"]["qa"]["cells"]
    for cell in cells:
        if cell["alpha"] == 0:
            assert cell["correct"] == summary["tasks"]["qa"]["clean"]["correct"]
            assert cell["relative_size"] == 0
            assert cell["margin_shift"]["all"]["value"] == 0
            assert all(one["p"] == 1 for one in cell["mcnemar"].values())


def test_a_push_is_as_long_as_it_says(llama, items):
    """alpha sigma_p over the state's own length, and as long for a random direction."""
    asking, pushes, _ = fitted(llama, items)
    states = asking.states("qa", [0], "own_prompt").in_roles("ab", pushes.coding).values[0]
    chosen = list(range(len(items.controls)))
    sigma = pushes.fits["own_prompt", 1].sigma
    wanted = 40 * sigma / np.linalg.norm(states, axis=-1)
    for key in pushes.keys:
        if abs(key.alpha) == 40:
            assert pushes.relative_size(key, chosen) == pytest.approx(wanted, rel=1e-5)


def test_neither_batch_size_nor_threads_nor_order_matter(llama, items):
    whole, rows = steering.measure(llama, items, peak(), settings())
    _, single = steering.measure(llama, items, peak(), settings(batch_tokens=1))
    _, threaded = steering.measure(llama, items, peak(), settings(threads=2))
    turned = {"alphas": STEERING["alphas"][::-1], "methods": ["means", "probe"]}
    other, reverse = steering.measure(llama, items, peak(), settings(**turned))
    assert threaded == rows
    key = ("item", "method", "number", "alpha")

    def scores(found):
        return {tuple(row[name] for name in key): row["score_a"] for row in found}

    assert scores(single) == pytest.approx(scores(rows), abs=1e-4)
    assert scores(reverse) == pytest.approx(scores(rows), abs=1e-4)

    def answers(summary):
        cells = summary["tasks"]["qa"]["cells"]
        return {(one["method"], one["alpha"]): one.get("correct") for one in cells}

    assert answers(other) == answers(whole)


def test_more_random_directions_leave_the_others_as_they_were(llama, items):
    _, few = steering.measure(llama, items, peak(), settings(random=1))
    _, more = steering.measure(llama, items, peak(), settings(random=3))
    for alpha in STEERING["random_alphas"]:
        one = margins(few, method="random", number=0, alpha=alpha)
        assert one == pytest.approx(margins(more, method="random", number=0, alpha=alpha), abs=1e-4)


def test_hooks_are_gone_after_an_exception(llama, items, monkeypatch):
    def fail(*_args, **_how):
        raise RuntimeError("half way")

    monkeypatch.setattr(passes, "score_changed", fail)
    with pytest.raises(RuntimeError, match="half way"):
        steering.measure(llama, items, peak(), settings())
    assert not any(block._forward_hooks or block._forward_pre_hooks for block in llama.blocks)


def test_a_state_that_hangs_on_the_same_tokens_is_one_state(llama, items):
    """Candidate a stands before the matrix verb: in the paper's coding it tells nothing."""
    summary, _ = steering.measure(llama, items, peak(coding="paper"), settings())
    (fit,) = summary["tasks"]["qa"]["fits"]
    assert fit["no_direction"] == {"probe": [], "means": ["a"]}
    erasure = summary["tasks"]["qa"]["erasure"]
    assert erasure["rank"] == [0, 1]
    assert erasure["difference_left"][0] is None
    assert erasure["difference_left"][1] == pytest.approx(0, abs=1e-5)


def test_languages_and_layers(llama, items):
    summary, rows = steering.measure(
        llama, items, peak(layer=1), settings(languages=["en"], every=2, states=["own_prompt", "bare"])
    )
    assert [one["layer"] for one in summary["layers"]] == [1, 3]
    assert {row["item"] for row in rows} == {"en_sub", "en_obj"}
    places = {(cell["states"], cell["layer"]) for cell in summary["tasks"]["qa"]["cells"]}
    assert places == {(states, layer) for states in ("own_prompt", "bare") for layer in (1, 3)}
    assert all(cell["layer"] == 1 for cell in summary["tasks"]["qa"]["cells"] if cell["method"] == "random")


def test_the_embedding_can_be_steered(llama, items):
    summary, rows = steering.measure(llama, items, peak(), settings(first_layer=0))
    assert summary["layers"] == [{"layer": 0, "block": None}]
    assert margins(rows, method="probe", alpha=40.0) != margins(rows, method="none")


def test_what_is_not_there_is_named(llama, items):
    with pytest.raises(DatasetError, match="'eo' is no language of 'tiny'"):
        steering.measure(llama, items, peak(), settings(languages=["eo"]))
    with pytest.raises(ModelError, match="first_layer: 9 is not one of the hidden states 0 to 3"):
        steering.measure(llama, items, peak(), settings(first_layer=9))
    bare = replace(items, controls=tuple(replace(item, prompts={}) for item in items.controls))
    with pytest.raises(DatasetError, match="no item of 'tiny' has the prompt 'qa'"):
        steering.measure(llama, bare, peak(), settings())


def test_published_conventions_take_the_paper_s_probe_and_every_token(tmp_path):
    """Without a BOS that is named first is the text's first token."""
    rows = control_cases.rows(["en"])
    for row, name in zip(rows, ("A", "B"), strict=True):
        row["candidate_a"], row["item_group"] = name, name
        row["sentence"] = row["sentence"].replace("The clerk", name)
    items = control_cases.dataset(tmp_path / "items", [*rows, *control_cases.rows(["zh", "de"])])
    model = made("gpt2", tmp_path / "gpt2", bos=False)
    summary, _ = steering.measure(model, items, peak(coding="paper"), settings(conventions="published"))
    assert (summary["probe"]["coding"], summary["probe"]["seed"]) == ("paper", 1729)
    (published,) = summary["tasks"]["qa"]["fits"]
    assert published["first_tokens"][0] == 2
    own, _ = steering.measure(model, items, peak(coding="paper"), settings())
    (default,) = own["tasks"]["qa"]["fits"]
    assert default["sigma"][0] != published["sigma"][0]
    assert default["sigma"][1] == published["sigma"][1]
