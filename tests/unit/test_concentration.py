"""The lucky-defaults diagnostic: its measures against counting by hand, its partition and its rows."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strataprobe import concentration
from strataprobe.concentration import Concentration, Partition, Thresholds
from strataprobe.errors import StrataprobeError

BINARY, UNARY = 0, 1
CLASSES = ("and", "or", "implies", "not", "necessarily")
CLASS_SIDES = (BINARY, BINARY, BINARY, UNARY, UNARY)
GATE = Thresholds()

timeless = settings(deadline=None)  # other work on the same cores is no fault


def by_hand(item_sides, class_sides, predictions) -> dict:
    """Every measure of one cell from its predictions, one list of classes an item, by its definition."""
    flat = [predicted for own in predictions for predicted in own]
    agree = [
        class_sides[predicted] == side
        for side, own in zip(item_sides, predictions, strict=True)
        for predicted in own
    ]
    p_top = [Counter(own).most_common(1)[0][1] / len(own) for own in predictions]
    shares = [count / len(flat) for count in Counter(flat).values()]
    return {
        "coarse_accuracy": sum(agree) / len(agree),
        "p_top": p_top,
        "p_top_min": min(p_top),
        "p_top_mean": sum(p_top) / len(p_top),
        "p_top_max": max(p_top),
        "max_share": max(shares),
        "hhi": sum(share**2 for share in shares),
        "effective_targets": 1 / sum(share**2 for share in shares),
        "side_mass": sum(class_sides[predicted] for predicted in flat) / len(flat),
    }


def table_of(predictions, classes: int) -> np.ndarray:
    """(items, classes) counts of one list of classes an item."""
    return np.array([[list(own).count(one) for one in range(classes)] for own in predictions])


@st.composite
def cells(draw):
    """Class sides (both occur), item sides, and predictions with a number of stimuli of its own an item."""
    class_sides = draw(
        st.lists(st.integers(0, 1), min_size=2, max_size=7).filter(lambda s: 0 < sum(s) < len(s))
    )
    one = st.lists(st.integers(0, len(class_sides) - 1), min_size=2, max_size=9)
    predictions = draw(st.lists(one, min_size=1, max_size=7))
    item_sides = draw(st.lists(st.integers(0, 1), min_size=len(predictions), max_size=len(predictions)))
    return class_sides, item_sides, predictions


# Measures


@timeless
@given(cells())
def test_every_measure_is_what_counting_gives(cell) -> None:
    class_sides, item_sides, predictions = cell
    found = concentration.measure(table_of(predictions, len(class_sides)), class_sides, item_sides)
    for name, expected in by_hand(item_sides, class_sides, predictions).items():
        assert getattr(found, name) == pytest.approx(expected, abs=1e-12), name
    shares = Counter(predicted for own in predictions for predicted in own)
    assert shares[int(found.top_class)] == max(shares.values())


@timeless
@given(cells(), st.randoms(use_true_random=False))
def test_the_order_of_stimuli_items_and_classes_says_nothing(cell, shuffle) -> None:
    class_sides, item_sides, predictions = cell
    before = concentration.measure(table_of(predictions, len(class_sides)), class_sides, item_sides)
    names = list(range(len(class_sides)))
    shuffle.shuffle(names)  # old class -> its new number
    order = list(range(len(predictions)))
    shuffle.shuffle(order)
    moved = [[names[predicted] for predicted in predictions[item]] for item in order]
    for own in moved:
        shuffle.shuffle(own)
    sides = [class_sides[names.index(new)] for new in range(len(names))]
    after = concentration.measure(table_of(moved, len(names)), sides, [item_sides[item] for item in order])
    for name in set(Concentration.__dataclass_fields__) - {"p_top", "p_top_mean", "top_class"}:
        assert getattr(after, name) == getattr(before, name), name
    assert after.p_top.tolist() == before.p_top[order].tolist()


@timeless
@given(cells())
def test_every_item_a_second_time_changes_nothing(cell) -> None:
    class_sides, item_sides, predictions = cell
    once = concentration.measure(table_of(predictions, len(class_sides)), class_sides, item_sides)
    twice = concentration.measure(table_of(predictions * 2, len(class_sides)), class_sides, item_sides * 2)
    for name in set(Concentration.__dataclass_fields__) - {"p_top", "p_top_mean"}:
        assert getattr(twice, name) == getattr(once, name), name
    assert twice.p_top_mean == pytest.approx(once.p_top_mean)


def test_swapped_sides_of_the_items_turn_coarse_accuracy_round_and_nothing_else() -> None:
    counts = np.random.default_rng(0).integers(1, 9, (4, 6, 5))
    sides = np.array([0, 1, 1, 0, 1, 0])
    one, other = (concentration.measure(counts, CLASS_SIDES, these) for these in (sides, 1 - sides))
    assert other.coarse_accuracy == pytest.approx(1 - one.coarse_accuracy)
    for name in set(Concentration.__dataclass_fields__) - {"coarse_accuracy"}:
        assert np.array_equal(getattr(one, name), getattr(other, name))


def test_cells_are_measured_as_if_alone_and_in_any_arrangement() -> None:
    rng = np.random.default_rng(1)
    counts, sides = rng.integers(1, 9, (2, 3, 6, 5)), rng.integers(0, 2, 6)
    together = concentration.measure(counts, CLASS_SIDES, sides)
    for place in np.ndindex(2, 3):
        alone = concentration.measure(counts[place], CLASS_SIDES, sides)
        for name in Concentration.__dataclass_fields__:
            assert np.array_equal(getattr(together, name)[place], getattr(alone, name)), name


def test_counts_are_made_from_class_indices_of_many_cells() -> None:
    items = np.array([1, 0, 1, 1, 3])
    predicted = np.array([[2, 0, 2, 1, 0], [0, 0, 0, 0, 2]])
    found = concentration.counted(items, predicted, item_count=4, class_count=3)
    assert found.tolist() == [
        [[1, 0, 0], [0, 1, 2], [0, 0, 0], [1, 0, 0]],
        [[1, 0, 0], [3, 0, 0], [0, 0, 0], [0, 0, 1]],
    ]
    flat = concentration.counted(items, predicted[0], item_count=4, class_count=3)
    assert np.array_equal(flat, found[0])


@pytest.mark.parametrize(
    ("items", "predicted", "said"),
    [
        ([0, 1], [[0, 3]], "class indices 0 to 3 for 3"),  # would count as a class of the next item
        ([0, 1], [[0, -1]], "class indices -1 to 0 for 3"),
        ([0, 2], [[0, 1]], "item indices 0 to 2 for 2"),
        ([0, 1], [[0, 1, 2]], r"items are \(2,\)"),
    ],
)
def test_indices_that_would_be_counted_elsewhere_are_refused(items, predicted, said) -> None:
    with pytest.raises(ValueError, match=said):
        concentration.counted(items, predicted, item_count=2, class_count=3)


def test_an_item_with_one_stimulus_is_refused_with_the_reason_and_all_are_named() -> None:
    counts = np.array([[[3, 0], [1, 0], [2, 2], [0, 1]], [[3, 0], [2, 0], [2, 2], [0, 0]]])
    with pytest.raises(StrataprobeError) as caught:
        concentration.measure(counts, [0, 1], [0, 1, 0, 1], names=["bliq", "vusp", "dren", "kelm"])
    assert str(caught.value).splitlines() == [
        "concentration of predictions: 2 problems",
        "  item 'vusp' has a single stimulus: its top-class share is 1 whatever the probe does; "
        "give 2 stimuli or more",
        "  item 'kelm' has no stimulus; give 2 or more",
    ]
    with pytest.raises(StrataprobeError, match="item 1 has a single stimulus"):
        concentration.measure(counts, [0, 1], [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("counts", "class_sides", "item_sides", "said"),
    [
        ([[2, 0], [0, 2]], [0, 1, 1], [0, 1], r"\(2, 2\), for 2 items and 3 classes"),
        ([[2, 0], [0, 2]], [0, 0], [0, 1], "all on one side"),
        ([[2, 0], [0, 2]], [0, 1], [0, 2], r"item sides are 0 or 1, not \[0, 2\]"),
        ([[0.5, 1.5], [0, 2]], [0, 1], [0, 1], "not float64"),
        ([[3, -1], [0, 2]], [0, 1], [0, 1], "negative"),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(counts, class_sides, item_sides, said) -> None:
    with pytest.raises(ValueError, match=said):
        concentration.measure(counts, class_sides, item_sides)


# The partition


def test_every_fault_of_a_partition_is_in_one_message() -> None:
    with pytest.raises(StrataprobeError) as caught:
        Partition.checked(("binary", "unary"), {"adn": "binary", "or": "binery"}, ("and", "or", "not"))
    assert str(caught.value).splitlines() == [
        "partition of the classes: 5 problems",
        "  class 'and' is on no side (there is 'adn': is it meant?)",
        "  class 'or' is on the side 'binery'; the sides are 'binary', 'unary'",
        "  class 'not' is on no side",
        "  no class is on the side 'binary' (coarse accuracy needs some on both)",
        "  no class is on the side 'unary' (coarse accuracy needs some on both)",
    ]
    with pytest.raises(StrataprobeError, match="a property has two, with different names"):
        Partition.checked(("binary", "binary"), {"and": "binary"})


def test_a_partition_is_judged_by_the_classes_that_are_read_out() -> None:
    of = {"and": "binary", "or": "binary", "not": "unary"}
    partition = Partition.checked(("binary", "unary"), of, ("not", "and"))
    assert partition.numbers(("not", "and", "or")).tolist() == [1, 0, 0]
    with pytest.raises(StrataprobeError, match="no class is on the side 'unary'"):
        Partition.checked(("binary", "unary"), of, ("and", "or"))


# Rows


def test_rows_hold_what_the_parts_say_and_nothing_that_json_cannot() -> None:
    rng = np.random.default_rng(3)
    counts, sides = rng.integers(0, 9, (4, 6, 5)) + np.eye(6, 5, dtype=int) * 3, [0, 1, 0, 1, 1, 0]
    counts[0] = 10 * np.eye(5, dtype=int)[[0, 3, 0, 3, 3, 0]]
    own, known = (counts, CLASS_SIDES, sides), np.array([0.9, 0.9, 0.2, np.nan])
    rows = concentration.described(
        counts, CLASSES, CLASS_SIDES, sides,
        thresholds=GATE, property_accuracy=known, replicates=200, seed=5,
    )  # fmt: skip
    found = concentration.measure(*own)
    ends = concentration.intervals(*own, replicates=200, seed=5)
    labelled, routes = concentration.relabelling(*own, seed=5), concentration.prototypes(*own)
    expected = {
        **{name: getattr(found, name) for name in ("coarse_accuracy", "max_share", "hhi", "side_mass")},
        **{name: getattr(found, name) for name in ("p_top_min", "p_top_mean", "p_top_max")},
        "effective_targets": found.effective_targets,
        "coarse_low": ends["coarse_accuracy"][:, 0], "coarse_high": ends["coarse_accuracy"][:, 1],
        "p_top_min_low": ends["p_top_min"][:, 0], "p_top_min_high": ends["p_top_min"][:, 1],
        "relabelling_mean": labelled.mean, "relabelling_q95": labelled.q95, "relabelling_p": labelled.p,
        "prototype_mean": routes.mean, "prototype_q95": routes.q95, "prototype_p": routes.p,
    }  # fmt: skip
    for place, row in enumerate(json.loads(json.dumps(rows, allow_nan=False))):
        assert tuple(row) == concentration.COLUMNS
        assert row["top_class"] == CLASSES[counts[place].sum(axis=0).argmax()]
        assert row["verdict"] == concentration.verdicts(found, GATE, known)[place]
        numbers = {name: value for name, value in row.items() if name not in ("top_class", "verdict")}
        assert numbers == {name: pytest.approx(values[place]) for name, values in expected.items()}
    assert rows[0]["verdict"] == "lucky default"
    assert rows[0]["relabelling_p"] == 1 / 20  # only the observed of 20 ways agrees in full
