"""Figures of the lucky-defaults study show the numbers of its tables, and say what is missing."""

import re

import numpy as np
import pandas as pd
import pytest
from matplotlib import colors

from strataprobe import concentration, routing
from strataprobe.errors import StrataprobeError
from strataprobe.figures import (
    many_class,
    routing_frames,
    routing_matrix,
    routing_paths,
    routing_plane,
    style,
)
from strataprobe.figures import routing_sensitivity as sensitivity
from strataprobe.published import read_numbers
from strataprobe.tables.routing import LISTS, routing_rows
from tests import routing_cases as cases
from tests.figure_checks import beyond, legends_on_panels, line, overlapping, words
from tests.unit.test_published import FOLDER

TABLES = ("routing_cells", "routing_counts", "routing_sensitivity", "many_class")
THREE = ("olmo2-7b", "gemma2-9b", "pythia-6.9b-deduped")
SCOPES = list(cases.SCOPES)
Frames = dict[str, pd.DataFrame]


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """Fewer dots than a page needs: nobody looks, and the tests are quicker."""
    monkeypatch.setattr(style, "DPI", 50)


@pytest.fixture(scope="module")
def numbers():
    return read_numbers(FOLDER / "lucky_defaults.csv")


def frames(*summaries: dict) -> Frames:
    return {table: cases.frame(table, *summaries) for table in TABLES}


@pytest.fixture(scope="module")
def few() -> Frames:
    return frames(cases.summary("small"))


@pytest.fixture(scope="module")
def none() -> Frames:
    return frames(cases.summary("bare", seed=4, passing=False))


@pytest.fixture(scope="module")
def three() -> Frames:
    return frames(*(cases.summary(name, seed=seed) for seed, name in enumerate(THREE, 3)))


@pytest.fixture(scope="module")
def lacking(few) -> Frames:
    """Without the last scope in some cells, canonical words, some layers and the table of thresholds."""
    cells, layers = few["routing_cells"], few["many_class"]
    gone = (cells["scope"] == "15x16") & cells["layer"].isin([10, 15])
    cells = cells[~gone].assign(canonical_p_top_min=np.nan, coarse_low=np.nan, coarse_high=np.nan)
    made = {
        "routing_cells": cells,
        "routing_counts": few["routing_counts"].query("canonical == 'no'"),
        "routing_sensitivity": few["routing_sensitivity"].iloc[:0],
        "many_class": layers[~layers["layer"].isin([3, 4, 20])],
    }
    return {table: cases.again(table, frame) for table, frame in made.items()}


@pytest.fixture(scope="module")
def long_names(few) -> Frames:
    name = "a-rather-long-name-of-a-model-instruct"
    return {table: frame.assign(model=name) for table, frame in few.items()}


@pytest.fixture(scope="module")
def elsewhere(few) -> Frames:
    """One cell of predictions that were made elsewhere: no direction, anchors, layer or canonical words."""
    whole = dict(zip(cases.CELL, cases.cells_of_study()[2], strict=True))
    unknown = ["depth", "property_accuracy", "class_accuracy"]
    unknown += ["canonical_p_top_min", "canonical_p_top_mean"]
    made = {}
    for table in ("routing_cells", "routing_counts"):
        frame = few[table]
        frame = frame[np.logical_and.reduce([frame[name] == value for name, value in whole.items()])]
        blank = dict.fromkeys(cases.CELL[:3], "") | {"layer": np.nan}
        blank |= {name: np.nan for name in unknown if name in frame}
        made[table] = frame.assign(**blank)
    made["routing_counts"] = made["routing_counts"].query("canonical == 'no'")
    return {**few, **{table: cases.again(table, frame) for table, frame in made.items()}}


OF = {"german": "germanic", "english": "germanic", "french": "romance", "italian": "romance"}
# Item -> its side, and the classes predicted for its stimuli.
SPREAD = {
    "dutch": ("germanic", "german german english french"),
    "frisian": ("germanic", "english english german french"),
    "spanish": ("romance", "italian italian french german"),
    "romansh": ("romance", "french french italian english"),
}
ONE_EACH = {
    "swedish": ("germanic", "german " * 4), "scots": ("germanic", "english " * 4),
    "catalan": ("romance", "french " * 4), "romanian": ("romance", "italian " * 4),
}  # fmt: skip


def predicted(folder, cells: dict[str, dict]) -> Frames:
    """The tables of a csv of predictions that was made elsewhere; without scopes where the one is ""."""
    scoped = "" not in cells
    lines = [
        ",".join([*[scope] * scoped, item, side, f"s{number}", name])
        for scope, table in cells.items()
        for item, (side, classes) in table.items()
        for number, name in enumerate(classes.split())
    ]
    header = ",".join([*["scope"] * scoped, *concentration.reading.COLUMNS])
    (folder / "made.csv").write_text("\n".join([header, *lines, ""]), encoding="utf-8")
    partition = concentration.Partition.checked(("germanic", "romance"), OF)
    found = routing.summary_of(
        concentration.read_predictions(folder / "made.csv", partition),
        thresholds=concentration.Thresholds(),
        settings={"bootstrap": 50, "sensitivity": [0.95, 0.5], "seed": 1},
    )
    key = {"model": "tongues", "revision": "main", "step": None, "dataset": "predictions"}
    whole = {**key, **found, "many_class": cases.many_class()}
    return {table: cases.as_read(table, routing_rows(table, [whole])) for table in LISTS if table in TABLES}


@pytest.fixture(scope="module")
def one_scope(tmp_path_factory) -> Frames:
    """One cell of predictions without a column that tells cells apart: its scope is called `all`."""
    return predicted(tmp_path_factory.mktemp("one"), {"": SPREAD})


@pytest.fixture(scope="module")
def named_scopes(tmp_path_factory) -> Frames:
    """Scopes whose names are no sizes, the larger one first in the file."""
    given = {"next": {**SPREAD, **ONE_EACH}, "exact": SPREAD}
    return predicted(tmp_path_factory.mktemp("named"), given)


def kinds(given: Frames, numbers) -> dict:
    cells = given["routing_cells"]
    one = [(cells["model"].iloc[0], "main")] if len(cells) else []
    return {
        "routing_matrix": lambda: routing_matrix.draw(
            given["routing_counts"], cells, title="t", models=one
        ),
        "canonical": lambda: routing_matrix.draw(
            given["routing_counts"], cells, title="t", models=one, canonical=True
        ),
        "routing_paths": lambda: routing_paths.draw(cells, title="t"),
        "routing_plane": lambda: routing_plane.draw(cells, title="t"),
        "routing_sensitivity": lambda: sensitivity.draw(
            given["routing_sensitivity"], cells, numbers, title="t"
        ),
        "many_class": lambda: many_class.draw(
            given["many_class"], title="t", models=one, sides={"individualising": [3, 3], "binding": [4, 2]}
        ),
    }  # fmt: skip


KINDS = list(kinds(dict.fromkeys(TABLES, pd.DataFrame({"model": []})), None))


def row_of(frame: pd.DataFrame, **equal) -> pd.Series:
    found = frame[np.logical_and.reduce([frame[name] == value for name, value in equal.items()])]
    assert len(found) == 1, equal
    return found.iloc[0]


def passing(frame: pd.DataFrame) -> dict[tuple, pd.DataFrame]:
    """Cell -> its rows by scope, of the cells that pass at the first scope."""
    first = frame[(frame["scope"] == "5x5") & (frame["verdict"] == "pass")]
    found = {}
    for cell in first[list(cases.CELL)].itertuples(index=False, name=None):
        own = frame[np.logical_and.reduce([frame[n] == v for n, v in zip(cases.CELL, cell, strict=True)])]
        found[cell] = own.set_index("scope").reindex(SCOPES)
    return found


def said_of(figure) -> str:
    return figure.get_supxlabel().replace("\n", " ")


def name_of(cell: tuple) -> str:
    return f"{cell[0].replace('->', ' → ')}, {cell[1]} → {cell[2]}, L{cell[3]}"


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_tables_give_the_same_bytes(few, numbers, kind, tmp_path):
    for name in ("one", "two"):
        style.save(kinds(few, numbers)[kind](), tmp_path / f"{name}.svg", tmp_path / f"{name}.png")
    for suffix in ("svg", "png"):
        first = (tmp_path / f"one.{suffix}").read_bytes()
        assert first == (tmp_path / f"two.{suffix}").read_bytes()
        assert len(first) > 3000


OF_CELLS = ("none", "three", "lacking", "long_names", "elsewhere", "one_scope", "named_scopes")
OF_LAYERS = ("few", "lacking", "long_names")


@pytest.mark.parametrize(
    ("kind", "given"),
    [(kind, given) for kind in KINDS for given in (OF_LAYERS if kind == "many_class" else OF_CELLS)],
)
def test_no_words_overlap_none_leave_the_page_and_the_legend_covers_no_panel(kind, given, numbers, request):
    figure = kinds(request.getfixturevalue(given), numbers)[kind]()
    # Letters are fitted to whole dots, so a layout found with fewer has too little room for them.
    figure.set_dpi(200)
    seen = words(figure)
    assert overlapping(figure, seen) == []
    assert beyond(figure, seen) == []
    if kind not in ("routing_matrix", "canonical"):
        assert legends_on_panels(figure) == []


@pytest.mark.parametrize("kind", ["routing_paths", "routing_plane", "many_class"])
def test_marks_of_a_legend_differ_in_more_than_colour(three, numbers, kind):
    figure = kinds(three, numbers)[kind]()
    last = -2 if kind == "many_class" else None
    legends = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    for found in legends[last:] if last else legends[:1]:
        seen = [
            (str(each._dash_pattern), each.get_marker(), each.get_markersize(), each.get_linestyle())
            for each in found.legend_handles
        ]
        assert len(set(seen)) == len(seen) > 3, seen


@pytest.mark.parametrize("kind", KINDS)
def test_mixed_repeated_and_missing_rows_are_refused(few, numbers, kind):
    def draw(change):
        kinds({table: change(frame) for table, frame in few.items()}, numbers)[kind]()

    with pytest.raises(StrataprobeError, match="nothing to draw"):
        draw(lambda frame: frame.iloc[:0])
    with pytest.raises(StrataprobeError, match="dataset: operators, other; choose one"):
        draw(lambda frame: pd.concat([frame, frame.assign(dataset="other")]))
    if kind in ("routing_paths", "routing_plane", "routing_sensitivity"):
        with pytest.raises(StrataprobeError, match="small: revisions main, step5; choose one"):
            draw(lambda frame: pd.concat([frame, frame.assign(revision="step5")]))
        with pytest.raises(StrataprobeError, match=r"cells that are in the table twice(.|\n)*and 315 more"):
            draw(lambda frame: pd.concat([frame, frame]))


def test_what_becomes_of_cells_is_what_the_library_says():
    assert {*routing_frames.PATHS, concentration.NOT_PASSED} == set(concentration.PATHS)
    assert set(routing_frames.PATH_LOOK) == set(routing_frames.PATHS)
    assert set(routing_frames.VERDICT_LOOK) == set(concentration.VERDICTS)


def test_models_are_those_asked_for_in_their_revision(three, few, numbers):
    both = pd.concat([three["routing_cells"], three["routing_cells"].assign(revision="other", path="pass")])
    wanted = [("gemma2-9b", "main"), ("never-run", "main")]
    figure = routing_paths.draw(both, title="t", models=wanted)
    assert said_of(figure).startswith("gemma2-9b; operators; 80 cells a scope.")
    assert "No row at all: never-run." in said_of(figure)
    with pytest.raises(StrataprobeError, match="a matrix shows one model; the table has olmo2-7b, gemma"):
        routing_matrix.draw(three["routing_counts"], three["routing_cells"], title="t")
    with pytest.raises(StrataprobeError, match=r"model: gemma2-9b, olmo2-7b, pythia-6\.9b-deduped; choose"):
        many_class.draw(three["many_class"], title="t")


@pytest.mark.parametrize("seed", range(5))
def test_labels_stand_apart_as_near_to_their_places_as_can_be(seed):
    from scipy.optimize import minimize

    places = np.random.default_rng(seed).random(7).round(1)
    found = routing_frames.apart(places, 0.1, 0.0, 1.0)
    order = np.argsort(places, kind="stable")
    gaps = np.diff(found[order])
    assert gaps.min() >= 0.1 - 1e-9
    assert found.min() >= 0
    assert found.max() <= 1
    if found.min() > 0 and found.max() < 1:  # at an edge all are moved together
        bounds = [{"type": "ineq", "fun": lambda x, i=i: x[i + 1] - x[i] - 0.1} for i in range(6)]
        best = minimize(lambda x: ((x - places[order]) ** 2).sum(), found[order], constraints=bounds)
        assert ((found - places) ** 2).sum() <= best.fun + 1e-6


def test_labels_that_do_not_fit_are_spread_evenly_and_one_or_none_stay():
    assert list(routing_frames.apart([0.5] * 5, 0.5, 0.0, 1.0)) == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert list(routing_frames.apart([0.3], 0.5, 0.0, 1.0)) == [0.3]
    assert list(routing_frames.apart([], 0.5, 0.0, 1.0)) == []


# The matrix


def boxes(axes, kind: str) -> dict[tuple[str, str], str]:
    """(word, class) -> the colour of its box; words are named beside the first panel."""
    (mesh,) = [each for each in axes.collections if each.get_label() == f"_{kind}"]
    first = axes.figure.axes[0]
    words = {
        place: text.get_text().split(" ")[0]
        for place, text in zip(first.get_yticks(), first.get_yticklabels(), strict=True)
    }
    names = [text.get_text().split(" ")[0] for text in axes.get_xticklabels()]
    corners, found = mesh.get_coordinates(), {}
    for row, colours_of in enumerate(mesh.get_array()):
        word = words[round(corners[row, 0, 1] + 0.5, 6)]
        for name, colour in zip(names, colours_of, strict=True):
            found[word, name] = colors.to_hex(colour)
    return found


def shade(share: float, same: bool) -> str:
    import matplotlib as mpl

    return colors.to_hex(mpl.colormaps["Blues" if same else "Oranges"](0.92 * share))


def chosen_cell(frame: pd.DataFrame, only_passing: bool = True) -> tuple:
    first = frame[frame["scope"] == "5x5"]
    first = first[first["verdict"] == "pass"] if only_passing else first
    return tuple(first.loc[first["coarse_accuracy"].idxmax(), list(cases.CELL)])


def heading(axes) -> list[str]:
    """The lines above a panel, from above."""
    lines = [text for text in axes.texts if text.get_label() == "_heading"]
    return [text.get_text() for text in sorted(lines, key=lambda text: -text.get_position()[1])]


def top_shares(axes) -> list:
    return [text for text in axes.texts if text.get_label() == "_top share"]


@pytest.mark.parametrize("shunned", [True, False])
def test_each_box_is_a_word_s_share_by_whether_the_side_is_right(few, shunned):
    cells, counts = few["routing_cells"], few["routing_counts"]
    places = [place for place in cases.STORIES if (place % 2 == 0) == shunned]
    cell = cases.cells_of_study()[places[1]]
    named = dict(zip(cases.CELL, cell, strict=True))
    figure = routing_matrix.draw(counts, cells, title="t", canonical=True, **named)
    own = counts[np.logical_and.reduce([counts[n] == v for n, v in zip(cases.CELL, cell, strict=True)])]
    for axes, scope in zip(figure.axes, SCOPES, strict=False):
        of_scope = own[own["scope"] == scope]
        names = list(cases.CLASSES)[: cases.SCOPES[scope][0]]
        # A class that nothing goes to is in no row of counts, and a column of shares of 0.
        assert (set(names) > set(of_scope["predicted"])) == shunned
        for kind, flag in (("invented", "no"), ("canonical", "yes")):
            shown = boxes(axes, kind)
            rows = of_scope[of_scope["canonical"] == flag]
            table = rows.pivot(index="item", columns="predicted", values="count").fillna(0) / cases.STIMULI
            assert len({other for _, other in shown}) == len(names)
            for (word, other), colour in shown.items():
                if word not in table.index:
                    assert colour == "#ededed", "not in that scope"
                    continue
                share = table.loc[word].get(other, 0.0)
                side = cases.ITEMS.get(word) if kind == "invented" else cases.CLASSES[word]
                assert colour == shade(share, side == cases.CLASSES[other]), (scope, word, other)


def test_rows_and_columns_are_grouped_by_side_and_framed_where_it_is_the_same(few):
    figure = routing_matrix.draw(few["routing_counts"], few["routing_cells"], title="t")
    axes = figure.axes[3]
    rows = [text.get_text() for text in axes.figure.axes[0].get_yticklabels()]
    columns = [text.get_text() for text in axes.get_xticklabels()]
    for labels, sides in ((rows, cases.ITEMS), (columns, cases.CLASSES)):
        assert len(labels) == len(sides)
        names, signs = zip(*(label.split(" ") for label in labels), strict=True)
        assert [sides[name] for name in names] == sorted(sides.values())
        assert list(signs) == ["■" if sides[name] == "binary" else "△" for name in names]
    found = {
        str(patch.get_label()): (patch.get_xy(), patch.get_width(), patch.get_height())
        for patch in axes.patches
        if str(patch.get_label()).startswith("_frame")
    }
    assert list(found.values()) == [((-0.5, -0.5), 8, 8), ((7.5, 7.5), 7, 8)]


def test_shares_at_the_right_are_the_largest_and_their_smallest_is_marked(few):
    cells, counts = few["routing_cells"], few["routing_counts"]
    lucky = cells[(cells["path"] == "lucky default") & (cells["scope"] == "10x16")].iloc[0]
    where = {name: lucky[name] for name in cases.CELL} | {"layer": int(lucky["layer"])}
    figure = routing_matrix.draw(counts, cells, title="t", **where)
    assert f"over the scopes: {lucky['path']}" in said_of(figure)
    for axes, scope in zip(figure.axes, SCOPES, strict=False):
        row = row_of(cells, scope=scope, **where)
        said = [text.get_text() for text in top_shares(axes)]
        shares = [float(text.split()[0]) for text in said]
        assert len(shares) == cases.SCOPES[scope][1]
        (marked,) = [float(text.split()[0]) for text in said if "◂" in text]
        assert marked == min(shares) == round(row["p_top_min"], 2)
        assert max(shares) == round(row["p_top_max"], 2)
        assert np.mean(shares) == pytest.approx(row["p_top_mean"], abs=0.005)
        bold = [text.get_fontweight() == "bold" for text in top_shares(axes)]
        assert bold == [share >= 0.95 for share in shares]
        title = heading(axes)
        assert title[1].endswith(f"{row['coarse_accuracy']:.2f}")
        assert title[2].endswith(f"{row['p_top_min']:.2f}")
        assert title[4] == row["verdict"]


def test_the_cell_is_the_best_of_those_asked_for_and_the_note_says_how_it_was_chosen(few, none):
    def said(given, **how) -> str:
        return said_of(routing_matrix.draw(given["routing_counts"], given["routing_cells"], title="t", **how))

    best = chosen_cell(few["routing_cells"])
    assert name_of(best).rpartition(",")[0] in said(few)
    assert "(the highest $A_\\pi$; among those that pass at 5x5)" in said(few)
    bare = chosen_cell(none["routing_cells"], only_passing=False)
    assert f"{name_of(bare).rpartition(',')[0]}, layer {bare[3]}" in said(none)
    assert "none passes at 5x5" in said(none)
    assert f"layer {cases.LAYERS[1]}" in said(few, layer=cases.LAYERS[1])
    whole = dict(zip(cases.CELL, best, strict=True))
    assert "the highest" not in said(few, **whole)
    figure = routing_matrix.draw(few["routing_counts"], few["routing_cells"], title="t", lucky=0.6)
    for text in [text for axes in figure.axes[:4] for text in top_shares(axes)]:
        assert (text.get_fontweight() == "bold") == (float(text.get_text().split()[0]) >= 0.6)
    assert "bold from 0.6 on" in said_of(figure)
    with pytest.raises(
        StrataprobeError, match=r"is of any, any, any, 7 \(direction(.|\n)*one that there is: men"
    ):
        said(few, layer=7)
    with pytest.raises(StrataprobeError, match="scopes '3x3' is unknown; there are: 5x5, 5x16"):
        said(few, scopes=["3x3"])
    with pytest.raises(StrataprobeError, match="routing_counts has no row of"):
        routing_matrix.draw(few["routing_counts"].iloc[:0], few["routing_cells"], title="t")


def test_scopes_asked_for_are_drawn_alone_and_classes_never_predicted_are_named(few, lacking):
    cells = few["routing_cells"]
    figure = routing_matrix.draw(few["routing_counts"], cells, title="t", scopes=["10x16", "5x5"])
    assert [heading(axes)[0] for axes in figure.axes[:2]] == ["10 × 16", "5 × 5"]
    assert "left out" not in said_of(figure)
    lucky = cells[(cells["path"] == "lucky default") & (cells["max_share"] == 1)].iloc[0]
    where = {name: lucky[name] for name in cases.CELL} | {"layer": int(lucky["layer"])}
    bare = lacking["routing_counts"]
    assert set(bare["canonical"]) == {"no"}
    figure = routing_matrix.draw(bare, cells, title="t", **where)
    assert "Classes that no word goes to are left out at 10x16, 15x16." in said_of(figure)
    assert [text.get_text() for text in figure.axes[2].get_xticklabels()] == ["nand ■"]


# Paths


def test_each_passing_cell_is_a_line_of_both_measures_with_its_intervals_and_null(few):
    cells = few["routing_cells"]
    left, right = routing_paths.draw(cells, title="t").axes[:2]
    ends = {left: ("coarse_accuracy", "coarse_low", "coarse_high")}
    ends[right] = ("p_top_min", "p_top_min_low", "p_top_min_high")
    found = passing(cells)
    assert len(found) > 5
    for cell, rows in found.items():
        name, path = name_of(cell), rows["path"].iloc[0]
        for axes, (value, low, high) in ends.items():
            drawn = line(axes, f"_line {name}")
            assert list(drawn.get_ydata()) == list(rows[value])
            assert drawn.get_color() == routing_frames.PATH_LOOK[path]["color"]
            assert list(np.round(drawn.get_xdata())) == [0, 1, 2, 3]
            bars = np.reshape(line(axes, f"_interval {name}").get_ydata(), (4, 3))
            assert bars[:, :2].tolist() == rows[[low, high]].to_numpy().tolist()
            passes = rows["verdict"].to_numpy() == "pass"
            for kind, chosen, face in (("passes", passes, drawn.get_color()), ("open", ~passes, "white")):
                marks = line(axes, f"_{kind} {name}")
                assert list(marks.get_ydata()) == list(rows[value][chosen])
                assert colors.same_color(marks.get_markerfacecolor(), face)
                assert marks.get_marker() == routing_frames.PATH_LOOK[path]["marker"]
        assert list(line(left, f"_null {name}").get_ydata()) == list(rows["relabelling_q95"])
    others = np.asarray(line(right, "_others").get_ydata()).reshape(-1, 5)
    assert np.isnan(others[:, 4]).all()
    assert len(others) == 80 - len(found)
    rest = cells[cells["path"] == "not passed"]
    assert sorted(others[:, 3]) == sorted(rest.loc[rest["scope"] == "15x16", "p_top_min"])


def test_thresholds_are_drawn_where_the_config_has_them_and_the_null_can_be_left_out(few):
    figure = routing_paths.draw(few["routing_cells"], title="t", coarse_accuracy=0.7, lucky=0.9, null=False)
    assert [line(axes, "_threshold").get_ydata()[0] for axes in figure.axes[:2]] == [0.7, 0.9]
    assert not [each for each in figure.axes[0].lines if str(each.get_label()).startswith("_null")]
    assert "relabellings" not in [text.get_text() for text in figure.axes[2].get_legend().get_texts()]
    assert "dashes" not in said_of(figure)


def test_thresholds_are_named_outside_of_the_panels(few):
    figure = routing_paths.draw(few["routing_cells"], title="t")
    figure.draw_without_rendering()
    for axes, threshold in zip(figure.axes[:2], (0.65, 0.95), strict=True):
        (label,) = [text for text in axes.texts if f"≥ {threshold:g}" in text.get_text()]
        box, panel = label.get_window_extent(), axes.get_window_extent()
        assert box.x0 > panel.x1
        assert (box.y0 + box.y1) / 2 == pytest.approx(axes.transData.transform((0, threshold))[1], abs=2)


def test_numbers_at_the_lines_are_those_of_the_list_below(few):
    figure = routing_paths.draw(few["routing_cells"], title="t")
    listed = [text.get_text().split("  ") for text in figure.axes[3].get_legend().get_texts()]
    assert sorted(name for _, name in listed) == sorted(map(name_of, passing(few["routing_cells"])))
    for axes in figure.axes[:2]:
        numbers = {text.get_text(): text for text in axes.texts if text.get_text().isdigit()}
        assert list(numbers) == [number for number, _ in listed]
        for number, name in listed:
            leader = line(axes, f"_leader {number}") if number != "1" else axes.lines[0]
            if number != "1":
                end = line(axes, f"_line {name}")
                assert (leader.get_xdata()[0], leader.get_ydata()[0]) == (
                    end.get_xdata()[-1], end.get_ydata()[-1],
                )  # fmt: skip
                assert leader.get_ydata()[1] == numbers[number].get_position()[1]


def test_what_becomes_of_the_cells_is_counted_and_too_many_are_not_listed(few, three):
    def counts(frame) -> dict:
        first = frame[frame["scope"] == "5x5"]
        return first["path"].value_counts().to_dict()

    for given in (few, three):
        cells = given["routing_cells"]
        found, said = counts(cells), said_of(routing_paths.draw(cells, title="t"))
        total = sum(count for path, count in found.items() if path != "not passed")
        assert f"Of {80 * cells['model'].nunique()} cells {total} pass the gate at 5x5" in said
        over = ", ".join(f"{found[path]} {path}" for path in ("lucky default", "retracted", "pass"))
        assert f"over the larger scopes: {over}." in said
        assert (f"{total - 18} more cells are drawn and not listed" in said) == (total > 18)
    listed = routing_paths.draw(three["routing_cells"], title="t").axes[3].get_legend().get_texts()
    assert len(listed) == 18
    assert listed[0].get_text().startswith("1  olmo2-7b: ")


def test_where_no_cell_passes_all_are_grey_and_the_panel_says_so(none):
    figure = routing_paths.draw(none["routing_cells"], title="t")
    for axes in figure.axes[:2]:
        assert len(line(axes, "_others").get_ydata()) == 80 * 5
        assert not [each for each in axes.lines if str(each.get_label()).startswith("_line")]
        assert "no cell passes the gate at 5x5" in [text.get_text() for text in axes.texts]
    assert "No cell passes the gate at 5x5." in said_of(figure)
    assert "Bars" not in said_of(figure)
    legend = [text.get_text() for text in figure.axes[2].get_legend().get_texts()]
    assert legend == ["other cells"]


def test_a_scope_that_a_cell_lacks_is_a_gap_and_is_said(lacking):
    figure = routing_paths.draw(lacking["routing_cells"], title="t")
    short = [cell for cell in passing(lacking["routing_cells"]) if cell[3] in (10, 15)]
    assert short
    for cell in short:
        values = line(figure.axes[1], f"_line {name_of(cell)}").get_ydata()
        assert list(np.isnan(values)) == [False, False, False, True]
    assert "32 of 80 cells have no row at some scope: gaps in lines." in said_of(figure)
    assert "48 to 80 cells a scope" in said_of(figure)


def test_predictions_made_elsewhere_are_one_cell_without_place_or_canonical_words(elsewhere):
    cells = elsewhere["routing_cells"]
    assert len(cells) == 4
    figure = routing_paths.draw(cells, title="t")
    assert list(line(figure.axes[1], "_line all predictions").get_ydata()) == list(cells["p_top_min"])
    assert "Of 1 cell 1 passes the gate" in said_of(figure)
    figure = routing_matrix.draw(elsewhere["routing_counts"], cells, title="t")
    assert said_of(figure).startswith("small; operators; all predictions")
    strip = routing_plane.draw(cells, title="t").axes[1]
    assert list(line(strip, "_invented").get_xdata()) == [cells["p_top_min"].iloc[0]]
    assert [text.get_text() for text in strip.texts] == ["no value"]


# The plane


def test_every_cell_stands_at_its_two_measures_under_its_verdict(few):
    cells = few["routing_cells"]
    figure = routing_plane.draw(cells, title="t")
    for axes, scope in zip(figure.axes[::2], SCOPES, strict=False):
        assert axes.get_title(loc="left").endswith(scope.replace("x", " × "))
        for verdict in concentration.VERDICTS:
            marks = line(axes, f"_{verdict}")
            own = cells[(cells["scope"] == scope) & (cells["verdict"] == verdict)]
            assert list(marks.get_xdata()) == list(own["p_top_min"])
            assert list(marks.get_ydata()) == list(own["coarse_accuracy"])
            assert marks.get_marker() == routing_frames.VERDICT_LOOK[verdict]["marker"]
        for cell, rows in passing(cells).items():
            row, name = rows.loc[scope], name_of(cell)
            assert list(line(axes, f"_p interval {name}").get_xdata()) == [
                row["p_top_min_low"], row["p_top_min_high"],
            ]  # fmt: skip
            assert list(line(axes, f"_A interval {name}").get_ydata()) == [
                row["coarse_low"],
                row["coarse_high"],
            ]
            ring = line(axes, f"_ring {name}")
            assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (row["p_top_min"], row["coarse_accuracy"])
        assert len([each for each in axes.lines if "ring" in str(each.get_label())]) == len(passing(cells))


def test_regions_are_those_of_the_gate_and_named(few):
    figure = routing_plane.draw(few["routing_cells"], title="t", coarse_accuracy=0.7, lucky=0.9)
    axes = figure.axes[0]
    regions = {str(patch.get_label()): patch.get_bbox() for patch in axes.patches}
    assert (regions["_region lucky"].x0, regions["_region lucky"].y0) == (0.9, 0.7)
    assert (regions["_region candidate"].x1, regions["_region candidate"].y0) == (pytest.approx(0.9), 0.7)
    assert line(axes, "_lucky threshold").get_xdata()[0] == 0.9
    assert line(axes, "_coarse threshold").get_ydata()[0] == 0.7
    figure.draw_without_rendering()
    panel, at_lucky = axes.get_window_extent(), axes.transData.transform((0.9, 0))[0]
    named = {text.get_text(): text.get_window_extent() for text in axes.texts}
    assert named["may pass ↓"].x1 < at_lucky < named["lucky default ↓"].x1
    assert all(box.y0 > panel.y1 for box in named.values()), "in the panel there are cells"
    assert "at least 0.7 and $p_{w,\\min}$ below 0.9" in said_of(figure)


def test_the_strips_set_canonical_words_beside_invented_ones(few, lacking):
    cells = few["routing_cells"]
    figure = routing_plane.draw(cells, title="t", scopes=["15x16"])
    strip = figure.axes[1]
    own = cells[cells["scope"] == "15x16"]
    for name, column in (("invented", "p_top_min"), ("canonical", "canonical_p_top_min")):
        ticks, median = line(strip, f"_{name}"), line(strip, f"_median {name}")
        assert sorted(ticks.get_xdata()) == sorted(own[column])
        assert list(median.get_xdata()) == [own[column].median()]
        assert set(ticks.get_ydata()) == set(median.get_ydata())
    assert [text.get_text() for text in strip.get_yticklabels()] == ["invented", "canonical"]
    low = cells.assign(canonical_p_top_min=0.05)
    assert routing_plane.draw(low, title="t").axes[1].get_xlim()[0] < 0.05, "none is cut off"
    strip = routing_plane.draw(lacking["routing_cells"], title="t").axes[1]
    assert [text.get_text() for text in strip.texts] == ["no value"]


# Thresholds


def at(steps, threshold: float) -> int:
    """The height of a line that is drawn in steps before their ends."""
    places, heights = np.asarray(steps.get_xdata()), np.asarray(steps.get_ydata())
    assert steps.get_drawstyle() == "steps-pre"
    return int(heights[np.searchsorted(places, threshold)])


def test_steps_go_through_the_marks_of_the_tables_ours_and_published(few, numbers):
    figure = sensitivity.draw(few["routing_sensitivity"], few["routing_cells"], numbers, title="t")
    axes = figure.axes[0]
    count = len(passing(few["routing_cells"]))
    ours = f"this study, of {count} that pass at 5x5"
    marks = line(axes, f"_table {ours}")
    assert list(marks.get_xdata()) == list(few["routing_sensitivity"]["threshold"])
    assert list(marks.get_ydata()) == list(few["routing_sensitivity"]["flagged"])
    steps = line(axes, ours)
    assert [at(steps, level) for level in marks.get_xdata()] == list(marks.get_ydata())
    theirs = "published, of 8 cells of three models"
    marks, steps = line(axes, f"_table {theirs}"), line(axes, theirs)
    assert dict(zip(marks.get_xdata(), marks.get_ydata(), strict=True)) == {
        0.99: 1, 0.95: 2, 0.90: 2, 0.85: 2, 0.80: 3, 0.70: 3, 0.60: 4,
    }  # fmt: skip
    assert [at(steps, level) for level in marks.get_xdata()] == list(marks.get_ydata())
    assert [at(steps, level) for level in (0.52, 0.521, 0.84, 0.841, 0.98, 0.981, 1.0)] == [
        8,
        5,
        3,
        2,
        2,
        1,
        1,
    ]
    assert [text.get_text() for text in figure.axes[2].get_legend().get_texts()] == [ours, theirs]


def test_several_models_are_counted_together_at_thresholds_that_all_have(three):
    table = three["routing_sensitivity"]
    levels, flagged = sensitivity.totals(table)
    assert levels == list(cases.THRESHOLDS)
    assert flagged == [int(table.loc[table["threshold"] == level, "flagged"].sum()) for level in levels]
    short = table[(table["model"] != THREE[0]) | (table["threshold"] != 0.95)]
    assert sensitivity.totals(short)[0] == [level for level in cases.THRESHOLDS if level != 0.95]
    cells = three["routing_cells"]
    axes = sensitivity.draw(table, cells, title="t").axes[0]
    count = (cells[cells["scope"] == "5x5"]["path"] != "not passed").sum()
    steps = line(axes, f"this study, of {count} that")
    assert [at(steps, level) for level in levels] == flagged
    assert not [each for each in axes.lines if "published" in str(each.get_label())]


def test_bars_are_the_verdicts_of_each_scope_with_their_counts(few):
    cells = few["routing_cells"]
    axes = sensitivity.draw(few["routing_sensitivity"], cells, title="t").axes[1]
    bars: dict[tuple, tuple[float, float]] = {}
    for container in axes.containers:
        (bar,) = container.patches
        place = round(bar.get_x() + bar.get_width() / 2)
        bars[place, str(container.get_label())] = bar.get_y(), bar.get_height()
    # A count stands in its bar, or just right of a thin one.
    written = {(round(text.get_position()[0] - 0.1), int(text.get_text())) for text in axes.texts}
    for place, scope in enumerate(SCOPES):
        below = 0
        for verdict in concentration.VERDICTS:
            count = int(((cells["scope"] == scope) & (cells["verdict"] == verdict)).sum())
            assert bars[place, f"_{verdict}"] == (below, count)
            assert (place, count) in written or count == 0
            below += count
        assert below == 80
    hatches = {patch.get_hatch() for patch in axes.patches}
    assert len(hatches) == len(concentration.VERDICTS), "seen in grey print"


def test_without_passing_cells_or_thresholds_the_panel_says_so(none, lacking, numbers):
    figure = sensitivity.draw(none["routing_sensitivity"], none["routing_cells"], numbers, title="t")
    assert "no cell of this study passes at 5x5" in [text.get_text() for text in figure.axes[0].texts]
    assert set(line(figure.axes[0], "this study, of 0 that pass at 5x5").get_ydata()) == {0}
    figure = sensitivity.draw(lacking["routing_sensitivity"], lacking["routing_cells"], title="t")
    assert "The table of thresholds has no row" in said_of(figure)


# Other many-class probes


def test_many_class_lines_are_the_table_s_by_layer_and_partition(few):
    table = few["many_class"]
    figure = many_class.draw(table, title="t")
    names = list(dict.fromkeys(table["partition"]))
    for place, name in enumerate(names):
        left, right = figure.axes[2 * place : 2 * place + 2]
        own = table[table["partition"] == name].sort_values("layer")
        assert left.get_title(loc="left") == f"{'ac'[place]}  {name}"
        assert right.get_title(loc="left") == "bd"[place], "a partition is named once"
        for column in ("class_accuracy", "property_accuracy", "coarse_accuracy"):
            assert list(line(left, f"_{column}").get_ydata()) == list(own[column])
        for column in ("p_top_min", "p_top_mean", "in_p_top_min"):
            assert list(line(right, f"_{column}").get_ydata()) == list(own[column])
        corners = left.collections[0].get_paths()[0].vertices
        for layer, low, high in zip(own["layer"], own["coarse_low"], own["coarse_high"], strict=True):
            heights = corners[corners[:, 0] == layer, 1]
            assert (heights.min(), heights.max()) == (low, high)
        sure = own[own["relabelling_p"] <= 0.05]
        assert list(line(left, "_sure").get_xdata()) == list(sure["layer"])
        assert set(line(left, "_chance").get_ydata()) == {1 / 6}
        for verdict in concentration.VERDICTS:
            layers = list(own.loc[own["verdict"] == verdict, "layer"])
            assert list(line(right, f"_{verdict}").get_xdata()) == layers
        panels = ("a, b", "c, d")[place]
        assert f"{panels}: 240 sentences of 6 groups, which are the classes." in said_of(figure)
    figure = many_class.draw(table, title="t", partitions=[names[1]], lucky=0.9, coarse_accuracy=0.7)
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == [f"a  {names[1]}", "b"]
    assert [line(axes, "_threshold").get_ydata()[0] for axes in figure.axes[:2]] == [0.7, 0.9]


def test_layers_that_the_table_has_not_are_gaps_and_layers_twice_are_refused(lacking, few):
    drawn = line(many_class.draw(lacking["many_class"], title="t").axes[0], "_class_accuracy")
    values = dict(zip(drawn.get_xdata(), drawn.get_ydata(), strict=True))
    assert [layer for layer, value in values.items() if np.isnan(value)] == [3, 4, 20]
    table = few["many_class"]
    with pytest.raises(StrataprobeError, match="individualising, layer 3: there twice"):
        many_class.draw(pd.concat([table, table[table["layer"] == 3]]), title="t")
    with pytest.raises(StrataprobeError, match="partitions 'luck' is unknown; there are: individualising"):
        many_class.draw(table, title="t", partitions=["luck"])


@pytest.mark.parametrize("sizes", [(3, 3), (4, 2), (5, 5), (2, 7)])
def test_chance_of_a_group_left_out_is_that_of_guessing_among_the_other_classes(sizes):
    rng = np.random.default_rng(5)
    sides = np.repeat([0, 1], sizes)
    guesses = rng.integers(len(sides) - 1, size=(40_000, len(sides)))
    guesses += guesses >= np.arange(len(sides))  # never its own class
    found = many_class.uninformed(sizes)
    assert found == pytest.approx((sides[guesses] == sides).mean(), abs=0.005)
    own = [(sizes[side] - 1) / (len(sides) - 1) for side in sides]
    assert found == pytest.approx(np.mean(own))


def test_chance_is_drawn_and_said_where_the_sides_are_known(few):
    table, sides = few["many_class"], {"individualising": [3, 3], "binding": [4, 2]}
    figure = many_class.draw(table, title="t", sides=sides)
    assert set(line(figure.axes[0], "_uninformed").get_ydata()) == {0.4}
    assert set(line(figure.axes[2], "_uninformed").get_ydata()) == {14 / 30}
    said = said_of(figure)
    assert "of 6 groups, 3 | 3 by side, which are the classes. Chance of $A_\\pi$: 0.40." in said
    assert "4 | 2 by side, which are the classes. Chance of $A_\\pi$: 0.47." in said
    assert "is (k-1)/(N-1) by chance (mean over groups). Neither null knows of this" in said
    named = [text.get_text() for text in figure.axes[4].get_legend().get_texts()]
    assert "chance, $A_\\pi$" in named
    figure = many_class.draw(table, title="t", sides={"binding": [4, 2]})
    assert not [each for each in figure.axes[0].lines if each.get_label() == "_uninformed"]
    with pytest.raises(
        StrataprobeError, match="sides 'luck' is unknown; there are: individualising, binding"
    ):
        many_class.draw(table, title="t", sides={"luck": [3, 3]})
    with pytest.raises(StrataprobeError, match="binding: sides of 4 and 3, but the table has 6 groups"):
        many_class.draw(table, title="t", sides={"binding": [4, 3]})


def test_rings_are_named_where_there_are_any(few):
    table = few["many_class"]
    for p, there in ((0.05, True), (0.051, False)):
        figure = many_class.draw(table.assign(relabelling_p=p), title="t")
        named = [text.get_text() for text in figure.axes[4].get_legend().get_texts()]
        assert ("relabelling p ≤ 0.05" in named) == ("Rings" in said_of(figure)) == there


# Words


@pytest.mark.parametrize("kind", ["routing_plane", "routing_sensitivity", "many_class"])
def test_verdicts_are_called_what_the_tables_call_them(few, numbers, kind):
    figure = kinds(few, numbers)[kind]()
    legends = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    named = {text.get_text() for found in legends for text in found.get_texts()}
    table = few["many_class" if kind == "many_class" else "routing_cells"]
    assert set(table["verdict"]) <= named
    assert not named & {"canonical only", "in distribution only", "passes the gate", "fails"}


def test_where_there_is_one_scope_it_is_not_named_and_one_cell_is_no_cells(one_scope, numbers):
    cells, counts = one_scope["routing_cells"], one_scope["routing_counts"]
    assert list(cells["scope"]) == ["all"]
    fails = cells.assign(verdict="fail", path="not passed")
    for given, outcome in ((cells, "Of 1 cell 1 passes the gate."), (fails, "No cell passes the gate.")):
        for figure in (
            routing_paths.draw(given, title="t"),
            routing_plane.draw(given, title="t"),
            sensitivity.draw(one_scope["routing_sensitivity"], given, numbers, title="t"),
            routing_matrix.draw(counts, given, title="t"),
        ):
            seen = " ".join([*(text.get_text() for text in words(figure)), said_of(figure)])
            assert not re.search(r"at all\b|at 'all'|1 cells|a scope|larger scope", seen), seen
            if "all predictions" not in said_of(figure):
                assert f"tongues; predictions; 1 cell. {outcome}" in said_of(figure)
    few_classes = counts[counts["predicted"] != "german"]
    said = said_of(routing_matrix.draw(few_classes, cells, title="t"))
    assert "tongues; predictions; all predictions (the highest $A_\\pi$; among those that pass)." in said
    assert "Classes that no word goes to are left out." in said
    with pytest.raises(StrataprobeError, match="no cell of tongues with a value is of any, any, any, 3"):
        routing_matrix.draw(counts, cells, title="t", layer=3)


def test_scopes_that_are_no_sizes_are_quoted_and_keep_their_letters(named_scopes, numbers):
    cells, counts = named_scopes["routing_cells"], named_scopes["routing_counts"]
    assert list(cells["scope"]) == ["next", "exact"], "in the order of the file"
    figure = routing_paths.draw(cells, title="t")
    assert "2 cells" not in said_of(figure)
    assert "1 cell a scope. Of 1 cell 1 passes the gate at 'exact'; over the larger scopes:" in said_of(
        figure
    )
    bars = sensitivity.draw(named_scopes["routing_sensitivity"], cells, title="t").axes[1]
    for axes in (figure.axes[0], bars):
        assert [text.get_text() for text in axes.get_xticklabels()] == ["exact", "next"]
        assert axes.get_xlabel() == "scope"
    assert set(bars.get_yticks()) <= {0, 1, 2}, "a cell is no fraction"
    figure = routing_matrix.draw(counts, cells, title="t")
    assert [heading(axes)[0] for axes in figure.axes[:2]] == ["exact", "next"]
    assert "among those that pass at 'exact'" in said_of(figure)


def test_small_print_is_broken_by_the_letters_that_are_seen():
    formula = r"$p_{w,\mathrm{top}}$"
    text = " ".join([formula, "word"] * 40)
    lines = routing_frames.small_print([text, "short"], style.TEXT_WIDTH)
    assert " ".join(lines) == f"{text} short"
    seen = [line.replace(formula, "pw,top") for line in lines[:-1]]
    assert all(100 < len(line) <= 116 for line in seen[:-1])
    narrow = routing_frames.small_print([text], style.TEXT_WIDTH / 2)
    assert max(len(line.replace(formula, "pw,top")) for line in narrow) <= 58
