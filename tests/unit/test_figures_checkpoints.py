"""The figure of checkpoints, and twins as figures over training mark them."""

import math
import re

import numpy as np
import pandas as pd
import pytest

from strataprobe import tables
from strataprobe.errors import StrataprobeError
from strataprobe.figures import (
    checkpoints,
    depth,
    emergence,
    foundations,
    levels_training,
    marks,
    saturation,
    scale,
    style,
    transfer,
)
from strataprobe.figures.frames import Checkpoints
from tests import level_figure_cases, structure_cases
from tests.figure_checks import beyond, legend, legends_on_panels, line, overlapping, words
from tests.unit.test_figures import STEPS, frames_of

LIMITS = {"uniform_nats": 2.0, "bos_nats": 0.5, "jump_nats": 0.5}
WHO = [f"step{step}" for step in (0, 100, 200, 300, 400, 500, 600, 700)]
EXPECTED = [(name, int(name[4:])) for name in WHO]


def identity(name, weights, model="tiny"):
    return {
        "model": model, "revision": name, "step": int(name[4:]), "commit": None, "weights_sha256": weights,
        "tokenizer_sha256": "t", "parameters": 1000,
    }  # fmt: skip


def measured(name, nll, weights, other=None):
    status = "not_finite" if nll is None else "measured"
    return {
        "revision": name, "status": status, "nll": nll, "perplexity": nll, "bits_per_byte": nll, "tokens": 99,
        "adds_bos": True, "vocabulary": 1000, "other_bos": {"nll": other},
        "provenance": {"weights_sha256": weights},
    }  # fmt: skip


def table_of(values: dict, twins=(), others=None) -> pd.DataFrame:
    """Values by revision; None is not finite, "gone" not measured; `twins` share weights."""
    sums = {name: "same" if name in twins else f"w{name}" for name in values}
    others = others or {}
    there = {name: value for name, value in values.items() if value != "gone"}
    found = [measured(name, value, sums[name], others.get(name)) for name, value in there.items()]
    rows = tables.checkpoint_rows("tiny", [identity(*one) for one in sums.items()], found, LIMITS)
    return pd.DataFrame(rows).astype({"nll": float, "nll_other_bos": float, "bits_per_byte": float})


NORMAL = dict(zip(WHO, (6.9, 5.0, 4.0, 3.4, 3.0, 2.8, 2.7, 2.6), strict=True))
ODD = {**NORMAL, "step0": 9.5, "step300": "gone", "step400": None, "step500": 1.0}


@pytest.fixture(scope="module")
def odd():
    others = dict.fromkeys(WHO, 10.0) | {"step200": 3.0, "step400": None}
    frame = table_of(ODD, twins=("step600", "step700"), others=others)
    # Step 300 is identified but not measured; step 100 has not even an identity.
    return checkpoints.draw(frame[frame["revision"] != "step100"], title="Checkpoints", expected=EXPECTED)


def test_the_curve_is_the_tables_and_breaks_where_there_is_no_value(odd):
    (axes,) = odd.axes
    drawn = line(axes, "as the tokenizer begins").get_ydata()
    expected = [ODD[name] if isinstance(ODD[name], float) else np.nan for name in WHO]
    expected[1] = np.nan
    np.testing.assert_array_equal(drawn, expected)
    assert line(axes, "uniform").get_ydata()[0] == pytest.approx(math.log(1000))
    assert line(axes, "without BOS").get_ydata()[2] == 3.0


def test_every_flag_is_marked_at_its_step_and_named(odd):
    (axes,) = odd.axes
    marked = {
        "not finite": [400], "not measured": [300], "worse than uniform": [0], "better the other way": [200],
        "out of line": [500],
    }  # fmt: skip
    for label, steps in marked.items():
        assert list(line(axes, label).get_xdata()) == steps, label
    note = " ".join(odd.get_supxlabel().split())
    named = (
        "Not finite: step400.",
        "No data (hatched) for perplexity: step100.",
        "Out of line: step500.",
        "Not measured: step300.",
        "step600 = step700",
    )
    assert [name for name in named if name not in note] == []
    gaps = [each.get_label() for each in axes.patches]
    assert gaps == ["_no data: 100", "_no data: 300"]
    shapes = [look["marker"] for look in checkpoints._FLAG_LOOK.values()]
    assert len(set(shapes)) == len(shapes), "told apart by colour alone"


def test_twins_are_joined_at_the_upper_edge(odd):
    (axes,) = odd.axes
    mark = line(axes, "_same weights")
    assert (list(mark.get_xdata()), list(mark.get_ydata())) == ([600, 700], [1.0, 1.0])
    assert mark.get_linestyle() == "-"


def test_nothing_is_marked_where_nothing_is_odd():
    figure = checkpoints.draw(table_of(NORMAL), title="Checkpoints", expected=EXPECTED)
    assert legend(figure.axes[0]) == ["as the tokenizer begins\n(with BOS)", "uniform over\nthe vocabulary"]
    assert "No two checkpoints have byte-identical weights." in figure.get_supxlabel()


def test_it_is_readable_and_the_same_bytes_twice(odd, tmp_path):
    for turn in ("one", "two"):
        style.save(odd, tmp_path / f"{turn}.svg", tmp_path / f"{turn}.png")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    seen = words(odd)
    assert overlapping(odd, seen) == []
    assert beyond(odd, seen) == []
    assert legends_on_panels(odd) == []


def test_a_twin_of_another_model_is_named_though_it_has_no_place_here():
    identities = [identity("step0", "w"), identity("step100", "x"), identity("step5", "w", model="other")]
    rows = tables.checkpoint_rows("tiny", identities, [], LIMITS)
    frame = pd.DataFrame(rows).astype({"nll": float, "nll_other_bos": float, "bits_per_byte": float})
    figure = checkpoints.draw(frame, title="Checkpoints")
    assert "other/step5 = step0" in figure.get_supxlabel()
    assert [each for each in figure.axes[0].lines if each.get_label().startswith("_same weights")] == []


def test_rows_of_two_models_and_no_rows_are_refused():
    frame = table_of(NORMAL)
    with pytest.raises(StrataprobeError, match="one model, not of another, tiny"):
        checkpoints.draw(pd.concat([frame, frame.assign(model="another")]), title="Checkpoints")
    with pytest.raises(StrataprobeError, match="no row"):
        checkpoints.draw(frame[:0], title="Checkpoints")


# on the other figures over training


def with_twins(frame: pd.DataFrame, same: tuple[str, str]) -> pd.DataFrame:
    one, other = same
    return frame.assign(twin_of=frame["revision"].astype(str).map({one: other, other: one}).fillna(""))


@pytest.fixture(scope="module")
def drawn() -> dict:
    """Every figure over training, its second and third checkpoint twins."""
    made = {name: with_twins(frame, ("step40", "step80")) for name, frame in frames_of().items()}
    steps = structure_cases.STEPS
    names = (f"step{steps[1]}", f"step{steps[2]}")
    moved = pd.DataFrame(tables.transfer_rows([structure_cases.transfer_summary(step) for step in steps]))
    groups = pd.DataFrame(
        tables.foundations_rows([structure_cases.foundations_summary(step, 42) for step in steps])
    )
    levels, layers = (
        pd.concat([make(level_figure_cases.FEW[:1], revision=f"s{step}", step=step) for step in (0, 10, 20)])
        for make in (level_figure_cases.levels_frame, level_figure_cases.layers_frame)
    )
    levels, layers = (with_twins(frame, ("s10", "s20")) for frame in (levels, layers))
    return {
        "saturation": saturation.draw(made["trajectory"], title="T"),
        "depth": depth.draw(made["probing"], made["fragility"], title="T"),
        "scale": scale.draw(made["scale"], made["fragility"], title="T", steps=(0, 40, 80)),
        "emergence": emergence.draw([made["trajectory"]], title="T"),
        "transfer": transfer.draw(with_twins(moved, names), title="T"),
        "foundations": foundations.draw(with_twins(groups, names), title="T"),
        "levels_training": levels_training.draw(levels, layers, title="T"),
    }


PLACES = {
    "saturation": (3, [40, 80]),
    "depth": (3, [2, 3]),
    "emergence": (1, [40, 80]),
    "transfer": (3, [10, 20]),
    "foundations": (3, [10, 20]),
    "levels_training": (3, [10, 20]),
}


@pytest.mark.parametrize("kind", PLACES)
def test_twins_are_marked_in_every_panel_over_training_and_named(kind, drawn):
    panels, places = PLACES[kind]
    found = [
        list(each.get_xdata())
        for axes in drawn[kind].axes
        for each in axes.lines
        if str(each.get_label()).startswith("_same weights")
    ]
    assert found == [places] * panels
    named = r"Byte-identical weights \(diamonds at the upper edge\): s\w+ = s\w+\."
    assert re.search(named, said(drawn[kind]))


def said(figure) -> str:
    return " ".join(figure.get_supxlabel().split())


def test_in_the_scale_figure_they_are_marked_in_the_colour_bar(drawn):
    names = [text.get_text() for axes in drawn["scale"].axes for text in axes.get_yticklabels()]
    assert {name for name in names if "\N{BLACK DIAMOND}" in name} == {
        "40 \N{BLACK DIAMOND}", "80 \N{BLACK DIAMOND}"
    }  # fmt: skip
    assert "diamonds in the colour bar): step40 = step80." in said(drawn["scale"])


def test_a_table_without_twins_marks_none():
    figure = saturation.draw(frames_of()["trajectory"], title="T")
    assert "Byte-identical" not in said(figure)
    assert [each for axes in figure.axes for each in axes.lines if "_same" in str(each.get_label())] == []


def test_a_group_that_one_table_knows_in_part_is_marked_once_whole():
    shown = Checkpoints(("a", "b", "c"), (0, 1, 2))
    whole = pd.DataFrame({"revision": ["a", "b", "c"], "twin_of": ["b;c", "a;c", "a;b"]})
    part = pd.DataFrame({"revision": ["a", "b"], "twin_of": ["b", "a"]})
    assert marks.twin_groups(shown, part, whole) == [[0, 1, 2]]
    assert marks.twin_groups(shown, part) == [[0, 1]]
    assert marks.twin_groups(Checkpoints(("a",), (0,)), part) == [], "the other one is not shown here"
    assert marks.equal([[*"abcdef"]]) == "a = b = c = d and 2 more"


def test_groups_that_cross_are_drawn_one_below_the_other():
    axes = style.new_figure("T", width=4, height=3).add_subplot()
    marks.mark_twins(axes, [0, 10, 20, 30, 40, 50], [[0, 2], [1, 3], [4, 5]])
    heights = [each.get_ydata()[0] for each in axes.lines]
    assert heights[0] == heights[2] == 1.0 > heights[1]


def test_the_steps_of_these_tables_are_as_assumed():
    assert {40, 80} <= set(STEPS)
