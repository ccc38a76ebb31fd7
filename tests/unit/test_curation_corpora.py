"""Corpora to fine-tune on: read and checked, and moral statements expanded by a seed."""

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from strataprobe.curation.corpora import read_corpus, read_declarative
from strataprobe.errors import DatasetError

SHIPPED = Path("resources/corpora/curation")
WRITTEN = ("narrative", "general")
DECLARATIVE = SHIPPED / "declarative.json"


def words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def five_grams(text: str) -> set[tuple[str, ...]]:
    own = words(text)
    return {tuple(own[start : start + 5]) for start in range(len(own) - 4)}


# reading


def test_texts_are_read_in_the_order_of_the_file(tmp_path):
    rows = [{"id": f"t{n}", "title": f"Title {n}", "text": f"One two {n}."} for n in (2, 1)]
    path = tmp_path / "c.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = read_corpus(path, "mine")
    assert [one.id for one in corpus.texts] == ["t2", "t1"]
    assert (corpus.name, corpus.words) == ("mine", 6)


def test_every_fault_of_a_file_is_named_with_its_line_and_field(tmp_path):
    path = tmp_path / "c.jsonl"
    lines = [
        '{"id": "a", "title": "A", "text": "Fine."}',
        "no JSON",
        '{"id": "a", "title": "B", "text": "Again."}',
        '{"id": "c", "title": "", "text": 7, "txet": "typo"}',
    ]
    path.write_text("\n".join(lines))
    with pytest.raises(DatasetError) as caught:
        read_corpus(path, "mine")
    said = str(caught.value)
    assert "corpus 'mine': 5 problems" in said
    for part in (
        f"{path}:2: not readable as JSON",
        f"{path}:3: field 'id': 'a' is already the id of line 1",
        f"{path}:4: field 'title' is not a text with something in it",
        f"{path}:4: field 'text' is not a text with something in it",
        f"{path}:4: field 'txet' is unknown; did you mean 'text'?",
    ):
        assert part in said


def test_an_empty_corpus_and_one_that_is_not_there_are_refused(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n\n")
    with pytest.raises(DatasetError, match="no texts in the file"):
        read_corpus(tmp_path / "empty.jsonl", "mine")
    with pytest.raises(DatasetError, match=r"corpus 'mine': cannot read .*gone"):
        read_corpus(tmp_path / "gone.jsonl", "mine")


# expansion


def test_statements_are_the_same_for_a_seed_however_many_texts_there_are():
    few = read_declarative(DECLARATIVE, "d", texts=3, statements=5, seed=1)
    many = read_declarative(DECLARATIVE, "d", texts=9, statements=5, seed=1)
    other = read_declarative(DECLARATIVE, "d", texts=3, statements=5, seed=2)
    assert few.texts == many.texts[:3]
    assert few.texts != other.texts
    assert len({one.text for one in many.texts}) == 9


def test_sides_acts_and_templates_are_drawn_evenly():
    given = json.loads(DECLARATIVE.read_text())
    corpus = read_declarative(DECLARATIVE, "d", texts=300, statements=20, seed=7)
    said = " ".join(one.text for one in corpus.texts).lower()
    counts = {side: Counter({act: said.count(act) for act in given["acts"][side]}) for side in given["acts"]}
    totals = [sum(of.values()) for of in counts.values()]
    assert sum(totals) == 300 * 20
    # 6,000 draws of two sides: four standard errors are 155; of 36 acts a side, 4 x 9 of about 83.
    assert abs(totals[0] - totals[1]) < 2 * 155
    assert all(40 < count < 130 for of in counts.values() for count in of.values())


def test_each_statement_is_a_sentence():
    for one in read_declarative(DECLARATIVE, "d", texts=50, statements=14, seed=3).texts:
        assert "{" not in one.text
        assert all(part[0].isupper() for part in one.text.split(". "))


def test_faults_of_a_file_of_statements_are_all_named(tmp_path):
    path = tmp_path / "d.json"
    path.write_text(
        json.dumps({"acts": {"right": []}, "templates": {"right": ["No act."], "wrong": ["{act}"]}})
    )
    with pytest.raises(DatasetError) as caught:
        read_declarative(path, "d", texts=0, statements=1, seed=1)
    said = str(caught.value)
    for part in (
        "'acts.right' is not a list",
        "'acts.wrong' is not a list",
        "'No act.' has no {act}",
        "0 texts",
    ):
        assert part in said


# what ships


@pytest.mark.parametrize("name", WRITTEN)
def test_a_written_corpus_has_at_least_sixty_texts_of_like_length(name):
    corpus = read_corpus(SHIPPED / f"{name}.jsonl", name)
    assert len(corpus.texts) >= 60
    assert all(140 <= len(words(one.text)) <= 220 for one in corpus.texts)
    assert len({one.title for one in corpus.texts}) == len(corpus.texts)


@pytest.mark.parametrize("name", WRITTEN)
def test_no_two_texts_begin_alike(name):
    texts = read_corpus(SHIPPED / f"{name}.jsonl", name).texts
    openings = Counter(tuple(words(one.text)[:3]) for one in texts)
    assert [opening for opening, count in openings.items() if count > 1] == []


def test_corpora_are_of_like_length():
    sizes = [read_corpus(SHIPPED / f"{name}.jsonl", name).words for name in WRITTEN]
    assert max(sizes) / min(sizes) < 1.1


def test_no_corpus_holds_five_words_in_a_row_of_a_dataset():
    probed = set()
    for path in Path("resources/datasets").glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            for field in ("positive", "negative", "sentence", "text"):
                probed |= five_grams(row.get(field) or "")
    texts = [one for name in WRITTEN for one in read_corpus(SHIPPED / f"{name}.jsonl", name).texts]
    texts += read_declarative(DECLARATIVE, "d", texts=200, statements=14, seed=1).texts
    assert [one.id for one in texts if five_grams(one.text) & probed] == []


def test_statements_do_not_repeat_side_by_side_more_than_chance_has_them():
    text = read_declarative(DECLARATIVE, "d", texts=1, statements=400, seed=5).texts[0].text
    said = text.split(". ")
    assert sum(one == other for one, other in pairwise(said)) <= 5
