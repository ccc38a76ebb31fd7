"""Tables and figures of patching: every rate with its layer in both numberings, and what the paper prints."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from strataprobe import tables
from strataprobe.errors import StrataprobeError
from strataprobe.figures import patching_cells, patching_depth, style
from strataprobe.published import read_numbers
from tests.figure_checks import beyond, line, overlapping, words
from tests.unit.test_patching_effects import RIGHT, drawn, summary_of

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {"bootstrap": 50, "permutations": 20, "seed": 3, "conventions": "default"}


@pytest.fixture(scope="module")
def numbers():
    return read_numbers(ROOT / "resources/published/levels.csv")


def named(made, model="tiny", revision="main", step=None, dataset="control"):
    return {**made, "model": model, "revision": revision, "step": step, "dataset": dataset}


def written(rows, table, tmp_path):
    tables.write_csv(tmp_path / "table.csv", rows, tables.COLUMNS[table])
    return tables.read_table(tmp_path / "table.csv")


def one(frame, **equal):
    for name, value in equal.items():
        frame = frame[frame[name] == value]
    assert len(frame) == 1, frame
    return frame.iloc[0]


def test_a_row_has_its_layer_in_both_numberings(tmp_path):
    made = named(summary_of(RIGHT, drawn(1), layers=(0, 4)))
    frame = written(tables.patching_rows([made], SETTINGS), "patching", tmp_path)
    first = one(frame, measure="lift", split="all", hidden_state=0)
    last = one(frame, measure="lift", split="all", hidden_state=4)
    assert np.isnan(first["layer"])
    assert first["depth"] == 0
    assert (last["layer"], last["depth"]) == (3, 1)
    assert (last["task"], last["states"], last["window"], last["conventions"]) == (
        "qa", "own_prompt", 1, "default",
    )  # fmt: skip
    assert last["interval_low"] <= last["value"] <= last["interval_high"]


def test_an_empty_cell_is_empty_in_the_table(tmp_path):
    frame = written(
        tables.patching_rows([named(summary_of("1111", drawn(1)))], SETTINGS), "patching", tmp_path
    )
    lift = one(frame, measure="lift", split="all", hidden_state=3)
    assert np.isnan(lift["value"])
    assert (lift["n"], lift["pairs"]) == (0, 0)


def test_a_checkpoint_that_is_there_twice_is_refused():
    made = named(summary_of(RIGHT, drawn(1)))
    with pytest.raises(StrataprobeError, match="there twice: tiny, main, control"):
        tables.patching_rows([made, made], SETTINGS)


def test_models_stand_at_their_last_checkpoint():
    early = named(summary_of(RIGHT, drawn(1), layers=(1, 2)), revision="a", step=1)
    late = named(summary_of(RIGHT, drawn(1), layers=(3, 4)), revision="b", step=2)
    rows = tables.patching_models_rows([late, early], [{"name": "tiny", "base": None}], SETTINGS)
    assert {row["value"] for row in rows if row["quantity"] == "probe_peak"} == {3}


def published(numbers, model, states="bare", conventions="published", base=None, window=1):
    """Rows of a model patched at the layers of which the paper prints something, and some others."""
    made = summary_of(RIGHT, drawn(1), layers=(16, 18, 20, 22, 24, 26, 28), states=states, window=window)
    settings = SETTINGS | {"conventions": conventions}
    rows = tables.patching_models_rows(
        [named(made, model)], [{"name": model, "base": base}], settings, numbers
    )
    return [row for row in rows if row["published"] is not None]


def test_what_the_paper_prints_stands_beside_the_same_thing(numbers):
    rows = published(numbers, "qwen3-0.6b", base="qwen3-0.6b-base")
    found = {(row["quantity"], row["split"], row["hidden_state"]): row for row in rows}
    assert {key: row["published"] for key, row in found.items()} == {
        ("probe_peak", "subject_control", None): 16,
        ("peak_layer:lift_pooled", "subject_control", None): 26,
        ("lift_pooled", "subject_control", 20): -0.05,
        ("lift_pooled", "subject_control", 26): 0.37,
        ("lift_pooled", "object_control", 22): -0.35,
        ("lift_pooled", "object_control", 24): -0.35,
        ("lift_pooled", "object_control", 26): 0.35,
    }
    for row in rows:
        assert row["difference"] == pytest.approx(row["value"] - row["published"])
        assert (row["published_status"], row["published_model"]) == ("ok", "qwen3-0.6b-instruct")
        assert row["published_place"] == "appendix G.3"


@pytest.mark.parametrize(
    "other",
    [{"states": "own_prompt"}, {"window": 3}, {"model": "smollm2-135m-instruct"}, {"model": "qwen3-4b"}],
)
def test_nothing_stands_beside_another_thing(numbers, other):
    assert not published(numbers, **{"model": "qwen3-0.6b-base"} | other)


def test_a_probe_peak_of_other_probes_has_nothing_beside_it(numbers):
    rows = published(numbers, "qwen3-0.6b-base", conventions="default")
    assert rows
    assert "probe_peak" not in {row["quantity"] for row in rows}


def frame_of(tmp_path, **made):
    rows = []
    for model, summary in made.items():
        rows += tables.patching_rows([named(summary, model)], SETTINGS)
    return written(rows, "patching", tmp_path)


@pytest.fixture
def several(tmp_path) -> pd.DataFrame:
    return frame_of(
        tmp_path,
        **{
            "one-model": summary_of(RIGHT, drawn(1), layers=(2, 3, 4)),
            "another-model": summary_of(RIGHT, drawn(2), layers=(4, 6, 8)),
            "always-right": summary_of("1" * 12, drawn(3), layers=(2, 4)),
        },
    )


def test_the_figure_by_depth_draws_lift_its_peak_and_the_probe_s(several):
    figure = patching_depth.draw(
        several, title="who", models=[["one-model", "main"], ["another-model", "main"]]
    )
    panel = figure.axes[0]
    own = several[
        (several["model"] == "another-model") & (several["measure"] == "lift")
        & (several["split"] == "subject_control")
    ]  # fmt: skip
    drawn_line = line(panel, "_another-model")
    assert drawn_line.get_xdata().tolist() == [0.5, 0.75, 1]
    assert drawn_line.get_ydata().tolist() == pytest.approx(own["value"].tolist())
    assert line(panel, "_probe peak another-model").get_xdata() == [0.5, 0.5]
    ring = line(panel, "_peak another-model")
    assert ring.get_ydata()[0] == pytest.approx(own["value"].max())
    assert len(panel.collections) == 2  # a band a model
    legend = " ".join(text.get_text() for text in figure.axes[1].get_legend().get_texts())
    assert "another-model\npeak at " in legend
    assert "95 % of chance" in legend
    assert not overlapping(figure, words(figure))
    assert not beyond(figure, words(figure))


def test_a_model_without_a_wrong_answer_is_named_and_draws_no_line(several):
    figure = patching_depth.draw(several, title="who", models=[["always-right", "main"], ["gone", "main"]])
    said = " ".join(text.get_text() for text in words(figure))
    assert "no wrong target has donors of both kinds" in said
    assert "right): always-right." in said.replace("kinds)", "right)")
    assert "No row at all: gone." in said


def test_the_figure_of_cells_has_a_row_a_model_and_every_kind_of_donor(several):
    figure = patching_cells.draw(several, title="who")
    panels = figure.axes[:6]
    assert [panel.get_title(loc="left") for panel in panels[::2]] == [
        "one-model: lift", "another-model: lift", "always-right: lift",
    ]  # fmt: skip
    rescue = several[
        (several["model"] == "one-model")
        & (several["measure"] == "rescue:norm")
        & (several["split"] == "all")
    ]
    assert line(panels[1], "_norm").get_ydata().tolist() == pytest.approx(rescue["value"].tolist())
    for kind in ("_correct", "_wrong", "_random"):
        line(panels[1], kind)
    assert line(panels[0], "_QA, object control")
    assert not [each for each in panels[4].lines if "QA" in str(each.get_label())]
    assert not overlapping(figure, words(figure))
    assert not beyond(figure, words(figure))


def test_figures_refuse_what_is_not_there(several):
    for draw in (patching_depth.draw, patching_cells.draw):
        with pytest.raises(StrataprobeError, match=r"nothing of states 'bare' in windows of 1; it has"):
            draw(several, title="who", states="bare")
        with pytest.raises(StrataprobeError, match=r"nothing of states 'own_prompt' in windows of 3"):
            draw(several, title="who", window=3)
        with pytest.raises(StrataprobeError, match="measure"):
            draw(several, title="who", measure="rescue")
    twice = pd.concat([several, several.assign(revision="other")])
    with pytest.raises(StrataprobeError, match="one revision of each model"):
        patching_depth.draw(twice, title="who")


def test_equal_tables_give_equal_figures(several, tmp_path):
    for name in ("x", "y"):
        style.save(
            patching_cells.draw(several, title="who"), tmp_path / f"{name}.svg", tmp_path / f"{name}.png"
        )
    for extension in ("svg", "png"):
        assert (tmp_path / f"x.{extension}").read_bytes() == (tmp_path / f"y.{extension}").read_bytes()
