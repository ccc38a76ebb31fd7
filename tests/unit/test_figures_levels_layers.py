"""Figures of levels by depth and over training show their tables' numbers, and what is missing."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import colors

import draw_levels_training
import draw_recoverability_depth
import draw_verb_out
from strataprobe import tables
from strataprobe.errors import StrataprobeError
from strataprobe.figures import levels_training, recoverability_depth, style, verb_out
from strataprobe.recoverability import verbs
from tests import level_figure_cases as cases
from tests import levels_cases
from tests.figure_checks import band, beyond, labels, legends_on_panels, line, overlapping, words
from tests.unit.test_figures_levels import long_names, seen_in, written

EVERY = list(cases.MODELS)
FEW = EVERY[3:6]  # the second has a clean window
STEPS = list(cases.STEPS)
SETTINGS = {"clean_gap": 0.1, "leak_gap": 0.3, "least_item_out": 0.75, "clean_window": 0.9}


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """Fewer dots than a page needs: nobody looks, and the tests are quicker."""
    monkeypatch.setattr(style, "DPI", 50)


@pytest.fixture(scope="module")
def few() -> pd.DataFrame:
    return cases.layers_frame(FEW)


@pytest.fixture(scope="module")
def every() -> pd.DataFrame:
    return cases.layers_frame(EVERY)


@pytest.fixture(scope="module")
def trained() -> tuple[pd.DataFrame, pd.DataFrame]:
    return cases.trajectory()


def over_training(tables_=None, **how):
    given = {"title": "t", "expected": cases.EXPECTED, **how}
    return levels_training.draw(*(cases.trajectory() if tables_ is None else tables_), **given)


def rows(frame: pd.DataFrame, **same) -> pd.DataFrame:
    chosen = np.logical_and.reduce([frame[name] == value for name, value in same.items()])
    return frame[chosen].sort_values("hidden_state" if "hidden_state" in frame else "step")


def drawings(few, every, trained) -> dict:
    named = long_names(every[every["model"].isin(EVERY[:7])])
    gaps = cases.trajectory(leave_out=(25, 240))
    unbound = (trained[0][trained[0]["level"] != "readout"], trained[1])
    return {
        "recoverability_depth": lambda: recoverability_depth.draw(few, title="t"),
        "verb_out": lambda: verb_out.draw(few, title="t"),
        "levels_training": lambda: over_training(trained),
        "depth of many": lambda: recoverability_depth.draw(every, title="t"),
        "verb_out of many": lambda: verb_out.draw(every, title="t"),
        "depth, long names": lambda: recoverability_depth.draw(named, title="t"),
        "verb_out, long names": lambda: verb_out.draw(named, title="t", mode="ab"),
        "training with gaps": lambda: over_training(gaps, step_scale="symlog", task="qa"),
        "training by type": lambda: over_training(unbound, split="subject_control"),
    }


KINDS = list(drawings(None, pd.DataFrame({"model": []}), (pd.DataFrame({"level": []}), None)))


@pytest.mark.parametrize("kind", KINDS[:3])
def test_the_same_tables_give_the_same_bytes(few, every, trained, kind, tmp_path):
    for name in ("one", "two"):
        figure = drawings(few, every, trained)[kind]()
        style.save(figure, tmp_path / f"{name}.svg", tmp_path / f"{name}.png")
    for suffix in ("svg", "png"):
        first = (tmp_path / f"one.{suffix}").read_bytes()
        assert first == (tmp_path / f"two.{suffix}").read_bytes()
        assert len(first) > 3000


@pytest.mark.parametrize("kind", KINDS)
def test_no_words_overlap_none_leave_the_page_and_the_legend_covers_no_panel(few, every, trained, kind):
    figure = drawings(few, every, trained)[kind]()
    # Letters are fitted to whole dots, so a layout found with fewer has too little room for them.
    figure.set_dpi(200)
    seen = words(figure)
    assert overlapping(figure, seen) == []
    assert beyond(figure, seen) == []
    assert legends_on_panels(figure) == []
    for legend in filter(None, (axes.get_legend() for axes in figure.axes)):
        handles = [each for each in legend.legend_handles if hasattr(each, "get_marker")]
        looks = [(str(each._dash_pattern), each.get_marker(), each.get_markerfacecolor()) for each in handles]
        # Many models share a dash, and then a marker, but not both and the colour.
        assert len(set(looks)) == len(looks), looks


# Depth


def test_each_line_is_the_mode_of_the_best_layer_with_its_spread(few):
    figure = recoverability_depth.draw(few, title="t")
    for axes, level, measure in (
        (figure.axes[0], "recoverability", "pair_out:decorrelated"),
        (figure.axes[1], "readout", "default"),
    ):
        for model in FEW:
            own = rows(few, model=model, level=level, measure=measure, split="all")
            best = own.loc[own["value"].idxmax()]
            curve = rows(own, mode=best["mode"])
            drawn, ring = line(axes, f"_{model}"), line(axes, f"_best {model}")
            np.testing.assert_array_equal(drawn.get_xdata(), curve["depth"])
            np.testing.assert_array_equal(drawn.get_ydata(), curve["value"])
            assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (best["depth"], best["value"])
            (label,) = [text for text in figure.axes[2].get_legend().get_texts() if model in text.get_text()]
            assert f"{best['mode']} {best['hidden_state']}/{curve['hidden_state'].max()}" in label.get_text()
    curve = rows(few, model=FEW[0], measure="pair_out:decorrelated", split="all", mode="ab")
    for depth, (low, high) in band(figure.axes[0], 0).items():
        value, spread = curve.loc[curve["depth"] == depth, ["value", "sd"]].iloc[0]
        assert (low, high) == pytest.approx((value - spread, value + spread))


def test_mode_prompt_coding_and_split_can_be_asked_for(few):
    how = {"mode": "bv", "task": "paraphrase", "coding": "paper", "definition": "code", "split": "en"}
    figure = recoverability_depth.draw(few, title="t", **how)
    for axes, measure, mode in ((figure.axes[0], "paper", "bv"), (figure.axes[1], "code", "paraphrase")):
        own = rows(few, model=FEW[0], measure=measure, split="en", mode=mode)
        np.testing.assert_array_equal(line(axes, f"_{FEW[0]}").get_ydata(), own["value"])


def test_of_equal_layers_the_lowest_is_best_whatever_its_mode(few):
    """As in the tables; theirs is also the order of rows, mode by mode."""
    ordered = few.sort_values(["model", "mode", "hidden_state"], kind="stable")
    best = [
        (ordered["mode"] == mode) & (ordered["hidden_state"] == layer)
        for mode, layer in (("ab", 9), ("bv", 4))
    ]
    flat = ordered.assign(value=np.where(np.logical_or.reduce(best), 0.9, 0.6))
    axes = recoverability_depth.draw(flat, title="t").axes[0]
    assert list(line(axes, f"_best {FEW[0]}").get_xdata()) == [4 / 28]
    assert line(axes, f"_{FEW[0]}").get_ydata()[9] == 0.6, "the line is that of bv"


def test_late_layers_are_shaded(few):
    axes = recoverability_depth.draw(few, title="t", late=0.6).axes[0]
    (shade,) = [each for each in axes.patches if each.get_label() == "_late layers"]
    assert (shade.get_x(), shade.get_x() + shade.get_width()) == pytest.approx((0.6, 1.0))


def test_a_model_without_a_level_by_layer_is_named_and_nothing_at_all_refused(few):
    some = few[~((few["model"] == FEW[1]) & (few["level"] == "readout"))]
    said = recoverability_depth.draw(
        some, title="t", models=[(FEW[0], "main"), (FEW[1], "main"), ("gone", "x")]
    )
    assert f"No LM-head readout: {FEW[1]}." in said.get_supxlabel()
    assert "No row at all: gone." in said.get_supxlabel()
    with pytest.raises(StrataprobeError, match=r"neither recoverability.*split 'xx'"):
        recoverability_depth.draw(few, title="t", split="xx")
    for frame, fault in (
        (few.iloc[:0], "nothing to draw"),
        (pd.concat([few, few]), "twice"),
        (pd.concat([few, few.assign(revision="later")]), "revisions later, main|revisions main, later"),
    ):
        with pytest.raises(StrataprobeError, match=fault):
            recoverability_depth.draw(frame, title="t")
        with pytest.raises(StrataprobeError, match=fault):
            verb_out.draw(frame, title="t")


# Verb-out


def test_the_gap_its_verdicts_and_both_accuracies_are_the_tables(few):
    figure = verb_out.draw(few, title="t")
    top, left, right = figure.axes[0], figure.axes[1], figure.axes[2]
    for model in FEW:
        same = {"model": model, "mode": "bv", "split": "subject_control"}
        gap = rows(few, measure="gap:decorrelated", **same)
        np.testing.assert_array_equal(line(top, f"_{model}").get_ydata(), gap["value"])
        hollow = line(top, f"_learned nothing, {model}")
        nothing = (gap["note"] == "learned nothing").to_numpy()
        assert 0 < nothing.sum() < len(nothing), "both must occur, or the test sees nothing"
        np.testing.assert_array_equal(np.isfinite(hollow.get_ydata()), nothing)
        assert colors.to_hex(hollow.get_markerfacecolor()) == "#ffffff"
        for axes, measure in ((left, "decorrelated"), (right, "verb_out:decorrelated")):
            own = rows(few, measure=measure, **same)
            np.testing.assert_array_equal(line(axes, f"_{model}").get_ydata(), own["value"])
        balanced = rows(few, measure="balanced:decorrelated", **same)
        np.testing.assert_array_equal(line(right, f"_balanced {model}").get_ydata(), balanced["value"])


def test_bands_stand_where_verdicts_change(few):
    top = verb_out.draw(few, title="t", clean_gap=0.08, leak_gap=0.25).axes[0]
    bands = {each.get_label(): each.get_y() for each in top.patches}
    ends = {each.get_label(): each.get_y() + each.get_height() for each in top.patches}
    assert (bands["_band clean"], ends["_band clean"]) == pytest.approx((-0.08, 0.08))
    assert (bands["_band partial"], ends["_band partial"]) == pytest.approx((0.08, 0.25))
    assert ends["_band unstable"] == pytest.approx(-0.08)
    assert bands["_band leakage-\ndominant"] == pytest.approx(0.25)
    assert (bands["_band unstable"], ends["_band leakage-\ndominant"]) == pytest.approx(top.get_ylim())


def test_clean_windows_are_those_of_the_library_of_recoverability(few):
    rng = np.random.default_rng(3)
    for _ in range(60):
        item_out, out = np.round(rng.uniform(0.8, 1, (2, 9)), 2)
        frames = [pd.DataFrame({"hidden_state": range(9), "value": each}) for each in (item_out, out)]
        found = verb_out.window(*frames, 0.1, 0.9)
        gap = np.round(item_out - out, 6)
        wanted = verbs.clean_window(item_out, out, gap, SETTINGS)
        assert (None if found is None else tuple(found["hidden_state"].iloc[[0, -1]])) == wanted
    figure = verb_out.draw(few, title="t")
    strip = figure.axes[3]
    assert [each.get_label() for each in strip.lines] == [f"_window {FEW[0]}", f"_window {FEW[1]}"]
    same = {"model": FEW[1], "mode": "bv", "split": "subject_control"}
    both = [rows(few, measure=name, **same) for name in ("decorrelated", "verb_out:decorrelated")]
    inside = verb_out.window(*both, 0.1, 0.9)
    drawn = line(strip, f"_window {FEW[1]}").get_xdata()
    assert list(drawn) == list(inside["depth"].iloc[[0, -1]])
    first, last = inside["hidden_state"].iloc[[0, -1]]
    assert last > first
    said = [text.get_text() for text in figure.axes[4].get_legend().get_texts()]
    assert f"{FEW[1]}\nclean {first} to {last} of 40" in said
    assert f"{FEW[2]}\nno clean window" in said
    none = verb_out.draw(few[few["model"] == FEW[2]], title="t").axes[3]
    assert [text.get_text() for text in none.texts] == ["none"]


def test_balanced_folds_are_left_out_of_many_lines_and_a_missing_gap_is_said(few, every):
    right = verb_out.draw(every, title="t").axes[2]
    assert [name for name in labels(right) if name.startswith("_balanced")] == []
    some = few[~((few["model"] == FEW[1]) & (few["measure"] == "gap:decorrelated"))]
    assert f"No verb-out: {FEW[1]}." in verb_out.draw(some, title="t").get_supxlabel()
    with pytest.raises(StrataprobeError, match=r"no verb-out gap \(coding paper, mode vv\) of split 'all'"):
        verb_out.draw(few, title="t", coding="paper", mode="vv", split="all")


# Training


def test_levels_over_training_with_their_chance_and_the_step_from_which_they_are_above_it(trained):
    levels, _ = trained
    axes = over_training(trained).axes[0]
    for level, measure, null in (
        ("behavior", "mean_behavior", None),
        ("readout", "at_pick:default", "null_high:default"),
        ("recoverability", "at_pick:pair_out:decorrelated", "null_high:pair_out:decorrelated"),
    ):
        own = rows(levels, level=level, measure=measure, split="all")
        name = {
            "behavior": "behaviour",
            "readout": "LM-head readout",
            "recoverability": "probe recoverability",
        }[level]
        drawn = line(axes, name)
        assert list(drawn.get_xdata()) == STEPS
        np.testing.assert_array_equal(drawn.get_ydata(), own["value"])
        if null is None:
            above = own["interval_low"].to_numpy() > 0.5
        else:
            chance = rows(levels, level=level, measure=null, split="all")["value"]
            np.testing.assert_array_equal(line(axes, f"_null {level}").get_ydata(), chance)
            above = own["value"].to_numpy() > chance.to_numpy()
        since = next(step for place, step in enumerate(STEPS) if above[place:].all())
        assert since not in (STEPS[0], STEPS[-1])
        assert drawn.get_label().endswith(f"\nfrom step {since}")
        assert list(line(axes, f"_since {level}").get_xdata()) == [since]
    bounds = rows(levels, level="behavior", measure="mean_behavior", split="all").set_index("step")
    for step, found in band(axes, 0).items():
        assert found == pytest.approx(tuple(bounds.loc[step, ["interval_low", "interval_high"]]))


def test_a_level_that_falls_back_to_chance_or_only_ties_with_it_is_not_above(trained):
    levels, layers = trained
    chance = rows(levels, level="readout", measure="null_high:default", split="all")["value"].iloc[0]
    last = (levels["measure"] == "at_pick:default") & (levels["split"] == "all") & (levels["step"] == 600)
    figure = over_training((levels.assign(value=levels["value"].mask(last, chance)), layers))
    assert line(figure.axes[0], "LM-head readout").get_label().endswith("\nnot above chance")
    assert "_since readout" not in labels(figure.axes[0])


def test_bias_is_of_the_tasks_drawn_and_needs_both_types(trained):
    levels, _ = trained
    figure = over_training(trained)
    for task, name in (("qa", "QA"), ("paraphrase", "paraphrase")):
        for what, label in (("d_prime", f"d′, {name}"), ("criterion", f"criterion, {name}")):
            own = rows(levels, measure=f"{what}:{task}", split="all")
            np.testing.assert_array_equal(line(figure.axes[1], label).get_ydata(), own["value"])
    assert [name for name in labels(over_training(trained, task="qa").axes[1]) if "paraphrase" in name] == []
    one_type = over_training(trained, split="subject_control").axes
    assert [text.get_text() for text in one_type[1].texts] == ["both control types are needed"]
    assert "_null readout" not in labels(one_type[0]), "the layer was chosen on other items too"


def test_critical_noise_is_that_of_the_best_layer_and_a_cross_where_there_is_none(trained):
    levels, layers = trained
    figure = over_training(trained)
    left, right = figure.axes[2], figure.axes[3]
    picks = rows(levels, measure="layer:pair_out:decorrelated", split="all")
    wanted = {"critical_noise_rms": [], "critical_noise": []}
    for name, found in wanted.items():
        for _, pick in picks.iterrows():
            same = {
                "measure": f"{name}:pair_out:decorrelated",
                "mode": pick["note"],
                "hidden_state": pick["value"],
            }
            found.append(float(rows(layers, step=pick["step"], **same)["value"].iloc[0]))
    none = ~np.isfinite(wanted["critical_noise_rms"])
    assert 0 < none.sum() < len(none), "both must occur, or the test sees nothing"
    np.testing.assert_array_equal(line(left, "scale divided out").get_ydata(), wanted["critical_noise_rms"])
    np.testing.assert_array_equal(line(right, "raw").get_ydata(), wanted["critical_noise"])
    assert list(line(left, "below the threshold").get_xdata()) == list(np.array(STEPS)[none])


def test_missing_checkpoints_are_hatched_and_named_by_level(trained):
    figure = over_training(cases.trajectory(leave_out=(25,)))
    for axes in figure.axes[:3]:
        assert "_no data: 25" in labels(axes)
        assert "_no data: 60" not in labels(axes)
    assert "No data (hatched) for any level: step0025." in figure.get_supxlabel()
    levels, layers = trained
    some = levels[~((levels["level"] == "readout") & (levels["step"] == 60))]
    figure = over_training((some, layers[layers["step"] != 60]))
    assert "No data (hatched) for LM-head readout and layers: step0060." in figure.get_supxlabel()
    assert "_no data: 60" not in labels(figure.axes[0]), "behaviour is there"
    assert "_no data: 60" in labels(figure.axes[2])


def test_training_refuses_mixed_repeated_and_missing_rows(trained):
    levels, layers = trained
    for mixed, fault in (
        ((levels.iloc[:0], layers.iloc[:0]), "nothing to draw"),
        ((pd.concat([levels, levels.assign(model="other")]), layers), "model: llama-3.2-3b-base, other"),
        ((levels, layers.assign(dataset="other")), "dataset: control, other"),
        ((levels, pd.concat([layers, layers])), "twice"),
        ((levels.assign(step=np.nan), layers.assign(step=np.nan)), "has no step"),
    ):
        with pytest.raises(StrataprobeError, match=fault):
            levels_training.draw(*mixed, title="t")


# Scripts, and the library's own tables


def test_the_scripts_draw_from_written_parts(tmp_path, few, trained, monkeypatch):
    parts = written(tmp_path, few, "levels_layers")
    read = pd.concat([tables.read_table(path) for path in parts])
    shared = {"title": "t", "models": [[FEW[1], "main"], [FEW[0], "main"]]}
    saved: list = []
    monkeypatch.setattr(style, "save", lambda figure, svg, png: saved.append(figure))
    draw_recoverability_depth.main(parts, "a", "b", settings={**shared, "style": {"mode": "v"}})
    assert seen_in(saved.pop()) == seen_in(recoverability_depth.draw(read, **shared, mode="v"))
    gaps = {"clean_gap": 0.05, "leak_gap": 0.2, "clean_window": 0.8}
    draw_verb_out.main(parts, "a", "b", settings={**shared, **gaps, "style": {"mode": "v"}})
    assert seen_in(saved.pop()) == seen_in(verb_out.draw(read, **shared, **gaps, mode="v"))
    one, other = (
        written(tmp_path, frame, name)
        for frame, name in zip(trained, ("levels", "levels_layers"), strict=True)
    )
    settings = {"title": "t", "checkpoints": [["later", 700]], "style": {"task": "qa"}}
    draw_levels_training.main(one, other, "a", "b", settings=settings)
    frames = [tables.read_table(path) for path in (*one, *other)]
    figure = levels_training.draw(*frames, title="t", expected=[["later", 700]], task="qa")
    assert seen_in(saved.pop()) == seen_in(figure)
    assert "later" in figure.get_supxlabel()


def test_the_names_by_layer_and_over_training_are_those_that_the_library_writes(trained):
    made = [levels_cases.summaries(seed, step=step) for seed, step in enumerate((0, 10))]
    each = [list(level) for level in zip(*made, strict=True)]
    levels = pd.DataFrame(tables.levels_rows(*each, levels_cases.SETTINGS))
    layers = pd.DataFrame(tables.levels_layers_rows(*each, levels_cases.SETTINGS))
    layers = layers.assign(value=layers["value"].astype(float), sd=layers["sd"].astype(float))
    names = ["level", "measure", "mode"]
    known = set(map(tuple, layers[names].drop_duplicates().to_numpy().tolist()))
    assert set(map(tuple, trained[1][names].drop_duplicates().to_numpy().tolist())) <= known
    assert set(trained[1]["split"]) <= set(layers["split"])
    figure = levels_training.draw(levels, layers, title="t")
    assert "No data" not in figure.get_supxlabel()
    assert np.isfinite(line(figure.axes[0], "probe recoverability").get_ydata()).all()
    last = layers[layers["step"] == 10]
    for kind in (recoverability_depth, verb_out):
        assert "\nNo " not in kind.draw(last, title="t").get_supxlabel()
