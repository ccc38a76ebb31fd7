"""Heatmaps, paths and differences of fine-tuning: the tables' numbers, and what is missing is named."""

import importlib
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PatchCollection, QuadMesh

from strataprobe import tables, tabular
from strataprobe.errors import StrataprobeError
from strataprobe.figures import curation, curation_differences, curation_heatmaps, curation_loss, style
from strataprobe.figures.frames import where
from strataprobe.tabular.curation_columns import CURATION_COLUMNS
from tests.figure_checks import beyond, labels, legends_on_panels, line, overlapping, words
from tests.unit.test_figures_curation import HOW, NAMES, experiment, note

MATCHED = ("none", "layers", "snapshots")
PANELS = [
    ("peak_accuracy", "", "", ""),
    ("mean_accuracy", "", "", ""),
    *(
        ("mean_critical_noise", control, "continuous", "dropped")
        for control in ("raw", "rms_before", "rms_after", "within_class")
    ),
]
ALSO = [("mean_critical_noise", "raw", "grid_exact", "capped"), ("fragile_layers", "raw", "grid_exact", "")]


def difference_table(folder, conditions=NAMES, layers=4, runs=2):
    """Rows of every pair of conditions; at no layer are narrative and declarative as accurate."""
    rows = []
    pairs = [*combinations(conditions, 2), *((name, "base") for name in conditions)]
    for place, (a, b) in enumerate(pairs):
        for matched in MATCHED if b != "base" else MATCHED[:2]:
            none = matched == "layers" and (a, b) == ("narrative", "declarative")
            key = {"experiment": "nano-lora", **HOW, "condition_a": a, "condition_b": b, "matched": matched}
            step = {"none": 100, "layers": 100, "snapshots": 60}[matched]
            key |= {
                "step_a": 100,
                "step_b": 0 if b == "base" else step,
                "runs": runs,
                "seeds": 3,
                "pairs": 48,
            }
            key |= {"layers": 0 if none else layers - (matched == "layers"), "note": ""}
            for at, named in enumerate([*PANELS, *ALSO]):
                value = None if none else 0.1 * (place - 2) * (1 + MATCHED.index(matched)) / (1 + at)
                half = None if none or (matched == "snapshots" and at == 3) else 0.05 * (1 + at)
                bounds = (None, None) if half is None else (value - half, value + half)
                apart = half is not None and abs(value) > half
                key |= dict(zip(("quantity", "control", "statistic", "means"), named, strict=True))
                rows.append(
                    {
                        **key, "value_a": None if none else 1 + value, "value_b": None if none else 1.0,
                        "difference": value, "interval_low": bounds[0], "interval_high": bounds[1],
                        "run_sd": None, "verdict": "" if half is None else "apart" if apart else "not apart",
                    }
                )  # fmt: skip
            said = "" if none else ("undercut", "survives", "in part", "no separation")[place % 4]
            empty = dict.fromkeys(
                ("value_a", "value_b", "difference", "interval_low", "interval_high", "run_sd")
            )
            key |= {"quantity": "undercutting", "control": "", "statistic": "", "means": ""}
            rows.append({**key, **empty, "verdict": said})
    tables.write_csv(folder / "differences.csv", rows, CURATION_COLUMNS["curation_differences"])
    return tabular.read_table(folder / "differences.csv")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return experiment(tmp_path_factory.mktemp("curation"))


@pytest.fixture(scope="module")
def differences(tmp_path_factory):
    return difference_table(tmp_path_factory.mktemp("differences"))


def drawings(made, differences, conditions=NAMES) -> list:
    given = {"title": "nano-lora moral", "conditions": conditions}
    return [
        curation.draw(made.means, made.layers, **given),
        curation_heatmaps.draw(made.layers, **given),
        curation_loss.draw(made.means, **given),
        curation_differences.draw(differences, **given),
    ]


def panel(figure, name: str):
    (found,) = [axes for axes in figure.axes if axes.get_title(loc="left").replace("\n", "") == name]
    return found


def mesh(axes) -> QuadMesh:
    (found,) = [each for each in axes.collections if isinstance(each, QuadMesh)]
    return found


def cells_of(layers: pd.DataFrame, condition: str, control: str) -> np.ndarray:
    """(layers, steps) by a loop over the rows, the base first."""
    cells = np.full((4, 4), np.nan)
    for column, (name, step) in enumerate([("base", 0), *((condition, step) for step in (20, 60, 100))]):
        rows = where(layers, condition=name, step=step, control=control, statistic="continuous")
        for layer in range(4):
            cells[layer, column] = where(rows, layer=layer)["value"].mean()
    return cells


def test_heatmaps_are_means_over_runs_on_one_scale_of_colours(made):
    figure = curation_heatmaps.draw(made.layers, title="t", conditions=NAMES)
    for control, said in (("raw", "raw"), ("rms_after", "RMS after")):
        meshes = {name: mesh(panel(figure, f"{name}, {said}")) for name in NAMES}
        for name, drawn in meshes.items():
            cells = cells_of(made.layers, name, control)
            np.testing.assert_allclose(drawn.get_array().filled(np.nan), cells, rtol=1e-5)
        every = np.concatenate([cells_of(made.layers, name, control) for name in NAMES])
        bounds = {(drawn.norm.vmin, drawn.norm.vmax) for drawn in meshes.values()}
        (norm,) = bounds
        assert norm == pytest.approx((np.nanmin(every), np.nanmax(every)), rel=1e-5)
    hatched = [
        each for each in panel(figure, "declarative, raw").collections if isinstance(each, PatchCollection)
    ]
    assert [each.get_label() for each in hatched] == ["below the threshold without noise"]
    corners = sorted(tuple(path.get_extents().min) for path in hatched[0].get_paths())
    assert corners == [(0.5, -0.5), (1.5, -0.5), (2.5, -0.5)]


def test_a_snapshot_that_is_not_there_is_hatched_and_named(tmp_path):
    made = experiment(tmp_path, gone=[("general", "1", 60), ("general", "2", 60)])
    figure = curation_heatmaps.draw(made.layers, title="t", conditions=NAMES)
    assert "no data" in labels(panel(figure, "general, raw"))
    assert "no data" not in labels(panel(figure, "narrative, raw"))
    assert "No data (hatched) at steps: general 60." in note(figure)
    assert "step 60" in note(curation_loss.draw(made.means, title="t"))


def test_paths_begin_at_the_base_and_follow_the_table(made):
    figure = curation_loss.draw(made.means, title="t", conditions=NAMES)
    for axes, control in zip(figure.axes, ("raw", "rms_after"), strict=False):
        for name in NAMES:
            rows = where(made.means, run="mean", condition=name).sort_values("step")
            noise = {"quantity": "mean_critical_noise", "statistic": "continuous", "means": "dropped"}
            base = where(made.means, run="mean", condition="base", control=control, **noise)
            loss, own = where(rows, quantity="loss"), where(rows, control=control, **noise)
            path = line(axes, f"_path {name}")
            assert path.get_xdata().tolist() == loss["value"].tolist()
            assert path.get_ydata().tolist() == [*base["value"], *own["value"]]
            (steps,) = [each for each in axes.collections if each.get_label() == f"_steps {name}"]
            assert (np.diff(steps.get_sizes()) > 0).all()
            (start,) = [each for each in axes.collections if each.get_label() == f"_step 0 {name}"]
            assert start.get_offsets().tolist() == [[loss["value"].iloc[0], base["value"].iloc[0]]]
            (crosses,) = [each for each in axes.containers if each.get_label() == f"_yerr {name}"]
            ends = np.array([segment[:, 1] for segment in crosses.lines[2][0].get_segments()])
            both = pd.concat([base, own])[["interval_low", "interval_high"]].to_numpy()
            np.testing.assert_allclose(ends, both, rtol=1e-4)
        assert sum(text.arrow_patch is not None for text in axes.texts) == 3


def test_a_forest_has_every_difference_with_its_interval(differences):
    figure = curation_differences.draw(differences, title="t", conditions=NAMES)
    panels = [axes for axes in figure.axes if axes.axison]
    pairs = list(dict.fromkeys(zip(differences["condition_a"], differences["condition_b"], strict=True)))
    for axes, (quantity, control, statistic, means) in zip(panels, PANELS, strict=True):
        named = {"quantity": quantity, "control": control, "statistic": statistic, "means": means}
        for _, row in where(differences, **named).iterrows():
            said = f"_{row['matched']} {row['condition_a']} {row['condition_b']}"
            marks = [each for each in axes.lines if each.get_label() == said]
            bars = [each for each in axes.lines if each.get_label() == f"{said} interval"]
            assert len(marks) == np.isfinite(row["difference"])
            assert len(bars) == np.isfinite(row["interval_low"])
            for mark in marks:
                assert mark.get_xdata() == [row["difference"]]
                assert round(mark.get_ydata()[0]) == pairs.index((row["condition_a"], row["condition_b"]))
                filled = mark.get_markerfacecolor() != "white"
                assert filled == (row["verdict"] == "apart")
            for bar in bars:
                assert list(bar.get_xdata()) == [row["interval_low"], row["interval_high"]]
        left, right = axes.get_xlim()
        assert left == -right
    verdicts = [text.get_text() for text in figure.axes[-1].texts]
    assert verdicts[:4] == ["undercut", "no layer matched", "undercut, step 60", "survives"]
    assert len(verdicts) == 3 * 3 + 3 * 2
    assert "No value (the table says why): narrative − declarative (layers)." in note(figure)
    assert "2 runs, 3 probe seeds, 48 test pairs" in note(figure)


def test_conditions_that_are_not_there_are_named_and_keep_the_looks_of_the_others(tmp_path):
    made = experiment(tmp_path, conditions=("declarative",), gone=[("declarative", "2", 100)])
    figures = drawings(made, difference_table(tmp_path, conditions=("declarative",)))
    whole = line(curation.draw(made.means, made.layers, title="t").axes[1], "_declarative").get_color()
    for figure in figures[:3]:
        assert "Nothing is measured yet of: narrative, general." in note(figure)
        assert "Fewer than 2 runs at the last step: declarative (1)." in note(figure)
    assert "No row at all: narrative − declarative, narrative − general" in note(figures[3])
    own = line(figures[0].axes[1], "_declarative").get_color()
    assert own == line(figures[2].axes[0], "_path declarative").get_color() != whole


def test_fewer_runs_other_last_steps_and_a_base_that_is_not_there_are_named(tmp_path):
    gone = [("general", "2", 100), ("narrative", "1", 100), ("narrative", "2", 100), ("base", "", 0)]
    made = experiment(tmp_path, gone=gone)
    figure = curation.draw(made.means, made.layers, title="t", conditions=NAMES)
    for said in (
        "The base has no row", "Last steps differ: narrative 60, declarative 100, general 100",
        "Fewer than 2 runs at the last step: general (1)",
    ):  # fmt: skip
        assert said in note(figure)
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == list(NAMES)


def test_what_cannot_be_drawn_is_refused(made, differences):
    other = made.layers.assign(experiment="another")
    with pytest.raises(StrataprobeError, match="experiment: another, nano-lora; choose one"):
        curation_heatmaps.draw(pd.concat([made.layers, other]), title="t")
    with pytest.raises(StrataprobeError, match="in the table twice"):
        curation_loss.draw(pd.concat([made.means, made.means]), title="t")
    with pytest.raises(StrataprobeError, match="'exact' is unknown; there are: grid_sampled, grid_exact"):
        curation.draw(made.means, made.layers, title="t", statistic="exact")
    with pytest.raises(StrataprobeError, match="'raw' is unknown"):
        curation_heatmaps.draw(made.layers, title="t", scaled="raw")
    for draw in (
        lambda: curation.draw(made.means[:0], made.layers[:0], title="t"),
        lambda: curation.draw(where(made.means, quantity="loss"), made.layers[:0], title="t"),
        lambda: curation_heatmaps.draw(made.layers[:0], title="t"),
        lambda: curation_loss.draw(made.means[:0], title="t"),
        lambda: curation_differences.draw(differences[:0], title="t"),
    ):
        with pytest.raises(StrataprobeError, match="nothing to draw"):
            draw()


@pytest.mark.parametrize(
    "shape",
    [
        {"layers": 4, "runs": (1, 2), "steps": (20, 60, 100)},
        {"layers": 16, "runs": (1,), "steps": tuple(range(100, 1100, 100)), "seeds": (42,)},
        {"layers": 30, "runs": (1,), "steps": (20,), "seeds": (42,)},
        {"conditions": (*NAMES, "narrative-sized", "a-long-name-of-a-condition")},
    ],
    ids=["nano", "paper", "deep", "many"],
)
def test_words_are_on_the_page_and_on_nothing_else(tmp_path, shape):
    conditions = shape.get("conditions", NAMES)
    forest = difference_table(tmp_path, conditions=conditions, layers=shape.get("layers", 4))
    for figure in drawings(experiment(tmp_path, **shape), forest, conditions):
        figure.draw_without_rendering()
        figure.draw_without_rendering = lambda: None  # nothing moves any more, and it takes most of the time
        seen = words(figure)
        assert overlapping(figure, seen) == []
        assert beyond(figure, seen) == []
        assert legends_on_panels(figure) == []


@pytest.mark.parametrize(
    "draw",
    [
        lambda made, _: curation.draw(made.means, made.layers, title="t"),
        lambda made, _: curation_loss.draw(made.means, title="t"),
        lambda _, differences: curation_differences.draw(differences, title="t"),
    ],
    ids=["curation", "loss", "differences"],
)
def test_equal_tables_give_equal_bytes(made, differences, tmp_path, draw):
    for name in ("a", "b"):
        style.save(draw(made, differences), tmp_path / f"{name}.svg", tmp_path / f"{name}.png")
    for kind in ("svg", "png"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


@pytest.mark.parametrize(
    ("script", "tables_of"),
    [
        ("draw_curation", ("means", "layers")),
        ("draw_curation_heatmaps", ("layers",)),
        ("draw_curation_loss", ("means",)),
        ("draw_curation_differences", ("differences",)),
    ],
)
def test_scripts_draw_what_the_tables_hold_with_the_style_asked_for(script, tables_of, tmp_path, monkeypatch):
    experiment(tmp_path)
    difference_table(tmp_path)
    drawn = []
    monkeypatch.setattr(style, "save", lambda figure, svg, png: drawn.append((figure, svg, png)))
    paths = [tmp_path / f"{name}.csv" for name in tables_of]
    settings = {"title": "nano-lora moral", "conditions": list(NAMES), "style": {"width": 7.0}}
    main = importlib.import_module(script).main
    main(*paths, "a.svg", "a.png", settings=settings)
    ((figure, svg, png),) = drawn
    assert (figure.get_suptitle(), figure.get_figwidth(), svg, png) == (
        "nano-lora moral",
        7.0,
        "a.svg",
        "a.png",
    )
    with pytest.raises(StrataprobeError, match="conditions: not an option"):
        main(*paths, "a.svg", "a.png", settings={**settings, "style": {"conditions": []}})
