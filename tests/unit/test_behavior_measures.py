"""Measures of behaviour: accuracy, orders, bias, pairs, PMI, by hand and against scikit-learn and scipy."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score

from strataprobe import behavior
from strataprobe.behavior.measures import both_right, detection, measures, variants
from strataprobe.datasets.answers import margins
from strataprobe.errors import StrataprobeError
from tests import control_cases as cases

OBJECT, SUBJECT = "object_control", "subject_control"


def described(languages=("en", "zh"), pairs=4):
    """Items in minimal pairs: subject control (gold a) and object control (gold b) in turn."""
    count = 2 * pairs * len(languages)
    return {
        "ids": [f"item {i}" for i in range(count)],
        "languages": [language for language in languages for _ in range(2 * pairs)],
        "control_types": [SUBJECT, OBJECT] * (count // 2),
        "item_groups": [str(i) for i in range(count)],
        "pairs": [str(i // 2 % pairs) for i in range(count)],
        "verbs": ["said"] * count,
        "gold": ["a", "b"] * (count // 2),
    }


def scores_of(answers):
    """(items, 2) scores of a responder: "a", "b", "=" for a tie, "." for no answer."""
    wide = {"a": (0.0, -1.0), "b": (-1.0, 0.0), "=": (-2.0, -2.0), ".": (np.nan, np.nan)}
    return np.array([wide[one] for one in answers])


@pytest.fixture
def random_scores():
    return np.random.default_rng(0).normal(size=(16, 2))


def test_accuracy_by_split_is_scikit_learns(random_scores):
    items = described()
    correct = behavior.written(margins(random_scores, items["gold"]))
    chosen = np.where(random_scores[:, 0] > random_scores[:, 1], "a", "b")
    found = behavior.by_split(correct, behavior.splits(items))
    languages, types, gold = (np.array(items[key]) for key in ("languages", "control_types", "gold"))
    assert list(found) == [
        "all", "en", "zh", OBJECT, SUBJECT,
        f"en:{OBJECT}", f"en:{SUBJECT}", f"zh:{OBJECT}", f"zh:{SUBJECT}",
    ]  # fmt: skip
    for name, value in found.items():
        mask = np.array(
            [
                name in ("all", lang, kind, f"{lang}:{kind}")
                for lang, kind in zip(languages, types, strict=True)
            ]
        )
        assert value == pytest.approx(accuracy_score(gold[mask], chosen[mask]))


def test_a_tie_is_wrong_for_either_candidate_and_counted():
    items = described(("en",), 1)
    found = measures({"qa": scores_of("==")}, items)["qa"]
    assert (found["correct"], found["ties"], found["accuracy"]["all"]) == ("00", 2, 0.0)


def test_what_has_no_answer_is_left_out_of_the_share():
    assert behavior.accuracy("1.0.1") == pytest.approx(2 / 3)
    assert behavior.accuracy("1.0.1", np.array([1, 1, 1, 1, 0], bool)) == pytest.approx(1 / 2)
    assert behavior.accuracy("..") is None
    assert behavior.accuracy("10", np.zeros(2, bool)) is None
    with pytest.raises(StrataprobeError, match=r"\['x'\]"):
        behavior.accuracy("1x")


def test_who_always_answers_with_the_object_is_half_right_and_knows_nothing():
    items = described()
    found = measures({"qa": scores_of("b" * 16), "paraphrase": scores_of("a" * 16)}, items)
    assert found["qa"]["accuracy"][OBJECT] == 1.0
    assert found["qa"]["accuracy"][SUBJECT] == 0.0
    assert found["mean_behavior"]["accuracy"]["all"] == 0.5
    for task, sign in (("qa", -1), ("paraphrase", 1)):
        assert found["d_prime"][task]["all"] == pytest.approx(0)
        assert found["both_right"][task]["all"] == 0.0
        # 8 of 8 hits and 8 of 8 false alarms, or none of either.
        assert found["criterion"][task]["all"] == pytest.approx(sign * stats.norm.ppf(8.5 / 9))
    assert set(found["d_prime"]["qa"]) == {"all", "en", "zh"}  # one type alone has no d'


def test_d_prime_is_the_quantile_difference_of_log_linear_rates():
    types = [OBJECT] * 10 + [SUBJECT] * 6
    correct = "1" * 7 + "0" * 3 + "1" * 4 + "0" * 2  # 7 hits of 10, 2 false alarms of 6
    hit, false_alarm = stats.norm.ppf([7.5 / 11, 2.5 / 7])
    found = detection([correct], types, np.ones(16, bool))
    assert found == pytest.approx((hit - false_alarm, -(hit + false_alarm) / 2))
    pooled = detection([correct, correct], types, np.ones(16, bool))
    hit, false_alarm = stats.norm.ppf([14.5 / 21, 4.5 / 13])
    assert pooled == pytest.approx((hit - false_alarm, -(hit + false_alarm) / 2))
    assert detection([correct], types, np.array([True] * 10 + [False] * 6)) is None


def test_d_prime_recovers_the_distance_of_two_normal_responses():
    rng = np.random.default_rng(1)
    types = np.array([OBJECT, SUBJECT] * 20_000)
    evidence = rng.normal(size=40_000) + np.where(types == OBJECT, 0.9, -0.9)
    answers_object = evidence > 0.4  # d' = 1.8, criterion 0.4
    correct = "".join("1" if right else "0" for right in answers_object == (types == OBJECT))
    assert detection([correct], types, np.ones(40_000, bool)) == pytest.approx((1.8, 0.4), abs=0.04)


def test_both_members_of_a_pair_count_and_pairs_are_those_of_a_language():
    items = described(("en", "zh"), 2)
    every = np.ones(8, bool)
    # en: pair 0 both, pair 1 one of two; zh: pair 0 none, pair 1 without an answer in one.
    assert both_right("1110001.", items, every) == pytest.approx(1 / 3)
    assert both_right("1110001.", items, np.array(items["languages"]) == "en") == pytest.approx(1 / 2)
    assert both_right("1110001.", {**items, "pairs": [None] * 8}, every) is None
    found = measures({"qa": scores_of("ab" * 4)}, items)["both_right"]["qa"]
    assert found == {"all": 1.0, "en": 1.0, "zh": 1.0}


def test_debiased_choice_is_the_mean_over_orders_and_the_gap_their_difference():
    items = described(("en",), 2)
    # Always what is shown first, which is a in one order and b in the other.
    first = {"forced_choice:ab": scores_of("aaaa"), "forced_choice:ba": scores_of("bbbb")}
    found = measures(first, items)["forced_choice"]
    assert found["accuracy"]["all"] == 0.5
    assert found["order_gap"]["all"] == 0.0
    assert found["order_gap"][OBJECT] == 1.0
    assert found["orders"]["ab"]["correct"] == "1010"
    # Right in one order, wrong in the other.
    turned = {"label_choice:ab": scores_of("abab"), "label_choice:ba": scores_of("baba")}
    found = measures(turned, items)
    assert found["label_choice"]["accuracy"]["all"] == 0.5
    assert found["label_choice"]["order_gap"]["all"] == 1.0
    assert found["both_right"]["label_choice"]["all"] == 0.5
    assert found["d_prime"]["label_choice"]["all"] == pytest.approx(0)


def test_an_order_that_is_missing_gives_no_debiased_measure():
    found = measures({"forced_choice:ab": scores_of("ab")}, described(("en",), 1))
    assert "forced_choice" not in found


def test_pmi_takes_a_candidates_own_probability_off(random_scores):
    items = described()
    prior = np.array([5.0, -5.0])
    scores = {"qa": random_scores + prior, "qa:unconditional": np.tile(prior, (16, 1))}
    found = measures(scores, items)
    assert found["qa"]["correct"] == "10" * 8  # a always wins by itself
    assert found["qa_pmi"]["correct"] == behavior.written(margins(random_scores, items["gold"]))
    assert "qa:unconditional" not in found
    assert "paraphrase_pmi" not in found
    assert found["d_prime"].keys() == found["both_right"].keys() == {"qa", "qa_pmi"}


def test_variants_keep_scores_and_say_nothing_where_there_is_none():
    found = variants({"qa": scores_of("ab.=")}, ["a", "a", "b", "b"])
    assert found["qa"]["correct"] == "10.0"
    assert found["qa"]["scores_a"] == [0.0, -1.0, None, -2.0]
    assert found["qa"]["scores_b"] == [-1.0, 0.0, None, -2.0]


def test_mean_behavior_needs_both_tasks():
    items = described(("en",), 1)
    assert "mean_behavior" not in measures({"qa": scores_of("ab")}, items)
    found = measures({"qa": scores_of("ab"), "paraphrase": scores_of("..")}, items)
    assert found["mean_behavior"]["accuracy"]["all"] is None


def test_items_are_described_in_the_datasets_order(tmp_path):
    data = cases.dataset(tmp_path)
    found = behavior.describe(data)
    assert found["ids"] == [item.id for item in data.controls]
    assert found["gold"] == ["a", "b"] * 3
    assert found["pairs"] == ["01"] * 6
    assert found["control_types"][:2] == [SUBJECT, OBJECT]
    assert {len(values) for values in found.values()} == {6}
