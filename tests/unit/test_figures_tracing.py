"""Figures of causal tracing: what is drawn is in the table, and nothing is in the way of anything."""

import matplotlib.colors
import numpy as np
import pandas as pd
import pytest

from strataprobe import tables
from strataprobe.errors import StrataprobeError
from strataprobe.figures import style, tracing_depth, tracing_layers
from strataprobe.figures.tracing_names import DESIGN_LOOK, DESIGN_NAME, PROBE_LOOK, SIDE_LOOK
from tests.figure_checks import band, beyond, labels, legend, legends_on_panels, line, overlapping, words
from tests.tracing_cases import probe_summary, summary

STEPS = (0, 100, 300)


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    made = [summary(revision=f"step{step:04d}", step=step, seed=step) for step in STEPS]
    probes = [
        probe_summary(
            np.roll([0.9, 0.6, 0.5, 0.5], shift).tolist(), revision=f"step{step:04d}", step=step, seed=seed
        )
        for shift, step in enumerate(STEPS)
        for seed in (42, 43)
    ]
    return read(tables.tracing_rows(made, probes), tmp_path_factory.mktemp("t"))


def read(rows, folder):
    tables.write_csv(folder / "t.csv", rows, tables.COLUMNS["tracing"])
    return tables.read_table(folder / "t.csv")


def value(frame, column="value", **equal):
    for name, wanted in equal.items():
        frame = frame[frame[name] == wanted]
    return frame.sort_values(["step", "layer"])[column].tolist()


def test_depths_over_training_are_the_table_s_peaks(training):
    figure = tracing_depth.draw(training, title="t")
    above, below = figure.axes
    for design, name in DESIGN_NAME.items():
        named = {"design": design, "side": "positive", "score": "expected"}
        drawn = line(above, name)
        assert drawn.get_ydata() == pytest.approx(
            [one / 4 for one in value(training, measure="peak_layer", **named)]
        )
        effect = line(below, name)
        assert effect.get_ydata() == pytest.approx(value(training, measure="mean_effect", **named))
        control = line(below, f"_control {design}")
        assert control.get_ydata() == pytest.approx(
            value(training, measure="mean_effect", design=design, side="negative", score="expected")
        )
    assert line(above, "linear probe").get_ydata().tolist() == [0, 0.25, 0.5]
    # The uncertainty of the first design's peak and mean, and lines that do not lie on each other.
    named = {"design": "published", "side": "positive", "score": "expected"}
    peak, mean = (
        [value(training, bound, measure=measure, **named) for bound in ("interval_low", "interval_high")]
        for measure in ("peak_layer", "mean_effect")
    )
    bars = [segment[:, 1].tolist() for segment in above.collections[0].get_segments()]
    assert np.array(bars) == pytest.approx(np.array(peak).T / 4)
    for place, step in enumerate(STEPS):
        assert band(below, 0)[step] == pytest.approx((mean[0][place], mean[1][place]))
    places = [tuple(each.get_xdata()) for each in above.lines if not str(each.get_label()).startswith("_")]
    assert len(set(places)) == 4
    assert np.abs(np.array(places) - STEPS).max() < 0.02 * max(STEPS)


def test_a_layer_figure_has_a_panel_a_design_and_score(training):
    one = training[training["revision"] == "step0100"]
    figure = tracing_layers.draw(one, title="t")
    panels = [axes for axes in figure.axes if axes.axison]
    assert len(panels) == 6
    for axes, (score, design) in zip(
        panels, [(score, design) for score in ("expected", "contrast") for design in DESIGN_NAME], strict=True
    ):
        for side in ("positive", "negative"):
            named = {"design": design, "side": side, "score": score}
            assert line(axes, f"_{side}").get_ydata() == pytest.approx(
                value(one, measure="indirect_effect", **named)
            )
            ring = line(axes, f"_peak {side}")
            assert [*ring.get_xdata(), *ring.get_ydata()] == pytest.approx(
                [*value(one, measure="peak_layer", **named), *value(one, measure="peak_effect", **named)]
            )
        assert line(axes, "_probe peak").get_xdata()[0] == 1
        low = value(
            one, "interval_low", measure="indirect_effect", design=design, side="positive", score=score
        )
        assert [band(axes, 0)[layer][0] for layer in range(4)] == pytest.approx(low)


def test_options_choose_what_is_shown(training):
    one = training[training["revision"] == "step0100"]
    figure = tracing_layers.draw(one, title="t", sides=["difference"], scores=["contrast"], designs=["rms"])
    (axes,) = [axes for axes in figure.axes if axes.axison]
    assert "_difference" in labels(axes)
    assert "_positive" not in labels(axes)
    above, below = tracing_depth.draw(training, title="t", side="difference", designs=["restoration"]).axes
    assert legend(above) == ["restoration", "linear probe"]
    assert legend(below) == ["restoration"]


def test_without_probes_there_is_none_to_draw(tmp_path):
    table = read(tables.tracing_rows([summary()]), tmp_path)
    above, _ = tracing_depth.draw(table, title="t").axes
    assert "linear probe" not in legend(above)
    figure = tracing_layers.draw(table, title="t")
    assert "_probe peak" not in labels(figure.axes[0])


def test_gaps_twins_and_blocks_left_out_are_told(training):
    expected = [(f"step{step:04d}", step) for step in (0, 100, 200, 300)]
    twins = training.assign(
        twin_of=np.where(
            training["revision"] == "step0000",
            "step0100",
            np.where(training["revision"] == "step0100", "step0000", ""),
        )
    )
    few = twins[~((twins["measure"] == "indirect_effect") & (twins["layer"].isin([1, 2])))]
    figure = tracing_depth.draw(few, title="t", expected=expected)
    said = figure._supxlabel.get_text().replace("\n", " ")
    assert "No data (hatched) for tracing: step0200" in said
    assert "Byte-identical weights" in said
    assert "Effects are of blocks 0, 3 only; the probe is of all 4" in said
    assert "_no data: 200" in labels(figure.axes[0])
    assert "12 pairs, 3 noise draws a sentence" in said


def test_mixed_rows_rows_given_twice_and_unknown_options_are_refused(training):
    other = training.assign(model="other")
    with pytest.raises(StrataprobeError, match="model: nano, other"):
        tracing_depth.draw(pd.concat([training, other]), title="t")
    with pytest.raises(StrataprobeError, match="in the table twice"):
        tracing_depth.draw(pd.concat([training, training]), title="t")
    with pytest.raises(StrataprobeError, match="revision: step0000"):
        tracing_layers.draw(training, title="t")
    with pytest.raises(StrataprobeError, match="'probable' is unknown"):
        tracing_depth.draw(training, title="t", score="probable")
    with pytest.raises(StrataprobeError, match="nothing to draw"):
        tracing_depth.draw(training[:0], title="t")


def test_words_are_on_the_page_and_on_nothing_else(training):
    for figure in (
        tracing_depth.draw(training, title="nano moral", expected=[("step0200", 200)]),
        tracing_layers.draw(training[training["revision"] == "step0100"], title="nano moral"),
    ):
        seen = words(figure)
        assert overlapping(figure, seen) == []
        assert beyond(figure, seen) == []
        assert legends_on_panels(figure) == []


def test_lines_are_told_apart_in_grey_print_too():
    for looks in ([*DESIGN_LOOK.values(), PROBE_LOOK], list(SIDE_LOOK.values())):
        for name in ("marker", "linestyle", "color"):
            assert len({str(look[name]) for look in looks}) == len(looks)
        assert all(matplotlib.colors.is_color_like(look["color"]) for look in looks)


def test_equal_tables_give_equal_bytes(training, tmp_path):
    written = []
    for name in ("a", "b"):
        style.save(
            tracing_depth.draw(training, title="t"), tmp_path / f"{name}.svg", tmp_path / f"{name}.png"
        )
        written.append([(tmp_path / f"{name}.{kind}").read_bytes() for kind in ("svg", "png")])
    assert written[0] == written[1]
