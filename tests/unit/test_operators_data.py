"""The shipped operators: what the generator makes, in the numbers and words of the published design."""

import json
import re
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from strataprobe.datasets import vocabulary_generator as generator
from strataprobe.datasets.control_generator import write
from strataprobe.datasets.vocabulary import read_design, read_vocabulary
from strataprobe.errors import DatasetError
from strataprobe.pretraining import corpus

ROOT = Path(__file__).parents[2]
DATASETS = ROOT / "resources/datasets"
DESIGN = DATASETS / "operators_design.json"
TEMPLATES = DATASETS / "operators_templates.json"

# As docs of the published design have them, scope by scope.
BINARY = ("and or implies", "xor nand", "nor iff unless")
UNARY = ("not necessarily", "possibly always negate", "definitely unprovably")
INVENTED = {
    "binary": "bliq dren molex krev sond glin twiv fump",
    "unary": "vusp perph kelm zorf gleph drelth vrith nilph",
}
FIRST_INVENTED = "bliq dren vusp molex perph"
PIECES = {
    "1": "and or implies not necessarily possibly always nor unless definitely",
    "2-3": "xor nand negate iff",
    "2+": "unprovably",
}
# What a neutral frame does not say: how many, whether it holds, how it combines, or what kind of word it is.
SAYS_HOW_MANY = (
    "zero one two three both pair pairs twin twins single double triple once twice second third half "
    "several many each every all any none multiple plural dual sole alone together between among another "
    "argument arguments operand operands input inputs parameter parameters arity unary binary"
)
SAYS_WHETHER = (
    "true false truth right wrong correct incorrect valid invalid proof prove proves proven logic logical "
    "fact facts certain certainly sure surely maybe perhaps possible impossible necessary likely must may "
    "might can cannot could should would need needs ought never often sometimes no nobody nothing nowhere "
    "neither without missing lacks fails failed opposite reverse contrary deny denies refuse yes"
)
SAYS_HOW = (
    "if then but because so therefore hence whether either only except plus minus formula operator "
    "operators connective conjunction disjunction negation quantifier function predicate modal noun verb "
    "adverb adjective grammar sentence clause join joins joined combine combines combined link links"
)


@pytest.fixture(scope="module")
def design():
    return read_design(DESIGN)


@pytest.fixture(scope="module")
def templates() -> dict:
    return json.loads(TEMPLATES.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def dataset():
    return read_vocabulary(DATASETS / "operators.jsonl", "operators", design=DESIGN)


def sentences(templates: dict) -> list[str]:
    return [one for name, listed in templates.items() if name != "arguments" for one in listed]


def words(text: str) -> list[str]:
    return re.findall(r"\{\w+\}|[\w'-]+", text)


def test_the_file_is_what_the_generator_makes(design, templates, tmp_path):
    write(generator.stimuli(design, templates, generator.SEED), tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == (DATASETS / "operators.jsonl").read_bytes()


def test_the_words_and_scopes_are_the_published_ones(design):
    sides = {"binary": " ".join(BINARY).split(), "unary": " ".join(UNARY).split()}
    assert {side: [w for w, own in design.classes.items() if own.property == side] for side in sides} == sides
    assert {side: [w for w, own in design.invented.items() if own.property == side] for side in sides} == {
        side: listed.split() for side, listed in INVENTED.items()
    }
    assert {word: own.pieces for word, own in design.classes.items()} == {
        word: pieces for pieces, listed in PIECES.items() for word in listed.split()
    }
    assert {own.pieces for own in design.invented.values()} == {"2+"}
    classes = [" ".join((*BINARY[:steps], *UNARY[:steps])).split() for steps in (1, 1, 2, 3)]
    assert [sorted(scope.classes) for scope in design.scopes.values()] == [sorted(each) for each in classes]
    assert sorted(design.scopes["5x5"].items) == sorted(FIRST_INVENTED.split())
    for name, scope in design.scopes.items():
        assert name == f"{len(scope.classes)}x{len(scope.items)}"
        assert {design.words[word].property for word in scope.classes} == {"binary", "unary"}
        assert {design.words[word].property for word in scope.items} == {"binary", "unary"}
    for small, large in pairwise(design.scopes.values()):
        assert set(small.classes) <= set(large.classes)
        assert set(small.items) <= set(large.items)
    assert set(design.scopes["15x16"].classes) == set(design.classes)
    assert set(design.scopes["15x16"].items) == set(design.invented)


def test_every_word_stands_in_fifty_texts_a_notation(dataset, design):
    counts = Counter((one.item, one.notation, one.held_out) for one in dataset.stimuli)
    expected = {(word, notation, False): 50 for word in design.words for notation in ("mention", "call")}
    expected |= {(word, "call_swapped", False): 20 for word in design.words}
    expected |= {(word, notation, True): 25 for word in design.classes for notation in ("mention", "call")}
    assert counts == expected
    assert (len(design.classes), len(design.invented), len(dataset.stimuli)) == (15, 16, 4470)


def test_held_out_templates_are_disjoint_from_the_others(dataset, templates):
    shown = defaultdict(set)
    for one in dataset.stimuli:
        # Without the word and what stands in parentheses, only the template is left.
        frame = re.sub(rf"\b{one.item}\b(\([^)]*\))?", "_", one.text)
        shown[one.held_out].add(frame)
        assert frame.count("_") == 1
    assert (len(shown[False]), len(shown[True])) == (100, 50)
    assert not shown[False] & shown[True]
    assert len(set(sentences(templates))) == 150


def test_anchors_cover_what_they_say(dataset):
    for one in dataset.stimuli:
        found = {name: one.text[start:end] for name, (start, end) in one.anchors.items()}
        assert found["operator-after"] == one.item
        assert found["sentence-final"] in (".", "?")
        assert one.anchors["sentence-final"][1] == len(one.text)
        # The word follows a space in every notation, so that its tokens are the same ones.
        assert one.text[one.anchors["operator-after"][0] - 1] == " "
        if one.notation == "mention":
            assert set(found) == {"operator-after", "sentence-final"}
            assert one.text[one.anchors["operator-after"][1]] in " ,"
            continue
        assert set(found) == {"operator-after", "first-arg", "close-paren", "sentence-final"}
        call = one.text[one.anchors["operator-after"][0] : one.anchors["close-paren"][1]]
        parsed = re.fullmatch(rf"{one.item}\(([a-z])(?:, ([a-z]))?\)", call)
        assert parsed is not None
        assert found["first-arg"] == parsed[1]
        assert one.anchors["first-arg"][0] == one.anchors["operator-after"][1] + 1
        # A parenthesis that meets a mark would be one token with it in many tokenizers.
        assert one.text[one.anchors["close-paren"][1]] == " "
        printed = 1 if parsed[2] is None else 2
        own = {"binary": 2, "unary": 1}[one.property]
        assert printed == (3 - own if one.notation == "call_swapped" else own)


def test_all_words_of_a_template_share_everything_before_them_and_their_arguments(dataset):
    before, arguments = defaultdict(set), defaultdict(set)
    for one in dataset.stimuli:
        before[one.template].add(one.text[: one.anchors["operator-after"][0]])
        if "first-arg" in one.anchors:
            arguments[one.template].add(one.text[slice(*one.anchors["first-arg"])])
    assert {len(texts) for texts in before.values()} == {1}
    assert {len(names) for names in arguments.values()} == {1}
    # Which names are printed goes round: none is bound to a side, and none stands in many more templates.
    uses = Counter(name for template, names in arguments.items() for name in names if "h" not in template)
    assert (len(uses), max(uses.values()) - min(uses.values())) == (8, 1)


def test_the_control_shows_call_templates_with_the_counts_swapped_and_nothing_else_changed(dataset):
    by_id = {one.id: one for one in dataset.stimuli}
    swapped = [one for one in dataset.stimuli if one.notation == "call_swapped"]
    assert len({one.template for one in swapped}) == 20
    for one in swapped:
        plain = by_id[f"call:{one.template}:{one.item}"]
        assert one.text != plain.text
        assert re.sub(r", \w\)", ")", one.text) == re.sub(r", \w\)", ")", plain.text)
        assert (one.property, one.canonical) == (plain.property, plain.canonical)


@pytest.mark.parametrize("listed", ["mention", "mention_held_out", "call", "call_held_out"])
def test_templates_vary_and_have_the_word_within(templates, listed):
    place = "{op}" if listed.startswith("mention") else "{call}"
    found = [words(text) for text in templates[listed]]
    assert len(found) == (25 if listed.endswith("held_out") else 50)
    assert all(6 <= len(one) <= 14 for one in found)
    assert len({len(one) for one in found}) >= 5
    places = Counter(one.index(place) / (len(one) - 1) for one in found)
    assert min(places) > 0
    assert max(places) < 1
    # Early, in the middle and late: no one distance to either end in most of the sentences.
    thirds = Counter(int(3 * share) for share in places.elements())
    assert len(thirds) >= 2
    assert max(places.values()) <= len(found) / 5


def test_openings_vary(templates):
    openings = Counter(" ".join(words(text.lower())[:4]) for text in sentences(templates))
    assert [opening for opening, count in openings.items() if count > 2] == []
    # No five words in a row recur often either, wherever they stand in a sentence.
    runs = Counter(
        " ".join(found[start : start + 5])
        for text in sentences(templates)
        for found in [words(text.lower())]
        for start in range(len(found) - 4)
    )
    assert [run for run, count in runs.items() if count > 2] == []


def test_no_template_says_how_many_whether_or_how(templates, design):
    told = {*SAYS_HOW_MANY.split(), *SAYS_WHETHER.split(), *SAYS_HOW.split(), *design.words}
    said = {text: told & set(words(text.lower())) for text in sentences(templates)}
    assert {text: found for text, found in said.items() if found} == {}
    assert [text for text in sentences(templates) if re.search(r"n't|\d", text)] == []
    names = [name for pair in templates["arguments"] for name in pair]
    assert len(names) == len(set(names)) == 16
    assert not {"a", "i", "t", "f", "v"} & set(names)  # words, and the letters of true, false and "or"


def test_the_card_shows_what_the_templates_measure(templates):
    card = (DATASETS / "README.md").read_text(encoding="utf-8").split("`operators.jsonl`\n\n")[1]
    shown = {
        name.replace("`", "").replace(", held out", "_held_out"): tuple(map(float, cells.split(" | ")))
        for name, cells in re.findall(r"^\| (`(?:mention|call)`.*?) \| (.+) \|$", card, re.MULTILINE)
    }
    measured = {}
    for name, listed in templates.items():
        if name != "arguments":
            split = [re.split(r"\{\w+\}", text) for text in listed]
            before, after = (sum(len(words(parts[side])) for parts in split) / len(split) for side in (0, 1))
            questions = sum(text.endswith("?") for text in listed)
            measured[name] = (len(listed), before + 1 + after, before, after, questions)
    assert shown.keys() == measured.keys()
    for name, values in measured.items():
        assert shown[name] == pytest.approx(values, abs=0.0501)


def test_no_five_words_of_a_template_stand_in_the_corpus_of_nano(templates):
    settings = yaml.safe_load((ROOT / "config.yaml").read_text())["models"]["nano"]["source"]["pretrain"]
    runs = {
        tuple(found[start : start + 5])
        for text in sentences(templates)
        for found in [re.findall(r"[a-z]+", re.sub(r"\{\w+\}", " ", text).lower())]
        for start in range(len(found) - 4)
    }
    shared = set()
    for document in corpus.generate(ROOT / "resources/corpora/nano", **settings["corpus"]):
        found = re.findall(r"[a-z]+", document.lower())
        shared |= {tuple(found[start : start + 5]) for start in range(len(found) - 4)} & runs
    assert shared == set()


def test_a_longer_list_of_templates_begins_with_the_stimuli_of_the_shorter(design, templates):
    shorter = {**templates, "call": templates["call"][:31]}
    first = {json.dumps(row) for row in generator.stimuli(design, shorter, 3)}
    assert first < {json.dumps(row) for row in generator.stimuli(design, templates, 3)}
    assert generator.stimuli(design, templates, 4) != generator.stimuli(design, templates, 3)


TEMPLATE_FAULTS = [
    ("mention", "The word is here.", "mention, 1: {op} must stand in it once, and no other place"),
    ("mention", "The {op} is {op} here.", "mention, 1: {op} must stand in it once, and no other place"),
    ("mention", "The {op} is {call} here.", "mention, 1: {op} must stand in it once, and no other place"),
    ("mention", "{op} is here.",
     "mention, 1: {op} must follow a word and a space (at the start of a text its tokens differ)"),
    ("mention", 'The word "{op}" is here.',
     "mention, 1: {op} must follow a word and a space (at the start of a text its tokens differ)"),
    ("mention", "Here is {op}.", "mention, 1: {op} must be followed by ' ' or ',', then by further words"),
    ("call", "Here is {call}, they say.", "call, 1: {call} must be followed by ' ', then by further words"),
    ("call", "Here is {call} now!", "call, 1: the last character must be a full stop or a question mark"),
    ("call_held_out", "The parser reads {call} from the top of the file.",
     "'The parser reads {call} from the top of the file.' is listed 2 times"),
]  # fmt: skip


@pytest.mark.parametrize(("listed", "sentence", "fault"), TEMPLATE_FAULTS)
def test_templates_that_give_unusable_stimuli_are_refused(design, templates, listed, sentence, fault):
    changed = {**templates, listed: [sentence, *templates[listed][1:]]}
    with pytest.raises(DatasetError) as caught:
        generator.stimuli(design, changed, 3)
    # In full the sentence is shown up to 60 characters.
    assert fault in str(caught.value)


def test_other_designs_and_templates_without_parts_are_refused(design, templates):
    from dataclasses import replace

    told = []
    for planned, texts in (
        (replace(design, sides=("past", "future")), templates),
        (replace(design, anchors={"mention": ("last-arg",), "call": ("close-paren",)}), templates),
        (design, {**templates, "arguments": [["p", "p"]]}),
        (design, {**templates, "arguments": []}),
        (design, {name: texts for name, texts in templates.items() if name != "call"}),
    ):
        with pytest.raises(DatasetError) as caught:
            generator.stimuli(planned, texts, 3)
        told += str(caught.value).splitlines()[1:]
    assert [line.strip() for line in told] == [
        "sides of the design: past, future; binary, unary are needed",
        "notation mention of the design: there is no last-arg in it",
        "notation call_swapped is missing in the design",
        'arguments, 1: ["p", "p"] are not two different names',
        "arguments: none are listed",
        "call: Field required",
    ]
