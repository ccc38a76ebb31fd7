"""The figure of controls, and the validation gate in that of transfer, show their tables' numbers."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import colors

import draw_controls
from strataprobe import tables
from strataprobe.errors import StrataprobeError
from strataprobe.figures import controls, style, transfer
from tests import structure_cases as cases
from tests.figure_checks import (
    band,
    beyond,
    labels,
    legend,
    legends_on_panels,
    line,
    looks_of,
    overlapping,
    values,
    words,
)
from tests.unit.test_figures_structure import transfer_frame

LAYERS = list(range(cases.LAYERS))
OWN = {"over": "layer", "tested_on": "", "group": "all"}
SPLIT = "pairs whose words\nthe probe has not seen"
PLACES = [("said_again", "all"), ("swapped", "all"), *(("swapped", group) for group in cases.GROUPS)]


def controls_frame(seeds=cases.SEEDS, made=cases.worded_controls) -> pd.DataFrame:
    return pd.DataFrame(tables.controls_rows([made(20, seed) for seed in seeds]))


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """Fewer dots than a page needs: nobody looks, and the tests are quicker."""
    monkeypatch.setattr(style, "DPI", 50)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return controls_frame()


@pytest.fixture(scope="module")
def shown(frame):
    return controls.draw(frame, title="t")


def by_layer(frame: pd.DataFrame, column="value", **equal) -> np.ndarray:
    """Mean over seeds of a column, layer by layer."""
    rows = [values(frame[frame["layer"] == layer], column, **equal) for layer in LAYERS]
    assert {len(row) for row in rows} == {frame["seed"].nunique()}
    return np.mean(rows, axis=1)


def test_the_same_tables_give_the_same_bytes(frame, tmp_path):
    for name in ("one", "two"):
        style.save(controls.draw(frame, title="t"), tmp_path / f"{name}.svg", tmp_path / f"{name}.png")
    for suffix in ("svg", "png"):
        first = (tmp_path / f"one.{suffix}").read_bytes()
        assert first == (tmp_path / f"two.{suffix}").read_bytes()
        assert len(first) > 3000


def bare(frame: pd.DataFrame) -> pd.DataFrame:
    """No other words and no other sets."""
    return frame[frame["tested_on"] == ""]


def crowded(frame: pd.DataFrame) -> pd.DataFrame:
    """Six sets of eight groups, with long names."""
    means = frame[(frame["tested_on"] == "swapped") & (frame["group"] == "third")]
    whole = frame[(frame["tested_on"] == "swapped") & (frame["group"] == "all")]
    sets = [f"sentences_that_test_{number}" for number in range(6)]
    more = [
        part.assign(tested_on=name, group=group)
        for name in sets
        for part, group in [(whole, "all"), *((means, f"what_is_decoupled_{n}") for n in range(8))]
    ]
    return pd.concat([frame, *more])


@pytest.mark.parametrize("made", [lambda frame: frame, bare, crowded, lambda f: f[f["seed"] == 42]])
def test_no_words_overlap_none_leave_the_page_and_the_legend_covers_no_panel(frame, made):
    figure = controls.draw(made(frame), title="t")
    seen = words(figure)
    assert overlapping(figure, seen) == []
    assert beyond(figure, seen) == []
    assert legends_on_panels(figure) == []
    looks = looks_of(figure.axes[0])
    assert len(set(looks)) == len(looks), looks


def test_no_words_leave_the_page_at_the_dots_that_the_page_is_saved_with(frame, tmp_path, monkeypatch):
    """Letters are fitted to whole dots, so a layout found with fewer has too little room for them."""
    monkeypatch.setattr(style, "DPI", 200)
    figure = controls.draw(frame, title="t")
    style.save(figure, tmp_path / "a.svg", tmp_path / "a.png")
    figure.set_dpi(200)
    assert beyond(figure, words(figure)) == []


def test_lines_by_layer_are_the_means_over_seeds_of_the_table(shown, frame):
    axes = shown.axes[0]
    for label, where in (
        ("test pairs", {**OWN, "quantity": "accuracy"}),
        ("control task", {**OWN, "quantity": "control_accuracy"}),
        ("permuted labels", {**OWN, "quantity": "null_high"}),
        (SPLIT, {**OWN, "tested_on": "lexeme_split", "quantity": "accuracy"}),
        ("said_again", {**OWN, "tested_on": "said_again", "quantity": "accuracy"}),
        ("swapped", {**OWN, "tested_on": "swapped", "quantity": "accuracy"}),
    ):
        drawn = line(axes, label)
        assert list(drawn.get_xdata()) == LAYERS
        np.testing.assert_allclose(drawn.get_ydata(), by_layer(frame, **where))
    split = {**OWN, "tested_on": "lexeme_split", "quantity": "accuracy"}
    bounds = [by_layer(frame, column, **split) for column in ("interval_low", "interval_high")]
    for layer, found in band(axes, 0).items():
        assert found == pytest.approx(tuple(bound[int(layer)] for bound in bounds))


def test_the_code_is_compression_with_its_spread_over_seeds(shown, frame):
    axes, where = shown.axes[1], {**OWN, "quantity": "compression"}
    mean = by_layer(frame, **where)
    np.testing.assert_allclose(line(axes, "compression").get_ydata(), mean)
    for layer, (low, high) in band(axes, 0).items():
        spread = np.std(values(frame[frame["layer"] == layer], **where), ddof=1)
        assert (low, high) == pytest.approx((mean[int(layer)] - spread, mean[int(layer)] + spread))


def test_what_is_lost_is_the_difference_of_the_means_with_interval_and_seeds(shown, frame):
    axes = shown.axes[2]
    said = [text.get_text() for text in axes.get_yticklabels()]
    assert said == ["said_again", "swapped", *cases.GROUPS], "a group stands below its set"
    low, high = axes.get_ylim()
    assert low > len(PLACES) - 1 > 0 > high, "the first on top"
    for height, (name, group) in enumerate(PLACES):
        where = {"over": "mean", "tested_on": name, "group": group}
        each = {
            column: values(frame, column, **where, quantity="difference")
            for column in ("value", "interval_low", "interval_high")
        }
        bar, point, seeds = [one for one in axes.lines if one.get_label() == f"_{name}, {group}"]
        for drawn, at in (
            (bar, [np.mean(each["interval_low"]), np.mean(each["interval_high"])]),
            (point, [np.mean(each["value"])]),
            (seeds, each["value"]),
        ):
            assert list(drawn.get_xdata()) == pytest.approx(at)
            assert set(drawn.get_ydata()) == {height}
        own = {**where, "tested_on": "", "group": "all"}
        there, here = (values(frame, **place, quantity="accuracy") for place in (where, own))
        assert each["value"] == pytest.approx(np.subtract(there, here))


def test_small_print_says_what_is_drawn_and_nothing_else(shown, frame):
    said = shown.get_supxlabel()
    assert "made-up at step20, moral" in said
    assert "mean over 2 seeds" in said
    assert "Band in a and bars in c: 95 % bootstrap over pairs (mean of seeds)." in said
    assert "Ticks in c: seeds." in said
    alone = controls.draw(bare(frame[frame["seed"] == 42]), title="t")
    assert "one seed" in alone.get_supxlabel()
    assert "Band" not in alone.get_supxlabel()
    assert "bootstrap" not in alone.get_supxlabel()


def test_without_other_sets_the_panel_says_so_and_without_words_no_line_is_drawn(frame):
    refused = frame.copy()
    control = refused["quantity"].isin(["control_accuracy", "selectivity"])
    refused.loc[control, "value"] = np.nan
    figure = controls.draw(bare(refused), title="t")
    assert [text.get_text() for text in figure.axes[2].texts] == ["no dataset tests these probes"]
    assert list(figure.axes[2].get_xticks()) == [], "an axis of nothing"
    assert legend(figure.axes[0]) == ["chance", "test pairs", "permuted labels,\n95 % quantile"]
    assert len(figure.axes[0].collections) == 0


def test_the_page_grows_with_what_tests_the_probes_unless_told(frame):
    few, many = (controls.draw(made(frame), title="t") for made in (bare, crowded))
    assert many.get_figheight() > few.get_figheight() + 5
    assert controls.draw(frame, title="t", height=5).get_figheight() == 5


def test_many_sets_look_different(frame):
    looks = looks_of(controls.draw(crowded(frame), title="t").axes[0])
    assert len(set(looks)) == len(looks) == 13


def test_controls_refuses_mixed_rows_and_none(frame):
    with pytest.raises(StrataprobeError, match="revision: step20, step40; choose one"):
        controls.draw(pd.concat([frame, frame.assign(revision="step40")]), title="t")
    with pytest.raises(StrataprobeError, match="nothing to draw"):
        controls.draw(frame.iloc[:0], title="t")


def test_the_script_draws_the_checkpoint_asked_for_from_the_written_table(tmp_path, frame):
    each = [cases.worded_controls(step, seed) for step in (0, 20) for seed in cases.SEEDS]
    tables.write_csv(tmp_path / "controls.csv", tables.controls_rows(each), tables.COLUMNS["controls"])
    settings = {"title": "t", "revision": "step20", "style": {"chance": 0.4}}
    draw_controls.main(tmp_path / "controls.csv", tmp_path / "a.svg", tmp_path / "a.png", settings=settings)
    read = tables.read_table(tmp_path / "controls.csv")
    figure = controls.draw(read[read["revision"] == "step20"], title="t", chance=0.4)
    style.save(figure, tmp_path / "b.svg", tmp_path / "b.png")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").stat().st_size > 3000


# The validation gate


@pytest.fixture(scope="module")
def gated():
    return transfer.draw(transfer_frame(), title="t")


def test_the_gate_is_the_best_layer_beside_the_floor_and_the_margin_above_it(gated):
    axes, table = gated.axes[2], transfer_frame()
    floor, margin = (values(table, quantity=f"gate_{name}") for name in ("floor", "margin"))
    best = {"quantity": "in_distribution", "selection": "published"}
    np.testing.assert_array_equal(line(axes, "bag of words").get_ydata(), floor)
    np.testing.assert_allclose(line(axes, "margin above it").get_ydata(), np.add(floor, margin))
    np.testing.assert_array_equal(line(axes, "probe").get_ydata(), values(table, **best))
    for step, found in band(axes, 0).items():
        (low,), (high,) = (
            values(table, column, **best, step=int(step)) for column in ("interval_low", "interval_high")
        )
        assert found == pytest.approx((low, high))


def test_each_checkpoint_is_marked_by_whether_it_passes_and_stands_above_the_bar_if_so(gated):
    axes, table = gated.axes[2], transfer_frame()
    passed = np.array(values(table, quantity="gate_passed"))
    assert 0 < passed.sum() < len(passed), "both must occur, or the test sees nothing"
    for label, there, face in (("passes", passed == 1, style.BLUE), ("does not pass", passed == 0, "white")):
        marks = line(axes, label)
        np.testing.assert_array_equal(np.isfinite(marks.get_ydata()), there)
        assert colors.to_hex(marks.get_markerfacecolor()) == colors.to_hex(face)
    above = line(axes, "probe").get_ydata() >= line(axes, "margin above it").get_ydata() - 1e-9
    np.testing.assert_array_equal(above, passed == 1)
    assert legend(axes) == ["bag of words", "margin above it", "probe", "passes", "does not pass"]


def test_a_gate_of_one_checkpoint_is_seen_without_a_line():
    axes = transfer.draw(transfer_frame([20]), title="t").axes[2]
    for name in ("bag of words", "margin above it"):
        assert line(axes, name).get_marker() not in ("", "None", None)
    assert "_no data: 20" not in labels(axes)
