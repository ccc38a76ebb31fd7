"""Splits: by pair, stratified, and as independent of everything else as they can be."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from strataprobe.datasets.splits import split_pairs
from strataprobe.errors import DatasetError

NAMES = [f"group {letter}" for letter in "abcdefg"]
# Groups of at least 10 pairs can always be divided between 1/10 and 9/10.
SIZES = st.lists(st.integers(10, 60), min_size=1, max_size=6)
SEEDS = st.integers(0, 2**40)
FRACTIONS = st.floats(0.1, 0.9)


def interleaved(sizes, order):
    groups = [NAMES[i] for i, size in enumerate(sizes) for _ in range(size)]
    return [groups[i] for i in np.random.default_rng(order).permutation(len(groups))]


def own_test_pairs(groups, test, group):
    """Which pairs of `group` are tested, counted among its own pairs only."""
    own = [index for index, name in enumerate(groups) if name == group]
    return [place for place, index in enumerate(own) if index in set(test.tolist())]


@settings(max_examples=60, deadline=None)
@given(SIZES, SEEDS, FRACTIONS, st.integers(0, 99))
def test_every_pair_is_on_exactly_one_side_and_every_group_on_both(sizes, seed, fraction, order):
    groups = interleaved(sizes, order)
    train, test = split_pairs(groups, seed, fraction)
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(len(groups)))
    assert train.tolist() == sorted(train.tolist())
    assert test.tolist() == sorted(test.tolist())
    assert len(test) == round(fraction * len(groups))
    assert {groups[i] for i in train} == set(groups) == {groups[i] for i in test}


@settings(max_examples=60, deadline=None)
@given(SIZES, SEEDS, FRACTIONS, st.integers(0, 99))
def test_no_group_is_more_than_one_pair_off_its_share(sizes, seed, fraction, order):
    groups = interleaved(sizes, order)
    _, test = split_pairs(groups, seed, fraction)
    tested = [groups[i] for i in test]
    for name in set(groups):
        assert abs(tested.count(name) - len(test) * groups.count(name) / len(groups)) < 1


@settings(max_examples=60, deadline=None)
@given(SIZES, SEEDS, st.integers(0, 99), st.integers(0, 99))
def test_order_of_other_groups_does_not_move_a_groups_own_pairs(sizes, seed, order, other_order):
    groups, shuffled = interleaved(sizes, order), interleaved(sizes, other_order)
    _, test = split_pairs(groups, seed, 0.2)
    _, test_shuffled = split_pairs(shuffled, seed, 0.2)
    for name in set(groups):
        assert own_test_pairs(groups, test, name) == own_test_pairs(shuffled, test_shuffled, name)


@settings(max_examples=60, deadline=None)
@given(SIZES, st.integers(10, 60), SEEDS, FRACTIONS)
def test_a_new_group_changes_an_old_ones_split_by_at_most_one_pair(sizes, new, seed, fraction):
    groups = interleaved(sizes, 0)
    larger = [NAMES[6]] * new + groups
    _, test = split_pairs(groups, seed, fraction)
    _, test_larger = split_pairs(larger, seed, fraction)
    for name in set(groups):
        before = set(own_test_pairs(groups, test, name))
        after = set(own_test_pairs(larger, test_larger, name))
        # One is inside the other: the pairs drawn are the same, only how many of them may differ.
        assert before <= after or after <= before
        assert len(before ^ after) <= 1


@settings(max_examples=40, deadline=None)
@given(st.integers(10, 60), st.integers(1, 10), SEEDS)
def test_appended_pairs_take_no_more_places_than_they_are(size, appended, seed):
    _, test = split_pairs(["a"] * size, seed, 0.3)
    _, longer = split_pairs(["a"] * (size + appended), seed, 0.3)
    kept = {i for i in longer.tolist() if i < size}
    assert kept <= set(test.tolist()) or set(test.tolist()) <= kept


@settings(max_examples=60, deadline=None)
@given(SIZES, SEEDS, st.sampled_from([0.1, 0.2, 0.25, 0.5]), st.integers(0, 99))
def test_group_counts_are_those_of_scikit_learn(sizes, seed, fraction, order):
    from sklearn.model_selection import StratifiedShuffleSplit

    groups = interleaved(sizes, order)
    total = round(fraction * len(groups))
    remainders = [total * size % len(groups) for size in sizes]
    # Among groups with the same remainder scikit-learn draws lots, as we do, but other ones.
    assume(len({r for r in remainders if r}) == sum(r > 0 for r in remainders))
    theirs = StratifiedShuffleSplit(n_splits=1, test_size=total, random_state=0)
    _, expected = next(theirs.split(groups, groups))
    _, test = split_pairs(groups, seed, fraction)
    assert sorted(groups[i] for i in test) == sorted(groups[i] for i in expected)


def test_the_standard_set_is_split_192_to_48_with_8_of_each_foundation():
    groups = [name for name in NAMES[:6] for _ in range(40)]
    train, test = split_pairs(groups, 42, 0.2)
    assert (len(train), len(test)) == (192, 48)
    assert {name: [groups[i] for i in test].count(name) for name in NAMES[:6]} == dict.fromkeys(NAMES[:6], 8)


def test_seeds_and_groups_draw_independently():
    groups = [name for name in NAMES[:2] for _ in range(200)]
    splits = [split_pairs(groups, seed, 0.5)[1] for seed in range(4)]
    inside = [set(test[test < 200].tolist()) for test in splits]
    for i in range(4):
        for j in range(i):
            # Two independent halves of 200 share 50 +- 3.5; 30 to 70 is more than five sd.
            assert 30 < len(inside[i] & inside[j]) < 70
    twin = {i - 200 for i in splits[0].tolist() if i >= 200}
    assert 30 < len(inside[0] & twin) < 70


def test_every_pair_is_tested_equally_often_over_seeds():
    tested = np.zeros(20)
    for seed in range(1000):
        tested[split_pairs(["a"] * 20, seed, 0.25)[1]] += 1
    # Binomial(1000, 1/4): sd 13.7, so five of them.
    assert np.abs(tested - 250).max() < 69


def test_ties_between_groups_do_not_always_go_to_the_same_one():
    groups = ["a"] * 6 + ["b"] * 6
    larger = {tuple(np.bincount([i // 6 for i in split_pairs(groups, seed, 0.25)[1]])) for seed in range(40)}
    assert larger <= {(1, 2), (2, 1)}
    assert len(larger) == 2


def test_the_split_is_the_same_in_another_process_with_another_hash_seed():
    code = (
        "from strataprobe.datasets.splits import split_pairs;"
        "print(split_pairs(['b', 'a', 'ä'] * 9, 7, 0.2)[1].tolist())"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert printed == {f"{split_pairs(['b', 'a', 'ä'] * 9, 7, 0.2)[1].tolist()}\n"}


def test_importing_the_splits_stays_light():
    code = (
        "import sys, strataprobe.datasets.splits;"
        "print([m for m in ('pydantic', 'torch', 'sklearn', 'scipy', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_groups_too_small_are_all_named_with_their_counts():
    groups = ["large"] * 40 + ["one", "sole"] + ["five"] * 5
    with pytest.raises(DatasetError) as caught:
        split_pairs(groups, 0, 0.2)
    lines = str(caught.value).splitlines()
    assert lines[0] == "the pairs cannot be split: 2 problems"
    assert lines[1].startswith("  group 'one' has too few pairs: 1, of which 1 would be train and 0 test")
    assert lines[2].startswith("  group 'sole' has too few pairs: 1, of which 1 would be train and 0 test")
    assert "5 pairs a group are enough at 0.2" in lines[1]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(5, 9), min_size=1, max_size=7), st.integers(5, 200), SEEDS)
def test_the_group_size_the_error_calls_enough_is_enough(sizes, large, seed):
    groups = [NAMES[i] for i, size in enumerate(sizes) for _ in range(size)] + ["large"] * large
    for fraction in (0.2, 0.8):
        train, test = split_pairs(groups, seed, fraction)
        assert {groups[i] for i in train} == {groups[i] for i in test}


def test_arguments_out_of_range_are_named_together():
    with pytest.raises(DatasetError) as caught:
        split_pairs([], -1, 1.0)
    message = str(caught.value)
    assert "3 problems" in message
    for part in ("no pairs", "seed -1", "test_fraction 1.0"):
        assert part in message


def test_a_fraction_that_is_not_a_number_is_refused():
    with pytest.raises(DatasetError, match="test_fraction nan"):
        split_pairs(["a"] * 10, 0, float("nan"))
