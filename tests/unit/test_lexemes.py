"""Splits by word: what words have in common, and that no test word is a training word."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strataprobe.datasets.lexemes import components, keyed_draws, lexeme, split_by_lexeme
from strataprobe.datasets.pairs import read_pairs
from strataprobe.errors import DatasetError

DATASETS = Path(__file__).parents[2] / "resources/datasets"
WORDS = [f"{a}{b}{c}" for a in "bdk" for b in "aou" for c in ("rt", "lm", "nk", "mp")]
CONTRAST = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3)


def lexemes(contrast, pairs):
    return {lexeme(word) for pair in pairs for word in contrast[pair]}


def sizes_of_test(contrast):
    """Numbers of test pairs that some choice of whole sets has, neither side empty."""
    totals = {0}
    for size in np.bincount(components(contrast)).tolist():
        totals |= {total + size for total in totals}
    return totals - {0, len(contrast)}


@pytest.mark.parametrize(
    "family",
    [
        "kick kicks kicked kicking Kicked",
        "hop hops hopped hopping",
        "love loves loved loving",
        "carry carries carried carrying",
        "die dies died dying",
        "watch watches watched watching",
        "kiss kisses kissed kissing",
        "agree agrees agreed agreeing",
        "feed feeds feeding",
        "need needs needed needing",
        "go goes going",
        "lamp lamps lamp's lamp’s",
        "bus buses",
        "process processes processed processing",
        "Straße STRASSE",
    ],
)
def test_regular_inflections_meet(family):
    assert len({lexeme(word) for word in family.split()}) == 1


@pytest.mark.parametrize(
    "words",
    [
        "steal stole",
        "kick lick",
        "sing song sting string",
        "bed red shed sled",
        "is his this us",
        "was has",
        "cruel cruelty",
        "kind kinder",
        "pass past",
        "bring brings ring",
        "猫 犬",
        "für fürs",
    ],
)
def test_other_words_stay_apart(words):
    keys = {lexeme(word) for word in words.split()}
    assert len(keys) >= len(words.split()) - ("brings" in words)


def test_a_phrase_is_its_words_in_order():
    assert lexeme("Turned  Away") == lexeme("turns away") != lexeme("away turned")


@settings(max_examples=150, deadline=None)
@given(
    st.lists(CONTRAST, min_size=2, max_size=60), st.integers(0, 2**40), st.floats(0.1, 0.9), st.integers(1, 4)
)
def test_no_lexeme_of_a_test_pair_is_one_of_a_training_pair(contrast, seed, fraction, groups):
    names = [f"g{pair % groups}" for pair in range(len(contrast))]
    wanted = fraction * len(contrast)
    possible = [total for total in sizes_of_test(contrast) if abs(total - wanted) <= max(1, 0.25 * wanted)]
    if not possible:
        with pytest.raises(DatasetError, match="cannot be parted"):
            split_by_lexeme(contrast, names, seed, fraction)
        return
    train, test = split_by_lexeme(contrast, names, seed, fraction)
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(len(contrast)))
    assert len(test) in possible
    assert lexemes(contrast, train).isdisjoint(lexemes(contrast, test))
    again = split_by_lexeme(contrast, names, seed, fraction)
    assert [side.tolist() for side in again] == [train.tolist(), test.tolist()]


@settings(max_examples=60, deadline=None)
@given(st.lists(CONTRAST, min_size=1, max_size=40))
def test_sets_are_the_connected_components_of_scipy(contrast):
    from scipy.sparse.csgraph import connected_components

    shared = [
        [not lexemes(contrast, [i]).isdisjoint(lexemes(contrast, [j])) for j in range(len(contrast))]
        for i in range(len(contrast))
    ]
    _, theirs = connected_components(np.array(shared), directed=False)
    ours = components(contrast)
    assert np.array_equal(ours[:, None] == ours[None], theirs[:, None] == theirs[None])
    assert set(ours.tolist()) == set(range(ours.max() + 1))


def test_the_order_of_the_file_does_not_matter():
    rng = np.random.default_rng(0)
    contrast = [[f"w{rng.integers(90)}", f"v{rng.integers(90)}"] for _ in range(100)]
    groups = [f"g{pair % 3}" for pair in range(100)]
    _, test = split_by_lexeme(contrast, groups, 5, 0.2)
    order = rng.permutation(100)
    _, shuffled = split_by_lexeme([contrast[i] for i in order], [groups[i] for i in order], 5, 0.2)
    assert set(order[shuffled].tolist()) == set(test.tolist())


def test_every_pair_is_tested_about_equally_often_over_seeds():
    contrast = [[f"only{letter}", f"once{letter}"] for letter in map(chr, range(97, 117))]
    tested = np.zeros(20)
    for seed in range(400):
        tested[split_by_lexeme(contrast, ["a"] * 20, seed, 0.25)[1]] += 1
    assert tested.sum() == 400 * 5
    # Binomial(400, 1/4): sd 8.7, so five of them.
    assert np.abs(tested - 100).max() < 44


def test_pairs_with_words_of_their_own_are_split_as_evenly_as_by_group():
    groups = [f"g{pair % 6}" for pair in range(240)]
    contrast = [[f"a{pair}", f"b{pair}"] for pair in range(240)]
    _, test = split_by_lexeme(contrast, groups, 42, 0.2)
    assert {name: [groups[i] for i in test].count(name) for name in set(groups)} == dict.fromkeys(
        set(groups), 8
    )


@pytest.mark.parametrize(
    ("name", "fewest"), [("moral", 6), ("sentiment", 2), ("syntax", 0), ("compositional", 8)]
)
def test_the_shipped_sets_can_be_split_by_lexeme(name, fewest):
    dataset = read_pairs(DATASETS / f"{name}.jsonl", name)
    contrast = [pair.contrast for pair in dataset.pairs]
    for seed in (42, 43, 44, 45):
        train, test = split_by_lexeme(contrast, dataset.groups, seed, 0.2)
        assert lexemes(contrast, train).isdisjoint(lexemes(contrast, test))
        assert abs(len(test) - 0.2 * len(contrast)) <= 2
        counts = [[dataset.groups[i] for i in test].count(group) for group in set(dataset.groups)]
        assert min(counts) >= fewest


def test_a_set_too_large_to_part_is_refused_with_its_words():
    contrast = [["is", f"w{i}"] for i in range(18)] + [["lamp", "desk"], ["oak", "elm"]]
    with pytest.raises(DatasetError) as caught:
        split_by_lexeme(contrast, ["a"] * 20, 0, 0.5)
    assert "tie 18 of 20 pairs" in str(caught.value)
    assert "most used: 'is'" in str(caught.value)
    assert "tests 2 pairs, 10 are wanted" in str(caught.value)
    # Where it fits on the training side, it may stay there.
    train, test = split_by_lexeme(contrast, ["a"] * 20, 0, 0.1)
    assert (len(train), test.tolist()) == (18, [18, 19])


def test_pairs_without_contrast_words_are_all_named():
    with pytest.raises(DatasetError) as caught:
        split_by_lexeme([["a"], [], ["b"], []], ["g"] * 4, 0, 0.5, ids=["p1", "p2", "p3", "p4"])
    assert "none in p2, p4" in str(caught.value)
    with pytest.raises(DatasetError, match="no pair has any"):
        split_by_lexeme([[], []], ["g"] * 2, 0, 0.5)


def test_all_faults_of_the_arguments_are_named_at_once():
    with pytest.raises(DatasetError) as caught:
        split_by_lexeme([["a"]], [], -1, 1.0)
    for fault in ("no pairs", "for 1 pairs, groups for 0", "seed -1", "test_fraction 1.0"):
        assert fault in str(caught.value)


def test_draws_depend_on_seed_and_name_and_not_on_how_many():
    assert np.array_equal(keyed_draws("a", 1, 3), keyed_draws("a", 1, 9)[:3])
    different = {tuple(keyed_draws(name, seed, 2).tolist()) for name in "ab" for seed in range(3)}
    assert len(different) == 6


def test_importing_stays_light():
    code = (
        "import sys, strataprobe.datasets.lexemes;"
        "print([m for m in ('pydantic', 'torch', 'sklearn', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
