"""Behaviour: continuations as tokens, and their scores against transformers' logits of each text alone."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from transformers import ByT5Tokenizer

from strataprobe import behavior
from strataprobe import lm as lm_room
from strataprobe.behavior.continuations import continuation_span
from strataprobe.datasets.frames import Variant
from strataprobe.errors import ModelError
from strataprobe.lm import OutputMap
from tests import control_cases as cases
from tests.tiny_models import BOS, FAMILIES, save_tiny_model

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}]\n{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[answer]{% if enable_thinking is not false %}<think>{% endif %}"
    "{{ '\\n' }}{% endif %}"
)


def load(directory, family="llama", template=None, **settings):
    directory = save_tiny_model(family, directory, **{"max_positions": 256, **settings})
    if template:
        (directory / "chat_template.jinja").write_text(template)
    return lm_room.load(directory, dtype="float32", device="cpu")


def settings(chat=False, batch_tokens=512, threads=1):
    return {"chat": chat, "capture": {"batch_tokens": batch_tokens, "threads": threads}}


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return load(tmp_path_factory.mktemp("llama"))


def all_scores(summary):
    return {
        (variant, candidate): np.array(own[f"scores_{candidate}"], dtype=float)
        for variant, own in summary["variants"].items()
        for candidate in "ab"
    }


@pytest.mark.parametrize("bos", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_the_models_own_log_probabilities_of_the_whole_continuation(family, bos, tmp_path):
    lm = load(tmp_path / "model", family, bos=bos)
    data = cases.dataset(tmp_path)
    summary, _ = behavior.measure(lm, data, settings())
    found = all_scores(summary)
    for index, item in enumerate(data.controls[:4]):
        for variant in ("qa", "statement", "label_choice:ba", "paraphrase:unconditional"):
            if variant not in item.prompts:
                continue
            for candidate in "ab":
                texts = item.prompts[variant]
                expected = cases.plain_score(lm, texts.prompt, getattr(texts, candidate))
                assert found[variant, candidate][index] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_alone_are_those_of_a_batch_with_shared_rows_or_without(family, tmp_path):
    window = {"sliding_window": 256} if family == "gemma2" else {}
    lm = load(tmp_path / "model", family, layers=3, **window)
    assert lm.sharing_limit > 0
    data = cases.dataset(tmp_path)
    alone, _ = behavior.measure(replace(lm, sharing_limit=0), data, settings(batch_tokens=1))
    for lm_now, running in (
        (replace(lm, sharing_limit=0), settings(batch_tokens=700)),
        (lm, settings(batch_tokens=700, threads=2)),
    ):
        together, _ = behavior.measure(lm_now, data, running)
        for key, own in all_scores(alone).items():
            np.testing.assert_allclose(all_scores(together)[key], own, atol=1e-4)
        assert [own["correct"] for own in together["variants"].values()] == [
            own["correct"] for own in alone["variants"].values()
        ]


def test_two_runs_and_any_number_of_threads_give_equal_bits(llama, tmp_path):
    data = cases.dataset(tmp_path)
    runs = [behavior.measure(llama, data, settings(batch_tokens=300, threads=n)) for n in (1, 1, 2)]
    assert runs[0] == runs[1] == runs[2]


# Which tokens are the continuation's


def test_a_token_that_spans_the_border_is_scored_with_the_continuation_and_reported(llama, tmp_path):
    # "urs" is one token of the vocabulary.
    data = cases.asking(tmp_path, prompt="The nur", a="se told the truth", b="se counted")
    found = behavior.prepare(llama, data, chat=False)
    assert llama.tokenizer.convert_ids_to_tokens(found.targets(0))[0] == "urs"
    assert found.borders == [True, True]
    summary, rows = behavior.measure(llama, data, settings())
    assert summary["borders"] == 2
    assert [row["border"] for row in rows] == [1, 1]
    expected = cases.plain_score(llama, "The nur", "se told the truth")
    assert rows[0]["score"] == pytest.approx(expected, abs=1e-4)


def test_a_space_that_is_a_token_of_its_own_belongs_to_the_continuation(llama, tmp_path):
    data = cases.asking(tmp_path, prompt="The nurse:", a=" Quax", b=" Zyx")
    found = behavior.prepare(llama, data, chat=False)
    pieces = [llama.tokenizer.convert_ids_to_tokens(found.targets(number)) for number in (0, 1)]
    assert ["".join(own) for own in pieces] == ["ĠQuax", "ĠZyx"]
    assert pieces[0][0] == "Ġ"  # else this tests nothing
    _, rows = behavior.measure(llama, data, settings())
    for row, text in zip(rows, (" Quax", " Zyx"), strict=True):
        assert row["score"] == pytest.approx(cases.plain_score(llama, "The nurse:", text), abs=1e-4)
        assert row["border"] == 0


def test_spans_by_hand():
    # "ab" " cd": the space left out of the second token's offsets.
    assert continuation_span([(0, 0), (0, 2), (3, 5)], 2) == ((2, 3), False)
    # A token of a space alone, whose offsets are empty.
    assert continuation_span([(0, 2), (3, 3), (3, 5)], 2) == ((1, 3), False)
    # Context that ends in that space, swallowed by the next token.
    assert continuation_span([(0, 2), (3, 5)], 3) == ((1, 2), True)
    # One character in three tokens; an end-of-text token after it.
    assert continuation_span([(0, 1), (1, 2), (1, 2), (1, 2), (0, 0)], 1) == ((1, 4), False)
    assert continuation_span([(0, 2), (1, 4)], 2) == ((1, 2), True)
    assert continuation_span([(0, 2)], 2) == ((0, 0), False)


def test_equal_texts_are_scored_once_and_count_for_every_item(llama, tmp_path):
    data = cases.dataset(tmp_path, cases.rows(["en"]))
    found = behavior.prepare(llama, data, chat=False)
    assert found.numbers[0, "qa:unconditional", "a"] == found.numbers[1, "qa:unconditional", "a"]
    assert found.numbers[0, "qa", "a"] != found.numbers[1, "qa", "a"]
    summary, rows = behavior.measure(llama, data, settings())
    one, other = summary["variants"]["qa:unconditional"]["scores_a"]
    assert one == other
    assert len(rows) == 2 * 2 * len(data.controls[0].prompts)


# BOS and chat templates


@pytest.mark.parametrize("bos", [True, False])
@pytest.mark.parametrize("chat", [True, False])
def test_there_is_one_bos_or_none_and_never_two(bos, chat, tmp_path):
    lm = load(tmp_path / "model", bos=bos, template=TEMPLATE)
    found = behavior.prepare(lm, cases.dataset(tmp_path), chat=chat)
    # The template writes its own BOS, whether the tokenizer puts one or not.
    counts = {tokens.count(lm.tokenizer.bos_token_id) for tokens in found.tokens}
    assert counts == {1 if bos or chat else 0}


def test_a_chat_template_holds_the_prompt_and_the_answer_follows_without_a_space(tmp_path):
    lm = load(tmp_path / "model", template=TEMPLATE)
    data = cases.dataset(tmp_path, cases.rows(["en"])[:1])
    summary, rows = behavior.measure(lm, data, settings(chat=True))
    texts = data.controls[0].prompts["qa"]
    context = f"{BOS}[user]\n{texts.prompt}\n[answer]\n"
    expected = cases.plain_score(lm, context.removeprefix(BOS), texts.a.lstrip())
    assert summary["variants"]["qa"]["scores_a"][0] == pytest.approx(expected, abs=1e-4)
    assert rows[0]["text"] == texts.a.lstrip()
    raw, _ = behavior.measure(lm, data, settings(chat=False))
    assert raw["variants"]["qa"]["scores_a"][0] != pytest.approx(expected, abs=1e-2)


def test_a_base_model_is_not_given_a_chat_template(llama, tmp_path):
    with pytest.raises(ModelError, match="no chat template") as error:
        behavior.prepare(llama, cases.dataset(tmp_path), chat=True)
    assert llama.name in str(error.value)
    assert "en_sub" in str(error.value)


def test_a_chat_template_that_fails_is_named_with_its_items(tmp_path):
    lm = load(tmp_path / "model", template="{{ raise_exception('no users') }}")
    with pytest.raises(ModelError, match="no users") as error:
        behavior.prepare(lm, cases.dataset(tmp_path, cases.rows(["en"])), chat=True)
    assert "en_sub qa:" in str(error.value)
    assert "en_obj qa:" in str(error.value)


# Faults


def test_all_faults_are_named_at_once_with_their_items(tmp_path):
    lm = load(tmp_path / "model", bos=False, max_positions=64)
    data = cases.dataset(tmp_path, cases.rows(["en"]))
    first, second = data.controls
    long = Variant("word " * 64, " x", " y")
    broken = replace(
        data,
        controls=(
            replace(first, prompts={"qa": Variant("He:", " ", " y")}),
            replace(second, prompts={"qa": long, "statement": Variant("", "x", "y")}),
        ),
    )
    with pytest.raises(ModelError, match="5 problems") as error:
        behavior.prepare(lm, broken, chat=False)
    lines = str(error.value).splitlines()[1:]
    assert [line.strip().split(":")[0] for line in lines] == [
        "en_sub qa (a)",
        "en_obj qa (a)",
        "en_obj qa (b)",
        "en_obj statement (a)",
        "en_obj statement (b)",
    ]
    assert "its continuation is empty" in lines[0]
    assert "the model takes at most 64" in lines[1]
    assert "no token before its continuation" in lines[3]


def test_a_tokenizer_without_offsets_is_refused_in_one_line(llama, tmp_path):
    slow = replace(llama, tokenizer=ByT5Tokenizer(), vocab_size=400)
    with pytest.raises(ModelError, match=r"en_sub .*ByT5Tokenizer is a slow one") as error:
        behavior.prepare(slow, cases.dataset(tmp_path), chat=False)
    assert "\n" not in str(error.value)


def test_scores_that_are_no_numbers_are_named_and_never_decided_on(tmp_path):
    lm = load(tmp_path / "model")
    output = OutputMap.of(lm)
    lm.final_norm.weight.data.fill_(float("nan"))
    data = cases.dataset(tmp_path)
    found = behavior.prepare(lm, data, chat=False)
    with pytest.raises(ModelError, match="not a finite number") as error:
        behavior.score(output, found, batch_tokens=512)
    assert "en_sub qa (a)" in str(error.value)
    assert f"and {len(found.ids) - 10} more texts" in str(error.value)


def test_progress_counts_every_text(llama, tmp_path):
    seen = []
    data = cases.dataset(tmp_path)
    behavior.measure(llama, data, settings(), progress=lambda count, total: seen.append((count, total)))
    total = seen[0][1]
    assert sum(count for count, _ in seen) == total == len(behavior.prepare(llama, data, chat=False).ids)


# Item-level rows


def test_rows_trace_every_accuracy(llama, tmp_path):
    data = cases.dataset(tmp_path)
    summary, rows = behavior.measure(llama, data, settings())
    path = tmp_path / "out/items.csv"
    behavior.write_rows(path, rows)
    with path.open(encoding="utf-8", newline="") as handle:
        read = list(csv.DictReader(handle))
    assert tuple(read[0]) == behavior.COLUMNS
    assert len(read) == sum(2 * len(item.prompts) for item in data.controls)
    gold, other = (
        {(row["item"], row["variant"]): float(row["score"]) for row in read if row["gold"] == which}
        for which in "10"
    )
    for variant, own in summary["variants"].items():
        marks = zip(data.controls, own["correct"], strict=True)
        for item, mark in marks:
            key = (item.id, variant)
            assert mark == ("." if key not in gold else str(int(gold[key] > other[key])))
    for row in read:
        pieces = row["tokens"].split("|")
        assert len(pieces) == int(row["token_count"])
        assert float(row["score_per_token"]) * len(pieces) == pytest.approx(float(row["score"]))
        assert float(row["score_per_byte"]) * len(row["text"].encode()) == pytest.approx(float(row["score"]))


def test_an_item_without_a_variant_has_no_answer_there(llama, tmp_path):
    summary, _ = behavior.measure(llama, cases.dataset(tmp_path), settings())
    own = summary["variants"]["statement"]  # the German frames have none
    assert own["correct"][4:] == ".."
    assert own["scores_a"][4:] == [None, None]
    accuracy = summary["measures"]["statement"]["accuracy"]
    assert accuracy["de"] is None
    assert accuracy["all"] == pytest.approx(own["correct"].count("1") / 4)
