"""Lexical floors: against scikit-learn's own pipelines, cases known by hand, and chance."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from strataprobe.datasets.bags import Bags, word_forms
from strataprobe.datasets.floor_scores import Task, drawn_pairs, floor, floor_at_chance, pair_folds, score
from strataprobe.datasets.floors import gate, leave_group_out, measure, model_floors
from strataprobe.datasets.mirrors import contrast_balance
from strataprobe.datasets.pairs import Pair, PairsDataset, read_pairs
from strataprobe.datasets.splits import split_pairs
from strataprobe.datasets.vectors import Vectors, fit_logistic
from strataprobe.errors import DatasetError
from strataprobe.files import canonical_json

SHIPPED = Path(__file__).parents[2] / "resources" / "datasets"
SETTINGS = {"folds": 5, "bootstrap": 200, "max_iter": 1000, "characters": [1, 4]}
WORDS = [a + b for a in ("ba", "de", "ki", "lo", "mu", "ra") for b in ("nth", "rk", "sk", "ld", "mp", "st")]


def dataset(rows, name="mine"):
    """rows: (group, positive, negative, contrast)."""
    pairs = [
        Pair(id=f"p{n:03d}", group=group, positive=positive, negative=negative, contrast=contrast)
        for n, (group, positive, negative, contrast) in enumerate(rows)
    ]
    return PairsDataset(name=name, path=f"{name}.jsonl", pairs=tuple(pairs), sha256="0" * 64)


def made(pairs=30, groups=3, cues=6, seed=0, length=7):
    """Sentences of drawn words; one word is swapped, for a cue of its side that recurs among the pairs."""
    rng = np.random.default_rng(seed)
    rows = []
    for n in range(pairs):
        words = rng.choice(WORDS, length).tolist()
        place = int(rng.integers(length))
        loaded, neutral = f"good{'abcdefgh'[rng.integers(cues)]}", f"bad{'abcdefgh'[rng.integers(cues)]}"
        if rng.random() < 0.25:  # a cue on the wrong side, so that no floor is perfect
            loaded, neutral = neutral, loaded
        longer = ["indeed"] * int(rng.integers(2))
        halves = [
            " ".join([*words[:place], word, *words[place + 1 :], *more]) + "."
            for word, more in ((loaded, longer), (neutral, []))
        ]
        rows.append((f"g{n % groups}", *halves, [loaded, neutral]))
    return dataset(rows)


def coin_tossed(rng, pairs=20):
    """Which half is the positive one is decided by a coin, so nothing can be learned."""
    tossed = made(pairs, groups=1, seed=int(rng.integers(2**31))).pairs
    rows = [
        ("g", p.positive, p.negative, []) if rng.random() < 0.5 else ("g", p.negative, p.positive, [])
        for p in tossed
    ]
    return dataset(rows)


def by_hand(make, X, labels, folds):
    """Pooled accuracy of a fresh pipeline in each fold."""
    right = [make().fit(X[train], labels[train]).predict(X[test]) == labels[test] for train, test in folds]
    return float(np.concatenate(right).mean())


def words_by_hand(min_df):
    return lambda: make_pipeline(TfidfVectorizer(min_df=min_df), LogisticRegression(max_iter=1000))


def characters_by_hand(min_df):
    return lambda: make_pipeline(
        TfidfVectorizer(min_df=min_df, analyzer="char_wb", ngram_range=(1, 4)),
        LogisticRegression(max_iter=1000),
    )


def vectors_by_hand():
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=10_000, tol=1e-9))


@pytest.fixture(scope="module")
def sample():
    return made()


@pytest.fixture(scope="module")
def measured(sample):
    return measure(sample, seeds=[3, 4], settings=SETTINGS)


@pytest.fixture
def rng():
    return np.random.default_rng(12)


@pytest.mark.parametrize(("kind", "make"), [("unigrams", words_by_hand), ("characters", characters_by_hand)])
def test_cross_validated_floors_are_those_of_a_vectoriser_in_the_fold(sample, measured, kind, make):
    items = sample.items()
    texts, groups = np.array(items.texts), np.array(items.groups)
    parts = {"whole": (np.arange(len(texts)), 2, measured["whole"])} | {
        group: (np.flatnonzero(groups == group), 1, measured["groups"][group]) for group in set(groups)
    }
    for rows, min_df, found in parts.values():
        folds = GroupKFold(5).split(rows, groups=items.pairs[rows])
        expected = by_hand(make(min_df), texts[rows], items.labels[rows], folds)
        assert found[kind]["accuracy"] == expected
        assert found[kind]["floor"] == pytest.approx(max(expected, 1 - expected))
        assert found[kind]["min_df"] == min_df
        assert found[kind]["pairs"] == len(rows) // 2
    assert 0.5 < measured["whole"][kind]["accuracy"] < 1  # there is something to disagree about


@pytest.mark.parametrize(("kind", "make"), [("unigrams", words_by_hand), ("characters", characters_by_hand)])
def test_floors_of_the_own_split_and_of_transfer_are_those_of_one_pipeline(sample, measured, kind, make):
    items = sample.items()
    texts, groups = np.array(items.texts), np.array(items.groups)
    for seed in (3, 4):
        sides = [np.flatnonzero(np.isin(items.pairs, side)) for side in split_pairs(sample.groups, seed, 0.2)]
        found = measured["own_split"][str(seed)][kind]
        assert found["accuracy"] == by_hand(make(2), texts, items.labels, [sides])
        assert found["pairs"] == len(sides[1]) // 2
        assert sum(part["pairs"] for part in found["groups"].values()) == found["pairs"]
        weighted = sum(part["pairs"] * part["accuracy"] for part in found["groups"].values())
        assert weighted / found["pairs"] == pytest.approx(found["accuracy"])
    expected = {
        group: by_hand(
            make(2), texts, items.labels, [(np.flatnonzero(groups != group), np.flatnonzero(groups == group))]
        )
        for group in sorted(set(groups))
    }
    transfer = measured["transfer"][kind]
    assert {group: part["accuracy"] for group, part in transfer["groups"].items()} == expected
    assert transfer["mean_accuracy"] == pytest.approx(np.mean(list(expected.values())))


def test_length_and_embedding_floors_are_those_of_a_scaler_in_the_fold(sample, measured, rng):
    items = sample.items()
    folds = list(GroupKFold(5).split(items.texts, groups=items.pairs))
    words = np.array([len(text.split()) for text in items.texts], float)[:, None]
    expected = by_hand(vectors_by_hand, words, items.labels, folds)
    assert measured["whole"]["length"]["accuracy"] == expected

    states = rng.standard_normal((60, 8)) * 10 ** rng.uniform(-2, 2, 8) + items.labels[:, None] * 0.3
    found = model_floors(sample, words[:, 0].astype(int) + 3, states, settings=SETTINGS, seeds=[3])
    assert found["whole"]["tokens"]["accuracy"] == expected  # a shift of all lengths changes nothing
    assert found["whole"]["embedding"]["accuracy"] == by_hand(vectors_by_hand, states, items.labels, folds)
    assert found["whole"]["embedding"]["features"] == 8
    own = [np.flatnonzero(np.isin(items.pairs, side)) for side in split_pairs(sample.groups, 3, 0.2)]
    assert found["own_split"]["3"]["embedding"]["accuracy"] == by_hand(
        vectors_by_hand, states, items.labels, [own]
    )
    assert json.loads(canonical_json(found)) == found
    assert set(model_floors(sample, words, None, settings=SETTINGS)["whole"]) == {"tokens"}


@pytest.mark.parametrize(("items", "features"), [(40, 1), (40, 7), (30, 90)])
@pytest.mark.parametrize("apart", [0.2, 30.0])
def test_newton_steps_end_where_scikit_learn_ends(rng, items, features, apart):
    labels = np.where(rng.random(items) < 0.4, 1, -1)
    rows = rng.standard_normal((items, features)) + apart * labels[:, None]
    weights, bias = fit_logistic(rows, labels, 100)
    theirs = LogisticRegression(tol=1e-12, max_iter=100_000).fit(rows, labels)
    assert weights == pytest.approx(theirs.coef_[0], abs=1e-5)
    assert bias == pytest.approx(theirs.intercept_[0], abs=1e-5)


def test_numbers_that_do_not_vary_say_nothing():
    labels, pairs = np.tile([1, -1], 20), np.arange(40) // 2
    values = np.column_stack([np.full(40, 0.1), np.full(40, 1e9)])
    folds = pair_folds(pairs, np.arange(40), 5)
    task = Task("all pairs", Vectors.of(values, 40, "length"), labels, pairs, folds, 1)
    assert floor(task, settings=SETTINGS)["accuracy"] == 0.5
    informed = Vectors.of(np.column_stack([values, labels]), 40, "length")
    assert floor(Task("all pairs", informed, labels, pairs, folds, 1), settings=SETTINGS)["accuracy"] == 1


def test_a_skeleton_seen_in_training_does_not_leak():
    """Pairs that share nothing but their own skeleton: by pair nothing can be learned, by item it leaks."""
    rows = [
        ("g", f"{s} {s}x {s}y good{s}.", f"{s} {s}x {s}y bad{s}.", []) for s in (f"w{n}" for n in range(60))
    ]
    items = dataset(rows).items()
    texts = np.array(items.texts)
    leaky = by_hand(
        words_by_hand(1), texts, items.labels, KFold(5, shuffle=True, random_state=0).split(texts)
    )
    assert max(leaky, 1 - leaky) > 0.8
    found = measure(dataset(rows), seeds=[0], settings=SETTINGS)
    assert found["groups"]["g"]["unigrams"]["accuracy"] == 0.5
    assert found["groups"]["g"]["unigrams"]["decided_pairs"] == 0
    assert found["own_split"]["0"]["unigrams"]["floor"] == 0.5


def test_a_word_that_marks_the_class_gives_a_floor_of_one():
    rows = [("g", f"they {w} it kindly.", f"they {w} it cruelly.", ["kindly", "cruelly"]) for w in WORDS[:20]]
    found = measure(dataset(rows), seeds=[0], settings=SETTINGS)
    for kind in ("unigrams", "characters"):
        assert found["whole"][kind]["accuracy"] == found["whole"][kind]["floor"] == 1
        assert found["whole"][kind]["interval"] == [1, 1]
        assert found["whole"][kind]["decided_pairs"] == 20
        assert found["whole"][kind]["below_chance"] is False
        assert found["whole"][kind]["likely_cause"] is None
    assert found["whole"]["length"]["floor"] == 0.5
    # they, it, kindly, cruelly, and of the other words those in the 16 training pairs of each fold.
    assert found["whole"]["unigrams"]["features"] == 20


def test_halves_of_the_same_words_give_exactly_one_half():
    rows = [(f"g{n % 2}", f"the {w} saw him.", f"him saw the {w}.", ["the", w]) for n, w in enumerate(WORDS)]
    found = measure(dataset(rows), seeds=[0], settings=SETTINGS)
    for part in (found["whole"], *found["groups"].values(), found["own_split"]["0"]):
        assert part["unigrams"]["accuracy"] == part["unigrams"]["floor"] == 0.5
        assert part["unigrams"]["interval"] == part["unigrams"]["floor_interval"] == [0.5, 0.5]
        assert part["unigrams"]["floor_at_chance"] == 0.5
        assert part["unigrams"]["below_chance"] is False
    assert found["contrast"]["whole"] == {"words": 0, "both_sides": 0, "recurring": 0, "worst": None}


def test_mirrored_words_lie_below_chance_and_the_worst_is_named():
    """Each word once on each side: what is held out is always the side that training did not see."""
    rows = [
        ("g", f"she {a} {w}.", f"she {b} {w}.", [a, b])
        for number, w in enumerate(WORDS[:20])
        for a, b in ((f"v{number}", f"u{number}"), (f"u{number}", f"v{number}"))
    ]
    rows += [("g", "Take it home now.", "leave it home now.", ["Take", "leave"])] * 2
    rows += [("g", "leave it home now.", "take it home now.", ["leave", "take"])] * 3
    found = measure(dataset(rows), seeds=[], settings=SETTINGS)["groups"]["g"]["unigrams"]
    assert found["accuracy"] < 0.2
    assert found["floor"] == pytest.approx(1 - found["accuracy"])
    assert found["floor_interval"] == pytest.approx([1 - found["interval"][1], 1 - found["interval"][0]])
    assert found["below_chance"] is True
    assert found["likely_cause"] == (
        "mirrored contrast words: 42 of 42 stand on both sides, 'leave' most (3 positive, 2 negative)"
    )


def test_balanced_lengths_lie_below_chance_and_are_counted():
    """Longer in 15 of 30, but not in half of any fold's 6: what is trained on leans the other way."""
    longer = (4, 4, 4, 1, 2)
    rows = [
        ("g", f"{w} ran far.", f"{w} ran.", [])
        if n // 5 < longer[n % 5]
        else ("g", f"{w} ran.", f"{w} ran far.", [])
        for n, w in enumerate(WORDS[:30])
    ]
    found = measure(dataset(rows), seeds=[], settings=SETTINGS)["whole"]["length"]
    assert found["accuracy"] == pytest.approx((2 + 2 + 2 + 1 + 2) / 30)
    assert found["below_chance"] is True
    assert found["likely_cause"].startswith(
        "exact balance of forms: the positive half is longer in 15 pairs, "
        "the negative half in 15, neither in 0"
    )
    assert found["min_df"] is None
    assert found["features"] == 1


class Fixed:
    """Features that are read rightly for the first `right` items."""

    def __init__(self, right):
        self.right = right

    def fault(self, train, min_df):
        return None

    def decide(self, train, test, labels, **_):
        return np.where(test < self.right, labels[test], -labels[test]), 1


@pytest.mark.parametrize(
    ("right", "below", "hint"), [(44, True, True), (45, False, False), (20, True, False)]
)
def test_below_chance_means_far_below_or_surely_below(right, below, hint):
    labels, pairs = np.tile([1, -1], 50), np.arange(100) // 2
    task = Task("all", Fixed(right), labels, pairs, pair_folds(pairs, np.arange(100), 5), 1)
    found = floor(task, settings=SETTINGS, cause=lambda: "cause")
    assert found["accuracy"] == right / 100
    assert found["below_chance"] is below
    assert (found["likely_cause"] or "").startswith("cause") is below
    assert ("chance alone" in (found["likely_cause"] or "")) is hint
    assert floor(task, settings=SETTINGS)["likely_cause"] is None


def test_contrast_words_are_counted_by_the_side_they_stand_on_alone():
    balance = contrast_balance(
        dataset(
            [
                ("g", "We Take it.", "We leave it.", ["Take", "leave"]),
                ("g", "You keep it.", "You take it.", ["keep", "take"]),
                ("g", "Ann paid Bob.", "Bob paid Ann.", ["Ann", "Bob"]),
                ("g", "They keep on.", "They gave on.", []),
                ("g", "Gave him a hat.", "Sold him a hat.", []),
            ]
        ).pairs
    )
    assert balance == {
        "words": 5,
        "both_sides": 2,
        "recurring": 3,
        "worst": {"word": "gave", "positive": 1, "negative": 1},
    }
    assert word_forms("A cat's 7th Äpfel, naïve!") == {"cat", "7th", "äpfel", "naïve"}


def test_coin_tossed_labels_give_one_half_and_the_floor_that_chance_gives():
    rng, found = np.random.default_rng(5), []
    for _ in range(40):
        items = coin_tossed(rng).items()
        folds = pair_folds(items.pairs, np.arange(40), 5)
        task = Task("tossed", Bags.words(items.texts), items.labels, items.pairs, folds, 1)
        found.append(floor(task, settings=SETTINGS | {"bootstrap": 1}))
    accuracy, floors, expected = (
        np.array([one[key] for one in found]) for key in ("accuracy", "floor", "floor_at_chance")
    )
    assert accuracy.mean() == pytest.approx(0.5, abs=4 * accuracy.std() / np.sqrt(40))
    assert floors.mean() == pytest.approx(expected.mean(), abs=4 * (floors - expected).std() / np.sqrt(40))
    assert expected.mean() > 0.55  # the larger of two, so chance is not one half


@pytest.mark.parametrize(("decided", "pairs"), [(0, 4), (1, 1), (2, 5), (3, 3), (5, 9), (8, 8)])
def test_the_floor_at_chance_is_that_of_all_tosses(decided, pairs):
    tosses = [sum(signs) / (2 * pairs) for signs in itertools.product([-1, 1], repeat=decided)]
    assert floor_at_chance(decided, pairs) == pytest.approx(0.5 + np.mean(np.abs(tosses)))


def test_the_floor_at_chance_of_many_pairs_is_the_normal_s():
    assert floor_at_chance(5000, 5000) == pytest.approx(0.5 + np.sqrt(2 / np.pi / 5000) / 2, rel=1e-3)


def test_the_interval_is_that_of_a_loop_over_replicates(rng):
    pairs = np.repeat(rng.permutation(25), 2)
    correct = rng.random(50) < 0.6
    found = score(correct, pairs, replicates=300, name="part")
    drawn = drawn_pairs(25, 300, "part")
    assert (drawn.sum(axis=1) == 25).all()
    assert not np.array_equal(drawn, drawn_pairs(25, 300, "another part"))
    replicates = []
    for counts in drawn:
        sample = [correct[pairs == pair] for pair in range(25) for _ in range(int(counts[pair]))]
        replicates.append(np.concatenate(sample).mean())
    assert found["interval"] == pytest.approx(list(np.percentile(replicates, [2.5, 97.5])))
    assert found["accuracy"] == correct.mean()
    per_pair = [correct[pairs == pair].sum() for pair in range(25)]
    assert found["decided_pairs"] == sum(right != 1 for right in per_pair)


def test_a_given_orientation_is_kept(rng):
    correct = np.repeat([True, True, False], 2)
    found = score(correct, np.arange(6) // 2, replicates=50, name="x", turned=True)
    assert found["floor"] == pytest.approx(1 / 3)
    assert found["floor_interval"] == pytest.approx([1 - found["interval"][1], 1 - found["interval"][0]])
    assert score(correct, np.arange(6) // 2, replicates=0, name="x")["interval"] == [None, None]
    assert score(~correct, np.arange(6) // 2, replicates=0, name="x")["floor_interval"] == [None, None]


def test_a_group_s_floors_do_not_depend_on_other_groups(sample, measured):
    alone = dataset(
        [(p.group, p.positive, p.negative, p.contrast) for p in sample.pairs if p.group == "g1"], name="alone"
    )
    found = measure(alone, seeds=[], settings=SETTINGS)
    assert found["groups"]["g1"] == measured["groups"]["g1"]
    assert found["contrast"]["groups"]["g1"] == measured["contrast"]["groups"]["g1"]
    assert found["transfer"] is None


def test_results_are_json_and_the_same_again(sample, measured):
    assert json.loads(canonical_json(measured)) == measured
    assert canonical_json(measure(sample, seeds=[3, 4], settings=SETTINGS)) == canonical_json(measured)


def test_leave_group_out_alone_is_the_transfer_of_measure(sample, measured):
    found = leave_group_out(sample, Bags.words(sample.items().texts), settings=SETTINGS)
    assert found == measured["transfer"]["unigrams"]


def test_transfer_of_one_group_is_refused():
    one = made(groups=1)
    with pytest.raises(DatasetError, match=r"dataset 'mine': transfer needs at least 2 groups.*'g0'"):
        leave_group_out(one, Bags.words(one.items().texts), settings=SETTINGS)


def test_groups_with_fewer_pairs_than_folds_are_all_named():
    rows = [(p.group, p.positive, p.negative, p.contrast) for p in made(20, 2).pairs]
    small = [
        ("one", "only this.", "only that.", []),
        *[("four", f"{w} this.", f"{w} that.", []) for w in WORDS[:4]],
    ]
    with pytest.raises(DatasetError) as caught:
        measure(dataset(rows + small), seeds=[0], settings=SETTINGS)
    assert str(caught.value).splitlines() == [
        "dataset 'mine': no lexical floor: 2 problems",
        "  group 'one' has 1 pair, and 5 folds by pair need at least 5",
        "  group 'four' has 4 pairs, and 5 folds by pair need at least 5",
    ]


def test_an_empty_vocabulary_names_the_part_and_what_would_help():
    """Without spaces every sentence is one word, which stands in one sentence only."""
    rows = [("甲", f"他每天善待{chr(0x4E00 + n)}", f"他每天虐待{chr(0x4E00 + n)}", []) for n in range(12)]
    with pytest.raises(DatasetError) as caught:
        measure(dataset(rows, "chinese"), seeds=[7], settings=SETTINGS)
    lines = str(caught.value).splitlines()
    assert lines[0] == "dataset 'chinese': no lexical floor: 2 problems"
    assert lines[1].startswith(
        "  all pairs: the vocabulary is empty: no word of two letters or more stands in"
    )
    assert "2 of the" in lines[1]
    assert "spaces put between its words" in lines[1]
    assert lines[2].startswith("  test pairs of seed 7: the vocabulary is empty")


def test_text_without_any_word_has_an_empty_vocabulary_in_every_part():
    rows = [("g", f"{n} !", f"{n} ?", []) for n in range(8)]
    with pytest.raises(DatasetError) as caught:
        measure(dataset(rows), seeds=[], settings=SETTINGS)
    assert "group 'g': the vocabulary is empty: no word of two letters or more stands in any" in str(
        caught.value
    )


def test_one_class_is_refused():
    pairs = np.arange(20) // 2
    features = Vectors.of(np.arange(20), 20, "length")
    task = Task("all pairs", features, np.ones(20), pairs, pair_folds(pairs, np.arange(20), 5), 1)
    with pytest.raises(DatasetError, match="all pairs: only one class"):
        floor(task, settings=SETTINGS)


@pytest.mark.parametrize(
    ("counts", "states", "said"),
    [
        (
            np.ones(59),
            None,
            r"length in tokens: an array of shape \(59, 1\) is not one row for each of the 60",
        ),
        (np.ones(60), np.ones((60, 0)), "states of the embedding layer: an array of shape"),
        (np.ones(60), np.ones((2, 60, 3)), "states of the embedding layer: an array of shape"),
        (np.ones(60), np.full((60, 3), np.nan), "embedding layer: 60 of 60 sentences have numbers"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(sample, counts, states, said):
    with pytest.raises(DatasetError, match=said):
        model_floors(sample, counts, states, settings=SETTINGS)


def test_the_gate_wants_ten_points_and_no_rounding_decides():
    assert gate(0.73, 0.63)["passed"] is True
    assert gate(0.7299, 0.63)["passed"] is False
    assert gate(0.69, 0.63, margin=0.05)["passed"] is True
    assert gate(0.858, 0.63) == {
        "probe_accuracy": 0.858,
        "floor": 0.63,
        "margin": 0.10,
        "lift": pytest.approx(0.228),
        "passed": True,
    }


def test_importing_the_floors_stays_light():
    code = (
        "import sys, strataprobe.datasets.floors;"
        "print([m for m in ('torch', 'sklearn', 'scipy', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_the_shipped_compositional_set_has_the_floor_its_card_says():
    path = SHIPPED / "compositional.jsonl"
    if not path.exists():
        pytest.skip("resources/datasets/compositional.jsonl is not there yet")
    found = measure(read_pairs(path, "compositional"), seeds=[42], settings=SETTINGS)
    assert found["whole"]["unigrams"]["floor"] == pytest.approx(0.515, abs=0.006)
    roles = found["groups"]["role_reversal"]["unigrams"]
    assert (roles["accuracy"], roles["floor"], roles["decided_pairs"]) == (0.5, 0.5, 0)
    assert found["transfer"]["unigrams"]["groups"]["role_reversal"]["accuracy"] == 0.5
    assert found["transfer"]["unigrams"]["mean_accuracy"] < 0.55
