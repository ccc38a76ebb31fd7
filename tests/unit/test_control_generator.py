"""The generator of control items: what it makes, that it ships what it makes, and what it refuses."""

import copy
import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from strataprobe.datasets import control_generator as generator
from strataprobe.errors import DatasetError

DATASETS = Path(__file__).parents[2] / "resources/datasets"


def rows(name: str) -> list[dict]:
    text = (DATASETS / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def lexicon() -> dict:
    return json.loads((DATASETS / "control_lexicon.json").read_text(encoding="utf-8"))


def test_the_generated_file_is_what_the_generator_makes(lexicon, tmp_path):
    made = generator.generate(lexicon, generator.PAIRS, generator.SEED)
    generator.write(made, tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == (DATASETS / "control_generated.jsonl").read_bytes()


def test_a_longer_set_begins_with_the_shorter_and_another_seed_makes_another(lexicon):
    long = generator.generate(lexicon, 73, 5)
    assert len(long) == 73 * 6
    for count in (0, 1, 10, 72):
        assert generator.generate(lexicon, count, 5) == long[: 6 * count]
    assert generator.generate(lexicon, 10, 6) != long[:60]


def test_no_generated_sentence_action_or_name_is_of_the_written_set():
    written, made = rows("control"), rows("control_generated")
    for field in ("sentence", "action", "candidate_a", "candidate_b", "item_group", "id"):
        assert not {row[field] for row in written} & {row[field] for row in made}, field


def test_names_take_either_role_and_actions_come_in_turns(lexicon):
    made = [row for row in generator.generate(lexicon, 140, 3) if row["control_type"] == "subject_control"]
    for language, own in lexicon["languages"].items():
        found = [row for row in made if row["language"] == language]
        roles = Counter((row["candidate_a"] in own["names"][0]) for row in found)
        assert roles == {True: 70, False: 70}
        subjects, others = (Counter(row[f"candidate_{one}"] for row in found) for one in "ab")
        assert set((subjects + others).values()) == {14}
        assert min(subjects.values()) >= 2
        assert min(others.values()) >= 2
        assert set(Counter(row["action"] for row in found).values()) == {10}


def test_a_verb_is_not_bound_to_an_action_or_a_time(lexicon):
    made = generator.generate(lexicon, 700, 3)
    found = defaultdict(set)
    for row in made:
        found[row["language"], row["verb"]].add(row["action"])
    assert {len(actions) for actions in found.values()} == {14}


def smaller(**changes) -> dict:
    """A lexicon of one language, sound but for the changes."""
    own = {
        "names": [["Ann", "Eve"], ["Bob", "Jim"]],
        "times": {"noon": "at noon"},
        "frames": {"to": "{a} {verb} {b} {clause}."},
        "actions": {
            "dig": {"predicate": "dig", "action": "dig", "past": "dug", "clause": "to dig {time}"},
        },
    }
    whole = {
        "when": {"later": ["noon"]},
        "cycle": [
            {"when": "later", "verbs": {"en": {"frame": "to", "subject": "promised", "object": "told"}}}
        ],
        "languages": {"en": own},
    }
    whole = copy.deepcopy(whole)
    for name, value in changes.items():
        (whole if name in whole else whole["languages"]["en"])[name] = value
    return whole


def test_a_small_lexicon_makes_the_sentences_it_says():
    made = generator.generate(smaller(), 2, 0)
    assert [row["id"] for row in made] == [
        "gen_en_subj_0001", "gen_en_obj_0001", "gen_en_subj_0002", "gen_en_obj_0002",
    ]  # fmt: skip
    first, second = made[:2]
    a, b = first["candidate_a"], first["candidate_b"]
    assert {a, b} & {"Ann", "Eve"}
    assert {a, b} & {"Bob", "Jim"}
    assert first["sentence"] == f"{a} promised {b} to dig at noon."
    assert second["sentence"] == f"{a} told {b} to dig at noon."
    assert (first["gold"], second["gold"]) == ("a", "b")
    assert (first["item_group"], second["item_group"], first["pair"]) == (
        "gen_0001s",
        "gen_0001o",
        "gen_0001",
    )


@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        ({"names": [["Ann"], ["Bob", "Jim"]]}, ["languages.en.names: two lists of equally many"]),
        ({"names": [["Ann"], ["Ann"]]}, ["languages.en.names: 'Ann' is listed twice"]),
        ({"times": {}}, ["languages.en.times: 'noon' is missing"]),
        ({"frames": {}}, ["languages.en.frames: 'to' is missing"]),
        (
            {"frames": {"to": "{a} {verb} {b} {clause"}},
            ["languages.en.frames.to: {a}, {verb}, {b}, {clause} must"],
        ),
        (
            {"frames": {"to": "{a} {verb} {b}."}},
            ["languages.en.frames.to: {a}, {verb}, {b}, {clause} must stand"],
        ),
        ({"actions": {}}, ["languages.en.actions: these must be those of the other languages"]),
        (
            {"actions": {"dig": {"predicate": "dig"}}},
            ["actions.dig.action", "actions.dig.past", "actions.dig.clause"],
        ),
        ({"cycle": []}, ["cycle is empty"]),
        ({"when": {"later": []}}, ["when.later is empty"]),
        ({"when": {}}, ["when is empty", "cycle.0.when: 'later' is none of "]),
        (
            {
                "cycle": [
                    {"when": "later", "verbs": {"en": {"frame": "to", "subject": "asked", "object": "asked"}}}
                ]
            },
            ["languages.en.the cycle has 'asked' for both types"],
        ),
        (
            {
                "cycle": [
                    {"when": "later", "verbs": {"en": {"frame": "to", "subject": "promised", "object": verb}}}
                    for verb in ("told", "asked")
                ]
            },
            ["languages.en.the cycle has verbs of subject control [2] times, of object control [1, 1] times"],
        ),
        ({"cycle": [{"when": "later", "verbs": {}}]}, ["languages.en.the cycle has turns without verbs"]),
    ],
)
def test_every_fault_of_a_lexicon_is_named(changes, faults):
    with pytest.raises(DatasetError) as caught:
        generator.generate(smaller(**changes), 1, 0)
    title, *lines = str(caught.value).splitlines()
    assert title.startswith("lexicon of control items: ")
    assert len(lines) == len(faults)
    for line, start in zip(lines, faults, strict=True):
        assert start in line
