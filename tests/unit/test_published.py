"""Published numbers are typed as printed, and our tables stand beside them.

Golden tests read the authors' files where they are; the same arithmetic is tested on small numbers here.
"""

import csv
from pathlib import Path

import numpy as np
import pytest

from strataprobe import onsets
from strataprobe.errors import StrataprobeError
from strataprobe.published import COLUMNS, paper_tables, read_numbers
from strataprobe.published.curves import read_curves

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "resources/published"
REFERENCE = ROOT.parent / "shared/reference/deepsteer"
golden = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference's files (deepsteer) are not here")


@pytest.fixture(scope="module")
def numbers():
    return read_numbers(FOLDER)


# The numbers as typed


def test_every_paper_has_numbers_and_every_doubt_its_reason(numbers) -> None:
    count = {paper: len(numbers.find(paper=paper)) for paper in ("fragility", "levels", "lucky_defaults")}
    assert min(count.values()) > 80, count
    assert {number.status for number in numbers} == {"ok", "contradicted", "withdrawn"}
    assert all(number.note for number in numbers if number.status != "ok")
    assert (
        max(len(number.note) for number in numbers) < 110
    )  # a place and a hint, never a sentence of a paper


@pytest.mark.parametrize(
    "where",
    [
        {"paper": "fragility", "place": "Table 1", "dataset": "moral", "quantity": "onset_accuracy"},
        {"paper": "fragility", "place": "Table 2", "step": 1000, "quantity": "mean_accuracy"},
        {"paper": "fragility", "quantity": "training_tokens"},
        {"paper": "levels", "quantity": "inverted_cells"},
        {"paper": "levels", "quantity": "leave_family_out_least"},
        {"paper": "levels", "quantity": "leave_family_out_most"},
        {"paper": "levels", "quantity": "verb_out_gap_largest"},
        {"paper": "lucky_defaults", "quantity": "intended_arity", "group": "vusp"},
        {"paper": "lucky_defaults", "quantity": "intended_arity", "group": "molex"},
        {"paper": "lucky_defaults", "quantity": "stimuli_per_word"},
        {"paper": "lucky_defaults", "place": "Table 1", "quantity": "p_w_min", "dataset": "5x5"},
        {"paper": "lucky_defaults", "place": "Table 1", "quantity": "p_w_min", "dataset": "5x16"},
    ],
    ids=lambda where: f"{where['paper']}-{where['quantity']}",
)
def test_a_published_contradiction_is_marked(numbers, where) -> None:
    assert numbers.look_up(**where).status == "contradicted"


def test_the_decline_and_the_depth_gradient_of_raw_noise_are_marked_as_withdrawn(numbers) -> None:
    table = {"paper": "fragility", "place": "Table 2", "quantity": "mean_critical_noise"}
    for group in ("", "late", "mid", "early"):
        assert numbers.look_up(**table, step=36000, group=group).status == "withdrawn"
        assert numbers.look_up(**table, step=4000, group=group).status == "ok"


def test_levels_numbers_agree_with_one_another_as_far_as_they_were_typed(numbers) -> None:
    def get(place, quantity, **equal):
        return numbers.look_up(paper="levels", place=place, quantity=quantity, **equal)

    for row in numbers.find(paper="levels", place="Table 1", quantity="surplus"):
        probe, mean = (get("Table 1", name, model=row.model, group="") for name in ("probe", "behaviour"))
        tasks = [
            get("Table 1", "behaviour", model=row.model, group=task).value for task in ("qa", "paraphrase")
        ]
        assert row.value == pytest.approx(probe.value - mean.value, abs=0.0011)
        assert mean.value == pytest.approx(np.mean(tasks), abs=0.0011)
        ratio = get("Table 1", "behaviour_ratio", model=row.model)
        assert ratio.value == pytest.approx(mean.value / probe.value, abs=0.0015)
    for row in numbers.find(paper="levels", place="Table 7", quantity="gap"):
        probe, mean = (
            get("Table 7", name, model=row.model, group=row.group) for name in ("probe", "behaviour")
        )
        assert row.value == pytest.approx(probe.value - mean.value, abs=0.0011)
    for row in numbers.find(paper="levels", place="Table 4", group=""):
        each = [
            one.value for one in numbers.find(paper="levels", place="Table 4", model=row.model) if one.group
        ]
        assert len(each) == 3
        assert (row.value, row.spread) == pytest.approx((np.mean(each), np.std(each)), abs=0.0011)
    for place in ("Table 8", "Table 9"):
        for row in numbers.find(paper="levels", place=place, quantity="verb_out_gap"):
            both = [
                get(place, name, model=row.model, group=row.group).value for name in ("item_out", "verb_out")
            ]
            assert row.value == pytest.approx(both[0] - both[1], abs=0.0011)
    for row in numbers.find(paper="levels", place="Table 5", quantity="surplus"):
        both = [
            get("Table 5", name, model=row.model, group=row.group).value for name in ("probe", "behaviour")
        ]
        assert row.value == pytest.approx(both[0] - both[1], abs=0.0011)


def test_the_contradictions_follow_from_the_typed_tables(numbers) -> None:
    cells: dict[tuple[str, str], dict[str, float]] = {}
    for row in numbers.find(paper="levels", place="Table 5"):
        cells.setdefault((row.model, row.group), {})[row.quantity] = row.value
    inverted = [key for key, row in cells.items() if not row["behaviour"] <= row["lm_head"] <= row["probe"]]
    assert (len(cells), len(inverted)) == (21, 8)
    behaviour = {
        row.model: row.value
        for row in numbers.find(paper="levels", place="Table 1", quantity="behaviour", group="")
    }
    without = [
        np.mean([value for name, value in behaviour.items() if not name.startswith(family)])
        for family in ("qwen3", "llama", "gemma")
    ]
    assert without == pytest.approx([0.529, 0.585, 0.596], abs=0.0007)
    surplus = [row.value for row in numbers.find(paper="levels", place="Table 1", quantity="surplus")]
    assert np.mean(surplus) == pytest.approx(numbers.look_up(quantity="surplus_mean").value, abs=0.0005)


def test_lucky_defaults_counts_of_flagged_cells_follow_from_the_typed_cells(numbers) -> None:
    largest: dict[tuple, float] = {}
    for row in numbers.find(paper="lucky_defaults", place="Table 4"):
        key = (row.model, row.group, row.layer)
        largest[key] = max(largest.get(key, 0.0), row.value)
    assert len(largest) == 8
    for row in numbers.find(paper="lucky_defaults", place="Table 2"):
        threshold = float(row.group.removeprefix("threshold "))
        assert sum(value >= threshold for value in largest.values()) == row.value


def test_a_printed_number_knows_how_far_it_was_rounded(numbers) -> None:
    row = numbers.look_up(paper="fragility", place="Table 1", dataset="syntax", quantity="plateau_accuracy")
    assert (row.printed, row.value, row.rounding) == ("0.774", 0.774, pytest.approx(0.0005))
    assert numbers.look_up(quantity="training_tokens").rounding == pytest.approx(0.05e12)


# Look-up


def test_a_look_up_that_fits_several_numbers_says_what_tells_them_apart(numbers) -> None:
    with pytest.raises(StrataprobeError, match=r"11 have .*differ in step"):
        numbers.look_up(paper="fragility", place="Table 3")
    assert numbers.look_up(paper="fragility", place="Table 99") is None
    with pytest.raises(StrataprobeError, match="no field colour"):
        numbers.find(colour="red")


def test_our_rows_get_what_is_published_for_the_same_thing_and_nothing_else(numbers) -> None:
    ours = [
        {"model": "nano", "dataset": "sentiment", "quantity": "onset_accuracy", "group": "", "value": 0.8},
        {
            "model": "nano",
            "dataset": "sentiment",
            "quantity": "onset_accuracy",
            "group": "seed 7",
            "value": 0.8,
        },
        {"model": "nano", "dataset": "sentiment", "quantity": "onset_step", "value": None},
    ]
    made = numbers.beside(ours, paper="fragility", place="Table 1", model="olmo2-1b-early")
    assert made[0]["published"] == 0.79
    assert made[0]["difference"] == pytest.approx(0.01)
    assert made[0]["published_status"] == "ok"
    assert (made[1]["published"], made[1]["published_status"]) == (None, "")
    assert (made[2]["published"], made[2]["difference"]) == (2000.0, None)
    other = numbers.beside(ours, paper="fragility", place="Table 1", model="olmo3-7b")
    assert [row["published"] for row in other] == [None] * 3


def test_every_fault_of_a_numbers_file_is_listed_by_line(tmp_path) -> None:
    good = dict.fromkeys(COLUMNS, "") | {
        "paper": "levels", "place": "Table 1", "quantity": "q", "value": "0.5", "unit": "fraction",
        "status": "ok",
    }  # fmt: skip
    rows = [good, good, {**good, "value": "many", "layer": "1.5", "place": "Table 2"},
            {**good, "status": "doubtful", "quantity": ""}, {**good, "status": "withdrawn", "paper": "other"},
            {**good, "value": "nan"}]  # fmt: skip
    path = tmp_path / "levels.csv"
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(StrataprobeError) as caught:
        read_numbers(path)
    said = str(caught.value)
    for part in (
        "levels.csv:3: there already", "levels.csv:4: 'layer' is '1.5', not a whole number",
        "levels.csv:4: 'value' is 'many'", "levels.csv:5: 'quantity' is empty", "'doubtful', not one of ok",
        "'other', not one of fragility", "needs its reason", "levels.csv:7: 'value' is 'nan'",
    ):  # fmt: skip
        assert part in said, part
    path.write_text("a,b\n1,2\n")
    with pytest.raises(StrataprobeError, match=r"levels.csv:1: its header"):
        read_numbers(path)
    with pytest.raises(StrataprobeError, match="cannot read"):
        read_numbers(tmp_path / "none.csv")


# The paper's tables


def test_table_1_has_onset_plateau_and_seeds_beside_the_published_ones(numbers) -> None:
    seeds = {42: [(0, 0.5), (1000, 0.74), (2000, 0.8)], 43: [(0, 0.5), (1000, 0.62), (2000, 0.76)]}
    rows = paper_tables.table1({"compositional": seeds}, numbers, model="nano")
    assert {tuple(row) for row in rows} == {paper_tables.COLUMNS}
    by = {(row["quantity"], row["group"]): row for row in rows}
    assert by["onset_step", ""]["value"] == 2000
    assert (by["onset_accuracy", ""]["value"], by["onset_accuracy", ""]["published"]) == (0.78, 0.709)
    assert by["onset_accuracy", ""]["published_spread"] == 0.025
    assert by["plateau_accuracy", ""]["spread"] == pytest.approx(0.04 / 2**0.5)
    assert (by["onset_step", "seed 42"]["value"], by["onset_step", "seed 42"]["published"]) == (1000, 4000)
    assert by["onset_step", "seed 43"]["value"] == 2000


def test_tables_a_and_d2_stand_beside_the_published_ones(numbers) -> None:
    curves = {"care_harm": {42: [(0, 0.75), (2000, 1.0)], 43: [(0, 0.7), (2000, 0.9)]}}
    rows = paper_tables.table_a(curves, numbers, model="nano")
    by = {(row["quantity"], row["step"]): row for row in rows}
    assert by["peak_accuracy", 0]["value"] == pytest.approx(0.725)
    assert by["peak_accuracy", 0]["published"] == 0.688
    first = by["first_step_at_100", None]
    assert (first["value"], first["n"], first["note"], first["published"]) == (
        2000.0,
        1,
        "1 seeds never",
        2000.0,
    )
    rows = paper_tables.table_d2({"role_reversal": 0.55, "": 0.6, "mine": 0.5}, numbers)
    assert [row["published"] for row in rows] == [0.57, 0.63, None]


# Golden: the authors' own files


def printed(numbers, row: dict, **equal) -> bool:
    """Whether our unrounded value rounds to what the paper prints."""
    number = numbers.look_up(paper="fragility", model="olmo2-1b-early", quantity=row["quantity"],
                             dataset=row["dataset"], group=row["group"], **equal)  # fmt: skip
    return abs(row["value"] - number.value) <= number.rounding + 1e-9


@golden
def test_golden_table_1_to_the_printed_digit(numbers) -> None:
    curves = read_curves(REFERENCE / "c2_emergence_timing.json")["mean_accuracy"]
    four = read_curves(REFERENCE / "compositional_4seed.json", dataset="compositional")["mean_accuracy"]
    rows = paper_tables.table1({**curves, **four}, numbers, model="olmo2-1b-early")
    got = {(row["dataset"], row["quantity"], row["group"]): row for row in rows}
    for dataset, onset, accuracy, plateau in (
        ("moral", 1000, 0.760, 0.960), ("sentiment", 2000, 0.790, 0.976),
        ("compositional", 5000, 0.709, 0.769), ("syntax", 6000, 0.717, 0.775),
    ):  # fmt: skip
        assert got[dataset, "onset_step", ""]["value"] == onset
        assert round(got[dataset, "onset_accuracy", ""]["value"], 3) == accuracy
        assert round(got[dataset, "plateau_accuracy", ""]["value"], 3) == plateau
    # Printed as 0.025, though the authors' own file has 0.02446 in its field `std`.
    assert got["compositional", "onset_accuracy", ""]["spread"] == pytest.approx(0.0244601, abs=1e-7)
    assert got["compositional", "onset_accuracy", ""]["published_spread"] == 0.025
    assert round(got["compositional", "plateau_accuracy", ""]["spread"], 3) == 0.030
    seeds = [got["compositional", "onset_step", f"seed {seed}"]["value"] for seed in (42, 43, 44, 45)]
    assert seeds == [4000, 4000, 7000, 7000]
    kinds = {row["dataset"]: row["note"] for row in rows if row["quantity"] == "transition_steps"}
    assert kinds == {"moral": "sharp", "sentiment": "sharp", "compositional": "gradual", "syntax": "gradual"}
    wrong = [
        row for row in rows if row["published"] is not None and not printed(numbers, row, place="Table 1")
    ]
    assert [(row["dataset"], row["quantity"]) for row in wrong] == [("syntax", "plateau_accuracy")]


@golden
def test_golden_table_3_and_the_decision_rule(numbers) -> None:
    curves = read_curves(REFERENCE / "compositional_4seed.json", dataset="compositional")[
        "mean_critical_noise"
    ]
    by_seed = [dict(curve) for curve in curves["compositional"].values()]
    rows = numbers.find(paper="fragility", place="Table 3")
    assert len(rows) == 11
    for row in rows:
        values = [curve[row.step] for curve in by_seed]
        assert np.mean(values) == pytest.approx(row.value, abs=row.rounding + 1e-9)
        assert onsets.spread(values) == pytest.approx(row.spread, abs=0.005 + 1e-9)
    found = onsets.decision_rule(*([curve[step] for curve in by_seed] for step in (7000, 30000)))
    rounded = [round(found[name], 3) for name in ("mean_a", "mean_b", "gap", "largest_sd")]
    assert (found["real"], rounded) == (True, [4.653, 2.459, 2.194, 0.836])
