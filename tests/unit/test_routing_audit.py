"""The audit of words says how a tokenizer cuts them where a study shows them."""

import json
import re

import pytest

from strataprobe import routing
from strataprobe.datasets.vocabulary import read_vocabulary
from strataprobe.errors import ModelError
from tests import vocabulary_cases as cases


def tokenize(texts):
    """Pieces of two letters in a text with a parenthesis, of three in one without; known words are whole.

    A space belongs to the token behind it, as in most vocabularies, and what is held out is cut by letters.
    """
    ids, offsets = [], []
    for text in texts:
        size = 1 if text.startswith("Held out") else 2 if "(" in text else 3
        spans = [
            (found.start() - text[: found.start()].endswith(" "), found.end())
            for word in re.finditer(r"(?<= )(was|will|zim)\b|[A-Za-z]+|[^A-Za-z ]", text)
            for found in (
                [word] if word[1] else re.compile(f".{{1,{size}}}").finditer(text, word.start(), word.end())
            )
        ]
        offsets.append(spans)
        ids.append([hash(text[start:end]) for start, end in spans])
    return ids, offsets


def audited(folder, anchors: dict[str, list[str]], rows=None) -> dict:
    """Word -> what the audit finds, in a study whose notations have these anchors."""
    design = {**cases.DESIGN, "anchors": anchors}
    rows = [
        {**row, "anchors": {name: row["anchors"][name] for name in anchors[row["notation"]]}}
        for row in rows or cases.sound_rows()
    ]
    cases.write_files(folder, rows, design)
    dataset = read_vocabulary(folder / "words.jsonl", "words", design=folder / "design.json")
    return {one.word: one for one in routing.audit(dataset, tokenize)}


WORD, END, CLOSE = "operator-after", "sentence-final", "close-paren"
BARE = {"plain": [END], "call": [CLOSE, END], "turned": [CLOSE, END]}


@pytest.mark.parametrize(
    ("anchors", "pieces"),
    [
        (cases.DESIGN["anchors"], ("gop",)),
        # The first that has the anchor, whatever its name: in a call pieces are of two letters here.
        (BARE | {"call": [WORD, CLOSE, END], "turned": [WORD, CLOSE, END]}, ("go", "p")),
        ({"turned": [WORD, END, CLOSE], "plain": [WORD, END], "call": [WORD, CLOSE, END]}, ("go", "p")),
    ],
    ids=["first notation", "a later one", "by the design's order"],
)
def test_words_are_looked_at_in_the_first_notation_that_has_them_at_an_anchor(tmp_path, anchors, pieces):
    found = audited(tmp_path, anchors)
    assert list(found) == [*cases.DESIGN["classes"], *cases.DESIGN["invented"]]
    assert found["gop"].mentioned == pieces
    assert found["gop"].spaced == ("gop",)
    assert found["was"].mentioned == ("was",)


def test_without_such_a_notation_words_are_looked_at_behind_a_space_alone(tmp_path):
    found = audited(tmp_path, BARE)
    assert {word: one.mentioned for word, one in found.items()} == {
        word: one.spaced for word, one in found.items()
    }
    assert found["gop"].mentioned == ("gop",)


def test_a_word_is_out_of_design_where_either_number_of_pieces_is_another(tmp_path):
    found = audited(tmp_path, BARE | {"call": [WORD, CLOSE, END], "turned": [WORD, CLOSE, END]})
    # Meant to have two or more: behind a space it has one.
    assert (found["gop"].target, found["gop"].out_of_design) == ("2+", True)
    # Meant to have one or two: two in a call, one behind a space.
    assert (found["had"].mentioned, found["had"].spaced, found["had"].out_of_design) == (
        ("ha", "d"), ("had",), False,
    )  # fmt: skip
    assert not found["was"].out_of_design


def test_of_several_ways_the_commonest_counts_and_held_out_texts_do_not(tmp_path):
    rows = cases.sound_rows()
    rows += [
        cases.row("had", "plain", f"x{number}", f"Now ({number}) it stood {{}} here.") for number in range(3)
    ]
    rows += [
        cases.row(word, "plain", f"h{number}", f"Held out, {number}, is {{}} now.", held_out=True)
        for number in range(2, 9)
        for word in cases.DESIGN["classes"]
    ]
    assert audited(tmp_path, cases.DESIGN["anchors"], rows)["had"].mentioned == ("ha", "d")


def test_real_words_are_pieces_of_invented_words_that_are_one_token_behind_a_space(tmp_path):
    found = audited(tmp_path, cases.DESIGN["anchors"])
    assert found["zim"].real_words == ("zim",)
    assert found["was"].real_words == (), "a class is a word, and meant to be"
    assert {one.canonical for one in found.values()} == {True, False}


def test_a_tokenizer_that_is_not_there_or_damaged_is_named(tmp_path):
    with pytest.raises(ModelError, match=r"there is no tokenizer\.json"):
        routing.read_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": 3}))
    with pytest.raises(ModelError, match=r"tokenizer\.json cannot be read"):
        routing.read_tokenizer(tmp_path)
