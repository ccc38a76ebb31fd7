"""Codings and folds of control items: what is asked, what is held out together, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from strataprobe import recoverability
from strataprobe.errors import DatasetError
from strataprobe.recoverability.codings import coded, features
from strataprobe.recoverability.folds import Folds, all_folds, balanced
from tests import control_items

SETTINGS = {**control_items.SETTINGS, "epochs": 40, "permutations": 19}
SUBJECT, OBJECT = "subject_control", "object_control"


def measured(items, states, **changes):
    data = control_items.dataset(items)
    return recoverability.measure(states, data, first_layer=0, settings={**SETTINGS, **changes})


def test_decorrelated_labels_say_nothing_of_type_language_or_order():
    items = control_items.make(languages=("en", "zh", "de"), pairs=8, verbs=4)
    paper, other = (coded(items, name) for name in ("paper", "decorrelated"))
    subject = np.array([item.control_type == SUBJECT for item in items])
    assert np.array_equal(paper.labels > 0, subject)
    assert not paper.swapped.any()
    for language in ("en", "zh", "de"):
        own = np.array([item.language == language for item in items])
        for kind in (subject, ~subject):
            assert other.labels[own & kind].sum() == 0
            assert other.swapped[own & kind].sum() == 4
    of_pair = {}
    for item, swapped, label in zip(items, other.swapped, other.labels, strict=True):
        of_pair.setdefault((item.language, item.pair), []).append((bool(swapped), int(label)))
    for (first, one), (second, label) in of_pair.values():
        assert first == second
        assert one == -label


def test_items_without_pairs_are_swapped_one_by_one_within_language_and_type():
    items = [
        control_items.item("en", kind, None, "v", f"{kind[:3]}{i}")
        for kind in (SUBJECT, OBJECT)
        for i in range(4)
    ]
    coding = coded(items, "decorrelated")
    assert coding.swapped.tolist() == [False, True] * 4
    assert coding.labels.tolist() == [1, -1, 1, -1, -1, 1, -1, 1]
    with pytest.raises(ValueError, match="'other': the codings are paper, decorrelated"):
        coded(items, "other")


def test_features_join_positions_in_order_and_swap_the_candidates():
    states = {position: np.full((2, 3, 2), value) for position, value in zip("abv", (1, 2, 3), strict=True)}
    swapped = np.array([False, True, False])
    joined = features(states, "abv", swapped)
    assert joined.shape == (2, 3, 6)
    assert joined[0].tolist() == [[1, 1, 2, 2, 3, 3], [2, 2, 1, 1, 3, 3], [1, 1, 2, 2, 3, 3]]
    assert features(states, "bv", swapped)[1, 1].tolist() == [1, 1, 3, 3]


def test_each_scheme_holds_out_what_its_name_says():
    items = control_items.make(pairs=4, verbs=2)
    schemes, refused = all_folds(items)
    assert refused == {}
    keys = {
        "item_out": [item.id for item in items],
        "pair_out": [(item.language, item.pair) for item in items],
        "group_out": [item.item_group for item in items],
        "verb_out": [item.verb for item in items],
    }
    for name, own in keys.items():
        held = schemes[name].held
        assert len(schemes[name].names) == len(set(own))
        for first in range(len(items)):
            for second in range(len(items)):
                assert (held[first] == held[second]) == (own[first] == own[second])
        assert np.array_equal(schemes[name].used[held, np.arange(len(items))], np.zeros(len(items), bool))
    assert schemes["verb_out"].names == tuple(sorted(set(keys["verb_out"])))
    assert schemes["verb_out"].seeds(1729)[:3] == [1729, 1742, 1755]
    assert schemes["item_out"].seeds(1729)[:3] == [1729, 1730, 1731]


def test_balanced_folds_leave_no_twin_no_verb_and_as_many_of_either_type():
    items = control_items.make(languages=("en", "de"), pairs=6, verbs=3)
    # A verb whose items pair with two verbs of the other type ties their folds together.
    items = tuple(replace(item, verb="en-sub-1") if item.id == "en_sub_02" else item for item in items)
    folds = balanced(items)
    assert sorted(folds.names) == [
        "de-obj-0 + de-sub-0", "de-obj-1 + de-sub-1", "de-obj-2 + de-sub-2",
        "en-obj-0 + en-sub-0", "en-obj-1 + en-obj-2 + en-sub-1 + en-sub-2",
    ]  # fmt: skip
    verbs = np.array([item.verb for item in items])
    pairs = np.array([f"{item.language}{item.pair}" for item in items])
    for used in folds.used:
        assert coded(items, "paper").labels[used].sum() == 0
        assert not set(verbs[used]) & set(verbs[~used])
        assert not set(pairs[used]) & set(pairs[~used])


def test_balanced_folds_without_pairs_deal_verbs_of_both_types_out():
    sizes = {SUBJECT: {"promise": 4, "swear": 1}, OBJECT: {"tell": 2, "ask": 2, "urge": 1}}
    items = [
        control_items.item("en", kind, None, verb, f"{verb}{i}")
        for kind, verbs in sizes.items()
        for verb, count in verbs.items()
        for i in range(count)
    ]
    # Two folds, since there are two subject-control verbs; the third of the others joins the larger deficit.
    assert set(balanced(items).names) == {"ask + promise + urge", "swear + tell"}
    with pytest.raises(DatasetError, match="en: no object_control verb to hold out beside the others"):
        balanced([item for item in items if item.control_type == SUBJECT])


def test_a_verb_that_is_the_only_one_of_its_type_leaves_training_one_sided():
    items = [
        replace(item, verb="promise") if item.control_type == SUBJECT else item
        for item in control_items.make(pairs=4)
    ]
    schemes, refused = all_folds(items)
    labels = coded(items, "paper").labels
    assert schemes["verb_out"].one_sided(labels) == ["promise"]
    assert schemes["item_out"].one_sided(labels) == []
    assert "all items hang together by verbs and pairs" in refused["balanced"]
    found = measured(items, control_items.make_states(items), codings=["paper"])["codings"]["paper"]
    assert found["verb_out"]["one_sided"] == ["promise"]
    # Trained on object control alone, 40 epochs: the verb's items are called object control.
    assert np.mean(found["verb_out"]["modes"]["v"]["types"][SUBJECT]["verb_out"]) < 0.3
    assert found["verb_out"]["balanced"] == {"refused": refused["balanced"]}
    assert found["null"]["verb_out"]["refused"].startswith("no verbs to exchange")
    assert found["nested"]["verb_out"]["accuracy"][SUBJECT] == 0.0


def test_one_item_of_a_type_is_an_error_that_names_it():
    items = control_items.make(languages=("en",), pairs=3)
    kept = [item for item in items if item.control_type == OBJECT or item.pair == "00"]
    with pytest.raises(DatasetError, match=r"subject_control has 1 item \(2 or more are needed"):
        measured(kept, control_items.make_states(kept))


def test_items_without_a_pair_refuse_what_needs_pairs_and_nothing_else():
    items = control_items.make(pairs=4)
    items = (*items[:-1], replace(items[-1], pair=None))
    found = measured(items, control_items.make_states(items))
    why = "leave-pair-out: 1 of 16 items have no pair, the first is 'de_obj_03' (give every item a 'pair')"
    assert found["refused"] == {"pair_out": why}
    for coding in found["codings"].values():
        assert coding["pair_out"] == {"refused": why}
        assert set(coding["critical_noise"]) == {"item_out"}
        assert set(coding["nested"]) == {"item_out", "group_out", "verb_out", "balanced"}
        assert coding["group_out"]["refused"] is None


def test_a_language_with_one_pair_and_one_group_are_told():
    items = control_items.make(languages=("en",), pairs=3) + control_items.make(
        languages=("de",), pairs=1, verbs=1
    )
    found = measured(items, control_items.make_states(items))
    assert found["refused"] == {}
    assert found["codings"]["paper"]["pair_out"]["folds"] == ["en:00", "en:01", "en:02", "de:00"]
    assert found["codings"]["decorrelated"]["label_is_subject_control"] == 0.5
    alone = [replace(item, item_group="all") for item in items]
    assert all_folds(alone)[1] == {
        "group_out": "group_out: 'all' is the only fold; no item is left to train on"
    }


def test_folds_are_a_partition():
    folds = Folds("x", np.array([0, 1, 0]), ("one", "two"))
    assert folds.used.tolist() == [[False, True, False], [True, False, True]]
