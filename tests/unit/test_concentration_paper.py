"""The lucky-defaults paper's proposition as a property, and its tables from one another and from routings."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strataprobe import concentration
from strataprobe.concentration import Thresholds
from strataprobe.published import read_numbers

ROOT = Path(__file__).parents[2]
BINARY, UNARY = 0, 1
CLASS_SIDES = (BINARY, BINARY, BINARY, UNARY, UNARY)
GATE = Thresholds()

timeless = settings(deadline=None)  # other work on the same cores is no fault


# The proposition of section 2.2


@st.composite
def routings(draw, uniform: bool = False):
    """Class sides, targets of the items out of m < K classes, m, and stimuli an item; N >= m."""
    classes = draw(st.integers(2, 12))
    first = draw(st.integers(1, classes - 1))
    class_sides = draw(st.permutations([0] * first + [1] * (classes - first)))
    m = draw(st.integers(1, classes - 1))
    chosen = draw(st.permutations(range(classes)))[:m]
    if uniform:
        targets = draw(st.permutations(list(chosen) * draw(st.integers(1, 4))))
    else:
        targets = draw(st.lists(st.sampled_from(chosen), min_size=m, max_size=20))
    return np.array(class_sides), np.array(targets), m, draw(st.integers(2, 60))


def routed(targets, classes: int, stimuli: int) -> np.ndarray:
    """(items, classes): every item's stimuli all in its one target."""
    return stimuli * np.eye(classes, dtype=int)[targets]


@timeless
@given(routings())
def test_proposition_routing_with_the_targets_labels_gives_full_coarse_accuracy(routing) -> None:
    class_sides, targets, m, stimuli = routing
    labels = class_sides[targets]  # LD2'
    found = concentration.measure(routed(targets, len(class_sides), stimuli), class_sides, labels)
    frequencies = np.array(list(Counter(targets.tolist()).values())) / len(targets)
    assert (found.p_top_min, found.coarse_accuracy) == (1, 1)
    assert found.hhi == pytest.approx((frequencies**2).sum())
    assert found.max_share == pytest.approx(frequencies.max())
    assert 1 / m - 1e-12 <= found.hhi <= 1
    assert 1 / m - 1e-12 <= found.max_share <= 1
    assert concentration.verdicts(found, GATE) == "lucky default"


@timeless
@given(routings(uniform=True))
def test_proposition_uniform_routing_has_both_marginal_indices_at_one_over_m(routing) -> None:
    class_sides, targets, m, stimuli = routing
    labels = class_sides[targets]
    found = concentration.measure(routed(targets, len(class_sides), stimuli), class_sides, labels)
    assert (found.hhi, found.max_share) == pytest.approx((1 / m, 1 / m))
    assert found.effective_targets == pytest.approx(m)
    met = concentration.conjuncts(found, GATE)
    if m > 1:  # no marginal condition but the side mass can tell, and that only by the sides of the targets
        assert met["hhi"]
        assert met["max_share"]
    assert not met["p_top_min"]


@timeless
@given(routings(), st.data())
def test_without_the_targets_labels_coarse_accuracy_is_the_share_that_happens_to_agree(routing, data) -> None:
    class_sides, targets, _, stimuli = routing
    size = len(targets)
    labels = np.array(data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)))
    counts = routed(targets, len(class_sides), stimuli)
    found = concentration.measure(counts, class_sides, labels)
    assert found.p_top_min == 1
    assert found.coarse_accuracy == pytest.approx((labels == class_sides[targets]).mean())
    opposite = concentration.measure(counts, class_sides, 1 - class_sides[targets])
    assert (opposite.p_top_min, opposite.coarse_accuracy) == (1, 0)
    assert concentration.verdicts(opposite, GATE) == "fail"


# Golden: the paper's tables


@pytest.fixture(scope="module")
def numbers():
    return read_numbers(ROOT / "resources/published/lucky_defaults.csv")


def printed(number, value) -> bool:
    """Whether an unrounded value rounds to what the paper prints."""
    return abs(value - number.value) <= number.rounding + 1e-9


@pytest.fixture(scope="module")
def table_4(numbers):
    """(cells, scopes) p_w,min of Table 4, and (cells, scopes) whether the paper flags it."""
    found: dict = {}
    for number in numbers.find(paper="lucky_defaults", place="Table 4", quantity="p_w_min"):
        found.setdefault((number.model, number.group, number.layer), {})[number.dataset] = number
    scopes = ("5x5", "5x16", "10x16", "15x16")
    rows = [[cell[scope] for scope in scopes] for cell in found.values()]
    values = np.array([[number.value for number in row] for row in rows])
    return values, np.array([[number.note == "flagged" for number in row] for row in rows])


def test_golden_table_2_follows_from_table_4(numbers, table_4) -> None:
    rows = numbers.find(paper="lucky_defaults", place="Table 2", quantity="flagged_cells")
    levels = [float(row.group.removeprefix("threshold ")) for row in rows]
    found = concentration.sensitivity(table_4[0], np.ones(8, bool), levels)
    assert [row["flagged"] for row in found] == [row.value for row in rows] == [1, 2, 2, 2, 3, 3, 4]
    assert [row["passed"] for row in found] == [row.n for row in rows]


def test_golden_table_4_has_two_lucky_defaults_and_six_retracted(table_4) -> None:
    p_min, flagged = table_4
    assert np.array_equal(p_min >= GATE.lucky, flagged)
    verdict = np.array([["pass", "pass", "property only", "property only"]] * 8)
    said = concentration.paths(verdict, p_min, GATE)
    assert Counter(said.tolist()) == {"lucky default": 2, "retracted": 6}
    assert np.array_equal(said == "lucky default", flagged.any(axis=1))


# Items bliq, dren, molex (binary) and vusp, perph (unary), 50 stimuli each.
INTENDED = (BINARY, BINARY, BINARY, UNARY, UNARY)
TABLE_3 = {
    "cell 1": [[50, 0, 0, 0, 0]] * 3 + [[50, 0, 0, 0, 0], [0, 0, 0, 50, 0]],
    "cell 2": [[0, 0, 50, 0, 0]] * 4 + [[0, 0, 0, 0, 50]],
    "cell 3": [[50, 0, 0, 0, 0]] * 3 + [[50, 0, 0, 0, 0], [1, 0, 0, 49, 0]],
    "cell 4": [[50, 0, 0, 0, 0]] * 2 + [[0, 0, 0, 50, 0]] * 3,
}


@pytest.mark.parametrize("name", TABLE_3)
def test_golden_table_3_marginals_of_four_and_one_do_not_fire_but_the_least_share_does(numbers, name) -> None:
    found = concentration.measure(np.array(TABLE_3[name]), CLASS_SIDES, INTENDED)
    for quantity, value in (
        ("property_accuracy", found.coarse_accuracy), ("hhi", found.hhi),
        ("max_share", found.max_share), ("p_w_min", found.p_top_min),
    ):  # fmt: skip
        number = numbers.look_up(paper="lucky_defaults", place="Table 3", group=name, quantity=quantity)
        assert printed(number, value), quantity
    met = concentration.conjuncts(found, GATE)
    assert [bool(met[name]) for name in ("coarse_accuracy", "hhi", "max_share", "p_top_min")] == [
        True, True, True, False,
    ]  # fmt: skip
    assert concentration.verdicts(found, GATE, 0.9) == "lucky default"


def table_1_counts() -> dict[str, tuple[np.ndarray, tuple, np.ndarray]]:
    """Scope -> counts, class sides, item sides that give the row of Table 1."""
    small = np.array(
        [[45, 0, 5, 0, 0], [50, 0, 0, 0, 0], [50, 0, 0, 0, 0], [25, 0, 0, 25, 0], [5, 0, 0, 45, 0]]
    )
    binary = [[22, 0, 0, 28, 0]] + [[50, 0, 0, 0, 0]] * 7
    unary = [[25, 0, 0, 25, 0]] * 5 + [[23, 0, 0, 27, 0]] + [[0, 0, 0, 38, 12]] * 2
    sides = np.repeat([BINARY, UNARY], 8)
    nand = 50 * np.eye(15, dtype=int)[[6] * 16]
    fifteen = (*CLASS_SIDES, BINARY, BINARY, UNARY, UNARY, UNARY, BINARY, BINARY, BINARY, UNARY, UNARY)
    return {
        "5x5": (small, CLASS_SIDES, np.array(INTENDED)),
        "5x16": (np.array(binary + unary), CLASS_SIDES, sides),
        "10x16": (nand[:, :10], fifteen[:10], sides),
        "15x16": (nand, fifteen, sides),
    }


def test_golden_table_1_is_a_pass_that_collapses_when_the_readout_is_expanded(numbers) -> None:
    said, p_min = [], []
    for scope, own in table_1_counts().items():
        found = concentration.measure(*own)
        for quantity, value in (
            ("property_accuracy", found.coarse_accuracy), ("hhi", found.hhi),
            ("max_share", found.max_share), ("p_w_min", found.p_top_min),
        ):  # fmt: skip
            number = numbers.look_up(
                paper="lucky_defaults", place="Table 1", dataset=scope, quantity=quantity
            )
            assert printed(number, value), (scope, quantity)
        said.append(str(concentration.verdicts(found, GATE, 0.9)))
        p_min.append(found.p_top_min)
    assert said == ["pass", "pass", "property only", "property only"]
    assert concentration.paths([said], [p_min], GATE).tolist() == ["lucky default"]
