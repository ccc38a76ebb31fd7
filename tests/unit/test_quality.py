"""Measures of a pair against counts by hand; lists of words against what they must and must not know."""

from pathlib import Path

import pytest

from strataprobe.datasets.pairs import Pair
from strataprobe.datasets.quality import (
    STOPWORDS,
    alphabetic_tokens,
    content_overlap,
    contrast_sides,
    count_words,
    function_words,
    length_ratio,
    read_keywords,
    swapped,
)
from strataprobe.errors import DatasetError

DATASETS = Path(__file__).parents[2] / "resources" / "datasets"
SHIPPED = DATASETS / "moral_keywords.txt"


def pair(positive, negative, contrast=()):
    return Pair(id="x", positive=positive, negative=negative, group="g", contrast=list(contrast))


@pytest.mark.parametrize(
    ("sentence", "loaded", "neutral"),
    [
        ("The porter {} the duchess near the old harbor gate.", "betrayed", "followed"),
        ("Most sailors found the new captain rather {}.", "cruel", "quiet"),
        ("He is {}, they say.", "well-bred", "ill"),
    ],
)
def test_the_swapped_word_is_given_without_the_marks_around_it(sentence, loaded, neutral):
    both = pair(sentence.format(loaded), sentence.format(neutral), [loaded, neutral])
    assert swapped(both) == (loaded, neutral)


@pytest.mark.parametrize(
    "negative",
    [
        "The porter followed the countess near the old harbor gate.",
        "The porter followed the duchess near the old harbor gate",
        "The porter soon followed the duchess near the old harbor gate.",
        "The porter followed, the duchess near the old harbor gate.",
        "The porter  followed the duchess near the old harbor gate.",
        "The porter betrayed the duchess near the old harbor gate.",
    ],
)
def test_any_difference_but_one_word_is_no_swap(negative):
    assert swapped(pair("The porter betrayed the duchess near the old harbor gate.", negative)) is None


def test_contrast_words_are_those_that_differ_before_those_that_are_named():
    assert contrast_sides(pair("A cruel man.", "A quiet man.", ["man", "A"])) == ("cruel", "quiet")
    reversed_roles = pair("Ann paid Bob.", "Bob paid Ann.", ["Ann", "Bob"])
    assert contrast_sides(reversed_roles) == ("Ann", "Bob")
    assert contrast_sides(pair("Ann paid Bob.", "Bob paid Ann.")) is None


def test_measures_agree_with_a_count_by_hand():
    both = pair("Ann hit her dog.", "Ann walked her dog.")
    assert length_ratio(both) == 19 / 16
    assert content_overlap(both) == 2 / 3  # ann, dog of ann, walked, dog
    assert count_words("Well - he said , no.") == 4
    assert alphabetic_tokens("My brother's well-bred 2 dogs.") == 6
    assert function_words("The dog and the cat, The end.") == {"the": 3, "and": 1}


def test_the_overlap_is_zero_and_not_a_crash_without_content_words():
    assert content_overlap(pair("It was so.", "So it was.")) == 0.0


def test_faults_in_a_list_of_keywords_are_all_named(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("evil\nEvil\ntwo words\nevil\n*\n", encoding="utf-8")
    with pytest.raises(DatasetError) as caught:
        read_keywords(path)
    message = str(caught.value)
    assert "4 problems" in message
    assert f"{path}:4: 'evil' already stands in line 1" in message
    for number in (2, 3, 5):
        assert f"{path}:{number}: " in message


def test_an_empty_or_absent_list_of_keywords_is_refused(tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("# nothing\n", encoding="utf-8")
    for path in (empty, tmp_path / "absent.txt"):
        with pytest.raises(DatasetError, match=path.name):
            read_keywords(path)


def test_the_shipped_list_knows_the_inflections_of_moral_words():
    keywords = read_keywords(SHIPPED)
    assert len(keywords.words) + len(keywords.stems) >= 150
    moral = """
        betrayed betrayal traitors murderer murdered cruelty cruelly unjustly injustices dishonesty
        cheating thieves bribed bribery enslaved slavery tyrants oppressive sacred sacrilege
        blasphemous sinners disobeyed disobedience loyalty disloyal compassionate kindness torturer
        tormenting swindled fraudulent hypocrisy liberated coerced treasonous cowards virtuous
        wickedness obscene desecrated mutinous usurper liars liar's tyrant’s
    """
    assert [word for word in moral.split() if keywords.match(word) is None] == []


def test_the_shipped_list_raises_no_alarm_on_innocent_neighbors():
    keywords = read_keywords(SHIPPED)
    innocent = """
        virtual virtually heroin morale Barbara barber lustre luster Halloween tyrannosaurus atonal
        Crimea Crimean robin robot robe robust sediment single since Slavic justify adjust justice
        fairground fairly right wrong kind kindergarten kindling maize Maimonides malic mutton
        purity saddle sadness grape rapid scraped rapeseed ethnic piece pie pier honeycomb honor
        felt feline forge forged forgery's corner corrupt crimson brick bright brittle liable Liard
        theft-free evident cowbell cowherd desert deserted dessert regime deform defend defer scan
        canal inch insole obedience's subvert uniform unjointed humid human humans humane's holly
        hole wholly censor Loyola visited followed fetched employed consulted renamed pottery
        courier receipt quiet ordinary measured traveled
    """
    moral_after_all = {"forgery's", "theft-free", "obedience's", "humane's"}
    flagged = {word for word in innocent.split() if keywords.match(word)}
    assert flagged == moral_after_all


def test_no_entry_of_the_shipped_list_is_covered_by_another_or_is_a_stopword():
    keywords = read_keywords(SHIPPED)
    entries = [*keywords.words, *keywords.stems]
    assert [e for e in keywords.words if any(e.startswith(stem) for stem in keywords.stems)] == []
    assert [s for s in keywords.stems if any(s != t and s.startswith(t) for t in keywords.stems)] == []
    assert not STOPWORDS & set(entries)
    assert [word for word in STOPWORDS if keywords.match(word)] == []


@pytest.mark.parametrize(
    ("name", "fewest"), [("strong_valence_blocklist.txt", 47), ("animate_words.txt", 150)]
)
def test_the_other_shipped_lists_are_readable_and_no_stopwords_stand_in_them(name, fewest):
    listed = read_keywords(DATASETS / name)
    entries = [*listed.words, *listed.stems]
    assert len(entries) >= fewest
    assert [entry for entry in entries if any(entry != s and entry.startswith(s) for s in listed.stems)] == []
    assert [word for word in STOPWORDS if listed.match(word)] == []


def test_animate_words_are_told_from_things():
    animate = read_keywords(DATASETS / "animate_words.txt")
    people = "brother's neighbors widow Salesmen doctor families toddler spaniel sheep judge mother-in-law"
    things = """
        silver song sonar catalog pigment cowl manner kingdom parenthesis cathedral ducts personal crowded
        friendly neighborhood infantry artistic leadership doctored monkfish humane rivalry guardrail
    """
    assert [word for word in people.split() if not animate.match(word)] == []
    assert [word for word in things.split() if animate.match(word)] == []
