"""What several models show together, against the levels paper's printed numbers and plain arithmetic."""

import copy
import math

import numpy as np
import pytest

from strataprobe import levels, tables
from strataprobe.errors import StrataprobeError
from strataprobe.levels import Measured, read_checkpoint
from strataprobe.published import read_numbers
from tests import levels_cases as cases
from tests import levels_paper as paper
from tests.unit.test_published import FOLDER

SETTINGS = {"bootstrap": 40, "conventions": "default", "seed": 3}
COMPARED = "readout code; coding paper, seed 1729"


def one(rows: list[dict], **equal) -> dict:
    chosen = [row for row in rows if all(row[name] == value for name, value in equal.items())]
    assert len(chosen) == 1, (equal, chosen)
    return chosen[0]


@pytest.fixture(scope="module")
def numbers():
    return read_numbers(FOLDER)


@pytest.fixture(scope="module")
def of_the_paper(numbers):
    """Rows over seven checkpoints that have the right answers of the paper's Tables 1, 4 and 5."""
    each = zip(*(paper.summaries(numbers, model) for model in paper.MODELS), strict=True)
    models = [
        {"name": name, "family": paper.FAMILIES[name], "base": paper.BASES.get(name)} for name in paper.MODELS
    ]
    settings = paper.SETTINGS | {"bootstrap": 20}
    return tables.levels_models_rows(*map(list, each), models, settings, numbers)


@pytest.fixture(scope="module")
def three():
    """Three made-up models."""
    return {name: cases.summaries(seed, model=name) for seed, name in enumerate(("one", "two", "three"))}


@pytest.fixture(scope="module")
def measured(three):
    return {name: Measured(read_checkpoint(*own), SETTINGS) for name, own in three.items()}


# The paper's own numbers


@pytest.mark.parametrize(("family", "expected"), [("qwen3", 0.529), ("llama", 0.585), ("gemma", 0.596)])
def test_leaving_a_family_out_gives_what_table_1_gives(of_the_paper, family, expected):
    """The text says 0.549 to 0.552 (contradicted by its own Table 1)."""
    row = one(of_the_paper, quantity="leave_family_out:mean_behavior", other=family)
    assert row["value"] == pytest.approx(expected, abs=0.0005)


def test_surplus_over_conditions_is_the_printed_mean_and_never_negative(of_the_paper, numbers):
    printed = numbers.look_up(paper="levels", quantity="surplus_mean")
    row = one(of_the_paper, quantity="mean_surplus")
    assert f"{row['value']:.3f}" == printed.printed
    assert row["note"] == f"{printed.n} conditions; {COMPARED}"
    assert one(of_the_paper, quantity="negative_surplus")["value"] == 0
    assert one(of_the_paper, quantity="least_surplus")["model"] == "gemma-4-e4b-base"


def test_cells_out_of_order_are_those_that_table_5_shows(of_the_paper):
    """Eight of 21; the text counts three. One is beyond an item, as appendix E says."""
    row = one(of_the_paper, quantity="inverted_cells")
    assert row["value"] == 8
    assert row["note"].startswith("of 21; qwen3-0.6b-base zh; qwen3-0.6b-instruct en; ")
    row = one(of_the_paper, quantity="broken_cells")
    assert (row["value"], row["note"]) == (1, f"of 21; gemma-4-e4b-base de; {COMPARED}")


@pytest.mark.parametrize("place", ["section 4.2", "section 4.5"])
def test_changes_by_tuning_are_the_printed_ones_up_to_their_rounded_terms(of_the_paper, numbers, place):
    """The paper subtracts and divides rounded numbers, so its changes are off by up to 0.001."""
    named = {
        "behaviour": "mean_behavior",
        "lm_head": "readout",
        "probe": "recoverability",
        "surplus": "surplus",
    }
    checked = 0
    for number in numbers.find(paper="levels", place=place):
        kind, _, level = number.quantity.rpartition(
            "_change_" if "relative" in number.quantity else "change_"
        )
        model = f"{number.model}-instruct"
        if level not in named or model not in paper.BASES:
            continue
        prefix = "relative_change" if kind else "change"
        row = one(of_the_paper, quantity=f"{prefix}:{named[level]}", model=model, split="all")
        assert row["other"] == f"{number.model}-base"
        ours, rounding = (100 * row["value"], 0.2) if kind else (row["value"], 0.0011)
        assert ours == pytest.approx(number.value, abs=rounding)
        checked += 1
    assert checked >= 5


# Any models


def test_a_family_left_out_leaves_the_mean_of_the_others_with_its_interval(measured):
    rows = {q.other: q for q in levels.over_models(measured, [
        {"name": "one", "family": "x"}, {"name": "two", "family": "x"}, {"name": "three", "family": "y"},
    ]) if q.name == "leave_family_out:mean_behavior"}  # fmt: skip
    drawn = {name: own.mean_behavior("all") for name, own in measured.items()}
    for family, left in (("x", [drawn["three"]]), ("y", [drawn["one"], drawn["two"]])):
        mean = sum(left) / len(left)
        expected = (mean[0], *np.percentile(mean[1:], [2.5, 97.5]))
        found = rows[family].estimate
        assert (found.value, found.low, found.high) == pytest.approx(expected)
    assert set(rows) == {"x", "y"}


def test_models_without_a_family_are_families_of_their_own_and_one_family_has_none_to_leave(measured):
    def families(models):
        found = levels.over_models(measured, models)
        return [q.other for q in found if q.name == "leave_family_out:mean_behavior"]

    assert families([]) == ["one", "two", "three"]
    assert families([{"name": name, "family": "x"} for name in measured]) == []


def test_a_change_has_the_interval_of_a_difference_on_the_same_draws(measured):
    found = {
        (q.name, q.split): q
        for q in levels.over_models(
            measured, [{"name": "two", "base": "one"}, {"name": "three", "base": "gone"}]
        )
        if q.model == "two" and "change" in q.name
    }
    for split in measured["one"].splits:
        after, before = (measured[name].mean_behavior(split) for name in ("two", "one"))
        for name, drawn in (("change", after - before), ("relative_change", (after - before) / before)):
            own = found[f"{name}:mean_behavior", split].estimate
            kept = [value for value in drawn[1:] if math.isfinite(value)]
            expected = (drawn[0], *np.percentile(kept, [2.5, 97.5]))
            assert (own.value, own.low, own.high) == pytest.approx(expected)
    assert {name for name, _ in found} == {
        *(
            f"change:{level}"
            for level in ("qa", "paraphrase", "mean_behavior", "readout", "recoverability", "surplus")
        ),
        *(
            f"relative_change:{level}"
            for level in ("qa", "paraphrase", "mean_behavior", "readout", "recoverability")
        ),
    }
    # A model against itself changes nothing, whatever is drawn.
    alone = levels.over_models(measured, [{"name": "one", "base": "one"}])
    zero = [q.estimate for q in alone if q.name == "change:surplus"]
    assert {(q.value, q.low, q.high) for q in zero} == {(0.0, 0.0, 0.0)}


def test_the_least_surplus_and_the_widths_name_their_cells(measured):
    found = {q.name: q for q in levels.over_models(measured, [])}
    each = {
        (name, task): levels.surplus(own, "all", task)[0]
        for name, own in measured.items()
        for task in ("qa", "paraphrase")
    }
    least = min(each, key=each.get)
    assert (found["least_surplus"].model, found["least_surplus"].said) == least
    assert found["mean_surplus"].estimate.value == pytest.approx(sum(each.values()) / 6)
    assert found["negative_surplus"].estimate.value == sum(value < 0 for value in each.values())
    widths = {}
    for name, own in measured.items():
        for language in ("en", "zh", "de"):
            bounds = levels.estimate(own.mean_behavior(language))
            widths[name, language] = bounds.high - bounds.low
    widest = max(widths, key=widths.get)
    assert (found["widest_interval"].model, found["widest_interval"].split) == widest
    assert found["widest_interval"].estimate.value == pytest.approx(widths[widest])
    assert found["narrowest_interval"].estimate.value == pytest.approx(min(widths.values()))


def test_models_on_other_items_are_refused_by_name(three):
    other = copy.deepcopy(three["two"])
    for summary in other:
        summary["items"]["ids"][0] = "another"
    columns = [list(column) for column in zip(three["one"], other, strict=True)]
    with pytest.raises(StrataprobeError, match="two: its items are not those of one"):
        tables.levels_models_rows(*columns, [], SETTINGS)


def test_a_model_stands_at_its_last_checkpoint():
    early, late = (cases.summaries(step, model="grown", step=step) for step in (1, 2))
    for pair in ((early, late), (late, early)):
        columns = [list(column) for column in zip(*pair, strict=True)]
        rows = tables.levels_models_rows(*columns, [], SETTINGS)
        value = Measured(read_checkpoint(*late), SETTINGS)
        expected = np.mean([levels.surplus(value, "all", task)[0] for task in ("qa", "paraphrase")])
        assert one(rows, quantity="mean_surplus")["value"] == pytest.approx(expected)


def test_the_range_over_families_is_of_what_is_left_and_of_every_replicate_anew(measured):
    found = {q.name: q for q in levels.over_models(measured, [])}
    drawn = [own.mean_behavior("all") for own in measured.values()]
    left = np.array([(sum(drawn) - own) / 2 for own in drawn])
    for end, over in (("least", np.min), ("most", np.max)):
        one = found[f"leave_family_out_{end}:mean_behavior"]
        rows = over(left, axis=0)
        expected = (rows[0], *np.percentile(rows[1:], [2.5, 97.5]))
        assert (one.estimate.value, one.estimate.low, one.estimate.high) == pytest.approx(expected)
        assert one.other == list(measured)[[*left[:, 0]].index(rows[0])]
        assert one.note == "of 3 families"
    assert "leave_family_out_least:mean_behavior" not in {
        q.name for q in levels.over_models(measured, [{"name": name, "family": "x"} for name in measured])
    }
