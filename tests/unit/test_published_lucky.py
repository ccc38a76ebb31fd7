"""The lucky-defaults paper's tables from our cells, and its own numbers put through the same code."""

import numpy as np
import pytest

from strataprobe import concentration, tables
from strataprobe.concentration import LUCKY, NOT_PASSED, PASS
from strataprobe.concentration.scopes import scopes_of
from strataprobe.published import formatted, lucky_tables, read_numbers
from strataprobe.published.lucky_results import Cells, at_scope, bare, block_of
from strataprobe.tables.routing import routing_rows
from tests import routing_cases as cases
from tests.unit.test_formatted import Page
from tests.unit.test_published import FOLDER

GATE = {"hhi": 0.70, "max_share": 0.85}
# How the study spells what the paper shortens.
MODELS = {"olmo2-7b": "olmo-2-7b", "gemma2-9b": "gemma2-9b", "pythia-6.9b": "pythia-6.9b-deduped"}
ANCHORS = {"opera": "operator-after", "sente": "sentence-final", "first": "first-arg", "close": "close-paren"}
SIDES = {"N": "mention", "F": "call"}


@pytest.fixture(scope="module")
def numbers():
    return read_numbers(FOLDER / "lucky_defaults.csv")


@pytest.fixture(scope="module")
def ours() -> dict[str, list[dict]]:
    given = [cases.summary("small"), cases.summary("bare", seed=4, passing=False)]
    return {name: routing_rows(name, given) for name in ("routing_cells", "routing_sensitivity")}


@pytest.fixture(scope="module")
def made(ours, numbers) -> dict[str, list[dict]]:
    return lucky_tables.made(ours["routing_cells"], ours["routing_sensitivity"], numbers, **GATE)


@pytest.fixture(scope="module")
def of_the_paper(numbers) -> tuple[list[dict], list[dict]]:
    """Rows of cells and of sensitivity with what the paper's Table 4 prints, under our names."""
    printed: dict[tuple, dict[str, float]] = {}
    for number in numbers.find(paper="lucky_defaults", place="Table 4"):
        printed.setdefault((number.model, number.group, number.layer), {})[number.dataset] = number.value
    least = np.array([list(by_scope.values()) for by_scope in printed.values()])
    # Each passes at the first scope, and none by its A_pi afterwards.
    verdicts = np.full(least.shape, "property only", dtype=object)
    verdicts[:, 0] = PASS
    paths = concentration.paths(verdicts, least, concentration.Thresholds())
    rows = []
    for (model, group, layer), floors, given, path in zip(printed, least, verdicts, paths, strict=True):
        direction, anchors = group.split("/")
        own = {"model": MODELS[model], "revision": "main", "step": None, "dataset": "operators"}
        # The paper's layer 1 is what leaves the first block.
        own |= {"direction": "->".join(SIDES[side] for side in direction.split(">")), "layer": layer - 1}
        own |= dict(zip(("train_anchor", "test_anchor"), map(ANCHORS.get, anchors.split(">")), strict=True))
        for scope, floor, verdict in zip(cases.SCOPES, floors, given, strict=True):
            classes, items = cases.SCOPES[scope]
            row = dict.fromkeys(tables.COLUMNS["routing_cells"]) | own
            row |= {"scope": scope, "classes": classes, "items": items, "verdict": verdict, "path": str(path)}
            rows.append(row | {"p_top_min": float(floor), "coarse_accuracy": 0.5, "hhi": 0.9})
    sensitivity = [
        {"model": model, "revision": "main", "step": None, "dataset": "operators", **found}
        for model in MODELS.values()
        for own in [[place for place, key in enumerate(printed) if MODELS[key[0]] == model]]
        for found in concentration.sensitivity(least[own], np.ones(len(own), bool), cases.THRESHOLDS)
    ]
    return rows, sensitivity


def of(rows: list[dict], **equal) -> list[dict]:
    return [row for row in rows if all(row[name] == value for name, value in equal.items())]


def one(rows: list[dict], **equal) -> dict:
    (found,) = of(rows, **equal)
    return found


# The paper's own numbers


def test_the_paper_s_cells_stand_beside_themselves_with_its_flags(of_the_paper, numbers):
    rows = lucky_tables.made(*of_the_paper, numbers, **GATE)["lucky_table4"]
    assert len(rows) == 32 == len(numbers.find(paper="lucky_defaults", place="Table 4"))
    assert {row["difference"] for row in rows} == {0.0}
    flagged = {(row["model"], row["layer"]) for row in rows if row["path"] == LUCKY}
    assert flagged == {("olmo-2-7b", 9), ("pythia-6.9b-deduped", 9)}
    assert {row["path"] for row in rows} == {LUCKY, "retracted"}
    for row in rows:
        assert (row["published_verdict"] == LUCKY) == (row["published_note"] == "flagged"), row


def test_a_published_layer_is_our_block_one_below_and_both_are_named(of_the_paper, numbers):
    rows, sensitivity = of_the_paper
    found = lucky_tables.made(rows, sensitivity, numbers, **GATE)["lucky_table4"]
    assert {int(row["published_cell"].split("layer ")[1].split(",")[0]) - row["layer"] for row in found} == {
        1
    }
    (row,) = of(found, model="olmo-2-7b", layer=9, scope="5x5")
    assert row["cell"] == "mention → call, sentence-final → close-paren, layer 9"
    assert row["published_cell"] == "N>F/sente>close, layer 10, our block 9"
    moved = [{**row, "layer": row["layer"] + 1} for row in rows]
    found = lucky_tables.made(moved, sensitivity, numbers, **GATE)["lucky_table4"]
    assert {row["published"] for row in of(found, dataset="operators")} == {None}, "another block's states"
    assert len(of(found, dataset="published")) == 32
    assert [block_of(number) for number in numbers.find(place="Table 1")] == [9] * 16


def test_thresholds_on_the_paper_s_table_4_give_its_table_2(of_the_paper, numbers):
    rows = lucky_tables.made(*of_the_paper, numbers, **GATE)["lucky_table2"]
    pooled = of(rows, model="all models")
    assert [(row["threshold"], row["value"], row["n"]) for row in pooled] == [
        ("0.99", 1, 8), ("0.95", 2, 8), ("0.9", 2, 8), ("0.85", 2, 8), ("0.8", 3, 8), ("0.7", 3, 8),
        ("0.6", 4, 8),
    ]  # fmt: skip
    assert {row["difference"] for row in pooled} == {0}
    own = of(rows, model="gemma2-9b")
    assert {(row["n"], row["difference"]) for row in own} == {(2, None)}, "other totals have no difference"
    assert [row["published"] for row in own] == [row["published"] for row in pooled]


def test_herfindahl_indices_of_table_3_are_of_two_classes_with_its_largest_share(numbers):
    rows = lucky_tables.table3([], numbers, **GATE)
    assert len(rows) == 16
    for cell in dict.fromkeys(row["cell"] for row in rows):
        share, index = (one(rows, cell=cell, quantity=name)["published"] for name in ("max_share", "hhi"))
        assert index == pytest.approx(share**2 + (1 - share) ** 2, abs=0.005)
        assert {row["value"] for row in of(rows, cell=cell)} == {None}


# Ours


def test_table_1_follows_the_passing_cell_with_the_highest_a_pi(ours, made):
    rows = of(made["lucky_table1"], model="small")
    first = of(ours["routing_cells"], model="small", scope="5x5", verdict=PASS)
    best = max(first, key=lambda row: row["coarse_accuracy"])
    assert len(rows) == 4 * 4
    for row in rows:
        assert [row[name] for name in cases.CELL] == [best[name] for name in cases.CELL]
        own = one(
            ours["routing_cells"],
            model="small",
            scope=row["scope"],
            **{name: row[name] for name in cases.CELL},
        )
        assert row["value"] == own[row["quantity"]]
        assert row["verdict"] == (own["verdict"] if row["quantity"] == "p_top_min" else "")
        assert row["published_model"] == "olmo2-7b"
        assert row["difference"] == pytest.approx(own[row["quantity"]] - row["published"])
    row = one(rows, scope="5x16", quantity="coarse_accuracy")
    assert (row["published"], row["published_status"]) == (0.78, "ok")
    row = one(rows, scope="5x5", quantity="p_top_min")
    assert (row["published"], row["published_status"]) == (0.50, "contradicted")
    assert one(rows, scope="15x16", quantity="p_top_min")["published_verdict"] == LUCKY
    assert {row["note"] for row in rows} == {""}


def test_where_no_cell_passes_table_1_follows_the_highest_a_pi_and_says_so_once(ours, made):
    rows = of(made["lucky_table1"], model="bare")
    first = of(ours["routing_cells"], model="bare", scope="5x5")
    assert not of(first, verdict=PASS)
    best = max(first, key=lambda row: row["coarse_accuracy"])
    assert {tuple(row[name] for name in cases.CELL) for row in rows} == {tuple(best[n] for n in cases.CELL)}
    assert [row["note"] for row in rows if row["note"]] == ["no cell passes at 5x5: the highest A_π of all"]


def test_table_2_has_each_model_and_all_together(ours, made):
    rows = made["lucky_table2"]
    assert list(dict.fromkeys(row["model"] for row in rows)) == ["small", "bare", "all models"]
    for level in cases.THRESHOLDS:
        given = of(ours["routing_sensitivity"], threshold=level)
        for row in of(rows, threshold=f"{level:g}"):
            own = [one["flagged"] for one in given if row["model"] in (one["model"], "all models")]
            assert row["value"] == sum(own)
    assert one(rows, model="bare", threshold="0.95")["note"] == "of 0"
    alone = [row for row in ours["routing_sensitivity"] if row["model"] == "small"]
    small = [row for row in ours["routing_cells"] if row["model"] == "small"]
    single = lucky_tables.table2(Cells.last(small), read_numbers(FOLDER / "lucky_defaults.csv"), alone)
    assert {row["model"] for row in single} == {"small"}


def test_table_3_has_the_flagged_cells_that_marginal_indices_let_pass(ours, made):
    rows = of(made["lucky_table3"], dataset="operators")
    expected = {
        (row["model"], row["scope"], *(row[name] for name in cases.CELL))
        for row in ours["routing_cells"]
        if row["coarse_accuracy"] >= 0.65 and row["p_top_min"] >= 0.95
        and row["hhi"] < 0.70 and row["max_share"] <= 0.85
    }  # fmt: skip
    assert len(expected) > 1
    found = [(row["model"], row["scope"], *(row[name] for name in cases.CELL)) for row in rows]
    assert set(found) == expected
    assert len(found) == 4 * len(expected)
    least = min(row["value"] for row in of(rows, quantity="hhi"))
    strict = lucky_tables.table3(
        Cells.last(ours["routing_cells"]), read_numbers(FOLDER / "lucky_defaults.csv"), hhi=least, max_share=1
    )
    assert {row["dataset"] for row in strict} == {"published"}, "an index is below the threshold, not at it"


def test_table_4_has_every_passing_cell_then_the_paper_s(ours, made):
    rows = of(made["lucky_table4"], dataset="operators")
    passing = of(ours["routing_cells"], scope="5x5", verdict=PASS)
    assert len(rows) == 4 * len(passing)
    assert NOT_PASSED not in {row["path"] for row in rows}
    row = rows[0]
    own = one(
        ours["routing_cells"], model="small", scope=row["scope"], **{name: row[name] for name in cases.CELL}
    )
    assert (row["value"], row["interval_low"], row["interval_high"], row["path"]) == (
        own["p_top_min"], own["p_top_min_low"], own["p_top_min_high"], own["path"],
    )  # fmt: skip
    theirs = made["lucky_table4"][len(rows) :]
    assert len(theirs) == 32
    assert {row["value"] for row in theirs} == {None}
    assert {row["path"] for row in of(theirs, cell="N>F/sente>close, layer 10, our block 9")} == {LUCKY}
    assert {row["path"] for row in of(theirs, cell="N>F/opera>close, layer 24, our block 23")} == {
        "retracted"
    }


def test_a_published_cell_that_does_not_pass_here_is_listed_with_our_values(of_the_paper, numbers):
    rows, sensitivity = of_the_paper
    fails = [{**row, "path": NOT_PASSED, "verdict": "fail"} for row in rows]
    found = lucky_tables.made(fails, sensitivity, numbers, **GATE)["lucky_table4"]
    assert len(found) == 32
    assert {(row["path"], row["difference"]) for row in found} == {(NOT_PASSED, 0.0)}


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("OLMo-2-7B", "olmo2-7b"), ("gemma-2-9b", "gemma2-9b"), ("pythia-6.9b-deduped", "pythia-6.9b"),
        ("smollm2-135m-instruct", "smollm2-135m-instruct"),
    ],
)  # fmt: skip
def test_models_are_the_same_however_they_are_spelt(name, same):
    assert bare(name) == same
    assert bare("olmo2-13b") != bare("olmo2-7b")


def test_cells_are_those_of_the_last_checkpoint_and_scopes_are_by_size(ours):
    rows = [row for row in ours["routing_cells"] if row["model"] == "small"]
    both = [{**row, "revision": f"r{step}", "step": step} for step in (2000, 30) for row in rows]
    (found,) = Cells.last(both)
    assert (found.revision, len(found.rows)) == ("r2000", 80)
    assert scopes_of(rows[::-1]) == found.scopes == ("5x5", "5x16", "10x16", "15x16")


def test_a_scope_of_several_is_named_and_quoted_where_it_is_no_size(ours, numbers):
    assert at_scope("5x5", ["5x5", "5x16"]) == " at 5x5"
    assert at_scope("all", ["all", "5x16"]) == " at 'all'"
    assert at_scope("all", ["all"]) == ""
    rows = [{**row, "scope": "all"} for row in of(ours["routing_cells"], model="bare", scope="5x5")]
    row = lucky_tables.table1(Cells.last(rows), numbers)[0]
    assert row["note"] == "no cell passes: the highest A_π of all"
    assert lucky_tables.heading("lucky_table4", row) == "p_w,min at 'all'"


def test_a_cell_without_a_value_is_not_the_best_and_a_missing_scope_has_no_value(ours, numbers):
    rows = [dict(row) for row in ours["routing_cells"] if row["model"] == "small"]
    first = of(rows, scope="5x5", verdict=PASS)
    best = max(first, key=lambda row: row["coarse_accuracy"])
    best["coarse_accuracy"] = None
    (found,) = Cells.last(row for row in rows if row["scope"] != "10x16" or row["path"] == NOT_PASSED)
    cell, passes = found.best()
    rest = [row for row in first if row is not best]
    assert passes
    assert found.at(cell, "5x5")["coarse_accuracy"] == max(row["coarse_accuracy"] for row in rest)
    row = one(lucky_tables.table1([found], numbers), scope="10x16", quantity="hhi")
    assert (row["value"], row["difference"], row["published"]) == (None, None, 1.0)
    assert Cells("m", "main", "d", ("5x5",), {}).best() is None


# Pages and files


@pytest.mark.parametrize("table", lucky_tables.TABLES)
def test_rows_have_the_columns_and_a_page_has_every_number_once(table, made, tmp_path):
    rows = made[table]
    tables.write_csv(tmp_path / "t.csv", rows, lucky_tables.COLUMNS)
    frame = formatted.wide(table, rows)
    filled = (frame != "").to_numpy().sum()
    assert filled == len(rows) + sum(row["published"] is not None for row in rows)
    formatted.write_page(tmp_path / "page.html", table, rows)
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert page.titles == [lucky_tables.TITLES[table]] * 2
    assert page.paragraphs[0] == lucky_tables.INTRODUCTIONS[table]
    assert len(page.body) == len(frame)


def test_a_page_shows_intervals_verdicts_and_what_is_known_of_a_published_number(ours, made, tmp_path):
    rows = made["lucky_table1"]
    row = one(rows, model="small", scope="5x5", quantity="p_top_min")
    frame = formatted.wide("lucky_table1", rows)
    cell = frame.loc[("small", "operators", row["cell"], "5x5")]
    low, high = row["interval_low"], row["interval_high"]
    assert cell["p_w,min", "ours"] == f"{row['value']:.3f} [{low:.3f}, {high:.3f}] (pass)"
    assert cell["p_w,min", "published"] == "0.5†"
    collapsed = frame.loc[("small", "operators", row["cell"], "15x16")]
    assert collapsed["p_w,min", "published"] == "1 (lucky default)"
    formatted.write_page(tmp_path / "page.html", "lucky_table1", rows)
    said = Page((tmp_path / "page.html").read_text(encoding="utf-8")).paragraphs
    assert (
        "† p_w,min (N>F/sente>close, layer 10, our block 9 at 5x5): Table 4 prints 0.56 for this cell."
        in said
    )
    assert "Beside bare: olmo2-7b, small: olmo2-7b." in said
    frame = formatted.wide("lucky_table2", made["lucky_table2"])
    row = one(made["lucky_table2"], model="small", threshold="0.95")
    assert frame.loc[("small", "operators", "0.95")].tolist() == [f"{row['value']} (of {row['n']})", "2"]
