"""Figures of emergence, transfer, groups, floors and gates show their tables' numbers and what is missing."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import colors

import draw_emergence
import draw_floors
import draw_foundations
import draw_gates
import draw_transfer
from strataprobe import tables
from strataprobe.errors import StrataprobeError
from strataprobe.figures import emergence, floors, foundations, gates, style, transfer
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

STEPS = list(cases.STEPS)
EXPECTED = tuple((f"step{step}", step) for step in STEPS)
# How strongly each made-up dataset is there: with 0 no onset is reached.
DATASETS = {"moral": 1.0, "sentiment": 2.0, "syntax": 0.0}
ONSET = 0.70


def summaries(name: str, leave_out=()) -> list[dict]:
    return [
        cases.probe_summary(step, seed, name, DATASETS[name])
        for step in STEPS
        for seed in cases.SEEDS
        if (step, seed) not in leave_out
    ]


def trajectory(name: str, leave_out=()) -> pd.DataFrame:
    return pd.DataFrame(tables.trajectory_rows(summaries(name, leave_out), []))


def transfer_frame(steps=STEPS) -> pd.DataFrame:
    return pd.DataFrame(tables.transfer_rows([cases.transfer_summary(step) for step in steps]))


def foundations_frame(leave_out=(), permutations=20) -> pd.DataFrame:
    each = [(step, seed) for step in STEPS for seed in cases.SEEDS if (step, seed) not in leave_out]
    return pd.DataFrame(
        tables.foundations_rows([cases.foundations_summary(*of, permutations) for of in each])
    )


def floors_frame(names=tuple(DATASETS)) -> pd.DataFrame:
    """Made-up floors of three heights: a dataset's own, and two that lie below it."""
    frame = pd.DataFrame(tables.floor_rows([cases.floor_file(name) for name in names]))
    for place, name in enumerate(names):
        frame.loc[frame["dataset"] == name, ["floor", "floor_low", "floor_high"]] -= 0.04 * place
    return frame


def onsets_frame(names=tuple(DATASETS)) -> pd.DataFrame:
    return pd.DataFrame([row for name in names for row in tables.onset_rows(summaries(name), ONSET)])


def gates_frame() -> pd.DataFrame:
    given = [("moral", n, "yes") for n in range(5)] + [
        ("mine", n, "no" if n == 1 else "yes") for n in range(3)
    ]
    return pd.DataFrame(
        [
            {
                "dataset": name, "profile": "moral", "gate": f"gate_{n}_at_most", "threshold": n + 0.5,
                "value": n + 1 / 3, "passed": passed, "worst": "p0; p1",
            }
            for name, n, passed in given
        ]
    )  # fmt: skip


def drawings() -> dict:
    return {
        "emergence": lambda: emergence.draw(
            [trajectory(name) for name in DATASETS], title="t", expected=EXPECTED, onset=ONSET
        ),
        "transfer": lambda: transfer.draw(
            transfer_frame(), title="t", expected=EXPECTED, singled_out=["role_reversal"]
        ),
        "foundations": lambda: foundations.draw(foundations_frame(), title="t", expected=EXPECTED),
        "floors": lambda: floors.draw(floors_frame(), onsets_frame(), title="t", last_step=40),
        "gates": lambda: gates.draw(gates_frame(), title="t"),
    }


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """Fewer dots than a page needs: nobody looks, and the tests are quicker."""
    monkeypatch.setattr(style, "DPI", 50)


@pytest.fixture(scope="module")
def shown() -> dict:
    """Each kind drawn once, for the tests that only look."""
    return {kind: draw() for kind, draw in drawings().items()}


@pytest.mark.parametrize("kind", sorted(drawings()))
def test_the_same_tables_give_the_same_bytes(kind, shown, tmp_path):
    style.save(shown[kind], tmp_path / "one.svg", tmp_path / "one.png")
    style.save(drawings()[kind](), tmp_path / "two.svg", tmp_path / "two.png")
    for suffix in ("svg", "png"):
        first = (tmp_path / f"one.{suffix}").read_bytes()
        assert first == (tmp_path / f"two.{suffix}").read_bytes()
        assert len(first) > 3000


@pytest.mark.parametrize("kind", sorted(drawings()))
def test_no_words_overlap_and_none_leave_the_page(kind, shown):
    figure = shown[kind]
    seen = words(figure)
    assert overlapping(figure, seen) == []
    assert beyond(figure, seen) == []


@pytest.mark.parametrize("kind", ["emergence", "transfer", "foundations", "floors"])
def test_a_legend_covers_no_panel(kind, shown):
    assert legends_on_panels(shown[kind]) == []


@pytest.mark.parametrize("kind", ["emergence", "transfer", "foundations"])
def test_lines_of_one_panel_differ_in_more_than_colour(kind, shown):
    """In grey print, or to a colour-blind reader, colour alone is not enough."""
    for axes in shown[kind].axes:
        looks = looks_of(axes)
        assert len(set(looks)) == len(looks), looks


# Emergence


@pytest.mark.parametrize("name", list(DATASETS))
def test_emergence_lines_are_the_seed_means_of_each_dataset_with_their_spread(name, shown):
    axes, frame = shown["emergence"].axes[0], trajectory(name)
    rows = {"quantity": "mean_accuracy", "seed": "mean"}
    drawn = line(axes, f"{name} (2 seeds)")
    assert list(drawn.get_xdata()) == STEPS
    np.testing.assert_array_equal(drawn.get_ydata(), values(frame, **rows))
    found = band(axes, list(DATASETS).index(name))
    for step, low, high in zip(
        STEPS, values(frame, "interval_low", **rows), values(frame, "interval_high", **rows), strict=True
    ):
        assert found[step] == pytest.approx((low, high))


def test_the_onset_of_each_dataset_is_marked_and_said_and_is_that_of_the_onsets_table(shown):
    axes, table = shown["emergence"].axes[0], onsets_frame()
    for name in ("moral", "sentiment"):
        (step,) = values(table, quantity="onset_step", seed="mean", dataset=name)
        assert list(line(axes, f"_onset, {name}").get_xdata()) == [step]
        assert f"{name} (2 seeds)\nonset step {step:g}" in legend(axes)
    assert "syntax (2 seeds)\nonset not reached" in legend(axes)
    assert "_onset, syntax" not in labels(axes)
    assert list(line(axes, "onset level").get_ydata()) == [ONSET, ONSET]


def test_the_onset_does_not_come_from_one_seed_alone():
    """Step 20 has one of two seeds; drawn is its mean, but no onset is claimed there."""
    frame = trajectory("moral", leave_out=[(20, 43)])
    axes = emergence.draw([frame], title="t", expected=EXPECTED, onset=0.75).axes[0]
    assert line(axes, "moral").get_ydata()[2] > 0.75
    assert "moral (2 seeds)\nonset step 40" in legend(axes)


def test_a_checkpoint_that_one_dataset_lacks_is_hatched_once_and_named():
    gone = [(20, seed) for seed in cases.SEEDS]
    frames = [trajectory("moral", gone), trajectory("sentiment", gone), trajectory("syntax")]
    figure = emergence.draw(frames, title="t", expected=EXPECTED)
    axes = figure.axes[0]
    assert labels(axes).count("_no data: 20") == 1
    assert labels(axes).count("_gap mark: 20") == 1
    assert np.isnan(line(axes, "moral").get_ydata()).nonzero()[0].tolist() == [2]
    assert not np.isnan(line(axes, "syntax").get_ydata()).any()
    assert "No data (hatched) for moral and sentiment: step20." in figure.get_supxlabel()


def test_emergence_refuses_what_cannot_be_told_apart():
    moral = trajectory("moral")
    with pytest.raises(StrataprobeError, match="nothing to draw"):
        emergence.draw([moral.iloc[:0]], title="t")
    with pytest.raises(StrataprobeError, match="model: made-up, second; choose one"):
        emergence.draw([moral, trajectory("syntax").assign(model="second")], title="t")
    with pytest.raises(StrataprobeError, match="given more often: moral"):
        emergence.draw([moral, moral], title="t")
    with pytest.raises(StrataprobeError, match="at most 6 datasets can be told apart; 7 were given"):
        emergence.draw([moral.assign(dataset=f"d{n}") for n in range(7)], title="t")


# Transfer


@pytest.mark.parametrize("selection", ["default", "published"])
def test_transfer_lines_are_the_tables_numbers_of_the_selection_asked_for(selection):
    frame = transfer_frame()
    figure = transfer.draw(frame, title="t", selection=selection)
    for axes, quantity in zip(figure.axes, ("transfer", "lift"), strict=False):
        for group in ("all", *cases.GROUPS):
            drawn = line(axes, "mean over groups" if group == "all" else group)
            assert list(drawn.get_xdata()) == STEPS
            wanted = values(frame, quantity=quantity, selection=selection, group=group)
            np.testing.assert_array_equal(drawn.get_ydata(), wanted)
    floor = line(figure.axes[0], "bag of words, mean")
    np.testing.assert_array_equal(floor.get_ydata(), values(frame, quantity="transfer_floor", group="all"))
    how = {
        "default": "Layer chosen in a on the training groups",
        "published": "Layer chosen as published: in a on the group left out",
    }
    assert how[selection] in figure.get_supxlabel()


def test_the_mean_and_a_group_singled_out_have_their_bootstrap_and_lift_has_none(shown):
    top, middle, _ = shown["transfer"].axes
    frame = transfer_frame()
    for number, group in enumerate(("all", "role_reversal")):
        rows = {"quantity": "transfer", "selection": "default", "group": group}
        low, high = values(frame, "interval_low", **rows), values(frame, "interval_high", **rows)
        for step, bounds in zip(STEPS, zip(low, high, strict=True), strict=True):
            assert band(top, number)[step] == pytest.approx(bounds)
    assert len(top.collections) == 2
    assert len(middle.collections) == 0
    assert line(top, "role_reversal").get_color() == style.BLACK
    assert [line(top, group).get_color() for group in ("care_harm", "third")] != [style.BLACK] * 2


def test_many_groups_look_different_and_the_same_in_both_panels_that_have_them():
    frame = transfer_frame()
    third = frame[frame["group"] == "third"]
    frame = pd.concat([frame, *[third.assign(group=f"more{n}") for n in range(17)]])
    top, middle, _ = transfer.draw(frame, title="t", height=9).axes
    groups = {*frame["group"]} - {"all"}
    drawn = [
        {each.get_label(): each for each in axes.lines if each.get_label() in groups}
        for axes in (top, middle)
    ]
    looks, below = (
        {name: (str(each._dash_pattern), each.get_marker(), each.get_color()) for name, each in lines.items()}
        for lines in drawn
    )
    assert looks == below
    assert len(set(looks.values())) == len(groups) == 20


def test_a_checkpoint_without_transfer_is_hatched_in_every_panel_and_named():
    figure = transfer.draw(transfer_frame([0, 20, 40]), title="t", expected=EXPECTED)
    for axes, name in zip(figure.axes, ("mean over groups", "mean over groups", "probe"), strict=True):
        assert "_no data: 10" in labels(axes)
        assert np.isnan(line(axes, name).get_ydata()).nonzero()[0].tolist() == [1]
    assert "No data (hatched) for transfer: step10." in figure.get_supxlabel()


def test_transfer_refuses_an_unknown_selection_and_mixed_rows():
    frame = transfer_frame([0])
    with pytest.raises(StrataprobeError, match="'best' is unknown; there are: default, published"):
        transfer.draw(frame, title="t", selection="best")
    with pytest.raises(StrataprobeError, match="dataset: moral, other; choose one"):
        transfer.draw(pd.concat([frame, frame.assign(dataset="other")]), title="t")
    with pytest.raises(StrataprobeError, match="nothing to draw"):
        transfer.draw(frame.iloc[:0], title="t")


# Groups by themselves


@pytest.mark.parametrize("place", range(len(cases.GROUPS)))
def test_foundations_lines_are_each_groups_peak_its_seeds_and_the_peak_by_chance(place, shown):
    axes, frame, group = shown["foundations"].axes[place], foundations_frame(), cases.GROUPS[place]
    assert axes.get_title(loc="left") == group
    for start, quantity in (("peak of the group", "peak_accuracy"), ("peak by chance", "chance_peak")):
        each = [values(frame, quantity=quantity, group=group, seed=seed) for seed in cases.SEEDS]
        np.testing.assert_allclose(line(axes, start).get_ydata(), np.mean(each, axis=0))
    for seed in cases.SEEDS:
        own = values(frame, quantity="peak_accuracy", group=group, seed=seed)
        np.testing.assert_array_equal(line(axes, f"_seed {seed}").get_ydata(), own)
    high = [values(frame, quantity="chance_peak_high", group=group, seed=seed) for seed in cases.SEEDS]
    assert band(axes, 0)[40][1] == pytest.approx(np.mean(high, axis=0)[-1])


def test_a_missing_checkpoint_and_a_missing_seed_are_named_in_the_groups_figure():
    frame = foundations_frame(leave_out=[(10, 42), (10, 43), (20, 43)])
    figure = foundations.draw(frame, title="t", expected=EXPECTED)
    for axes in figure.axes[: len(cases.GROUPS)]:
        assert "_no data: 10" in labels(axes)
        assert "_no data: 20" not in labels(axes)
    assert "No data (hatched) for all groups: step10." in figure.get_supxlabel()
    assert "Fewer than 2 seeds for all groups: step20 (1)." in figure.get_supxlabel()
    assert "8 test sentences a group." in figure.get_supxlabel()


@pytest.mark.parametrize("count", [1, 2, 4, 7])
def test_every_column_of_panels_says_what_its_axis_is(count):
    frame = foundations_frame()
    frame = frame[frame["group"] == "third"]
    frame = pd.concat([frame.assign(group=f"group{n}") for n in range(count)])
    panels = foundations.draw(frame, title="t").axes[:count]
    named = [axes.get_xlabel() for axes in panels]
    assert named == [*[""] * (count - min(count, 3)), *["training step"] * min(count, 3)]
    for axes in panels:
        assert axes.xaxis.get_tick_params()["labelbottom"] == bool(axes.get_xlabel())


def test_without_permutations_no_chance_is_drawn_or_spoken_of():
    figure = foundations.draw(foundations_frame(permutations=0), title="t")
    assert "permuted" not in figure.get_supxlabel()
    assert not any("chance" in label for label in labels(figure.axes[0]))
    assert len(figure.axes[0].collections) == 0


def test_a_peak_below_one_half_is_not_cut_off():
    frame = foundations_frame()
    frame.loc[frame["quantity"] == "peak_accuracy", "value"] -= 0.4
    axes = foundations.draw(frame, title="t").axes[0]
    assert axes.get_ylim()[0] < frame["value"].where(frame["quantity"] == "peak_accuracy").min()


# Floors


def test_each_dataset_stands_at_its_floor_and_its_onset_with_both_bars(shown):
    axes, floor, onset = shown["floors"].axes[0], floors_frame(), onsets_frame()
    for name in ("moral", "sentiment"):
        row = floor[
            (floor["dataset"] == name)
            & (floor["scheme"] == "folds")
            & (floor["kind"] == "unigrams")
            & (floor["group"] == "all")
        ].iloc[0]
        (step,) = values(onset, dataset=name, quantity="onset_step", seed="mean")
        point = line(axes, f"{name}\nonset step {step:g}")
        assert (list(point.get_xdata()), list(point.get_ydata())) == ([row["floor"]], [step])
        bars = next(each for each in axes.containers if each.get_label() == f"_bars, {name}")
        across, along = (each.get_segments()[0] for each in bars.lines[2])
        assert across[:, 0].tolist() == pytest.approx([row["floor_low"], row["floor_high"]])
        single = [values(onset, dataset=name, quantity="onset_step", seed=seed)[0] for seed in cases.SEEDS]
        assert along[:, 1].tolist() == [min(*single, step), max(*single, step)]


def test_the_floor_drawn_is_the_pair_disjoint_one_whatever_the_order_of_the_rows(shown):
    mixed = floors_frame().iloc[::-1]
    axes = floors.draw(mixed, onsets_frame(), title="t", last_step=40).axes[0]
    for name in DATASETS:
        assert list(line(axes, name).get_xdata()) == list(line(shown["floors"].axes[0], name).get_xdata())


def test_a_dataset_without_an_onset_is_hollow_and_stands_above_the_last_step(shown):
    axes = shown["floors"].axes[0]
    point = line(axes, "syntax\nonset not reached")
    assert point.get_ydata()[0] > 40
    assert point.get_ydata()[0] < axes.get_ylim()[1]
    assert colors.to_hex(point.get_markerfacecolor()) == "#ffffff"
    assert list(line(axes, "last checkpoint").get_ydata()) == [40, 40]


def test_no_onset_anywhere_and_no_last_step_are_still_drawn():
    figure = floors.draw(floors_frame(["syntax"]), onsets_frame(["syntax"]), title="t")
    figure.draw_without_rendering()
    assert np.isfinite(figure.axes[0].get_ylim()).all()


def test_floors_refuses_what_it_cannot_draw_and_names_what_it_leaves_out():
    with pytest.raises(StrataprobeError, match="no dataset has both"):
        floors.draw(floors_frame(["moral"]), onsets_frame(["syntax"]), title="t")
    with pytest.raises(StrataprobeError, match="no dataset has both"):
        floors.draw(floors_frame(), onsets_frame(), title="t", floor="bigrams")
    mixed = pd.concat([onsets_frame(["moral"]), onsets_frame(["syntax"]).assign(model="second")])
    with pytest.raises(StrataprobeError, match="model: made-up, second; choose one"):
        floors.draw(floors_frame(), mixed, title="t")
    figure = floors.draw(floors_frame(["moral"]), onsets_frame(), title="t")
    assert "Without a floor, so not drawn: sentiment, syntax." in figure.get_supxlabel()


# Gates


def test_every_gate_is_a_row_with_its_value_its_threshold_and_a_cross_where_it_is_not_kept(shown):
    figure, frame = shown["gates"], gates_frame()
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["moral (moral): all kept", "mine (moral): 1 not kept"]
    for axes, name in zip(figure.axes, ("moral", "mine"), strict=True):
        rows = frame[frame["dataset"] == name]
        said = [text.get_text() for text in axes.texts]
        wanted = [
            text
            for row in rows.itertuples()
            for text in (
                ("× " if row.passed == "no" else "") + row.gate.replace("_", " "),
                f"{row.value:.3g} / {row.threshold:g}",
            )
        ]
        assert said == wanted
        failed = [colors.to_hex(patch.get_facecolor()) == "#f6d5c2" for patch in axes.patches]
        assert failed == [row.passed == "no" for row in rows.itertuples()]


@pytest.mark.parametrize(("datasets", "rows"), [(1, 12), (5, 6), (2, 1), (7, 2)])
def test_gates_of_any_number_stay_readable(datasets, rows):
    """The page grows with the rows: a row keeps its height, so that words do not run into each other."""
    one = gates_frame().iloc[:1]
    frame = pd.concat(
        [
            one.assign(dataset=f"set{d}", gate=f"contrast_words_shared_between_groups_{g}_at_most")
            for d in range(datasets)
            for g in range(rows)
        ]
    )
    figure = gates.draw(frame, title="t")
    assert (
        overlapping(figure, [text for axes in figure.axes for text in (axes._left_title, *axes.texts)]) == []
    )


def test_a_table_without_gates_is_refused():
    with pytest.raises(StrataprobeError, match="no row"):
        gates.draw(gates_frame().iloc[:0], title="t")


# The scripts


def write(path, name: str, frame: pd.DataFrame):
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    tables.write_csv(path, rows, tables.COLUMNS[name])
    return path


def test_the_scripts_draw_from_written_tables_what_the_library_draws_from_rows(tmp_path):
    settings = {"title": "t", "checkpoints": EXPECTED, "style": {}}
    moral = write(tmp_path / "moral.csv", "trajectory", trajectory("moral"))
    syntax = write(tmp_path / "syntax.csv", "trajectory", trajectory("syntax"))
    table = {
        "transfer": write(tmp_path / "transfer.csv", "transfer", transfer_frame()),
        "foundations": write(tmp_path / "foundations.csv", "foundations", foundations_frame()),
        "floors": write(tmp_path / "floors.csv", "floors", floors_frame()),
        "gates": write(tmp_path / "gates.csv", "gates", gates_frame()),
    }
    parts = [
        write(tmp_path / f"onsets_{name}.csv", "onsets", onsets_frame([name])) for name in ("moral", "syntax")
    ]

    def places(name):
        return tmp_path / f"{name}.svg", tmp_path / f"{name}.png"

    draw_emergence.main([moral, syntax], *places("emergence"), settings={**settings, "step_onset": ONSET})
    draw_transfer.main(
        table["transfer"], *places("transfer"), settings={**settings, "singled_out": ["role_reversal"]}
    )
    draw_foundations.main(table["foundations"], *places("foundations"), settings=settings)
    draw_floors.main(table["floors"], parts, *places("floors"), settings=settings)
    draw_gates.main(
        table["gates"], *places("gates"), settings={"title": "t", "style": {}, "datasets": ["mine"]}
    )
    for name in drawings():
        for path in places(name):
            assert path.stat().st_size > 3000, path
    read = tables.read_table(table["gates"])
    style.save(gates.draw(read[read["dataset"] == "mine"], title="t"), *places("again"))
    assert (tmp_path / "again.svg").read_bytes() == (tmp_path / "gates.svg").read_bytes()


def test_a_style_the_drawing_does_not_have_is_refused_with_those_it_has(tmp_path):
    table = write(tmp_path / "transfer.csv", "transfer", transfer_frame([0]))
    settings = {"title": "t", "checkpoints": EXPECTED, "singled_out": [], "style": {"colour": "red"}}
    with pytest.raises(StrataprobeError, match="colour: not an option of this figure"):
        draw_transfer.main(table, tmp_path / "a.svg", tmp_path / "a.png", settings=settings)
