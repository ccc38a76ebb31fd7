"""LM-head readout: every definition against a loop over transformers' hidden_states, text by text."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score

from strataprobe import behavior, readout
from strataprobe import lm as lm_room
from strataprobe.datasets.answers import margins
from strataprobe.errors import ModelError
from strataprobe.lm import EMBED, OutputMap
from strataprobe.readout.lens import Lens
from strataprobe.readout.measure import summarise
from strataprobe.readout.null import item_flips
from strataprobe.readout.sentence import first_tokens, read_sentences
from tests import control_cases as cases
from tests.tiny_models import FAMILIES, save_tiny_model

SIX = tuple(family for family in FAMILIES if family != "gemma2")


def load(directory, family="llama", **settings):
    directory = save_tiny_model(family, directory, layers=3, **{"max_positions": 256, **settings})
    return lm_room.load(directory, dtype="float32", device="cpu")


def settings(definitions=("default", "code", "paper"), *, chat=False, batch_tokens=512, threads=1):
    return {
        "chat": chat,
        "capture": {"batch_tokens": batch_tokens, "threads": threads},
        "readout": {"definitions": list(definitions), "flips": 200, "seed": 1729},
    }


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return load(tmp_path_factory.mktemp("llama"))


def read(lm, data, definitions, tuned=None, **running):
    """Behaviour's scores, the lens's, and the texts."""
    output = OutputMap.of(lm)
    texts = behavior.prepare(lm, data, chat=False)
    lens = Lens(output, texts, definitions, tuned)
    running = {"batch_tokens": 512, **running}
    scores, parts = behavior.score(output, texts, layers=lens.layers, also=lens.read, **running)
    return scores, lens.collected(parts), texts


def own_readout(lm, tokens, first):
    """(L+1, ...) log-probabilities of a continuation by the authors' recipe, and with the norm once.

    hidden_states[-1] of transformers has been normed already: norming it again is `code`, not doing so ours.
    """
    with torch.inference_mode():
        out = lm.model(torch.tensor([tokens]), output_hidden_states=True)
        sums = {"code": [], "default": []}
        for index, states in enumerate(out.hidden_states):
            last = index == len(out.hidden_states) - 1
            for name in sums:
                normed = states if last and name == "default" else lm.final_norm(states)
                logs = lm.head(normed)[0].double().log_softmax(dim=-1)
                sums[name].append(sum(float(logs[i - 1, tokens[i]]) for i in range(first, len(tokens))))
    return {name: np.array(values) for name, values in sums.items()}


@pytest.mark.parametrize("family", SIX)
def test_each_index_is_the_norm_and_head_on_transformers_hidden_states(family, tmp_path):
    lm = load(tmp_path / "model", family, tie_word_embeddings=family in ("gpt2", "gemma"))
    data = cases.dataset(tmp_path)
    _, found, texts = read(lm, data, ["default", "code"])
    for index, item in enumerate(data.controls[:3]):
        for variant in ("qa", "paraphrase"):
            context = item.prompts[variant].prompt
            number = texts.numbers[index, variant, "b"]
            tokens, count = cases.continuation_tokens(lm, context, item.prompts[variant].b)
            expected = own_readout(lm, tokens, len(tokens) - count)
            for name in ("default", "code"):
                np.testing.assert_allclose(found[name][:, number], expected[name], atol=1e-4)
    # The two differ, and at the last index alone.
    read_out = np.isfinite(found["code"][0])
    np.testing.assert_array_equal(found["code"][:-1], found["default"][:-1])
    assert np.abs(found["code"][-1] - found["default"][-1])[read_out].max() > 1e-2


@pytest.mark.parametrize("family", FAMILIES)
def test_the_default_readout_of_the_last_block_is_behaviour(family, tmp_path):
    lm = load(tmp_path / "model", family)
    data = cases.dataset(tmp_path)
    scores, found, texts = read(lm, data, ["default"])
    tasks = {number for (_, variant, _), number in texts.numbers.items() if variant in ("qa", "paraphrase")}
    own = found["default"][-1]
    assert set(np.flatnonzero(np.isfinite(own))) == tasks
    np.testing.assert_allclose(own[sorted(tasks)], scores[sorted(tasks)], atol=1e-4)
    deployed, _, read_out = readout.measure_levels(lm, data, settings())
    default = read_out["definitions"]["default"]
    for task in ("qa", "paraphrase"):
        assert default[task]["correct"][-1] == deployed["variants"][task]["correct"]


def test_one_pass_gives_both_levels(llama, tmp_path):
    data = cases.dataset(tmp_path)
    runs, sizes = [], []
    hook = llama.blocks[0].register_forward_hook(lambda _m, _a, out: sizes.append(out.shape[:2].numel()))
    with lm_room.attached([hook]):
        deployed, rows, _ = readout.measure_levels(llama, data, settings(["default", "code"]))
        runs.append(sum(sizes))
        sizes.clear()
        alone = behavior.measure(llama, data, settings())
        runs.append(sum(sizes))
    assert runs[0] == runs[1]
    assert (deployed, rows) == alone


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_alone_are_those_of_a_batch(family, tmp_path):
    window = {"sliding_window": 256} if family == "gemma2" else {}
    lm = load(tmp_path / "model", family, **window)
    data = cases.dataset(tmp_path)
    _, alone, _ = read(replace(lm, sharing_limit=0), data, ["default", "code"], batch_tokens=1)
    _, together, _ = read(lm, data, ["default", "code"], batch_tokens=900, threads=2)
    for name in alone:
        np.testing.assert_allclose(together[name], alone[name], atol=1e-4)
    one, other = (
        readout.measure_levels(lm_now, data, settings(batch_tokens=size))[2]
        for lm_now, size in ((lm, 900), (replace(lm, sharing_limit=0), 1))
    )
    assert one == other


# The paper's own definition: the bare sentence


def plain(directory, names):
    """Items without spaces before candidates, so that first bytes tell the names apart."""
    frames = {"zh": cases.FRAMES["zh"]}
    row = {key: value for key, value in cases.rows(["zh"])[0].items() if key not in ("pair", "item_group")}
    items = [
        {**row, "id": f"zh_{i}", "sentence": f"{a}答应{b}看河。", "candidate_a": a, "candidate_b": b}
        for i, (a, b) in enumerate(names)
    ]
    return cases.dataset(directory, items, frames)


@pytest.mark.parametrize("bos", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_bare_sentence_is_read_raw_at_its_last_token(family, bos, tmp_path):
    lm = load(tmp_path / "model", family, bos=bos)
    data = plain(tmp_path, [("Ada", "Eva"), ("Bo", "Kim")])
    firsts = first_tokens(lm, data)
    assert not firsts.collides.any()
    layers = [EMBED, 0, 1, 2]
    found = read_sentences(OutputMap.of(lm), firsts, layers=layers, batch_tokens=64, threads=1)
    bias = getattr(lm.head, "bias", None)
    for index, item in enumerate(data.controls):
        tokens = lm.encode([item.sentence])[0]
        kept = []
        hook = lm.blocks[-1].register_forward_hook(lambda _m, _a, out, kept=kept: kept.append(out))
        with torch.inference_mode(), lm_room.attached([hook]):
            states = lm.model(torch.tensor([tokens]), output_hidden_states=True).hidden_states
        states = [*states[:-1], lm_room.first_tensor(kept[0])]
        for candidate, name in enumerate((item.a, item.b)):
            token = lm.tokenizer(item.sentence + name)["input_ids"][len(tokens)]
            for layer, own in enumerate(states):
                raw = float(own[0, -1] @ lm.head.weight[token]) + (0 if bias is None else float(bias[token]))
                assert found[layer, index, candidate] == pytest.approx(raw, abs=1e-3)


def test_candidates_with_the_same_first_token_are_counted_and_never_scored(llama, tmp_path):
    data = plain(tmp_path, [("Ada", "Eva"), ("Ada", "Aenne"), ("Bo", "Kim")])
    pieces = [llama.tokenizer.tokenize(name)[0] for name in ("Ada", "Aenne")]
    assert pieces[0] == pieces[1]  # else this tests nothing
    _, _, found = readout.measure_levels(llama, data, settings(["paper", "default"]))
    paper, default = found["definitions"]["paper"], found["definitions"]["default"]
    assert (paper["collisions"], default["collisions"]) == (1, 0)
    assert {text[1] for text in paper["sentence"]["correct"]} == {"."}
    assert all(text[0] in "01" and text[2] in "01" for text in paper["sentence"]["correct"])
    assert all("." not in text for text in default["qa"]["correct"])


def test_all_collide_where_a_space_is_the_first_token_of_every_name(llama, tmp_path):
    data = cases.dataset(tmp_path, cases.rows(["en"]))
    items = tuple(replace(item, a="Quax", b="Zyx") for item in data.controls)
    _, _, found = readout.measure_levels(llama, replace(data, controls=items), settings(["paper"]))
    paper = found["definitions"]["paper"]
    assert paper["collisions"] == 2
    assert paper["sentence"]["accuracy"]["all"] == [None] * 4
    assert (paper["best"], paper["null"]) == ({}, {})


def test_the_first_token_has_the_space_that_continuations_begin_with(llama, tmp_path):
    data = cases.dataset(tmp_path)
    firsts = first_tokens(llama, data)
    for index, item in enumerate(data.controls):
        lead = "" if item.language == "zh" else " "
        for candidate, name in enumerate((item.a, item.b)):
            tokens, count = cases.continuation_tokens(llama, item.sentence, lead + name)
            assert firsts.targets[index, candidate] == tokens[-count]
            number = firsts.numbers[index, candidate]
            assert firsts.read[number] == tokens[:-count]
    assert firsts.borders == 0


def test_a_chat_template_changes_the_prompts_and_not_the_bare_sentence(tmp_path):
    directory = save_tiny_model("llama", tmp_path / "model", layers=3, max_positions=256)
    (directory / "chat_template.jinja").write_text("{{ bos_token }}{{ messages[0]['content'] }} [answer]")
    lm = lm_room.load(directory, dtype="float32", device="cpu")
    data = plain(tmp_path, [("Ada", "Eva"), ("Bo", "Kim")])
    raw, chat = (readout.measure_levels(lm, data, settings(["paper"], chat=chat)) for chat in (False, True))
    assert raw[2] == chat[2]
    assert raw[0]["variants"]["qa"]["scores_a"] != chat[0]["variants"]["qa"]["scores_a"]


# The summary


def test_the_summary_says_right_and_wrong_of_every_layer(llama, tmp_path):
    data = cases.dataset(tmp_path)
    _, found, texts = read(llama, data, ["default"])
    _, _, summary = readout.measure_levels(llama, data, settings(["default"]))
    assert summary["items"] == behavior.describe(data)
    assert summary["layers"] == [{"index": 0, "block": None}] + [
        {"index": i + 1, "block": i} for i in range(3)
    ]
    gold = [item.gold for item in data.controls]
    english = [item.language == "en" for item in data.controls]
    for task in ("qa", "paraphrase"):
        own = summary["definitions"]["default"][task]
        scores = texts.per_item(found["default"], len(gold))[task]
        for layer in range(4):
            chosen = np.where(scores[layer, :, 0] > scores[layer, :, 1], "a", "b")
            assert own["accuracy"]["all"][layer] == pytest.approx(accuracy_score(gold, chosen))
            assert own["accuracy"]["en"][layer] == pytest.approx(
                accuracy_score(np.array(gold)[english], chosen[english])
            )
            assert own["correct"][layer] == behavior.written(margins(scores[layer], gold))


def test_the_best_is_over_layers_and_tasks_of_equals_the_lowest_layer():
    tasks = {
        "qa": np.array([[1.0, -1, -1, -1], [1, 1, 1, -1], [1, 1, 1, -1]]),
        "paraphrase": np.array([[-1.0, -1, 1, 1], [1, 1, 1, -1], [-1, -1, -1, -1]]),
    }
    masks = {"all": np.ones(4, bool), "late": np.array([False, False, True, True])}
    found = summarise(tasks, masks, item_flips(4, 100, 0))
    assert found["best"]["all"] == {"accuracy": 0.75, "layer": 1, "block": 0, "task": "qa"}
    assert found["best"]["late"] == {"accuracy": 1.0, "layer": 0, "block": None, "task": "paraphrase"}
    assert found["paraphrase"]["accuracy"]["all"] == [0.5, 0.75, 0.0]
    assert found["null"]["all"]["maximum"] == 0.75


@pytest.mark.parametrize(
    ("definitions", "said"),
    [(["deflaut"], "'deflaut' is unknown"), (["tuned"], "needs a tuned lens"), ([], "at least one"),
     (["code", "code"], "each once")],
)  # fmt: skip
def test_definitions_that_cannot_be_read_are_refused(definitions, said, llama, tmp_path):
    with pytest.raises(ModelError, match=said):
        readout.measure_levels(llama, cases.dataset(tmp_path), settings(definitions))


def test_a_readout_that_is_no_number_is_named_with_its_layer(tmp_path):
    lm = load(tmp_path / "model")
    data = cases.dataset(tmp_path)
    texts = behavior.prepare(lm, data, chat=False)
    lens = Lens(OutputMap.of(lm), texts, ["default"])
    scores = np.zeros((1, 4, 1))
    scores[0, 2:] = np.nan
    number = min(lens.wanted)
    with pytest.raises(ModelError, match=r"'default' is not finite from hidden_states index 2 on") as error:
        lens.collected([([n for n in lens.wanted if n != number], np.zeros((1, 4, len(lens.wanted) - 1))),
                        ([number], scores)])  # fmt: skip
    assert texts.ids[number] in str(error.value)
