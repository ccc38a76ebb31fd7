"""Quality gates: each one fails on the fault it is there for, and on nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest

from strataprobe.datasets.pairs import Pair, PairsDataset
from strataprobe.datasets.quality import (
    STOPWORDS,
    MoralGates,
    check_moral_pairs,
    content_overlap,
    count_words,
    length_ratio,
    read_keywords,
    swapped,
)
from strataprobe.errors import DatasetError

SHIPPED = Path(__file__).parents[2] / "resources" / "datasets" / "moral_keywords.txt"

SENTENCES = [
    ("The porter {} the duchess near the old harbor gate.", "betrayed", "followed"),
    ("After lunch, Kofi {} a parcel from the warehouse.", "stole", "fetched"),
    ("Most sailors found the new captain rather {}.", "cruel", "quiet"),
    ("We {} our cousin in Lima last summer.", "nursed", "called"),
]
GATES = MoralGates(distinct_words=2)


def make(number, group, sentence, loaded, neutral):
    return Pair(
        id=f"{group}{number}",
        positive=sentence.format(loaded),
        negative=sentence.format(neutral),
        group=group,
        contrast=[loaded, neutral],
    )


@pytest.fixture
def good():
    return [make(n, "ab"[n % 2], *row) for n, row in enumerate(SENTENCES)]


@pytest.fixture
def keywords(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("# a remark\nbetray*  # with another\n\nevil\n", encoding="utf-8")
    return path


def check(pairs, keywords, gates=GATES):
    dataset = PairsDataset(name="mine", path="mine.jsonl", pairs=tuple(pairs), sha256="0" * 64)
    return {gate.name: gate for gate in check_moral_pairs(dataset, keywords, gates)}


def failed(pairs, keywords, gates=GATES):
    return {name: gate for name, gate in check(pairs, keywords, gates).items() if not gate.passed}


def changed(pairs, index, **fields):
    return [p.model_copy(update=fields) if i == index else p for i, p in enumerate(pairs)]


def test_a_sound_set_passes_every_gate(good, keywords):
    assert failed(good, keywords) == {}
    assert len(check(good, keywords)) == 12


def test_a_half_much_longer_than_the_other_is_found(good, keywords):
    long = "Porters said it, well, {} and so it was."
    pairs = changed(good, 0, positive=long.format("x" * 40), negative=long.format("no"))
    gate = failed(pairs, keywords)["length_ratio_at_most"]
    assert gate.worst == ["a0: 1.95"]
    assert gate.value == pytest.approx(78 / 40)


def test_sentences_too_short_or_too_long_are_found_by_side(good, keywords):
    pairs = changed(good, 1, negative="Kofi fetched - a parcel.")
    pairs = changed(pairs, 2, positive="word " * 17)
    found = failed(pairs, keywords)
    assert found["words_at_least"].worst == ["b1:negative: 4"]
    assert found["words_at_most"].worst == ["a2:positive: 17"]


def test_a_pair_that_shares_too_little_content_is_found(good, keywords):
    # Content words: porter, betrayed, duchess | porter, met, duke: 1 of 3 is shared.
    pairs = changed(
        good, 0, positive="The porter betrayed the duchess then.", negative="The porter met the duke then."
    )
    assert failed(pairs, keywords)["content_overlap_at_least"].worst == ["a0: 0.333"]


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
def test_any_difference_but_one_swapped_word_is_found(good, keywords, negative):
    gate = failed(changed(good, 0, negative=negative), keywords)["pairs_not_differing_in_one_word_at_most"]
    assert gate.value == 1
    assert gate.worst[0].startswith("a0: ")


def test_the_swapped_word_is_given_without_the_marks_around_it(good):
    assert [swapped(p) for p in good] == [(loaded, neutral) for _, loaded, neutral in SENTENCES]
    assert swapped(make(0, "a", "He is {}, they say.", "well-bred", "ill")) == ("well-bred", "ill")


def test_contrast_words_that_do_not_stand_for_the_difference_are_found(good, keywords):
    for wrong in (["followed", "betrayed"], ["betrayed"], []):
        found = failed(changed(good, 0, contrast=wrong), keywords)
        assert list(found) == ["contrast_not_the_words_that_differ_at_most"]


def test_a_moral_word_anywhere_on_the_neutral_side_is_found_and_named(good, keywords):
    sentence = "The porter {} the betrayer's sister, an Evil one."
    found = failed([make(0, "a", sentence, "slew", "met"), *good[1:]], keywords)
    assert found["moral_keywords_on_the_neutral_side_at_most"].worst == [
        "a0: 'betrayer's' (betray*)",
        "a0: 'Evil' (evil)",
    ]
    assert list(found) == ["moral_keywords_on_the_neutral_side_at_most"]


def test_a_sentence_used_again_on_either_side_is_found(good, keywords):
    pairs = changed(good, 2, negative=good[0].positive.upper())
    assert failed(pairs, keywords)["repeated_sentences_at_most"].worst == [
        f"a2:negative is a0:positive: '{good[0].positive.upper()}'"
    ]


def test_a_word_loaded_in_one_pair_and_neutral_in_another_is_found(good, keywords):
    pairs = [*good[:3], make(3, "b", SENTENCES[3][0], "nursed", "stole")]
    assert failed(pairs, keywords)["contrast_words_on_both_sides_at_most"].worst == [
        "'stole' is loaded in b1 and neutral in b3"
    ]


def test_uneven_groups_are_found(good, keywords):
    gate = failed(good[:3], keywords, replace(GATES, distinct_words=1))["group_balance_at_least"]
    assert gate.value == 0.5
    assert gate.worst == ["b (1 pairs): 0.5"]


def test_too_few_different_words_are_found_per_group_and_side(good, keywords):
    pairs = [*good[:3], make(3, "b", SENTENCES[3][0], "nursed", "FETCHED")]
    assert failed(pairs, keywords)["distinct_contrast_words_at_least"].worst == ["b negative: 1"]


def test_an_opening_used_three_times_is_found(keywords):
    rows = [
        (f"The tall porter who {{}} him came from town number {n}.", a, b)
        for n, (a, b) in enumerate(
            [("hurt", "saw"), ("beat", "met"), ("fooled", "joined"), ("mocked", "knew")]
        )
    ]
    pairs = [make(n, "ab"[n % 2], *row) for n, row in enumerate(rows)]
    gate = failed(pairs, keywords)["opening_uses_at_most"]
    assert gate.value == 4
    assert gate.worst == ["'the tall porter who': 4"]


def test_thresholds_come_from_the_argument(good, keywords):
    strict = MoralGates(
        length_ratio=1.0, fewest_words=9, most_words=7, content_overlap=0.99, distinct_words=3, opening_uses=0
    )
    assert set(failed(good, keywords, strict)) == {
        "length_ratio_at_most",
        "words_at_least",
        "words_at_most",
        "content_overlap_at_least",
        "distinct_contrast_words_at_least",
        "opening_uses_at_most",
    }


def test_a_gate_reads_as_one_line(good, keywords):
    gate = check(good[:3], keywords)["group_balance_at_least"]
    assert str(gate) == "group_balance_at_least 1: failed with 0.5: b (1 pairs): 0.5"


def test_a_dataset_without_pairs_is_refused(keywords):
    with pytest.raises(DatasetError, match="'mine' has no pairs"):
        check([], keywords)


def test_measures_agree_with_a_count_by_hand():
    pair = Pair(id="x", positive="Ann hit her dog.", negative="Ann walked her dog.", group="g")
    assert length_ratio(pair) == 19 / 16
    assert content_overlap(pair) == 2 / 3  # ann, dog of ann, walked, dog
    assert count_words("Well - he said , no.") == 4


def test_the_overlap_is_zero_and_not_a_crash_without_content_words():
    assert content_overlap(Pair(id="x", positive="It was so.", negative="So it was.", group="g")) == 0.0


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
