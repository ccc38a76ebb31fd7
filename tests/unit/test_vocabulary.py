"""A vocabulary and its design: read as written, laid out for capture, every fault named with its place."""

import copy
import hashlib
import json

import numpy as np
import pytest

from strataprobe.datasets.reading import read_dataset
from strataprobe.datasets.vocabulary import Design, Scope, Word, read_design, read_vocabulary
from strataprobe.datasets.vocabulary_words import piece_bounds
from strataprobe.errors import DatasetError
from tests.vocabulary_cases import DESIGN, HELD_OUT, row, sound_rows


@pytest.fixture
def write(tmp_path):
    def to(name: str, content) -> str:
        path = tmp_path / name
        if isinstance(content, list):
            content = "".join(
                (line if isinstance(line, str) else json.dumps(line)) + "\n" for line in content
            )
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return str(path)

    return to


@pytest.fixture
def read(write):
    def from_rows(rows, design=DESIGN):
        return read_vocabulary(write("mine.jsonl", rows), "mine", design=write("design.json", design))

    return from_rows


def told(call, *arguments) -> list[str]:
    """The faults that an error lists, without the folder of the file; the title counts them."""
    with pytest.raises(DatasetError) as caught:
        call(*arguments)
    title, *lines = str(caught.value).splitlines()
    assert title.endswith(f": {len(lines)} problem{'s' * (len(lines) > 1)}")
    return [line.strip().rpartition("/")[2] if line.startswith("  /") else line.strip() for line in lines]


def changed(whole, *changes):
    """A copy with (path, value) changes; a value of ... takes the key out."""
    whole = copy.deepcopy(whole)
    for path, value in changes:
        *way, last = path if isinstance(path, tuple) else (path,)
        inner = whole
        for step in way:
            inner = inner[step]
        if value is ...:
            del inner[last]
        else:
            inner[last] = value
    return whole


def test_a_design_is_read_as_written(write):
    path = write("design.json", DESIGN)
    design = read_design(path)
    with open(path, "rb") as handle:
        sha256 = hashlib.sha256(handle.read()).hexdigest()
    assert design == Design(
        property="tense",
        sides=("past", "future"),
        classes={"was": Word("past", "1"), "will": Word("future", "1"), "had": Word("past", "1-2")},
        invented={"zim": Word("future", "2+"), "gop": Word("past", "2+")},
        scopes={
            "2x2": Scope(("was", "will"), ("zim", "gop")),
            "3x2": Scope(("had", "will", "was"), ("zim", "gop")),
        },
        anchors={notation: tuple(names) for notation, names in DESIGN["anchors"].items()},
        directions=(("plain", "call"), ("call", "plain")),
        controls={"call": "turned"},
        sha256=sha256,
    )
    assert list(design.words) == ["was", "will", "had", "zim", "gop"]
    assert read_design(write("design.json", changed(DESIGN, ("controls", ...)))).controls == {}


@pytest.mark.parametrize(
    ("pieces", "fitting"),
    [("1", {1}), ("3", {3}), ("2-3", {2, 3}), ("2+", {2, 3, 4, 12}), ("1-12", {1, 2, 3, 4, 12})],
)
def test_the_pieces_a_word_is_meant_to_have(pieces, fitting):
    assert {count for count in (1, 2, 3, 4, 12) if Word("past", pieces).fits(count)} == fitting


@pytest.mark.parametrize("pieces", ["", "0", "one", "2-", "-2", "3-2", "2-2", "2 +", "2++", "1-2+", "٢"])
def test_pieces_that_say_nothing_are_refused(pieces):
    with pytest.raises(ValueError, match=r"is not like|does not rise"):
        piece_bounds(pieces)


DESIGN_FAULTS = [
    ([("propety", "tense"), ("property", ...)],
     ["key 'propety' is unknown; did you mean 'property'?", "key 'property' is missing"]),
    ([(("classes", "was", "peices"), "1")], ["classes.was: key 'peices' is unknown; did you mean 'pieces'?"]),
    ([(("classes", "was"), {"pieces": "1"})],
     ["classes.was: key 'property' is missing (every word needs a side)"]),
    ([(("classes", "was", "property"), "pst")],
     ["classes.was.property: 'pst' is not one of 'past' and 'future'"]),
    ([(("classes", "was"), "past")], ["classes.was: 'past' is not an object"]),
    ([(("classes", "was", "pieces"), "some")], ["classes.was.pieces: 'some' is not like '1', '2-3' or '2+'"]),
    ([(("classes", "was", "pieces"), 1)], ["classes.was: key 'pieces' is 1, not a text in quotation marks"]),
    ([("sides", ["past", "past"])],
     ["sides: [\"past\", \"past\"] are not two different names",
      "classes.will.property: 'future' is not one of 'past'",
      "invented.zim.property: 'future' is not one of 'past'"]),
    ([("sides", ["past", ""])], ["key 'sides', entry 2, is empty"]),
    ([(("invented", "zim", "property"), "past")],
     ["invented: every word is 'past'; words of both sides, 'past' and 'future', are needed",
      "scopes.2x2.items: every word is 'past'; words of both sides, 'past' and 'future', are needed",
      "scopes.3x2.items: every word is 'past'; words of both sides, 'past' and 'future', are needed"]),
    ([("classes", {})], ["key 'classes' is empty"]),
    ([("invented", [])], ["key 'invented' is [], not an object"]),
    ([(("invented", "was"), {"property": "past", "pieces": "1"})],
     ["invented.was: is a class too, and classes are trained on"]),
    ([(("scopes", "2x2", "classes"), ["was", "wll"])],
     ["scopes.2x2.classes: word 'wll' is unknown; did you mean 'will'?",
      "scopes.3x2.classes: wll of scope '2x2' should be there too (each scope contains those before it)"]),
    ([(("scopes", "3x2", "items"), ["zim", "gop", "was"])],
     ["scopes.3x2.items: word 'was' is unknown; the words are zim, gop"]),
    ([(("scopes", "2x2", "classes"), ["was", "had"])],
     ["scopes.2x2.classes: every word is 'past'; words of both sides, 'past' and 'future', are needed"]),
    ([(("scopes", "2x2", "items"), ["zim", "gop", "zim"])], ["scopes.2x2.items: 'zim' is listed twice"]),
    ([(("scopes", "2x2", "items"), [])], ["scopes.2x2: key 'items' is empty"]),
    ([(("scopes", "2x2", "itms"), ["zim"])], ["scopes.2x2: key 'itms' is unknown; did you mean 'items'?"]),
    ([("scopes", {})], ["key 'scopes' is empty"]),
    ([("scopes", {"3x2": DESIGN["scopes"]["3x2"], "2x2": DESIGN["scopes"]["2x2"]})],
     ["scopes.2x2.classes: had of scope '3x2' should be there too (each scope contains those before it)"]),
    ([(("anchors", "plain"), ["last", "last"])],
     ["anchors.plain: a name is listed twice"]),
    ([(("anchors", "turned"), ["close-paren"])],
     ["controls.call: 'turned' lacks the anchors operator-after, sentence-final"]),
    ([(("anchors", "plain"), "operator-after")],
     ["anchors.plain: 'operator-after' should be a list of names in quotation marks"]),
    ([("directions", [["plain", "cal"], ["call", "plain"]])],
     ["key 'directions', entry 1: notation 'cal' is unknown; did you mean 'call'?"]),
    ([("directions", [["plain", "call"], ["plain", "call"]])],
     ["key 'directions', entry 2: [\"plain\", \"call\"] is listed twice"]),
    ([("directions", [["plain", "plain"], ["call"]])],
     ["key 'directions', entry 1: [\"plain\", \"plain\"] should be the notation trained on and another one, "
      "tested in",
      "key 'directions', entry 2: [\"call\"] should be the notation trained on and another one, tested in"]),
    ([("directions", [3])], ["key 'directions', entry 1: 3 should be a list of names in quotation marks"]),
    ([("directions", [])], ["key 'directions' is empty"]),
    ([("controls", {"call": "trned"})],
     ["controls.call: notation 'trned' is unknown; did you mean 'turned'?"]),
    ([("controls", {"cal": "turned"})], ["controls.cal: notation 'cal' is unknown; did you mean 'call'?"]),
    ([("controls", {"call": "call"})], ["controls.call: a notation is no control of itself"]),
    ([("controls", {"call": ["turned"]})], ["controls.call: [\"turned\"] should be the name of a notation"]),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), DESIGN_FAULTS, ids=range(len(DESIGN_FAULTS)))
def test_a_fault_of_a_design_is_named(write, changes, expected):
    assert told(read_design, write("design.json", changed(DESIGN, *changes))) == expected


def test_all_faults_of_a_design_are_told_at_once(write):
    broken = changed(
        DESIGN,
        ("extra", 1),
        (("classes", "had", "pieces"), "x"),
        (("scopes", "3x2", "classes"), ["will"]),
        ("directions", [["plain", "cll"]]),
    )
    assert told(read_design, write("design.json", broken)) == [
        "key 'extra' is unknown; the keys are property, sides, classes, invented, scopes, anchors, "
        "directions, controls",
        "classes.had.pieces: 'x' is not like '1', '2-3' or '2+'",
        "scopes.3x2.classes: every word is 'future'; words of both sides, 'past' and 'future', are needed",
        "scopes.3x2.classes: was of scope '2x2' should be there too (each scope contains those before it)",
        "key 'directions', entry 1: notation 'cll' is unknown; did you mean 'call'?",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "Expecting property name"),
        ("[]", r"\[\] is not an object"),
        ('{"property": "\\ud800"}', "surrogates not allowed"),
    ],
)
def test_a_design_that_is_no_object_is_refused(write, content, said):
    with pytest.raises(DatasetError, match=rf"cannot read the design .*design.json: .*{said}"):
        read_design(write("design.json", content))


def test_a_design_that_is_not_there_or_says_a_word_twice_is_refused(write, tmp_path):
    with pytest.raises(DatasetError, match=r"cannot read the design .*absent.json: No such file"):
        read_design(tmp_path / "absent.json")
    twice = json.dumps(DESIGN).replace('"had":', '"was":', 1)
    assert "'was' is given twice in one object" in told(read_design, write("design.json", twice))


def test_stimuli_are_read_as_written(read):
    dataset = read(sound_rows())
    assert (dataset.name, len(dataset.stimuli)) == ("mine", 33)
    assert len({one.id for one in dataset.stimuli}) == 33
    first, zim, held_out = dataset.stimuli[0], dataset.stimuli[13], dataset.stimuli[-1]
    assert (first.id, first.item, first.canonical, first.held_out) == ("plain:t1:was", "was", True, False)
    assert (zim.id, zim.canonical, zim.property) == ("call:t1:zim", False, "future")
    assert zim.text == "On it stood zim(n) here."
    assert zim.anchors == {"operator-after": (12, 15), "close-paren": (17, 18), "sentence-final": (23, 24)}
    assert (held_out.id, held_out.held_out) == ("plain:h1:had", True)


def test_items_for_capture_are_laid_out_by_word_side_and_notation(read):
    dataset = read(sound_rows())
    items = dataset.items()
    assert items.ids == [one.id for one in dataset.stimuli]
    assert items.texts[1] == "On it stood will here."
    assert items.labels.dtype == np.int8
    assert items.labels[:5].tolist() == [-1, 1, -1, 1, -1]
    assert items.pairs.dtype == np.int32
    assert items.pairs.tolist() == [0, 1, 2, 3, 4] * 6 + [0, 1, 2]
    assert items.groups[9:11] == ["plain", "call"]
    assert items.groups[-4:] == ["turned", *["plain:held_out"] * 3]
    assert list(items.anchors) == ["operator-after", "sentence-final", "close-paren"]
    assert items.anchors["close-paren"][:10] == [None] * 10
    assert items.anchors["close-paren"][10:12] == [(17, 18), (18, 19)]
    for name, spans in items.anchors.items():
        assert [one.anchors.get(name) for one in dataset.stimuli] == spans


def test_the_checksum_of_items_holds_their_anchors_and_is_that_of_older_caches(read):
    """Items without a missing anchor have the checksum that they had before anchors could be missing."""
    items = read(sound_rows()).items()
    kept = {
        "ids": items.ids,
        "texts": items.texts,
        "labels": items.labels.tolist(),
        "groups": items.groups,
        "pairs": items.pairs.tolist(),
        "anchors": {name: [span and list(span) for span in spans] for name, spans in items.anchors.items()},
    }
    text = json.dumps(kept, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    assert items.sha256 == hashlib.sha256(text.encode("utf-8")).hexdigest()
    other = read(changed(sound_rows(), ((10, "anchors", "sentence-final"), [20, 24]))).items()
    assert other.sha256 != items.sha256


def test_scopes_change_no_item_but_the_checksum_of_the_dataset(read):
    dataset = read(sound_rows())
    fewer = read(sound_rows(), changed(DESIGN, (("scopes", "2x2"), ...)))
    assert fewer.items().sha256 == dataset.items().sha256
    assert fewer.sha256 != dataset.sha256


def test_read_dataset_knows_the_kind(write):
    entry = {
        "name": "mine",
        "kind": "vocabulary",
        "path": write("mine.jsonl", sound_rows()),
        "design": write("design.json", DESIGN),
    }
    assert len(read_dataset(entry).stimuli) == 33


ROW_FAULTS = [
    ([((0, "itm"), "was"), ((0, "item"), ...)],
     ["field 'itm' is unknown; did you mean 'item'?", "field 'item' is missing"]),
    ([((3, "class"), ...)], ["field 'class' is missing (null for an invented word)"]),
    ([((0, "text"), 3)], ["field 'text': 3 is not a text in quotation marks"]),
    ([((0, "template"), " ")], ["field 'template' is empty"]),
    ([((0, "held_out"), 1)], ["field 'held_out': 1 is not true or false"]),
    ([((0, "anchors"), [1, 2])],
     ["field 'anchors': [1, 2] is not an object such as {\"operator-after\": [9, 12]}"]),
    ([((0, "class"), "wars")],
     ["field 'class': 'wars' is no class of the design; the classes are was, will, had"]),
    ([((3, "class"), "zim")],
     ["field 'class': 'zim' is no class of the design; the classes are was, will, had"]),
    ([((0, "class"), "had")], ["field 'class': 'had' contradicts item 'was' (a word is its own class)"]),
    ([((0, "class"), None)], ["field 'class' is null, but item 'was' is a class of the design"]),
    ([((0, "property"), "future")],
     ["field 'property': 'future' contradicts the design, where 'was' is 'past'"]),
    ([((0, "anchors", "first"), [1, 2])],
     ["field 'anchors': anchor 'first' is unknown; the anchors are operator-after, sentence-final"]),
    ([((0, "anchors", "sentence-final"), ...)],
     ["field 'anchors': anchor 'sentence-final' of notation 'plain' is missing"]),
    ([((0, "anchors", "operator-after"), [11, 15])],
     ["field 'anchors': 'operator-after' covers ' was'; it should cover the item 'was'"]),
    ([((10, "anchors", "close-paren"), [16, 17])],
     ["field 'anchors': 'close-paren' covers 'n'; it should cover the closing parenthesis"]),
    ([((0, "anchors", "sentence-final"), [19, 20])],
     ["field 'anchors': 'sentence-final' covers 'e'; it should end where the text of 21 does"]),
    ([((0, "anchors", "sentence-final"), [20, 22])],
     ["field 'anchors': 'sentence-final': [20, 22) leaves the text of 21 characters"]),
    ([((0, "anchors", "sentence-final"), [-1, 21])],
     ["field 'anchors': 'sentence-final': [-1, 21) leaves the text of 21 characters"]),
    *(([((0, "anchors", "sentence-final"), span)],
       [f"field 'anchors': 'sentence-final': {shown} is not [start, end) in characters, "
        "start before end"])
      for span, shown in (([20, 20], "[20, 20]"), ([20], "[20]"), ([False, 21], "[false, 21]"),
                          ([20.0, 21], "[20.0, 21]"), ("20-21", "'20-21'"), (None, "null"))),
    ([((5, "text"), "On it stood was here."), ((5, "anchors"), {"operator-after": [12, 15],
                                                              "sentence-final": [20, 21]})],
     ["field 'text' is that of line 1 (a text counts once)"]),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), ROW_FAULTS, ids=range(len(ROW_FAULTS)))
def test_a_fault_of_a_row_is_named_with_its_line(read, changes, expected):
    line = changes[0][0][0] + 1
    found = told(read, changed(sound_rows(), *changes))
    own = [fault for fault in found if fault.startswith(f"mine.jsonl:{line}: ")]
    assert own[: len(expected)] == [f"mine.jsonl:{line}: {fault}" for fault in expected]
    # A row whose item is unknown is missing elsewhere too: its word has one stimulus less.
    assert len(found) == len(expected) + ("itm" in expected[0])


def test_a_row_of_an_unknown_word_or_notation_is_named(read):
    found = told(
        read,
        [
            *sound_rows(),
            {**row("was", "plain", "t3", "Is {} or not."), "item": "ws"},
            {**row("was", "plain", "t4", "Is {} there."), "notation": "plan"},
        ],
    )
    assert "mine.jsonl:34: field 'item': word 'ws' is unknown; did you mean 'was'?" in found
    assert "mine.jsonl:35: field 'notation': notation 'plan' is unknown; did you mean 'plain'?" in found


def test_lines_that_are_no_objects_and_unknown_names_with_odd_characters_are_named(read):
    odd = changed(sound_rows()[0], (("anchors", "\ud800"), [1, 2]), ("te\ud800xt", "x"), ("template", "t9"))
    found = told(read, [*sound_rows(), "{", "[1]", '{"a": 1, "a": 2}', odd])
    assert found[0].startswith("mine.jsonl:34: not readable as JSON at column 2: ")
    assert found[1] == "mine.jsonl:35: [1] is not an object (one a line, in braces)"
    assert "mine.jsonl:36: field 'a' is given twice" in found
    assert "mine.jsonl:37: field 'te\\ud800xt' is unknown; did you mean 'text'?" in found
    assert any("anchor '\\ud800' is unknown" in fault for fault in found)


def test_a_stimulus_given_twice_is_refused(read):
    rows = sound_rows()
    assert told(read, [*rows, {**rows[6], "text": "They saw will there!"}]) == [
        "mine.jsonl:34: stimulus 'plain:t2:will' is that of line 7 already"
    ]


@pytest.mark.parametrize("word", ["was", "zim"])
def test_a_word_with_one_stimulus_in_a_notation_is_refused_with_the_reason(read, word):
    rows = [
        one for one in sound_rows() if (one["item"], one["notation"], one["template"]) != (word, "call", "t2")
    ]
    line = next(n for n, one in enumerate(rows, 1) if (one["item"], one["notation"]) == (word, "call"))
    assert told(read, rows) == [
        f"mine.jsonl:{line}: item '{word}' has this stimulus alone in notation 'call' (the share of its top "
        "class would be 1 whatever the probe does; at least two are needed)"
    ]


def test_a_class_without_stimuli_to_train_on_and_words_never_tested_are_refused(read):
    gone = {("had", "plain"), ("zim", "call"), ("gop", "turned"), ("was", "turned")}
    rows = [one for one in sound_rows() if one["held_out"] or (one["item"], one["notation"]) not in gone]
    # The held-out stimulus of "had" is still there: it is never trained on.
    assert told(read, rows) == [
        "mine.jsonl: class 'had' has no stimuli in notation 'plain' to train on; "
        "a probe would never have seen it",
        "mine.jsonl: word 'zim' has no stimuli in notation 'call' to be tested in",
        "mine.jsonl: word 'was' has no stimuli in notation 'turned' to be tested in",
        "mine.jsonl: word 'gop' has no stimuli in notation 'turned' to be tested in",
    ]


def test_a_held_out_row_of_an_invented_word_is_refused(read):
    assert told(read, [*sound_rows(), row("gop", "plain", "h1", HELD_OUT, held_out=True)]) == [
        "mine.jsonl:34: field 'held_out' is true, but 'gop' is invented; held-out rows are of classes"
    ]


def test_a_template_held_out_in_one_row_and_not_in_another_is_refused(read):
    extra = [
        row("was", "plain", "t7", "Where is {} hidden?", held_out=True),
        row("will", "plain", "t7", "Where is {} hidden?"),
        row("had", "plain", "h1", "How is {} kept?"),
    ]
    rows = [one for one in sound_rows() if (one["item"], one["template"]) != ("had", "h1")]
    assert told(read, [*rows, *extra]) == [
        "mine.jsonl:34: field 'held_out': template 't7' is trained on here, but not in line 33",
        "mine.jsonl:35: field 'held_out': template 'h1' is trained on here, but not in line 31",
    ]


def test_a_template_of_a_control_is_that_of_what_it_controls(read):
    """A control that trained on a held-out template would leak it."""
    extra = [
        row("was", "call", "h9", "Where is {}(n) hidden?", held_out=True),
        row("was", "turned", "h9", "Where is {}(n, o) hidden?"),
    ]
    assert told(read, [*sound_rows(), *extra]) == [
        "mine.jsonl:35: field 'held_out': template 'h9' is trained on here, but not in line 34"
    ]
    # "plain" is another notation: its templates have names of their own.
    named = read([*sound_rows(), {**row("was", "plain", "h9", "Where is {} hidden?")}, extra[0]])
    assert len(named.stimuli) == 35


def test_an_empty_file_and_one_that_is_not_there_are_refused(read, write, tmp_path):
    assert told(read, []) == ["mine.jsonl: no stimuli in the file (one JSON object a line)"]
    with pytest.raises(DatasetError, match=r"dataset 'mine': cannot read .*absent.jsonl: No such file"):
        read_vocabulary(tmp_path / "absent.jsonl", "mine", design=write("design.json", DESIGN))
