"""The gate of the lucky-defaults diagnostic: its thresholds, verdicts, paths over scopes, and sensitivity."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strataprobe import concentration
from strataprobe.concentration import Concentration, Thresholds

GATE = Thresholds()

timeless = settings(deadline=None)  # other work on the same cores is no fault


def cell(**changes) -> Concentration:
    """A cell that passes, but for the changes."""
    passing = {"coarse_accuracy": 0.8, "hhi": 0.4, "max_share": 0.5, "side_mass": 0.5, "p_top_min": 0.6}
    values = {name: np.array(changes.get(name, value)) for name, value in passing.items()}
    return Concentration(
        **values, p_top=values["p_top_min"][..., None], p_top_mean=values["p_top_min"],
        p_top_max=values["p_top_min"], top_class=np.zeros_like(values["hhi"], int),
        effective_targets=1 / values["hhi"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "passes", "fails"),
    [
        ("coarse_accuracy", [0.65, 1.0], [0.6499]),
        ("hhi", [0.6999, 0.1], [0.70, 1.0]),
        ("max_share", [0.85], [0.8501]),
        ("side_mass", [0.20, 0.80], [0.1999, 0.8001]),
        ("p_top_min", [0.9499], [0.95, 1.0]),
    ],
)
def test_each_condition_includes_or_leaves_out_its_threshold_as_pre_registered(name, passes, fails) -> None:
    values = np.array(passes + fails)
    found = cell(**{name: values, "hhi": values if name == "hhi" else np.full(len(values), 0.4)})
    said = concentration.verdicts(found, GATE, np.full(len(values), 0.65))
    expected = "lucky default" if name == "p_top_min" else "property only"
    assert said.tolist() == ["pass"] * len(passes) + [expected] * len(fails)
    met = concentration.conjuncts(found, GATE, np.full(len(values), 0.65))
    assert set(met) == {"coarse_accuracy", "hhi", "max_share", "side_mass", "p_top_min", "property_accuracy"}
    assert np.broadcast_to(met[name], values.shape).tolist() == [True] * len(passes) + [False] * len(fails)


def test_shares_that_are_a_threshold_in_decimals_compare_as_equal_to_it() -> None:
    found = concentration.measure(np.array([[11, 2], [5, 2]]), [0, 1], [0, 1])
    assert (found.coarse_accuracy, found.side_mass) == (0.65, 0.20)  # 13 and 4 of 20
    met = concentration.conjuncts(found, GATE)
    assert met["coarse_accuracy"]
    assert met["side_mass"]
    found = concentration.measure(np.array([[19, 1, 0], [0, 1, 19]]), [0, 0, 1], [0, 1])
    assert found.p_top_min == 0.95
    assert concentration.verdicts(found, GATE) == "lucky default"
    counts = np.array([[13, 1, 1, 0, 0, 0], [12, 0, 0, 1, 1, 1]])  # (25^2 + 5) / 30^2
    found = concentration.measure(counts, [0, 0, 0, 1, 1, 1], [0, 1])
    assert found.hhi == 0.70
    assert not concentration.conjuncts(found, GATE)["hhi"]


def test_a_verdict_says_what_is_known_of_the_canonical_words() -> None:
    found = cell(hhi=np.array([0.9, 0.9, 0.9, 0.4, 0.4]))
    known = np.array([0.65, 0.64, np.nan, 0.3, np.nan])
    assert concentration.verdicts(found, GATE, known).tolist() == [
        "property only", "fail", "fail", "fail", "pass",
    ]  # fmt: skip
    assert concentration.verdicts(found, GATE).tolist() == ["fail"] * 3 + ["pass"] * 2
    assert "property_accuracy" not in concentration.conjuncts(found, GATE)


SHARE = st.floats(0, 1)


@timeless
@given(SHARE, st.floats(0.01, 1), SHARE, SHARE, st.one_of(st.none(), SHARE), SHARE)
def test_a_lucky_default_is_one_whatever_the_marginals_say(coarse, hhi, share, mass, known, p_min) -> None:
    found = cell(coarse_accuracy=coarse, hhi=hhi, max_share=share, side_mass=mass, p_top_min=p_min)
    lucky = concentration.verdicts(found, GATE, known) == "lucky default"
    assert lucky == (coarse >= 0.65 and p_min >= 0.95)


def test_every_threshold_is_the_one_that_is_given() -> None:
    found = cell()
    for name, value, said in (
        ("property_accuracy", 0.9, "fail"),
        ("coarse_accuracy", 0.81, "property only"),
        ("hhi", 0.4, "property only"),
        ("max_share", 0.49, "property only"),
        ("side_mass", (0.51, 0.8), "property only"),
        ("side_mass", (0.2, 0.49), "property only"),
        ("lucky", 0.6, "lucky default"),
    ):
        assert concentration.verdicts(found, GATE, 0.7) == "pass"
        assert concentration.verdicts(found, Thresholds(**{name: value}), 0.7) == said, name


def test_paths_over_scopes() -> None:
    verdict = np.array(
        [
            ["pass", "pass", "pass"],
            ["pass", "fail", "pass"],
            ["pass", "pass", "property only"],
            ["pass", "property only", "pass"],
            ["lucky default", "pass", "pass"],
            ["property only", "pass", "pass"],
            ["pass", "pass", "lucky default"],
        ]
    )
    p_min = np.full(verdict.shape, 0.5)
    p_min[3, 1] = 0.95  # collapsed where coarse accuracy is low, so by its verdict no lucky default
    p_min[4, 0] = p_min[6, 2] = 1.0
    assert concentration.paths(verdict, p_min, GATE).tolist() == [
        "pass", "retracted", "retracted", "lucky default", "not passed", "not passed", "lucky default",
    ]  # fmt: skip
    assert concentration.paths(verdict[:, :1], p_min[:, :1], GATE).tolist() == ["pass"] * 4 + [
        "not passed", "not passed", "pass",
    ]  # fmt: skip
    stricter = concentration.paths(verdict, p_min, Thresholds(lucky=0.96))
    assert stricter[3] == "retracted"


def test_sensitivity_counts_only_cells_that_pass_at_first() -> None:
    p_min = np.array([[0.5, 0.9], [0.8, 0.2], [1.0, 1.0]])
    assert concentration.sensitivity(p_min, [True, True, False], [0.95, 0.9, 0.8]) == [
        {"threshold": 0.95, "flagged": 0, "passed": 2},
        {"threshold": 0.9, "flagged": 1, "passed": 2},
        {"threshold": 0.8, "flagged": 2, "passed": 2},
    ]
    assert concentration.sensitivity(p_min, [False] * 3, [0.5]) == [
        {"threshold": 0.5, "flagged": 0, "passed": 0}
    ]
