"""Prompt frames: what an item's frames come to, character for character, and every fault of a file named."""

import json
from types import SimpleNamespace

import pytest

from strataprobe.datasets.frames import VARIANTS, Frames, Variant, read_frames, written_out
from strataprobe.errors import DatasetError

OWN = {
    "qa": {"prompt": "{sentence} Who will {action}?", "continuation": " {c} will {action}."},
    "paraphrase": {"prompt": "{sentence} So:", "continuation": " {c} it is."},
    "statement": {"prompt": "{sentence}", "continuation": " {c} {past}."},
    "forced_choice": {"prompt": "{sentence} {first} or {second}?", "continuation": " {c}."},
    "label_choice": {
        "prompt": "{sentence} X {first}, Y {second}?",
        "labels": ["X", "Y"],
        "continuation": " {label}",
    },
    "contrastive": {"prompt": "{sentence} It is", "continuation": " {c}."},
    "unconditional": {
        "qa": {"prompt": "Who will {action}?", "continuation": " {c} will {action}."},
        "paraphrase": {"prompt": "So:", "continuation": " {c} it is."},
        "statement": {"prompt": "Then.", "continuation": " {c} {past}."},
    },
}
ITEM = {
    "language": "en",
    "sentence": "Ann told Bob to dig.",
    "candidate_a": "Ann",
    "candidate_b": "Bob",
    "action": "dig",
    "past": "dug",
}
SENTENCE = ITEM["sentence"]


def fields(**changes):
    return SimpleNamespace(**{**ITEM, **changes})


def written(own=None, *, spelled=None, **changes):
    return written_out(fields(**changes), Frames({"en": OWN if own is None else own}, ""), spelled or {})


@pytest.fixture
def faults(tmp_path):
    """The faults of a file of frames, without its place."""

    def found(content):
        path = tmp_path / "prompts.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        with pytest.raises(DatasetError) as caught:
            read_frames(path)
        title, *lines = str(caught.value).replace(str(path), "prompts.json").splitlines()
        assert title == f"prompts prompts.json: {len(lines)} problem" + ("s" if len(lines) > 1 else "")
        return [line.strip() for line in lines]

    return found


def changed(name, **parts):
    """Frames of which one has other parts; a part of None is left out."""
    frame = {part: text for part, text in {**OWN[name], **parts}.items() if text is not None}
    return {"en": {**OWN, name: frame}}


def test_every_variant_is_written_out_character_for_character():
    found, problems = written()
    assert problems == []
    assert tuple(found) == VARIANTS
    assert found == {
        "qa": (f"{SENTENCE} Who will dig?", " Ann will dig.", " Bob will dig."),
        "paraphrase": (f"{SENTENCE} So:", " Ann it is.", " Bob it is."),
        "statement": (SENTENCE, " Ann dug.", " Bob dug."),
        "forced_choice:ab": (f"{SENTENCE} Ann or Bob?", " Ann.", " Bob."),
        "forced_choice:ba": (f"{SENTENCE} Bob or Ann?", " Ann.", " Bob."),
        "label_choice:ab": (f"{SENTENCE} X Ann, Y Bob?", " X", " Y"),
        "label_choice:ba": (f"{SENTENCE} X Bob, Y Ann?", " Y", " X"),
        "contrastive": (f"{SENTENCE} It is", " Ann.", " Bob."),
        "qa:unconditional": ("Who will dig?", " Ann will dig.", " Bob will dig."),
        "paraphrase:unconditional": ("So:", " Ann it is.", " Bob it is."),
        "statement:unconditional": ("Then.", " Ann dug.", " Bob dug."),
    }


def test_braces_and_places_in_an_items_own_words_are_left_as_they_are():
    found, _ = written(sentence="Ann {c} told {Bob}.", candidate_a="{first}", action="dig {past}")
    assert found["qa"].prompt == "Ann {c} told {Bob}. Who will dig {past}?"
    assert found["qa"].a == " {first} will dig {past}."


def test_doubled_braces_in_a_frame_are_single_ones_in_the_prompt(tmp_path):
    path = tmp_path / "prompts.json"
    path.write_text(
        json.dumps({"en": {"qa": {"prompt": "{{{sentence}}} {{a}}", "continuation": " {c}"}}}),
        encoding="utf-8",
    )
    found, _ = written_out(fields(), read_frames(path), {})
    assert found == {"qa": ("{" + SENTENCE + "} {a}", " Ann", " Bob")}


def test_frames_that_a_language_lacks_make_no_variants():
    found, problems = written({name: OWN[name] for name in ("qa", "contrastive")})
    assert problems == []
    assert tuple(found) == ("qa", "contrastive")


def test_what_an_item_spells_out_goes_before_its_languages_frames():
    spelled = {"qa": Variant("Asked:", " Ann!", " Bob!"), "statement": Variant("Told.", " A dug.", " B dug.")}
    found, problems = written(spelled=spelled, past=None)
    assert problems == []
    assert found["qa"] == spelled["qa"]
    assert found["statement"] == spelled["statement"]
    assert found["paraphrase"].prompt == f"{SENTENCE} So:"
    # What is scored without the sentence are the same continuations, or the two scores could not be set off.
    assert found["qa:unconditional"] == ("Who will dig?", " Ann!", " Bob!")
    assert found["statement:unconditional"] == ("Then.", " A dug.", " B dug.")
    assert tuple(found) == VARIANTS


def test_a_language_without_prompts_is_named_with_those_that_have_some():
    assert written(language="fi") == (
        {},
        ["there are no prompts for language 'fi' (prompts are given for: en)"],
    )
    assert written_out(fields(), Frames({}, ""), {})[1] == [
        "there are no prompts for language 'en' (prompts are given for: none)"
    ]
    spelled = {"qa": Variant("Asked:", " Ann!", " Bob!")}
    assert written(language="fi", spelled=spelled) == (spelled, [])


def test_what_the_frames_ask_for_and_the_item_does_not_say_is_named_once_with_all_prompts():
    _, problems = written(action=None, past=None)
    assert problems == [
        "field 'action' is missing; the prompts qa, qa:unconditional ask for it",
        "field 'past' is missing; the prompts statement, statement:unconditional ask for it",
    ]


def test_an_item_that_spells_prompts_out_does_without_those_it_has_no_words_for():
    spelled = {"qa": Variant("Asked:", " Ann!", " Bob!")}
    found, problems = written(spelled=spelled, action=None, past=None)
    assert problems == []
    assert "statement" not in found
    assert "qa:unconditional" not in found
    assert "contrastive" in found


def test_a_file_comes_back_as_it_was_written(tmp_path):
    path = tmp_path / "prompts.json"
    path.write_text(json.dumps({"en": OWN, "zh": {"qa": OWN["qa"]}}), encoding="utf-8")
    frames = read_frames(path)
    assert frames.by_language == {"en": OWN, "zh": {"qa": OWN["qa"]}}
    assert frames.source == path.read_text(encoding="utf-8")


def test_all_faults_of_a_file_are_listed_at_once(faults):
    known = "sentence, first, second, action, past"
    assert faults(
        {
            "en": {
                "qa": {"prompt": "{sentense} {c}", "continuation": " {c} {actoin}"},
                "paraphrase": {"continuation": " {c}"},
                "statment": OWN["statement"],
                "forced_choice": {"prompt": "{sentence} {first}?", "continuation": " {label}"},
                "label_choice": {
                    "prompt": "{sentence} {first}{second}",
                    "labels": ["A", "A"],
                    "continuation": " {c}",
                },
                "contrastive": "{sentence} It is {c}",
                "unconditional": {"qa": {"prompt": "{sentence}", "continuation": " {c}"}, "contrastive": {}},
            },
            "de": "Wer?",
        }
    ) == [
        "en: prompt 'statment' is unknown; did you mean 'statement'?",
        "en.unconditional: prompt 'contrastive' is unknown; the prompts are qa, paraphrase, statement",
        f"en.qa.prompt: there is nothing to put at {{sentense}}; known are {known}",
        f"en.qa.prompt: there is nothing to put at {{c}}; known are {known}",
        "en.qa.prompt: {sentence} is missing",
        "en.qa.continuation: there is nothing to put at {actoin}; known are c, action, past, label",
        "en.paraphrase.prompt is missing, empty, or not a text",
        "en.forced_choice.prompt: {second} is missing",
        "en.forced_choice.continuation: {c} is missing",
        "en.forced_choice.continuation: {label} is of label_choice alone",
        "en.label_choice.continuation: {label} is missing",
        'en.label_choice.labels: two different texts are needed, this is ["A", "A"]',
        "en.contrastive: '{sentence} It is {c}' is not an object with a prompt and a continuation",
        "en.unconditional.qa.prompt: {sentence} has no place where its effect is to be taken off",
        "de: 'Wer?' is not an object of frames",
    ]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (changed("qa", prompt="{sentence} {"), "en.qa.prompt: Single '{' encountered"),
        (changed("qa", prompt="{sentence} }"), "en.qa.prompt: Single '}' encountered"),
        (changed("qa", continuation=" {c} {c!r}"), "en.qa.continuation: there is nothing to put at {c!r}"),
        (changed("qa", continuation=" {c} {action:{c}}"), "nothing to put at {action:{c}}"),
        (
            changed("qa", continuation=" {c} {c.real}"),
            "en.qa.continuation: there is nothing to put at {c.real}",
        ),
        (changed("qa", continuation=" {c} {}"), "en.qa.continuation: there is nothing to put at {}"),
        (changed("qa", labels=["A", "B"]), "en.qa: field 'labels' is unknown"),
        (
            changed("qa", continuaton=" {c}"),
            "en.qa: field 'continuaton' is unknown; did you mean 'continuation'?",
        ),
        (changed("qa", prompt=["{sentence}"]), "en.qa.prompt is missing, empty, or not a text"),
        (changed("qa", continuation=" "), "en.qa.continuation is missing, empty, or not a text"),
        (changed("label_choice", labels=None), "en.label_choice.labels: two different texts are needed"),
        (changed("label_choice", labels=["A", "B", "C"]), "en.label_choice.labels: two different texts"),
        (changed("label_choice", labels=["A", ""]), "en.label_choice.labels: two different texts"),
        (changed("label_choice", labels="AB"), "en.label_choice.labels: two different texts are needed"),
        ({"en": {**OWN, "unconditional": ["qa"]}}, 'en.unconditional: ["qa"] is not an object of frames'),
        ({"en": {**OWN, "unconditional": None}}, "en.unconditional: null is not an object of frames"),
        ({}, "no language has prompts"),
        ('{"en": {"qa": 1, "qa": {"prompt": "{sentence}", "continuation": "{c}"}}}', "'qa' is given twice"),
    ],
)
def test_each_fault_is_named_by_language_prompt_and_part(faults, content, fault):
    (line,) = faults(content)
    assert fault in line


@pytest.mark.parametrize("content", ["[1]", '"qa"', "null"])
def test_a_file_that_holds_no_object_is_refused(tmp_path, content):
    path = tmp_path / "prompts.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DatasetError, match=r"prompts.json: prompts are an object by language, this is "):
        read_frames(path)


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_file_that_cannot_be_read_is_named(tmp_path, content):
    path = tmp_path / "prompts.json"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=r"cannot read the prompts .*prompts.json: "):
        read_frames(path)
    with pytest.raises(DatasetError, match=r"cannot read the prompts .*absent.json: .*No such file"):
        read_frames(tmp_path / "absent.json")
