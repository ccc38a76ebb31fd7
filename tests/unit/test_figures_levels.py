"""Figures of the levels table show its numbers: three levels, tuning, the deployment gap, option order."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import colors

import draw_deployment_gap
import draw_levels
import draw_levels_tuning
import draw_order_bias
from strataprobe import tables
from strataprobe.errors import StrataprobeError
from strataprobe.figures import deployment_gap, level_names, levels, levels_tuning, order_bias, style
from tests import level_figure_cases as cases
from tests import levels_cases
from tests.figure_checks import beyond, legends_on_panels, line, overlapping, words

EVERY = list(cases.MODELS)
BASE, TUNED = cases.PAIRS[0]
LOOKS = ("color", "linestyle", "marker", "markerfacecolor")


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """Fewer dots than a page needs: nobody looks, and the tests are quicker."""
    monkeypatch.setattr(style, "DPI", 50)


@pytest.fixture(scope="module")
def few() -> pd.DataFrame:
    return cases.levels_frame()


@pytest.fixture(scope="module")
def every() -> pd.DataFrame:
    return cases.levels_frame(EVERY)


@pytest.fixture(scope="module")
def changes() -> pd.DataFrame:
    return cases.changes_frame()


def cell(frame, model, level, measure, split="all", column="value") -> float:
    """The one number that the table has there."""
    same = {"model": model, "level": level, "measure": measure, "split": split}
    found = frame[np.logical_and.reduce([frame[name] == value for name, value in same.items()])]
    assert len(found) == 1, same
    return float(found[column].iloc[0])


def bounds(frame, *where) -> list[float]:
    return [cell(frame, *where, column=f"interval_{end}") for end in ("low", "high")]


def lacking(frame: pd.DataFrame) -> pd.DataFrame:
    """One model without readout, and another without anything but behaviour."""
    gone = (frame["model"] == EVERY[1]) & (frame["level"] == "readout")
    bare = (frame["model"] == cases.FEW[2]) & (frame["level"] != "behavior")
    return frame[~gone & ~bare]


def long_names(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(model=[f"a-rather-long-name-{name}" for name in frame["model"]])


def kinds(frame: pd.DataFrame, changes: pd.DataFrame | None, pairs) -> dict:
    return {
        "levels": lambda: levels.draw(frame, title="t"),
        "types": lambda: levels.draw(frame, title="t", split=["all", *cases.TYPES], task="qa", pick="split"),
        "deployment_gap": lambda: deployment_gap.draw(frame, title="t"),
        "order_bias": lambda: order_bias.draw(frame, title="t"),
        "levels_tuning": lambda: levels_tuning.draw(frame, changes, title="t", pairs=pairs),
    }


KINDS = list(kinds(pd.DataFrame(), None, ()))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_tables_give_the_same_bytes(few, changes, kind, tmp_path):
    for name in ("one", "two"):
        figure = kinds(few, changes, [(BASE, TUNED)])[kind]()
        style.save(figure, tmp_path / f"{name}.svg", tmp_path / f"{name}.png")
    for suffix in ("svg", "png"):
        first = (tmp_path / f"one.{suffix}").read_bytes()
        assert first == (tmp_path / f"two.{suffix}").read_bytes()
        assert len(first) > 3000


@pytest.mark.parametrize("made", [lambda frame: frame[frame["model"].isin(cases.FEW)], lacking, long_names])
@pytest.mark.parametrize("kind", KINDS)
def test_no_words_overlap_none_leave_the_page_and_the_legend_covers_no_panel(every, changes, kind, made):
    frame = made(every)
    named = {name.removeprefix("a-rather-long-name-"): name for name in frame["model"].unique()}
    pairs = [[named[name] for name in pair] for pair in cases.PAIRS if set(pair) <= set(named)]
    figure = kinds(frame, changes, pairs[:2])[kind]()
    # Letters are fitted to whole dots, so a layout found with fewer has too little room for them.
    figure.set_dpi(200)
    seen = words(figure)
    assert overlapping(figure, seen) == []
    assert beyond(figure, seen) == []
    assert legends_on_panels(figure) == []


@pytest.mark.parametrize("kind", KINDS)
def test_marks_of_a_legend_differ_in_more_than_colour(every, changes, kind):
    figure = kinds(every, changes, [(BASE, TUNED)])[kind]()
    (found,) = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    seen = [
        (str(each._dash_pattern), each.get_marker(), each.get_linestyle()) for each in found.legend_handles
    ]
    assert len(set(seen)) == len(seen) > 1, seen


# Three levels


def test_each_row_is_the_table_of_its_model_at_the_layer_that_is_best_over_all_items(few):
    figure = levels.draw(few, title="t", split="subject_control")
    left, right = figure.axes[:2]
    assert [text.get_text() for text in left.get_yticklabels()] == list(cases.FEW)
    for place, model in enumerate(cases.FEW):
        own = f"{model}, subject_control"
        for level, measure in (
            ("behavior", "mean_behavior"),
            ("readout", "at_pick:default"),
            ("recoverability", "at_pick:pair_out:decorrelated"),
        ):
            where = (model, level, measure, "subject_control")
            mark, bar = line(left, f"_{level} {own}"), line(left, f"_interval {level} {own}")
            assert list(mark.get_xdata()) == [cell(few, *where)]
            assert list(bar.get_xdata()) == pytest.approx(bounds(few, *where))
            assert round(float(mark.get_ydata()[0])) == place
        where = (model, "summary", "surplus", "subject_control")
        bar, mark = [each for each in right.lines if each.get_label() == f"_{own}"]
        assert list(mark.get_xdata()) == [cell(few, *where)]
        assert list(bar.get_xdata()) == pytest.approx(bounds(few, *where))


def test_the_chance_of_a_maximum_stands_only_beside_what_is_such_a_maximum(few):
    def ticks(**how) -> dict:
        found = list(levels.draw(few, title="t", **how).axes[0].lines)
        return {
            str(each.get_label()): float(each.get_xdata()[0]) for each in found if "_null" in each.get_label()
        }

    model = cases.FEW[0]
    drawn = ticks()
    assert len(drawn) == 2 * len(cases.FEW)
    for level, name in (("readout", "default"), ("recoverability", "pair_out:decorrelated")):
        assert drawn[f"_null {level} {model}, all"] == cell(few, model, level, f"null_high:{name}")
    assert ticks(split="subject_control") == {}, "the layer was chosen on other items too"
    within = ticks(split="subject_control", pick="split")
    assert set(within) == {f"_null readout {model}, subject_control" for model in cases.FEW}


def test_another_probe_has_the_bare_difference_as_surplus_and_the_note_says_so(few):
    figure = levels.draw(few, title="t", coding="paper:seed1729", task="qa")
    for model in cases.FEW:
        mark = line(figure.axes[1], f"_{model}, all")
        probe = cell(few, model, "recoverability", "at_pick:paper:seed1729")
        assert float(mark.get_xdata()[0]) == pytest.approx(probe - cell(few, model, "behavior", "qa"))
        assert colors.to_hex(mark.get_markerfacecolor()) == "#ffffff"
    said = figure.get_supxlabel().replace("\n", " ")
    assert "Open diamonds" in said
    assert "coding paper, leave-one-out, seed 1729" in said
    assert "Open diamonds" not in levels.draw(few, title="t").get_supxlabel()


def test_what_stands_for_a_level_is_what_the_library_compares():
    from strataprobe.levels import CONVENTIONS

    for name, choice in CONVENTIONS.items():
        definition, coding = level_names.STANDING[name]
        assert definition == choice.readout
        assert coding == choice.coding + (f":seed{choice.seed}" if choice.seed else "")
        assert level_names.Chosen(definition, coding).stands_for(f"something; {choice}")


def test_what_a_study_has_not_measured_is_replaced_by_what_is_nearest(few):
    def said(frame) -> str:
        return levels.draw(frame, title="t").get_supxlabel().replace("\n", " ")

    published = few.assign(conventions="published")
    assert "Readout (code)" in said(published)
    assert "coding paper, leave-one-out, seed 1729" in said(published)
    without = published[~published["measure"].str.contains("paper|code")]
    assert "Readout (default)" in said(without)
    assert "coding decorrelated, leave-one-out, seed 1729" in said(without)
    assert "coding decorrelated, leave-pair-out, mean of seeds" in said(few)
    assert "coding paper, leave-pair-out" in said(few[~few["measure"].str.contains("decorrelated")])
    assert "coding decorrelated, leave-one-out, mean" in said(few[~few["measure"].str.contains("pair_out")])


def test_one_model_has_a_row_a_split_and_several_models_have_both_named(few):
    splits = ["all", "en:object_control"]
    one = levels.draw(few[few["model"] == BASE], title="t", split=splits)
    assert [text.get_text() for text in one.axes[0].get_yticklabels()] == [
        "all items",
        "English, object control",
    ]
    assert one.get_supxlabel().startswith(f"{BASE}, control.")
    names = [text.get_text() for text in levels.draw(few, title="t", split=splits).axes[0].get_yticklabels()]
    assert names[:2] == [f"{BASE}\nall items", f"{BASE}\nEnglish, object control"]


def test_models_are_those_asked_for_in_their_order_and_revision(few):
    both = pd.concat([few, few.assign(revision="other", value=0.9)])
    wanted = [(cases.FEW[2], "main"), ("never-run", "main"), (BASE, "other")]
    axes = levels.draw(both, title="t", models=wanted).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == [cases.FEW[2], BASE]
    assert float(line(axes, f"_readout {BASE}, all").get_xdata()[0]) == 0.9
    assert float(line(axes, f"_readout {cases.FEW[2]}, all").get_xdata()[0]) != 0.9
    assert "No row at all: never-run." in axes.figure.get_supxlabel()


def test_a_model_without_a_level_and_one_out_of_order_are_named(every):
    said = levels.draw(lacking(every), title="t").get_supxlabel().replace("\n", " ")
    assert f"No LM-head readout: {TUNED}, {cases.FEW[2]}." in said
    assert f"No probe recoverability: {cases.FEW[2]}." in said
    assert "No behaviour" not in said
    wrong = (every["measure"] == "ordering") & (every["split"] == "all") & every["model"].isin(cases.FEW[1:])
    broken = every.assign(value=every["value"].mask(wrong, 0.0))
    said = levels.draw(broken, title="t").get_supxlabel().replace("\n", " ")
    assert f"out of order by more than one item: {', '.join(cases.FEW[1:])}." in said
    assert "out of order" not in levels.draw(broken, title="t", coding="paper").get_supxlabel(), "of another"


@pytest.mark.parametrize("kind", KINDS)
def test_mixed_repeated_and_missing_rows_are_refused(few, changes, kind):
    def draw(frame):
        kinds(frame, changes, [(BASE, TUNED)])[kind]()

    with pytest.raises(StrataprobeError, match="nothing to draw"):
        draw(few.iloc[:0])
    with pytest.raises(StrataprobeError, match="dataset: control, other; choose one"):
        draw(pd.concat([few, few.assign(dataset="other")]))
    with pytest.raises(StrataprobeError, match=f"{BASE}: revisions main, step5; choose one"):
        draw(pd.concat([few, few.assign(revision="step5")]))
    with pytest.raises(StrataprobeError, match=r"twice(.|\n)*and \d+ more"):
        draw(pd.concat([few, few]))


def test_unknown_options_are_refused_by_name(few):
    with pytest.raises(StrataprobeError, match="task 'queries' is unknown; there are: mean, qa, paraphrase"):
        levels.draw(few, title="t", task="queries")
    with pytest.raises(StrataprobeError, match="pick 'best' is unknown; there are: all, split"):
        levels.draw(few, title="t", pick="best")
    with pytest.raises(StrataprobeError, match="at most 6 splits"):
        deployment_gap.draw(few, title="t", splits=cases.SPLITS)
    with pytest.raises(StrataprobeError, match="splits are drawn once; given more often: all"):
        deployment_gap.draw(few, title="t", splits=["all", "all"])


# Tuning


def test_tuning_shows_both_models_of_a_pair_and_the_change_of_the_table(every, changes):
    figure = levels_tuning.draw(every, changes, title="t", pairs=cases.PAIRS[:2])
    titles = [axes.get_title(loc="left") for axes in figure.axes[:6]]
    assert sorted(titles) == ["a  QA", "b  paraphrase", "c  change", "d  QA", "e  paraphrase", "f  change"]
    panels = dict(zip(titles, figure.axes, strict=False))
    for level, measure in (
        ("behavior", "paraphrase"),
        ("readout", "at_pick:default"),
        ("recoverability", "at_pick:pair_out:decorrelated"),
    ):
        drawn = line(panels["b  paraphrase"], f"_{level}").get_ydata()
        assert list(drawn) == [cell(every, model, level, measure) for model in (BASE, TUNED)]
    for name, quantity in (("readout", "readout"), ("probe", "recoverability"), ("surplus", "surplus")):
        same = {"quantity": f"change:{quantity}", "model": TUNED, "other": BASE, "split": "all"}
        row = changes[np.logical_and.reduce([changes[key] == value for key, value in same.items()])].iloc[0]
        bar, mark = [each for each in panels["c  change"].lines if each.get_label() == f"_{TUNED}, {name}"]
        assert list(mark.get_xdata()) == [row["value"]]
        assert list(bar.get_xdata()) == [row["interval_low"], row["interval_high"]]
    change = cell(every, TUNED, "behavior", "qa") - cell(every, BASE, "behavior", "qa")
    share = 100 * change / cell(every, BASE, "behavior", "qa")
    said = [text.get_text() for text in panels["c  change"].texts]
    assert said[0] == f"QA\n{change:+.2f} ({share:+.0f} %)".replace("-", "−")


def test_without_a_table_of_changes_or_with_another_probe_the_difference_is_bare(every, changes):
    for given, coding in ((None, None), (changes, "paper")):
        figure = levels_tuning.draw(every, given, title="t", pairs=[(BASE, TUNED)], coding=coding)
        faces = {
            name: colors.to_hex(line(figure.axes[2], f"_{TUNED}, {name}").get_markerfacecolor())
            for name in ("QA", "readout", "probe", "surplus")
            if name != "readout" or given is None
        }
        assert set(faces.values()) == {"#ffffff"}
        assert "Open marks" in figure.get_supxlabel()


def test_a_pair_must_be_two_models_of_the_table(few):
    with pytest.raises(StrataprobeError, match="no pair"):
        levels_tuning.draw(few, title="t", pairs=[])
    with pytest.raises(
        StrataprobeError, match=r"a pair is \(base, tuned\)(.|\n)*never: the table has no row"
    ):
        levels_tuning.draw(few, title="t", pairs=[[BASE], [BASE, "never"]])
    figure = levels_tuning.draw(lacking(few), title="t", pairs=[(BASE, TUNED)])
    assert [text.get_text() for text in figure.axes[2].texts][2] == "readout\nno value"
    assert f"No LM-head readout: {TUNED}" in figure.get_supxlabel()


# The gap, and option order


def test_the_gap_by_type_and_task_is_the_surplus_of_the_table(every):
    figure = deployment_gap.draw(every, title="t")
    for axes, task in zip(figure.axes, cases.TASKS, strict=False):
        for place, model in enumerate(EVERY):
            found = {}
            for split in cases.TYPES:
                where = (model, "summary", f"surplus:{task}", split)
                bar, mark = [each for each in axes.lines if each.get_label() == f"_{model}, {split}"]
                assert list(mark.get_ydata()) == [cell(every, *where)]
                assert list(bar.get_ydata()) == pytest.approx(bounds(every, *where))
                found[split] = float(mark.get_xdata()[0])
            assert found["object_control"] < place < found["subject_control"]
    ticks = [text.get_text().replace("\n", "") for text in figure.axes[1].get_xticklabels()]
    assert ticks == EVERY


def test_the_gap_within_a_split_is_the_best_there_and_over_all_items_chance_is_drawn(few):
    axes = deployment_gap.draw(few, title="t", tasks=["qa"], pick="split").axes[0]
    for model in cases.FEW:
        probe = cell(few, model, "recoverability", "pair_out:decorrelated", "subject_control")
        gap = probe - cell(few, model, "behavior", "qa", "subject_control")
        assert float(line(axes, f"_{model}, subject_control").get_ydata()[0]) == pytest.approx(gap)
    axes = deployment_gap.draw(few, title="t", tasks=["qa"], splits=["all"]).axes[0]
    for model in cases.FEW:
        chance = cell(few, model, "recoverability", "null_high:pair_out:decorrelated")
        height = chance - cell(few, model, "behavior", "qa")
        assert float(line(axes, f"_chance {model}").get_ydata()[0]) == pytest.approx(height)


def test_both_orders_and_their_mean_are_drawn_and_missing_ones_named(few):
    figure = order_bias.draw(few, title="t", split="en")
    for axes, kind in zip(figure.axes, ("forced_choice", "label_choice"), strict=False):
        for model in cases.FEW:
            ends = [cell(few, model, "behavior", f"{kind}:{order}", "en") for order in ("ab", "ba")]
            for order, end in zip(("ab", "ba"), ends, strict=True):
                assert list(line(axes, f"_{order} {model}").get_xdata()) == [end]
            assert list(line(axes, f"_gap {model}").get_xdata()) == ends
            mark, bar = line(axes, f"_{model}"), line(axes, f"_interval {model}")
            assert list(mark.get_xdata()) == [cell(few, model, "behavior", kind, "en")]
            assert list(mark.get_xdata()) == pytest.approx([np.mean(ends)])
            assert list(bar.get_xdata()) == pytest.approx(bounds(few, model, "behavior", kind, "en"))
    axes = figure.axes[2]
    assert list(line(axes, f"_{BASE}").get_xdata()) == [cell(few, BASE, "behavior", "contrastive", "en")]
    gone = ["label_choice:ba", "contrastive"]
    without = few[~(few["measure"].isin(gone) & (few["model"] == TUNED))]
    figure = order_bias.draw(without, title="t")
    assert f"No contrastive: {TUNED}." in figure.get_supxlabel()
    assert f"No label choice in order B A: {TUNED}." in figure.get_supxlabel()
    assert [each for each in figure.axes[1].lines if each.get_label().startswith(f"_gap {TUNED}")] == []


# Scripts, and the library's own tables


def written(folder, frame: pd.DataFrame, name: str = "levels") -> list:
    """A part file a model, with the table's columns, as the workflow has them."""
    columns, paths = tables.COLUMNS[name], []
    for place, (_, own) in enumerate(frame.groupby("model" if "level" in frame else "dataset", sort=False)):
        rows = own.astype(object).where(own.notna(), None).to_dict("records")
        paths.append(folder / f"{name}{place}.csv")
        tables.write_csv(paths[-1], [{key: row.get(key) for key in columns} for row in rows], columns)
    return paths


def seen_in(figure) -> list[tuple]:
    """Everything that is drawn as a line, with the words of the note."""
    lines = [each for axes in figure.axes for each in axes.lines]
    # repr, so that NaN equals NaN.
    drawn = [(each.get_label(), repr(list(each.get_xdata())), repr(list(each.get_ydata()))) for each in lines]
    return [*drawn, figure.get_suptitle(), figure.get_supxlabel()]


def test_the_scripts_draw_the_models_asked_for_from_written_parts(tmp_path, few, changes, monkeypatch):
    parts, (table,) = written(tmp_path, few), written(tmp_path, changes, "levels_models")
    read = pd.concat([tables.read_table(path) for path in parts])
    shared = {"title": "t", "models": [[TUNED, "main"], [BASE, "main"]]}
    saved: list = []
    monkeypatch.setattr(style, "save", lambda figure, svg, png: saved.append((figure, svg, png)))
    for script, kind, how in (
        (draw_levels, levels, {"task": "qa"}),
        (draw_deployment_gap, deployment_gap, {"tasks": ["mean"]}),
        (draw_order_bias, order_bias, {"split": "de"}),
    ):
        script.main(parts, "a.svg", "a.png", settings={**shared, "style": how})
        figure, *where = saved.pop()
        assert where == ["a.svg", "a.png"]
        assert seen_in(figure) == seen_in(kind.draw(read, **shared, **how))
    pairs, how = [[BASE, TUNED]], {"tasks": ["mean"]}
    draw_levels_tuning.main(parts, table, "a.svg", "a.png", settings={**shared, "pairs": pairs, "style": how})
    figure = levels_tuning.draw(read, tables.read_table(table), **shared, pairs=pairs, **how)
    assert seen_in(saved.pop()[0]) == seen_in(figure)


def test_the_names_in_these_figures_are_those_that_the_library_writes(few, changes):
    names = ("one-base", "one-instruct")
    made = [levels_cases.summaries(seed, model=name) for seed, name in enumerate(names)]
    each = [list(level) for level in zip(*made, strict=True)]
    real = pd.DataFrame(tables.levels_rows(*each, levels_cases.SETTINGS))
    models = [{"name": names[0]}, {"name": names[1], "base": names[0]}]
    compared = pd.DataFrame(tables.levels_models_rows(*each, models, levels_cases.SETTINGS))
    known = set(zip(real["level"], real["measure"], strict=True))
    made_up = set(zip(few["level"], few["measure"], strict=True))
    assert made_up <= known
    assert set(changes["quantity"]) <= set(compared["quantity"])
    assert set(few["split"]) <= set(real["split"])
    for kind, draw in kinds(real, compared, [names]).items():
        said = draw().get_supxlabel()
        assert "\nNo " not in said
        if kind in ("levels", "deployment_gap"):
            assert "bare difference" not in said
