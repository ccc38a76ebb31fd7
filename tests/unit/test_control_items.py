"""Control items: ours and files of the public benchmark's form are read as written, every fault is named."""

import hashlib
import json

import numpy as np
import pytest

from strataprobe.datasets.control import ControlDataset, read_control
from strataprobe.errors import DatasetError

FRAMES = {
    "en": {
        "qa": {"prompt": "{sentence}\nWho will {action}?", "continuation": " {c} will {action}."},
        "statement": {"prompt": "{sentence}", "continuation": " {c} {past}."},
        "contrastive": {"prompt": "{sentence}\nThe one to {action} is", "continuation": " {c}."},
    },
    "de": {"contrastive": {"prompt": "{sentence}\nEs ist", "continuation": " {c}."}},
}
OURS = {
    "id": "one",
    "item_group": "t1",
    "pair": "p1",
    "language": "en",
    "control_type": "subject_control",
    "verb": "promised",
    "predicate": "peel",
    "sentence": "Ruth promised Carl to peel the pears.",
    "candidate_a": "Ruth",
    "candidate_b": "Carl",
    "gold": "a",
    "action": "peel the pears",
    "past": "peeled the pears",
}
OBJECT = {"control_type": "object_control", "gold": "b"}


def ours(number=1, **changes):
    """A row of our form; a field of ... is left out."""
    row = {**OURS, "id": f"item{number}", "pair": f"p{number}", **changes}
    return {name: value for name, value in row.items() if value is not ...}


def public(identity, verb, sentence, a, b, predicate, action, gold, *, language="en", **changes):
    """A row of the behaviour file's form and one of the probe file's, as the public benchmark parts them."""
    kind = "object" if gold == "b" else "subject"
    shared = {
        "id": identity,
        "language": language,
        "phenomenon": "control",
        "control_type": f"{kind}_control",
        "source": "handbuilt_tests",
        "sentence": sentence,
        "question": f"Who is understood to {action}?",
        "candidate_a": a,
        "candidate_b": b,
        "gold_host": a if gold == "a" else b,
        "note": "",
        "split": "test",
        "action_phrase": action,
        "gold_label": gold,
        "qa_prompt": f"Sentence: {sentence}\nQuestion: Who is understood to {action}?\nAnswer:",
        "qa_answer_a": f" It was {a}.",
        "qa_answer_b": f" It was {b}.",
        "paraphrase_prompt": f"Sentence: {sentence}\nMore faithful interpretation:",
        "paraphrase_a": f" This means that {a} would {action}.",
        "paraphrase_b": f" This means that {b} would {action}.",
        **changes,
    }
    bare = {
        "bare_prompt": f"Sentence: {sentence}",
        "bare_prompt_labelled": f"Sentence: {sentence}\nContinuation:",
        "bare_a": f" {a} did {action}.",
        "bare_b": f" {b} did {action}.",
    }
    probe = {"matrix_predicate": verb, "lower_predicate": predicate, "controller_label": int(gold == "a")}
    return {**shared, **bare}, {**shared, **probe}


PUBLIC = [
    public("en_subj_01", "promised", "Ruth promised Carl to hum.", "Ruth", "Carl", "hum", "hum", "a"),
    public("en_obj_01", "begged", "Ruth begged Carl to hum.", "Ruth", "Carl", "hum", "hum", "b"),
    public(
        "de_subj_01", "versprach", "Ruth versprach Karl, bald anzufangen.", "Ruth", "Karl", "anzufangen",
        "bald anfängt", "a", language="de", action_phrase_hint="bald anfängt",
    ),
    public(
        "zh_obj_01", "催", "高梅催何刚浇花。", "高梅", "何刚", "浇", "浇花", "b", language="zh",
        qa_answer_a="是高梅。", qa_answer_b="是何刚。",
    ),
]  # fmt: skip


@pytest.fixture
def file(tmp_path):
    """Write lines (objects, text or bytes) to a file and give its path."""

    def write(*lines, name="mine.jsonl"):
        encoded = [
            line
            if isinstance(line, bytes)
            else (line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)).encode()
            for line in lines
        ]
        path = tmp_path / name
        path.write_bytes(b"".join(line + b"\n" for line in encoded))
        return path

    return write


@pytest.fixture
def read(file):
    """Read rows with the frames of these tests."""

    def from_rows(*rows, frames=FRAMES, fields=None) -> ControlDataset:
        return read_control(
            file(*rows),
            "mine",
            frames=None if frames is None else file(frames, name="prompts.json"),
            fields=None if fields is None else file(*fields, name="more.jsonl"),
        )

    return from_rows


@pytest.fixture
def faults(read, tmp_path):
    """The lines of the error, without the folder."""

    def of_rows(*rows, **options):
        with pytest.raises(DatasetError) as caught:
            read(*rows, **options)
        title, *lines = str(caught.value).replace(f"{tmp_path}/", "").splitlines()
        assert title == f"dataset 'mine': {len(lines)} problem" + ("s" if len(lines) > 1 else "")
        return [line.strip() for line in lines]

    return of_rows


def test_a_row_of_our_form_comes_back_as_written(read):
    (item,) = read(ours()).controls
    assert (item.id, item.item_group, item.pair, item.language) == ("item1", "t1", "p1", "en")
    assert (item.control_type, item.verb, item.predicate) == ("subject_control", "promised", "peel")
    assert (item.a, item.b, item.gold, item.subject_controls) == ("Ruth", "Carl", "a", True)
    assert {name: item.sentence[slice(*span)] for name, span in item.spans.items()} == {
        "a": "Ruth",
        "b": "Carl",
        "v": "peel",
    }
    assert item.prompts == {
        "qa": (f"{OURS['sentence']}\nWho will peel the pears?", *both(" {} will peel the pears.")),
        "statement": (OURS["sentence"], *both(" {} peeled the pears.")),
        "contrastive": (f"{OURS['sentence']}\nThe one to peel the pears is", *both(" {}.")),
    }


def both(text):
    return text.format("Ruth"), text.format("Carl")


def test_items_for_capture_have_labels_groups_clusters_and_anchors(read):
    german = "Ruth drängte Karl, die Birnen zu schälen."
    dataset = read(
        ours(1),
        ours(
            2,
            **OBJECT,
            pair="p1",
            verb="begged",
            sentence="Ruth begged Carl to peel the pears.",
            item_group="t2",
        ),
        ours(
            3,
            language="de",
            candidate_b="Karl",
            predicate="schälen",
            sentence=german,
            item_group="t2",
            **OBJECT,
        ),
        ours(4, language="de", candidate_a="Karl", candidate_b="Ruth", predicate="schälen", sentence=german),
    )
    items = dataset.items()
    assert dataset.languages == ("en", "de")
    assert items.ids == ["item1", "item2", "item3", "item4"]
    assert items.texts == [item.sentence for item in dataset.controls]
    assert items.labels.tolist() == [1, -1, -1, 1]
    assert items.labels.dtype == np.int8
    assert items.groups == [
        "en:subject_control",
        "en:object_control",
        "de:object_control",
        "de:subject_control",
    ]
    assert items.pairs.tolist() == [0, 1, 1, 0]
    assert items.pairs.dtype == np.int32
    found = {
        name: [text[slice(*span)] for text, span in zip(items.texts, spans, strict=True)]
        for name, spans in items.anchors.items()
    }
    # Candidate a is candidate a wherever it stands: the first of the sentence or not.
    assert found == {
        "a": ["Ruth", "Ruth", "Ruth", "Karl"],
        "b": ["Carl", "Carl", "Karl", "Ruth"],
        "v": ["peel", "peel", "schälen", "schälen"],
    }


def test_files_of_the_public_form_are_read_as_they_are(read):
    dataset = read(*(row for row, _ in PUBLIC), frames=None, fields=[row for _, row in PUBLIC])
    assert [item.id for item in dataset.controls] == ["en_subj_01", "en_obj_01", "de_subj_01", "zh_obj_01"]
    assert [item.verb for item in dataset.controls] == ["promised", "begged", "versprach", "催"]
    assert [item.gold for item in dataset.controls] == ["a", "b", "a", "b"]
    assert dataset.items().labels.tolist() == [1, -1, 1, -1]
    for item, (row, _) in zip(dataset.controls, PUBLIC, strict=True):
        assert item.prompts == {
            "qa": (row["qa_prompt"], row["qa_answer_a"], row["qa_answer_b"]),
            "paraphrase": (row["paraphrase_prompt"], row["paraphrase_a"], row["paraphrase_b"]),
            "statement": (row["bare_prompt"], row["bare_a"], row["bare_b"]),
        }
    assert [item.sentence[slice(*item.spans["v"])] for item in dataset.controls] == [
        "hum", "hum", "anzufangen", "浇",
    ]  # fmt: skip


def test_public_numbers_give_translation_groups_and_minimal_pairs(read):
    dataset = read(*(row for row, _ in PUBLIC), frames=None, fields=[row for _, row in PUBLIC])
    assert [item.item_group for item in dataset.controls] == ["subj_01", "obj_01", "subj_01", "obj_01"]
    assert dataset.items().pairs.tolist() == [0, 1, 0, 1]
    # German and Chinese have one half of their pair each.
    assert [item.pair for item in dataset.controls] == ["01", "01", None, None]


def test_items_with_one_number_and_other_candidates_are_no_pair(read):
    other = public("en_obj_01", "begged", "Ruth begged Emil to hum.", "Ruth", "Emil", "hum", "hum", "b")
    dataset = read(PUBLIC[0][0], other[0], frames=None, fields=[PUBLIC[0][1], other[1]])
    assert [item.pair for item in dataset.controls] == [None, None]


def test_a_probe_file_of_the_public_form_alone_has_its_two_prompts(read):
    dataset = read(*(row for _, row in PUBLIC), frames=None)
    assert all(tuple(item.prompts) == ("qa", "paraphrase") for item in dataset.controls)


def test_a_behaviour_file_of_the_public_form_alone_lacks_what_probes_need(faults):
    lines = faults(PUBLIC[0][0], frames=None)
    assert lines == [
        "mine.jsonl:1: field 'verb' is missing ('matrix_predicate' in the public benchmark)",
        "mine.jsonl:1: field 'predicate' is missing ('lower_predicate' in the public benchmark)",
    ]


def test_frames_add_to_a_public_file_what_it_does_not_spell_out(read):
    (item,) = read(PUBLIC[0][0], fields=[PUBLIC[0][1]]).controls
    assert tuple(item.prompts) == ("qa", "paraphrase", "statement", "contrastive")
    assert item.prompts["qa"].a == " It was Ruth."
    assert item.prompts["contrastive"].prompt == "Ruth promised Carl to hum.\nThe one to hum is"


def test_the_second_file_may_be_in_another_order_and_have_more_items(read):
    rows = [row for row, _ in PUBLIC[:2]]
    more = [row for _, row in reversed(PUBLIC)]
    assert [item.verb for item in read(*rows, fields=more).controls] == ["promised", "begged"]


def test_the_fingerprint_is_that_of_the_file_or_of_all_that_were_read(read, file):
    spelled = [row for _, row in PUBLIC]
    alone = read(*spelled, frames=None)
    assert alone.sha256 == hashlib.sha256(file(*spelled).read_bytes()).hexdigest()
    found = {
        alone.sha256,
        read(*spelled).sha256,
        read(*spelled, frames={**FRAMES, "fi": FRAMES["de"]}).sha256,
        read(*spelled, frames=None, fields=spelled).sha256,
        read(*spelled, frames=None, fields=[*spelled, {"id": "other"}]).sha256,
    }
    assert len(found) == 5


@pytest.mark.parametrize(
    ("sentence", "changes", "starts"),
    [
        (
            "Annabel promised Ann to peel the pears.",
            {"candidate_a": "Annabel", "candidate_b": "Ann"},
            (0, 17, 24),
        ),
        ("Carl, so Ruth promised, will get to peel.", {}, (9, 0, 36)),
        ("Ruth versprach Carl, die Birnen abzupeelen.", {}, (0, 15, 36)),
        ("Ruth答应Carl去peel。", {}, (0, 6, 11)),
    ],
)
def test_anchors_are_words_and_only_a_predicate_may_be_part_of_one(read, sentence, changes, starts):
    (item,) = read(ours(sentence=sentence, **changes)).controls
    assert tuple(item.spans[name][0] for name in ("a", "b", "v")) == starts


def test_all_faults_of_a_file_are_listed_at_once(faults):
    assert faults(
        ours(1),
        '{"id": "item2", "sentence": ',
        ours(3, candidate_b="Karl"),
        ours(4, predicate="pare"),
        ours(5, language="fi"),
        ours(6, gold_label="b"),
        ours(7, gold_host="Carl"),
        ours(8, controller_label=0),
        ours(1, pair="p9"),
        ours(10, sentance=OURS["sentence"]),
        ours(11, action=..., past=...),
        ours(12, gold="c", candidate_a="Ruht", controller_label="a"),
        ours(13, candidate_b="Ruth"),
        ours(14, sentence="Ruth promised Carl to peel the peel."),
        ours(15, qa_prompt="Who?", qa_answer_a=" It was Ruth."),
        ours(16, qa_prompt="Who?", qa_answer_a=" Ruth.", qa_answer_b=" Ruth."),
        ours(17, verb=...),
        ours(18, sentence=7, language=""),
        "[1, 2]",
        b'{"id": "\xff"}',
        ours(21, past="peeled\0"),
        ours(22, pair="p1", verb="swore to"),
    ) == [
        "mine.jsonl:2: not readable as JSON at column 29: Expecting value (one object a line)",
        "mine.jsonl:9: field 'id': 'item1' is already the id of line 1",
        "mine.jsonl:10: field 'sentance' is unknown; did you mean 'sentence'?",
        "mine.jsonl:19: [1, 2] is not an object (one a line, in braces)",
        "mine.jsonl:20: byte 9 of the line is not UTF-8",
        f"mine.jsonl:3: field 'candidate_b': 'Karl' does not stand in the sentence '{OURS['sentence']}'",
        f"mine.jsonl:4: field 'predicate': 'pare' does not stand in the sentence '{OURS['sentence']}'",
        "mine.jsonl:5: there are no prompts for language 'fi' (prompts are given for: en, de)",
        "mine.jsonl:6: fields 'gold' and 'gold_label' contradict each other: 'a' and 'b'",
        "mine.jsonl:7: field 'gold_host': 'Carl' is not the gold candidate 'Ruth'",
        "mine.jsonl:8: field 'controller_label': 0 contradicts gold 'a' (1 means a)",
        "mine.jsonl:11: field 'action' is missing; the prompts qa, contrastive ask for it",
        "mine.jsonl:11: field 'past' is missing; the prompts statement ask for it",
        "mine.jsonl:12: field 'gold': 'c' is not 'a' or 'b'",
        "mine.jsonl:12: field 'controller_label': 'a' is not 1 (gold is a) or 0 (gold is b)",
        f"mine.jsonl:12: field 'candidate_a': 'Ruht' does not stand in the sentence '{OURS['sentence']}'",
        "mine.jsonl:13: both candidates are 'Ruth'; they must differ",
        "mine.jsonl:14: field 'predicate': 'peel' stands 2 times in the sentence; "
        "which one is meant cannot be told",
        "mine.jsonl:15: field 'qa_prompt' is of no use without 'qa_answer_b'",
        "mine.jsonl:16: fields 'qa_answer_a' and 'qa_answer_b' are the same; they must differ",
        "mine.jsonl:17: field 'verb' is missing ('matrix_predicate' in the public benchmark)",
        "mine.jsonl:18: field 'language' is empty",
        "mine.jsonl:18: field 'sentence': 7 is not a text in quotation marks",
        "mine.jsonl:21: field 'past' holds a NUL byte at character 7 (remove it)",
        "mine.jsonl:1: pair 'p1' has 2 subject_control items in language 'en' "
        "(a minimal pair is one of each type)",
        "mine.jsonl:22: pair 'p1' has 2 subject_control items in language 'en' "
        "(a minimal pair is one of each type)",
    ]  # fmt: skip


def test_faults_of_the_second_file_are_named_by_its_own_lines(faults):
    (behaviour, probe), (other, _), *_ = PUBLIC
    lines = faults(
        behaviour,
        other,
        {**behaviour, "id": 5},
        frames=None,
        fields=[
            {**probe, "sentence": "Ruth promised Carl to sing.", "note": "other"},
            {"id": ["x"], "verbb": 1},
            "{",
        ],
    )
    assert lines == [
        "more.jsonl:2: field 'verbb' is unknown; did you mean 'verb'?",
        "more.jsonl:3: not readable as JSON at column 2: "
        "Expecting property name enclosed in double quotes (one object a line)",
        "mine.jsonl:1: field 'sentence' is 'Ruth promised Carl to hum.' here and "
        "'Ruth promised Carl to sing.' at more.jsonl:1",
        "mine.jsonl:2: item 'en_obj_01' is not in more.jsonl",
        "mine.jsonl:2: field 'verb' is missing ('matrix_predicate' in the public benchmark)",
        "mine.jsonl:2: field 'predicate' is missing ('lower_predicate' in the public benchmark)",
        "mine.jsonl:3: field 'id': 5 is not a text in quotation marks",
        "mine.jsonl:3: field 'verb' is missing ('matrix_predicate' in the public benchmark)",
        "mine.jsonl:3: field 'predicate' is missing ('lower_predicate' in the public benchmark)",
    ]


def test_an_id_twice_in_the_second_file_is_named(faults):
    (behaviour, probe), *_ = PUBLIC
    assert faults(behaviour, frames=None, fields=[probe, probe]) == [
        "more.jsonl:2: field 'id': 'en_subj_01' is already the id of line 1"
    ]


@pytest.mark.parametrize("label", [None, "1", 2, 0.5, True, [1]])
def test_a_controller_label_is_one_or_nought(faults, label):
    (line,) = faults(ours(controller_label=label))
    assert "field 'controller_label': " in line
    assert "is not 1 (gold is a) or 0 (gold is b)" in line


@pytest.mark.parametrize("field", ["id", "language", "sentence", "candidate_a", "verb", "predicate"])
@pytest.mark.parametrize("value", [None, 1, ["text"]])
def test_no_other_type_passes_for_a_text(faults, field, value):
    assert any(
        f"field '{field}': " in line and "is not a text" in line for line in faults(ours(**{field: value}))
    )


def test_a_name_that_stands_only_inside_another_word_is_not_in_the_sentence(faults):
    (line,) = faults(ours(candidate_b="Carl", sentence="Ruth promised Carlos to peel the pears."))
    assert line.startswith("mine.jsonl:1: field 'candidate_b': 'Carl' does not stand in the sentence")


@pytest.mark.parametrize("content", [b"", b"\n \n\n"])
def test_a_file_without_items_is_refused(faults, content):
    assert faults(content) == ["mine.jsonl: no items in the file (one JSON object a line)"]


def test_files_that_are_not_there_are_named(file, tmp_path):
    path = file(ours())
    absent = tmp_path / "absent.jsonl"
    with pytest.raises(DatasetError, match=r"dataset 'mine': cannot read .*absent.jsonl: No such file"):
        read_control(absent, "mine")
    with pytest.raises(DatasetError, match=r"dataset 'mine': cannot read .*absent.jsonl: No such file"):
        read_control(path, "mine", fields=absent)
    with pytest.raises(DatasetError, match=r"cannot read the prompts .*absent.jsonl"):
        read_control(path, "mine", frames=absent)


def test_faults_never_print_what_a_terminal_cannot_show(faults):
    message = "\n".join(faults(json.dumps(ours(**{"bad\ud800\x1b[2J": 1}))))
    assert message.encode("utf-8")
    assert "\x1b" not in message
