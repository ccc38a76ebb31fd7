"""The shipped control sets keep what their cards promise, and what the docs show can be read."""

import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
import yaml

from strataprobe.datasets.control import ControlDataset, ControlItem, read_control
from strataprobe.datasets.frames import VARIANTS, read_frames
from strataprobe.pretraining import corpus

ROOT = Path(__file__).parents[2]
DATASETS = ROOT / "resources/datasets"
CORPUS = ROOT / "resources/corpora/nano"
SETS = {"control": "control", "control_generated": "control", "nano_control": "nano_control"}
LANGUAGES = {"control": ("en", "zh", "de"), "control_generated": ("en", "zh", "de"), "nano_control": ("en",)}
PAIRS = {"control": 8, "control_generated": 50, "nano_control": 12}
# Words (characters in Chinese) of the shortest and the longest sentence.
LENGTHS = {
    "control": {"en": (9, 13), "zh": (14, 18), "de": (9, 11)},
    "control_generated": {"en": (9, 11), "zh": (13, 17), "de": (9, 11)},
    "nano_control": {"en": (7, 7)},
}


def shipped(name: str) -> ControlDataset:
    return read_control(DATASETS / f"{name}.jsonl", name, frames=DATASETS / f"{SETS[name]}_prompts.json")


def rows(name: str) -> list[dict]:
    text = (DATASETS / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def by(controls, *names) -> dict[tuple, list[ControlItem]]:
    found = defaultdict(list)
    for item in controls:
        found[tuple(getattr(item, name) for name in names)].append(item)
    return found


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


def grams(text: str) -> set[tuple[str, ...]]:
    found = words(text)
    return {tuple(found[start : start + 5]) for start in range(len(found) - 4)}


@pytest.mark.parametrize("name", SETS)
def test_languages_and_types_have_equally_many_items(name):
    dataset = shipped(name)
    assert dataset.languages == LANGUAGES[name]
    assert {key: len(items) for key, items in by(dataset.controls, "language", "control_type").items()} == {
        (language, f"{kind}_control"): PAIRS[name]
        for language in LANGUAGES[name]
        for kind in ("subject", "object")
    }


@pytest.mark.parametrize("name", SETS)
def test_a_translation_group_is_one_sentence_in_every_language(name):
    groups = by(shipped(name).controls, "item_group")
    assert len(groups) == 2 * PAIRS[name]
    for items in groups.values():
        assert [item.language for item in items] == list(LANGUAGES[name])
        assert len({item.control_type for item in items}) == 1
        assert len({item.pair for item in items}) == 1


@pytest.mark.parametrize("name", SETS)
def test_the_members_of_a_pair_are_alike_but_for_the_matrix_verb(name):
    pairs = by(shipped(name).controls, "language", "pair")
    assert len(pairs) == PAIRS[name] * len(LANGUAGES[name])
    given = {row["id"]: row for row in rows(name)}
    for members in pairs.values():
        subject, other = sorted(members, key=lambda item: item.control_type, reverse=True)
        assert (subject.control_type, other.control_type) == ("subject_control", "object_control")
        assert subject.verb != other.verb
        assert subject.sentence.count(subject.verb) == other.sentence.count(other.verb) == 1
        assert subject.sentence.replace(subject.verb, "_") == other.sentence.replace(other.verb, "_")
        for field in ("candidate_a", "candidate_b", "predicate", "action", "past"):
            assert given[subject.id][field] == given[other.id][field]


@pytest.mark.parametrize("name", SETS)
def test_both_types_have_equally_many_verbs_equally_often_in_every_language(name):
    controls = shipped(name).controls
    for language in LANGUAGES[name]:
        uses = {
            kind: Counter(i.verb for i in controls if i.language == language and i.control_type == kind)
            for kind in ("subject_control", "object_control")
        }
        assert not uses["subject_control"].keys() & uses["object_control"].keys()
        assert sorted(uses["subject_control"].values()) == sorted(uses["object_control"].values())
        assert len(uses["subject_control"]) >= 3


@pytest.mark.parametrize("name", SETS)
def test_gold_follows_from_the_type_and_candidate_a_is_the_matrix_subject(name):
    dataset = shipped(name)
    for item in dataset.controls:
        assert item.gold == ("a" if item.subject_controls else "b")
        assert item.spans["a"][0] == 0 < item.spans["b"][0] < item.spans["v"][0]
        assert item.spans["a"][1] <= item.spans["b"][0]
        # The verb stands between the subject and the action, so nothing before it tells the types apart.
        assert item.spans["a"][1] <= item.sentence.index(item.verb) < item.spans["v"][0]
    assert dataset.items().labels.sum() == 0


@pytest.mark.parametrize("name", SETS)
def test_names_and_predicates_stand_once_even_inside_other_words(name):
    for item in shipped(name).controls:
        assert [item.sentence.count(text) for text in (item.a, item.b, item.predicate)] == [1, 1, 1], item.id
        assert item.predicate in rows_action(name)[item.id]


def rows_action(name: str) -> dict[str, str]:
    return {row["id"]: row["action"] for row in rows(name)}


@pytest.mark.parametrize("name", SETS)
def test_names_of_a_pair_begin_unlike_each_other(name):
    """Candidates that begin alike may share their first token, and first-token readout leaves them out."""
    for item in shipped(name).controls:
        length = 1 if item.language == "zh" else 2
        assert item.a[:length] != item.b[:length], item.id


@pytest.mark.parametrize("name", SETS)
def test_ids_sentences_and_lengths(name):
    dataset = shipped(name)
    prefix = {"control": "", "control_generated": "gen_", "nano_control": "nano_"}[name]
    for item in dataset.controls:
        language = "" if name == "nano_control" else f"{item.language}_"
        kind = "subj" if item.subject_controls else "obj"
        assert re.fullmatch(rf"{prefix}{language}{kind}_\d+", item.id)
    assert len({item.sentence for item in dataset.controls}) == len(dataset.controls)
    for language, wanted in LENGTHS[name].items():
        sizes = [
            len(item.sentence if language == "zh" else item.sentence.split())
            for item in dataset.controls
            if item.language == language
        ]
        assert (min(sizes), max(sizes)) == wanted


@pytest.mark.parametrize("name", SETS)
def test_every_item_is_asked_with_every_prompt_and_both_continuations_are_parallel(name):
    for item in shipped(name).controls:
        assert tuple(item.prompts) == VARIANTS
        for variant, (prompt, a, b) in item.prompts.items():
            if not variant.startswith("label_choice"):
                assert a[-1] == b[-1] == ("。" if item.language == "zh" else ".")
                assert a.replace(item.a, "_") == b.replace(item.b, "_")
                assert item.b not in a
                assert item.a not in b
            # No space at the end of a context: the continuation brings its own, where its language has any.
            assert prompt == prompt.strip()
            assert a.startswith(" ") == b.startswith(" ") == (item.language != "zh")
            assert ("unconditional" in variant) != (item.sentence in prompt)


def test_the_gold_answer_is_never_given_away_by_the_prompt():
    """Both candidates stand in a prompt equally often."""
    for name in SETS:
        for item in shipped(name).controls:
            for variant, (prompt, _, _) in item.prompts.items():
                assert prompt.count(item.a) == prompt.count(item.b), (item.id, variant)


@pytest.mark.parametrize("name", SETS)
def test_no_five_words_of_a_prompt_or_sentence_stand_in_the_corpus_of_nano(name, documents):
    seen = {gram for text in documents for gram in grams(text)}
    shared = {
        item.id: common
        for item in shipped(name).controls
        for text in [
            item.sentence,
            *(prompt + continuation for prompt, *both in item.prompts.values() for continuation in both),
        ]
        if (common := grams(text) & seen)
    }
    assert shared == {}


@pytest.fixture(scope="module")
def documents() -> list[str]:
    settings = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    return corpus.generate(CORPUS, **settings["models"]["nano"]["source"]["pretrain"]["corpus"])


def test_the_public_prompts_have_what_the_public_files_do_not_spell_out():
    frames = read_frames(DATASETS / "control_public_prompts.json").by_language
    own = read_frames(DATASETS / "control_prompts.json").by_language
    assert list(frames) == list(own) == ["en", "zh", "de"]
    for language, found in frames.items():
        assert [*found] == ["forced_choice", "label_choice", "contrastive", "unconditional"]
        # English and Chinese action phrases are as ours; German ones are finite, so that "wird" fits none.
        same = all(found[name] == own[language][name] for name in ("forced_choice", "contrastive"))
        assert same == (language != "de")
        assert ("wird {action}" in json.dumps(found)) is False


@pytest.mark.parametrize("name", ["control", "control_generated"])
def test_a_card_shows_the_verbs_and_how_often_each_is_used(name):
    card = (
        (DATASETS / "README.md").read_text(encoding="utf-8").split(f"`{name}.jsonl`\n\n")[1].split("\n# ")[0]
    )
    times = PAIRS[name] // (10 if name == "control_generated" else PAIRS[name])
    for title, language in (("English", "en"), ("Chinese", "zh"), ("German", "de")):
        (cells,) = re.findall(rf"^\| {title} \| (.+) \| (.+) \|$", card, re.MULTILINE)
        for cell, kind in zip(cells, ("subject_control", "object_control"), strict=True):
            shown = dict(
                re.fullmatch(r"([^(]+?)(?: \(\w+\))? (\d)", one).groups() for one in cell.split(", ")
            )
            uses = Counter(
                row["verb"]
                for row in rows(name)
                if (row["language"], row["control_type"]) == (language, kind)
            )
            assert {verb: int(count) * times for verb, count in shown.items()} == uses


def test_the_examples_of_the_docs_can_be_read(tmp_path):
    page = (ROOT / "docs/adding.md").read_text(encoding="utf-8")
    blocks = [
        json.loads(text) for text in re.findall(r"^```text\n(\{.+?)^```$", page, re.MULTILINE | re.DOTALL)
    ]
    item = next(block for block in blocks if "candidate_a" in block)
    frames = next(block for block in blocks if "fi" in block)
    (tmp_path / "item.jsonl").write_text(json.dumps(item), encoding="utf-8")
    (tmp_path / "frames.json").write_text(json.dumps(frames), encoding="utf-8")
    prompts = DATASETS / "control_prompts.json"
    (read,) = read_control(tmp_path / "item.jsonl", "mine", frames=prompts).controls
    assert tuple(read.prompts) == VARIANTS
    assert [*read_frames(tmp_path / "frames.json").by_language["fi"]] == ["qa"]
    fields = re.findall(r"^\| (`.+?`) \| .+ \| .+ \|$", page.split("## Control items")[1], re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(fields))) >= set(item)


def test_every_word_of_the_nano_set_and_its_prompts_is_of_the_corpus(documents):
    met = Counter(word for text in documents for word in words(text))
    used = {
        word
        for item in shipped("nano_control").controls
        for variant in item.prompts.values()
        for text in variant
        for word in words(text)
    }
    assert min(met[word] for word in used) >= 20
    # The items themselves are of words that the corpus is made to hold often, in its lists.
    in_items = {
        word for row in rows("nano_control") for field in ("sentence", "past") for word in words(row[field])
    }
    assert in_items <= listed()
    assert min(met[word] for word in in_items) >= 280


def listed() -> set[str]:
    """The words of the corpus's lists: lexicon, everyday words, and what frames draw from."""
    files = [
        yaml.safe_load((CORPUS / f"{name}.yaml").read_text("utf-8"))
        for name in ("lexicon", "everyday", "frames")
    ]
    return {word for text in strings(files) for word in words(text)}


def strings(node) -> list[str]:
    if isinstance(node, str):
        return [node]
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
    return [text for child in children for text in strings(child)]


def test_the_corpus_of_nano_has_no_control_verb_of_the_written_set(documents):
    """What its card says: there is no promise in the vocabulary, so the nano set must do without one."""
    verbs = {row["verb"].split()[0] for row in rows("control") if row["language"] == "en"} - {"instructed"}
    met = Counter(word for text in documents for word in words(text))
    assert {verb: met[verb] for verb in verbs if met[verb]} == {}
    # Nor does it ever follow a verb of the nano set by a name and an infinitive.
    own = sorted({row["verb"] for row in rows("nano_control")})
    lists = yaml.safe_load((CORPUS / "lexicon.yaml").read_text("utf-8"))
    everyday = yaml.safe_load((CORPUS / "everyday.yaml").read_text("utf-8"))["words"]
    bare = {word for slot, listed in slots(lists) if slot.startswith("base") for word in listed}
    infinitive = "|".join(sorted(bare | set(everyday["base"])))
    pattern = re.compile(rf"\b(?:{'|'.join(own)}) [^.]*\bto (?:{infinitive})\b")
    assert len(bare) > 40
    assert [found[0] for text in documents if (found := pattern.search(text))] == []


def slots(node) -> list[tuple[str, list[str]]]:
    """The lists of words of a lexicon, by the names of their slots."""
    if not isinstance(node, dict):
        return []
    own = [(name, listed) for name, listed in node.items() if isinstance(listed, list)]
    return own + [slot for child in node.values() for slot in slots(child)]
