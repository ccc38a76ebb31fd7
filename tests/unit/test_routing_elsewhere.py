"""Predictions made elsewhere come to the rows of a study, with empty columns where nothing is known."""

from itertools import combinations, product

import numpy as np
import pytest

from strataprobe import concentration, routing
from strataprobe.concentration import Partition, Thresholds
from strataprobe.tables.routing import LISTS, routing_rows
from strataprobe.tabular.routing_columns import ROUTING_COLUMNS, ROUTING_KEY

OF = {"was": "past", "had": "past", "will": "future", "shall": "future"}
PARTITION = Partition.checked(("past", "future"), OF)
SETTINGS = {"bootstrap": 200, "sensitivity": [0.95, 0.75, 0.5], "seed": 7}
KEY = {"model": "made", "revision": "main", "step": None, "dataset": "predictions"}
NOT_KNOWN = {
    "depth", "class_accuracy", "property_accuracy", "canonical_p_top_min", "canonical_p_top_mean",
    "swapped_property_accuracy", "swapped_coarse_accuracy",
}  # fmt: skip
# Item -> its side, and how often each class (in the order of OF) is predicted for its stimuli.
SPREAD = {"gop": ("past", (3, 1, 1, 0)), "dax": ("past", (1, 3, 0, 1)),
          "zim": ("future", (1, 0, 2, 2)), "wug": ("future", (0, 1, 1, 3))}  # fmt: skip
ONE_EACH = {"gop": ("past", (5, 0, 0, 0)), "dax": ("past", (0, 5, 0, 0)),
            "zim": ("future", (0, 0, 5, 0)), "wug": ("future", (0, 0, 0, 5))}  # fmt: skip
ONE_CLASS = {item: (side, (5, 0, 0, 0)) for item, (side, _) in SPREAD.items()}


def lines(table, *cell) -> list[str]:
    """Rows of a csv in which the stimuli of each item are predicted so often to be of each class."""
    return [
        ",".join([*map(str, cell), item, side, f"{item}{number}", name])
        for item, (side, counts) in table.items()
        for number, name in enumerate(
            name for name, count in zip(OF, counts, strict=True) for _ in range(count)
        )
    ]


@pytest.fixture
def summary(tmp_path):
    def read(rows, cell_columns=(), **thresholds):
        path = tmp_path / "made.csv"
        path.write_text("\n".join([",".join([*cell_columns, *concentration.reading.COLUMNS]), *rows]) + "\n")
        read = concentration.read_predictions(path, PARTITION)
        return routing.summary_of(read, thresholds=Thresholds(**thresholds), settings=SETTINGS)

    return read


def test_a_cell_has_the_values_that_counting_by_hand_gives(summary):
    (row,) = summary(lines(SPREAD))["cells"]
    # On the intended side: 4, 4, 4 and 4 of 5. Of 20: was 5, had 5, will 4, shall 6.
    assert row["coarse_accuracy"] == 16 / 20
    assert (row["p_top_min"], row["p_top_mean"], row["p_top_max"]) == (0.4, pytest.approx(2.2 / 4), 0.6)
    assert (row["max_share"], row["top_class"], row["side_mass"]) == (0.3, "shall", 0.5)
    assert row["hhi"] == pytest.approx((25 + 25 + 16 + 36) / 400)
    assert row["effective_targets"] == pytest.approx(400 / 102)
    assert (row["scope"], row["classes"], row["items"], row["stimuli"]) == ("all", 4, 4, 20)
    # Two of four items on the second side: six ways, of which the intended one alone agrees in 16 of 20.
    second = [1, 1, 4, 4]
    ways = [sum(second[i] if i in way else 5 - second[i] for i in range(4)) / 20
            for way in combinations(range(4), 2)]  # fmt: skip
    assert row["relabelling_p"] == sum(way >= 16 / 20 for way in ways) / 6 == 1 / 6
    assert row["relabelling_mean"] == pytest.approx(np.mean(ways))
    # As many items agree, each as a whole, when each is on the second side by chance 1/2.
    agreeing = [sum(way) / 4 for way in product((0, 1), repeat=4)]
    assert row["prototype_p"] == pytest.approx(np.mean([one >= 16 / 20 for one in agreeing]))
    assert row["coarse_low"] <= row["coarse_accuracy"] <= row["coarse_high"]


def test_rows_are_those_that_the_tables_take_and_what_is_not_known_is_empty(summary):
    found = summary(
        lines(SPREAD, "mention->call", "head", "tail", 4),
        ("direction", "train_anchor", "test_anchor", "layer"),
    )
    for table, name in LISTS.items():
        if name != "many_class":
            rows = routing_rows(table, [{**KEY, **found}])
            assert len(rows) == len(found[name])
            assert all(set(row) == set(ROUTING_COLUMNS[table]) for row in rows)
    (row,) = found["cells"]
    assert set(row) == set(ROUTING_COLUMNS["routing_cells"]) - set(ROUTING_KEY)
    assert {name for name, value in row.items() if value is None} == NOT_KNOWN
    assert [row[name] for name in ("direction", "train_anchor", "test_anchor", "layer")] == [
        "mention->call", "head", "tail", 4,
    ]  # fmt: skip
    assert (found["words"], found["leakage"]) == ([], [])


def test_without_columns_of_cells_there_is_one_cell_of_the_scope_all(summary):
    found = summary(lines(SPREAD))
    (row,) = found["cells"]
    place = ("direction", "train_anchor", "test_anchor", "layer")
    assert (row["scope"], [row[name] for name in place]) == ("all", [None] * 4)
    assert {(one["scope"], one["layer"]) for one in found["counts"]} == {("all", None)}
    assert row["path"] == row["verdict"] == "pass", "a cell of one scope is what it is there"


def test_counts_are_those_of_the_file_and_no_zero_stands_among_them(summary):
    rows = summary(lines(SPREAD, 3) + lines(ONE_CLASS, 5), ("layer",))["counts"]
    found = {(one["layer"], one["item"], one["predicted"]): one["count"] for one in rows}
    assert found == {
        (layer, item, name): count
        for layer, table in ((3, SPREAD), (5, ONE_CLASS))
        for item, (_, counts) in table.items()
        for name, count in zip(OF, counts, strict=True)
        if count
    }
    assert len(found) == len(rows)
    assert all(one["predicted_property"] == OF[one["predicted"]] for one in rows)
    assert all(one["item_property"] == SPREAD[one["item"]][0] for one in rows)
    assert not any(one["canonical"] for one in rows)


def test_the_gate_is_one_condition_shorter_and_its_thresholds_are_those_given(summary):
    verdicts = {name: summary(lines(table))["cells"][0]["verdict"]
                for name, table in (("spread", SPREAD), ("each", ONE_EACH), ("one", ONE_CLASS))}  # fmt: skip
    assert verdicts == {"spread": "pass", "each": "lucky default", "one": "fail"}
    assert summary(lines(SPREAD), coarse_accuracy=0.81)["cells"][0]["verdict"] == "fail"
    assert summary(lines(SPREAD), lucky=0.4)["cells"][0]["verdict"] == "lucky default"
    # Of no known word: a property accuracy that nobody could have reached is no matter.
    assert summary(lines(SPREAD), property_accuracy=0.999)["cells"][0]["verdict"] == "pass"


def test_a_path_goes_over_the_scopes_of_its_own_cell(summary):
    rows = [
        *lines(SPREAD, "small", 1), *lines(SPREAD, "large", 1),
        *lines(SPREAD, "small", 2), *lines(ONE_EACH, "large", 2),
        *lines(SPREAD, "small", 3), *lines(ONE_CLASS, "large", 3),
        *lines(ONE_CLASS, "small", 4), *lines(SPREAD, "large", 4),
        *lines(SPREAD, "small", 5),
    ]  # fmt: skip
    found = summary(rows, ("scope", "layer"))
    paths = {(row["scope"], row["layer"]): row["path"] for row in found["cells"]}
    # Collapsed to one class, p_w,min is 1 too: a lucky default whatever its coarse accuracy.
    wanted = {1: "pass", 2: "lucky default", 3: "lucky default", 4: "not passed", 5: "pass"}
    assert paths == {
        (scope, layer): wanted[layer] for layer in wanted for scope in ("small", "large")[: 1 + (layer < 5)]
    }
    # Layers 1, 2, 3 and 5 pass at first; the highest floors of their scopes are 0.4, 1, 1 and 0.4.
    assert found["sensitivity"] == [
        {"threshold": 0.95, "flagged": 2, "passed": 4},
        {"threshold": 0.75, "flagged": 2, "passed": 4},
        {"threshold": 0.5, "flagged": 2, "passed": 4},
    ]


def test_a_retracted_cell_fails_the_gate_at_a_later_scope_without_a_default(summary):
    turned = {item: (side, SPREAD[{"gop": "zim", "zim": "gop"}.get(item, item)][1])
              for item, (side, _) in SPREAD.items()}  # fmt: skip
    found = summary([*lines(SPREAD, "small"), *lines(turned, "large")], ("scope",))
    assert [(row["verdict"], row["path"]) for row in found["cells"]] == [
        ("pass", "retracted"), ("fail", "retracted"),
    ]  # fmt: skip


def test_a_path_follows_the_order_of_the_file_though_items_differ_between_cells(summary):
    """Cells are counted in groups of the same items; that must not turn the scopes of a cell round."""
    fewer = {item: SPREAD[item] for item in ("gop", "zim")}
    each = {item: ONE_EACH[item] for item in SPREAD}
    rows = [*lines(SPREAD, "small", 1), *lines(fewer, "small", 2), *lines(each, "large", 2)]
    found = summary(rows, ("scope", "layer"))
    at = {(row["layer"], row["scope"]): row for row in found["cells"]}
    assert (at[2, "small"]["items"], at[2, "large"]["items"]) == (2, 4)
    assert at[2, "small"]["verdict"] == "pass"
    assert {row["path"] for (layer, _), row in at.items() if layer == 2} == {"lucky default"}
    assert [(row["layer"], row["scope"]) for row in found["cells"]] == [
        (1, "small"), (2, "small"), (2, "large"),
    ]  # fmt: skip


def test_where_no_cell_passes_nothing_is_flagged(summary):
    found = summary(lines(ONE_CLASS, 1) + lines(ONE_CLASS, 2), ("layer",))
    assert [(one["flagged"], one["passed"]) for one in found["sensitivity"]] == [(0, 0)] * 3
    assert {row["path"] for row in found["cells"]} == {"not passed"}


def test_the_order_of_the_rows_and_cells_beside_it_change_no_cell(summary):
    alone = summary(lines(SPREAD, 1), ("layer",))["cells"]
    backwards = summary([*lines(ONE_EACH, 2), *lines(SPREAD, 1)[::-1]], ("layer",))["cells"]
    assert [row for row in backwards if row["layer"] == 1] == alone
