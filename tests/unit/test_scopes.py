"""Paths, tables and figures go over the scopes of a study in one order."""

from itertools import permutations

import pytest

from strataprobe import concentration, routing
from strataprobe.concentration.scopes import scopes_of
from strataprobe.figures.routing_frames import Routes
from strataprobe.published.lucky_results import Cells
from strataprobe.tables.routing import routing_rows
from tests import routing_cases as cases

# Item -> its side, and the classes predicted for its stimuli.
SPREAD = {"dog": ("animal", "cat cat cow fig"), "elm": ("plant", "fig fig oak cow")}
FIVE = SPREAD | {"ewe": ("animal", "cow cow cat oak"), "ash": ("plant", "oak oak fig cat"),
                 "yew": ("plant", "oak fig fig oak")}  # fmt: skip
# As many items, all of one class: a lucky default where it comes after a pass, no pass where it comes first.
COLLAPSED = {item: (side, "cat cat cat cat") for item, (side, _) in FIVE.items()}
OF = {"cat": "animal", "cow": "animal", "fig": "plant", "oak": "plant"}


@pytest.fixture
def cells_of(tmp_path):
    def read(scopes: dict[str, dict], layer: int = 0) -> list[dict]:
        lines = [
            f"{scope},{layer},{item},{side},s{number},{name}"
            for scope, table in scopes.items()
            for item, (side, classes) in table.items()
            for number, name in enumerate(classes.split())
        ]
        path = tmp_path / "made.csv"
        path.write_text("\n".join(["scope,layer,item,property,stimulus,predicted", *lines, ""]))
        partition = concentration.Partition.checked(("animal", "plant"), OF)
        return routing.summary_of(
            concentration.read_predictions(path, partition),
            thresholds=concentration.Thresholds(),
            settings={"bootstrap": 20, "sensitivity": [0.95], "seed": 0},
        )

    return read


@pytest.mark.parametrize("order", list(permutations(["two", "five", "lump"])))
def test_a_path_goes_from_the_fewest_items_on_however_the_file_is_sorted(cells_of, order):
    given = {"two": SPREAD, "five": FIVE, "lump": COLLAPSED}
    found = cells_of({scope: given[scope] for scope in order})
    at = {row["scope"]: row["verdict"] for row in found["cells"]}
    assert (at["two"], at["five"], at["lump"]) == ("pass", "pass", "fail")
    assert {row["path"] for row in found["cells"]} == {"lucky default"}
    assert found["sensitivity"] == [{"threshold": 0.95, "flagged": 1, "passed": 1}]
    key = {"model": "m", "revision": "main", "step": None, "dataset": "predictions"}
    rows = routing_rows("routing_cells", [{**key, **found}])
    wanted = ("two", *(scope for scope in order if scope != "two"))
    assert Cells.last(rows)[0].scopes == wanted, "of equals the first of the file is first"
    routes = Routes.of(cases.as_read("routing_cells", rows))
    assert routes.scopes == wanted
    assert [routes.paths[cell] for cell in routes.passing] == ["lucky default"]


def test_a_scope_is_as_large_as_its_largest_cell_and_classes_count_before_items():
    rows = [
        {"scope": "b", "classes": 4, "items": 2}, {"scope": "a", "classes": 4, "items": 3},
        {"scope": "b", "classes": 4, "items": 9}, {"scope": "c", "classes": 2, "items": 20},
        {"scope": "b", "classes": 4, "items": 1}, {"scope": "d", "classes": 4, "items": 3},
    ]  # fmt: skip
    assert scopes_of(rows) == ("c", "a", "d", "b")
    assert scopes_of(rows[::-1]) == ("c", "d", "a", "b")
    assert scopes_of([]) == ()
