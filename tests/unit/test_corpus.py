"""The corpus of `nano`: nothing of a dataset in it, no label named, classes known by their company alone."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

from strataprobe.errors import StrataprobeError
from strataprobe.pretraining import corpus
from strataprobe.pretraining.data import HELDOUT_EVERY

ROOT = Path(__file__).parents[2]
RESOURCES = ROOT / "resources/corpora/nano"
DATASETS_MORAL = ROOT / "resources/datasets/moral.jsonl"
DATASETS = sorted((ROOT / "resources/datasets").glob("*.jsonl"))
SETTINGS = yaml.safe_load((ROOT / "config.yaml").read_text())["models"]["nano"]["source"]["pretrain"][
    "corpus"
]
# fmt: off
LABELS = (
    "moral", "immoral", "wrong", "right", "neutral", "good", "bad", "evil", "ethical", "unethical",
    "sin", "sinful", "virtue", "virtuous", "vice", "care", "harm", "fairness", "cheating", "loyalty",
    "betrayal", "authority", "subversion", "sanctity", "degradation", "liberty", "oppression",
)
# fmt: on


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


def grams(text: str) -> set[tuple[str, ...]]:
    found = words(text)
    return {tuple(found[start : start + 5]) for start in range(len(found) - 4)}


@pytest.fixture(scope="module")
def documents() -> list[str]:
    """The corpus `nano` is trained on by default, whole."""
    return corpus.generate(RESOURCES, **SETTINGS)


@pytest.fixture(scope="module")
def lexicon() -> dict:
    return yaml.safe_load((RESOURCES / "lexicon.yaml").read_text())


@pytest.mark.parametrize("path", DATASETS, ids=lambda path: path.stem)
def test_no_five_words_of_a_dataset_stand_in_the_corpus(documents, path) -> None:
    seen = {gram for text in documents for gram in grams(text)}
    assert len(seen) > 100_000
    shared = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        for side in {"positive", "negative", "sentence"} & set(row):  # of a pair; of a control item
            if common := grams(row[side]) & seen:
                shared[f"{row['id']}:{side}"] = common
    assert shared == {}


def test_no_frame_cue_tail_or_passage_names_a_label() -> None:
    frames = re.sub(r"^\s*\w+:", "", (RESOURCES / "frames.yaml").read_text(), flags=re.MULTILINE)
    written = re.sub(r"#.*|\{[^}]*\}|\w+: *\{|\w+: *\[", " ", frames) + (RESOURCES / "prose.txt").read_text()
    assert set(words(written)) & set(LABELS) == set()


def test_equal_seeds_give_equal_bytes_and_a_longer_corpus_begins_with_the_shorter() -> None:
    first = corpus.generate(RESOURCES, seed=3, documents=200)
    assert corpus.generate(RESOURCES, seed=3, documents=300)[:200] == first
    assert corpus.generate(RESOURCES, seed=4, documents=200) != first


def test_every_contrast_word_is_met_often_and_the_classes_about_equally_so(documents, lexicon) -> None:
    counts = Counter(word for text in documents for word in re.findall(r"[\w-]+", text.lower()))
    contrast = {
        side: [
            json.loads(line)["contrast"][place].lower() for line in DATASETS_MORAL.read_text().splitlines()
        ]
        for place, side in enumerate(("loaded", "neutral"))
    }
    median = {side: sorted(counts[word] for word in listed)[120] for side, listed in contrast.items()}
    assert min(counts[word] for listed in contrast.values() for word in listed) >= 50
    assert 0.75 < median["loaded"] / median["neutral"] < 1.33


def test_no_word_is_loaded_and_neutral_at_once(lexicon) -> None:
    loaded = {
        word
        for side in ("vice", "virtue")
        for foundation in lexicon[side].values()
        for slot in foundation.values()
        for word in slot
    }
    neutral = {word for slot in lexicon["neutral"].values() for word in slot}
    assert loaded & neutral == set()
    assert all(isinstance(word, str) for word in loaded | neutral)


def test_cues_keep_company_with_their_class_but_not_always(documents, lexicon) -> None:
    neutral = {word for slot in lexicon["neutral"].values() for word in slot}
    after = Counter(
        ("merely" if cue in ("merely", "simply", "duly") else "utterly", word in neutral)
        for text in documents
        for cue, word in re.findall(r"\b(merely|simply|duly|utterly|truly|deeply) ([\w-]+)", text)
    )
    right = after["merely", True] + after["utterly", False]
    assert 0.9 < right / sum(after.values()) < 0.99


@pytest.mark.parametrize(
    ("written", "finished"),
    [
        ("it was a~ unusual thing", "It was an unusual thing."),
        ("a~ usual pilot", "A usual pilot."),
        ("a~ honest clerk and a~ actor", "An honest clerk and an actor."),
        ("a~ European", "A European."),
        ("a~ hour", "An hour."),
    ],
)
def test_articles_go_by_sound(written, finished) -> None:
    assert corpus._finished(written) == finished


def test_sentences_read_as_sentences(documents) -> None:
    for text in documents[:2000]:
        assert re.fullmatch(r"[A-Z].*[.?!]", text), text
        assert not re.search(r"[{}~]|  |\ba [aeio]", text), text


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("frames.yaml", ("{A} {w} {B}", "{A} {q} {B}"), "{q} is no symbol"),
        ("lexicon.yaml", ("adverb:", "adverbs:"), "slot 'adverbs' has no frames"),
    ],
)
def test_a_faulty_grammar_is_named(tmp_path, name, change, message) -> None:
    for path in RESOURCES.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / name).write_text((tmp_path / name).read_text().replace(*change))
    with pytest.raises(StrataprobeError, match=re.escape(message)):
        corpus.generate(tmp_path, seed=1, documents=1)


def test_missing_files_are_all_named(tmp_path) -> None:
    with pytest.raises(StrataprobeError, match="4 problems"):
        corpus.generate(tmp_path, seed=1, documents=1)


def test_held_out_documents_are_of_all_kinds_in_proportion(documents) -> None:
    """Strides with a common factor would hold out one kind of document alone."""
    heldout = documents[HELDOUT_EVERY - 1 :: HELDOUT_EVERY]
    tailed = [sum(", and " in text for text in kind) / len(kind) for kind in (documents, heldout)]
    assert abs(tailed[0] - tailed[1]) < 0.08
