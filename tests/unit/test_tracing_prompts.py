"""Which sentences are traced, what is asked after them, and which tokens are a sentence's subject."""

from collections import Counter

import pytest

from strataprobe import lm
from strataprobe.datasets.pairs import Pair, read_pairs
from strataprobe.errors import ModelError
from strataprobe.tracing.prompts import SIDES, chosen, prepare, subject_spans
from tests.tiny_models import BOS, save_tiny_model
from tests.tracing_cases import QUESTION, pairs

TEMPLATE = "{% for m in messages %}<|bos|>user: {{ m['content'] }}\n{% endfor %}assistant:"


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return lm.load(
        save_tiny_model("llama", tmp_path_factory.mktemp("m"), max_positions=128),
        dtype="float32",
        device="cpu",
    )


def said(model, tokens):
    return model.tokenizer.decode(tokens)


def test_the_first_pairs_are_taken_or_some_of_every_group():
    own = pairs()
    assert [pair.id for pair in chosen(own, 3, "first")] == ["help_1", "help_2", "harm_1"]
    assert [pair.id for pair in chosen(own, 2, "groups")] == ["help_1", "harm_1"]
    assert [pair.id for pair in chosen(own, 3, "groups")] == ["help_1", "help_2", "harm_1"]
    for choice in ("first", "groups"):
        assert chosen(own, 40, choice) == own
    moral = read_pairs("resources/datasets/moral.jsonl", "moral").pairs
    groups = Counter(pair.group for pair in chosen(moral, 12, "groups"))
    assert set(groups.values()) == {2}
    assert len(groups) == 6
    assert {pair.group for pair in chosen(moral, 40, "first")} == {"care_harm"}


def test_the_subject_is_the_contrast_word_wherever_it_stands_as_a_word():
    pair = Pair(
        id="x",
        group="g",
        positive="He lied, and lied again, unlied.",
        negative="He spoke.",
        contrast=["lied", "spoke"],
    )
    assert [pair.positive[first:last] for first, last in subject_spans(pair, "positive")] == ["lied", "lied"]
    assert [pair.negative[first:last] for first, last in subject_spans(pair, "negative")] == ["spoke"]


def test_prompt_and_answers_are_tokenised_together_and_split(llama):
    own = pairs()
    asked = prepare(llama, own, QUESTION, chat=False)
    assert asked.whole == 2  # both sentences of the pair without contrast words
    for place, pair in enumerate(own):
        for side in SIDES:
            expected, other = asked.numbers(place, side)
            whole = asked.continuations.tokens[expected]
            assert whole == llama.encode([f"{getattr(pair, side)} Is this morally acceptable? No"])[0]
            assert said(llama, asked.continuations.targets(expected)) == " No"
            assert said(llama, asked.continuations.targets(other)) == " Yes"
            assert asked.prompt_tokens(place, side) == asked.continuations.spans[expected][0]
            subject = said(llama, [whole[at] for at in asked.subjects[place, side]])
            wanted = pair.contrast[SIDES.index(side)] if pair.contrast else getattr(pair, side)
            assert subject.strip() == wanted


def test_both_answers_stand_in_one_row_behind_one_prompt(llama):
    asked = prepare(llama, pairs(), QUESTION, chat=False)
    (row,) = asked.rows(llama, 0, "positive")
    assert row.members == tuple(asked.numbers(0, "positive"))
    read = [asked.continuations.read[number] for number in row.members]
    # Both leading spaces are one token here: one more column than the prompt's and the answers' own.
    assert row.length < sum(map(len, read))


def test_with_a_chat_template_the_sentence_is_found_in_it(llama, tmp_path):
    model = lm.load(save_tiny_model("llama", tmp_path, max_positions=128), dtype="float32", device="cpu")
    with pytest.raises(ModelError, match="has no chat template"):
        prepare(model, pairs(), QUESTION, chat=True)
    model.tokenizer.chat_template = TEMPLATE
    asked = prepare(model, pairs(), QUESTION, chat=True)
    number = asked.numbers(0, "positive")[0]
    tokens = asked.continuations.tokens[number]
    assert said(model, tokens).startswith(f"{BOS}user: The nurse comforted")
    assert said(model, asked.continuations.targets(number)) == "No"
    assert said(model, [tokens[at] for at in asked.subjects[0, "positive"]]).strip() == "comforted"


def test_a_template_that_changes_the_sentence_is_refused(tmp_path):
    model = lm.load(save_tiny_model("llama", tmp_path, max_positions=128), dtype="float32", device="cpu")
    model.tokenizer.chat_template = TEMPLATE.replace("m['content']", "m['content'] | upper")
    with pytest.raises(ModelError, match=r"help_1:positive .*the chat template changes the sentence"):
        prepare(model, pairs(), QUESTION, chat=True)


def test_every_text_that_cannot_be_asked_is_named(llama):
    long = [
        Pair(id=name, group="g", positive="word " * 200, negative="Short.", contrast=[])
        for name in ("one", "two")
    ]
    with pytest.raises(ModelError) as caught:
        prepare(llama, long, QUESTION, chat=False)
    for part in ("one:positive (' No')", "one:positive (' Yes')", "two:positive (' No')", "at most 128"):
        assert part in str(caught.value)
