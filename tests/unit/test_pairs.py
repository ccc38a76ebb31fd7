"""Pairs: what is read is what was written, and every fault is named at once."""

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strataprobe.datasets.pairs import contains_word, read_pairs
from strataprobe.datasets.splits import split_pairs
from strataprobe.errors import DatasetError

GOOD = {
    "id": "p1",
    "positive": "The clerk betrayed his brother.",
    "negative": "The clerk visited his brother.",
    "group": "loyalty",
    "contrast": ["betrayed", "visited"],
}


@pytest.fixture
def mine(tmp_path):
    """Write lines (objects, text or bytes) to a file and give its path."""

    def write(*lines):
        path = tmp_path / "mine.jsonl"
        encoded = [
            line
            if isinstance(line, bytes)
            else (line if isinstance(line, str) else json.dumps(line)).encode("utf-8")
            for line in lines
        ]
        path.write_bytes(b"".join(line + b"\n" for line in encoded))
        return path

    return write


def pair(number, **changes):
    made = {
        **GOOD,
        "id": f"p{number}",
        "positive": f"Clerk {number} betrayed his brother.",
        "negative": f"Clerk {number} visited his brother.",
    }
    made.update(changes)
    return {name: value for name, value in made.items() if value is not ...}


def faults(path):
    """The lines of the error, without the folder."""
    with pytest.raises(DatasetError) as caught:
        read_pairs(path, "mine")
    return str(caught.value).replace(f"{path.parent}/", "").splitlines()


def test_items_are_pair_by_pair_with_the_positive_first(mine):
    dataset = read_pairs(mine(pair(1), pair(2, group="care")), "mine")
    items = dataset.items()
    assert items.ids == ["p1:positive", "p1:negative", "p2:positive", "p2:negative"]
    assert items.texts[2:] == ["Clerk 2 betrayed his brother.", "Clerk 2 visited his brother."]
    assert items.labels.tolist() == [1, -1, 1, -1]
    assert items.labels.dtype == np.int8
    assert items.groups == ["loyalty", "loyalty", "care", "care"]
    assert items.pairs.tolist() == [0, 0, 1, 1]
    assert items.pairs.dtype == np.int32
    assert dataset.groups == ["loyalty", "care"]


def test_the_dataset_fingerprint_is_that_of_the_file(mine):
    path = mine(pair(1), pair(2))
    assert read_pairs(path, "mine").sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("field", ["id", "positive", "negative", "group"])
def test_a_change_of_any_field_that_is_read_changes_the_items_fingerprint(mine, field):
    before = read_pairs(mine(pair(1), pair(2)), "mine").items().sha256
    changed = pair(2, contrast=[])
    changed[field] = changed[field] + "x"
    assert read_pairs(mine(pair(1), changed), "mine").items().sha256 != before


def test_the_items_fingerprint_depends_on_order_and_not_on_spacing_in_the_file(mine):
    first = read_pairs(mine(pair(1), pair(2)), "mine").items().sha256
    spaced = read_pairs(
        mine(json.dumps(pair(1), indent=None, separators=(" , ", " : ")), "", pair(2)), "mine"
    )
    assert spaced.items().sha256 == first
    assert read_pairs(mine(pair(2), pair(1)), "mine").items().sha256 != first


def test_contrast_may_be_left_out(mine):
    assert read_pairs(mine(pair(1, contrast=...)), "mine").pairs[0].contrast == []


def test_line_ends_of_other_systems_and_a_byte_order_mark_are_read(mine):
    lines = [json.dumps(pair(1)).encode() + b"\r", json.dumps(pair(2)).encode() + b"\r"]
    plain = read_pairs(mine(pair(1), pair(2)), "mine").items().sha256
    assert read_pairs(mine(b"\xef\xbb\xbf" + lines[0], lines[1]), "mine").items().sha256 == plain


def test_separators_of_unicode_inside_a_sentence_do_not_end_the_line(mine):
    text = "One\u2028two\u0085three."
    path = mine(json.dumps(pair(1, positive=text, contrast=[]), ensure_ascii=False))
    assert read_pairs(path, "mine").items().texts[0] == text


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(
            lambda text: text.strip()
        ),
        min_size=1,
        max_size=5,
        unique=True,
    )
)
def test_any_sentence_comes_back_as_it_was_written(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("any") / "any.jsonl"
    rows = [
        pair(number, positive=text, negative=text + "!", contrast=[]) for number, text in enumerate(texts)
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8", newline="\n")
    assert read_pairs(path, "any").items().texts[::2] == texts


def test_an_empty_side_is_named_with_file_line_field_and_remedy(mine):
    lines = faults(mine(*[pair(n) for n in range(16)], pair(16, negative="  ")))
    assert lines == [
        "dataset 'mine': 1 problem",
        "  mine.jsonl:17: field 'negative' is empty (a pair needs both sides)",
    ]


def test_all_faults_of_a_file_are_listed_at_once(mine):
    lines = faults(
        mine(
            pair(1),
            '{"id": "p2", "positive": ',
            pair(3, negative=..., negatve="Clerk 3 visited his brother."),
            pair(4, group=7),
            pair(1),
            pair(6, positive=""),
            pair(7, positive="Clerk\0 betrayed him."),
            pair(8, negative="Clerk \ud83d visited him."),
            pair(9, contrast=["betrayed", "visit"]),
            "[1, 2]",
            b'{"id": "\xff"}',
            pair(12, contrast="betrayed"),
            '{"id": "p13", "id": "p13"}',
            pair(14, zzz=1),
            pair(15, contrast=["betrayed", ""]),
        )
    )
    expected = [
        "dataset 'mine': 18 problems",
        "mine.jsonl:2: not readable as JSON at column 26",
        "mine.jsonl:3: field 'negatve' is unknown; did you mean 'negative'?",
        "mine.jsonl:3: field 'negative' is missing (a pair needs both sides)",
        "mine.jsonl:4: field 'group': 7 is not a text in quotation marks",
        "mine.jsonl:5: field 'id': 'p1' is already the id of line 1",
        "mine.jsonl:6: field 'positive' is empty",
        "mine.jsonl:7: field 'positive' holds a NUL byte at character 6",
        "mine.jsonl:8: field 'negative' holds half of a surrogate pair",
        "mine.jsonl:9: field 'contrast': 'visit' is a word of neither sentence",
        "mine.jsonl:10: [1, 2] is not an object",
        "mine.jsonl:11: byte 9 of the line is not UTF-8",
        "mine.jsonl:12: field 'contrast': 'betrayed' is not a list of words",
        "mine.jsonl:13: field 'id' is given twice",
        "mine.jsonl:13: field 'positive' is missing",
        "mine.jsonl:13: field 'negative' is missing",
        "mine.jsonl:13: field 'group' is missing",
        "mine.jsonl:14: field 'zzz' is unknown; the fields are id, positive, negative, group, contrast",
        "mine.jsonl:15: field 'contrast', entry 2, is empty",
    ]
    assert len(lines) == len(expected)
    for line, start in zip(lines, expected, strict=True):
        assert line.strip().startswith(start)


@pytest.mark.parametrize("value", [None, 1, 1.5, True, ["text"], {"a": 1}])
def test_no_other_type_passes_for_a_sentence(mine, value):
    (_, line) = faults(mine(pair(1), pair(2, positive=value)))
    assert "mine.jsonl:2: field 'positive': " in line
    assert "is not a text in quotation marks" in line


@pytest.mark.parametrize("line", ["1" * 5000, "[" * 100_000, "NaN", '"text"', "null"])
def test_json_that_is_no_pair_is_one_fault_and_no_crash(mine, line):
    assert len(faults(mine(pair(1), line))) == 2


def test_faults_never_print_what_a_terminal_cannot_show(mine):
    message = "\n".join(faults(mine(pair(1, **{"bad\ud800\x1b[2J": 1}))))
    assert message.encode("utf-8")
    assert "\x1b" not in message


@pytest.mark.parametrize("content", [b"", b"\n \n\n"])
def test_a_file_without_pairs_is_refused(mine, content):
    assert faults(mine(content)) == [
        "dataset 'mine': 1 problem",
        "  mine.jsonl: no pairs in the file (one JSON object a line)",
    ]


@pytest.mark.parametrize("missing", [..., ""])
def test_a_dataset_of_one_class_is_called_that(mine, missing):
    lines = faults(mine(pair(1, negative=missing), pair(2, negative=missing)))
    assert "only one class: no pair has a 'negative' sentence" in lines[1]


def test_a_dataset_whose_sides_are_all_the_same_is_called_one_class(mine):
    same = "Clerk met his brother."
    lines = faults(mine(*[pair(n, positive=same, negative=same, contrast=[]) for n in range(2)]))
    assert "only one class: in every pair both sentences are the same" in lines[1]
    assert "mine.jsonl:2: fields 'positive' and 'negative' are the same sentence" in lines[3]


def test_one_pair_with_two_equal_sides_is_refused_by_line(mine):
    lines = faults(mine(pair(1), pair(2, positive="Same.", negative="Same.", contrast=[])))
    assert lines[1].startswith("  mine.jsonl:2: fields 'positive' and 'negative' are the same")
    assert len(lines) == 2


def test_a_file_that_is_not_there_and_a_folder_are_named(tmp_path):
    for path in (tmp_path / "absent.jsonl", tmp_path):
        with pytest.raises(DatasetError, match=r"dataset 'mine': cannot read .*: (No such file|Is a dir)"):
            read_pairs(path, "mine")


@pytest.mark.parametrize(
    ("sentence", "word", "expected"),
    [
        ("The art started.", "art", True),
        ("The start of it.", "art", False),
        ("Artful, he said.", "Art", False),
        ("He said: well-known things.", "known", True),
        ("Room 12 is free.", "1", False),
        ("他背叛了朋友。", "背叛", True),
        ("Der Käufer zahlte.", "Käufer", True),
        ("Die Verkäufer zahlten.", "käufer", False),
        ("It ended.", "ended.", True),
        ("It ended.", "", False),
    ],
)
def test_a_word_inside_another_word_does_not_count(sentence, word, expected):
    assert contains_word(sentence, word) is expected


def test_the_groups_of_a_dataset_go_straight_into_the_split(mine):
    dataset = read_pairs(mine(*[pair(n, group="ab"[n % 2]) for n in range(20)]), "mine")
    train, test = split_pairs(dataset.groups, 3, 0.2)
    items = dataset.items()
    train_ids = {i.split(":")[0] for i, p in zip(items.ids, items.pairs, strict=True) if p in set(train)}
    test_ids = {i.split(":")[0] for i, p in zip(items.ids, items.pairs, strict=True) if p in set(test)}
    assert not train_ids & test_ids
    assert len(test_ids) == 4
