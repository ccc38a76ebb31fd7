"""The table and the figure of steering, from a small model's summary."""

import copy
from pathlib import Path

import pandas as pd
import pytest

from strataprobe import lm, steering, tables, tabular
from strataprobe.errors import StrataprobeError
from strataprobe.figures import steering as figure
from strataprobe.figures import style
from strataprobe.published import read_numbers
from tests import control_cases
from tests.figure_checks import beyond, line, overlapping, words
from tests.steering_cases import peak, settings
from tests.tiny_models import save_tiny_model

NUMBERS = Path(__file__).parents[2] / "resources/published/levels.csv"


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A summary as the job writes it, of directions from both sources."""
    items = control_cases.dataset(tmp_path_factory.mktemp("items"))
    folder = save_tiny_model("llama", tmp_path_factory.mktemp("llama"), layers=3, max_positions=256)
    model = lm.load(folder, dtype="float32", device="cpu")
    found, _ = steering.measure(
        model,
        items,
        peak(),
        settings(states=["own_prompt", "bare"], alphas=[-5.0, 0.0, 5.0], random_alphas=[5.0]),
    )
    return framed(found)


def framed(found, model="qwen3-0.6b", revision="main"):
    weights = {"extra": {"weights_sha256": f"{model}{revision}"}}
    return {
        "model": model, "revision": revision, "step": None, "dataset": "control", "model_info": weights,
        "metadata": {"conventions": "default"}, **found,
    }  # fmt: skip


@pytest.fixture(scope="module")
def rows(measured, tmp_path_factory):
    return pd.DataFrame(
        written([measured], tmp_path_factory.mktemp("table"), read_numbers([NUMBERS]), tuned=True)
    )


def written(summaries, folder, numbers=None, **how):
    """The rows, by way of a file."""
    path = folder / "steering.csv"
    tables.write_csv(path, tables.steering_rows(summaries, numbers, **how), tables.COLUMNS["steering"])
    return tabular.read_table(path)


def one(rows, **equal):
    for name, value in equal.items():
        rows = rows[rows[name] == value]
    assert len(rows) == 1
    return rows.iloc[0]


def test_rows_say_what_the_summary_says(rows, measured):
    task = measured["tasks"]["qa"]
    for cell in task["cells"]:
        where = {name: cell[name] for name in ("states", "method", "alpha")} | {"hidden_state": cell["layer"]}
        shift = one(rows, **where, measure="margin_shift", split="all")
        if cell["method"] == "random":
            spread = cell["margin_shift"]["all"]
            assert (shift["value"], shift["n"]) == (pytest.approx(spread["mean"], rel=1e-4), 3)
            continue
        assert shift["value"] == pytest.approx(cell["margin_shift"]["all"]["value"], rel=1e-4)
        gained = one(rows, **where, measure="gained", split="all")
        assert (gained["value"], gained["p"]) == (
            cell["mcnemar"]["all"]["gained"],
            pytest.approx(cell["mcnemar"]["all"]["p"]),
        )
        assert one(rows, **where, measure="accuracy", split="all")["value"] == pytest.approx(
            cell["accuracy"]["all"]["value"], rel=1e-4
        )
    erased = one(rows, method="erased", measure="probe_accuracy", split=task["erasure"]["probe"]["scheme"])
    assert erased["value"] == pytest.approx(task["erasure"]["probe"]["erased"], rel=1e-4)
    assert set(rows["hidden_state"]) == {2}
    assert set(rows["layer"]) == {1}
    assert not rows.duplicated(["states", "method", "alpha", "measure", "split"]).any()


def test_printed_numbers_stand_beside_bare_sentences_alone(rows):
    printed = rows[rows["published"].notna()]
    assert set(printed["states"]) == {"bare"}
    assert set(printed["published_model"]) == {"qwen3-0.6b-instruct"}
    q1 = one(printed, measure="candidates", split="q1")
    assert (q1["published"], q1["difference"]) == (18, q1["value"] - 18)
    flips = printed[(printed["measure"] == "flips") & (printed["split"] == "q2")]
    assert len(flips) == 2 * 3
    assert set(flips["published"]) == {0}
    p = printed[printed["measure"] == "gained"]
    assert set(p["alpha"]) == {-5.0, 5.0}
    assert p["difference"].to_numpy() == pytest.approx(p["p"].to_numpy() - 1, abs=1e-5)


def test_an_empty_q1_is_empty_in_the_table(measured, tmp_path):
    summary = copy.deepcopy(measured)
    nothing = {"n": 0, "clusters": 0, "value": None, "interval": [None, None], "flips": 0}
    for cell in summary["tasks"]["qa"]["cells"]:
        if cell["method"] != "random":
            cell["sets"]["q1"] = nothing
    rows = written([summary], tmp_path)
    empty = rows[(rows["split"] == "q1") & rows["measure"].isin(["flips", "flip_rate"])]
    empty = empty[empty["method"].isin(["probe", "means"])]
    assert len(empty)
    assert empty["value"].isna().all()
    assert (empty["n"] == 0).all()


def test_a_checkpoint_twice_is_refused(measured):
    with pytest.raises(StrataprobeError, match=r"there twice: qwen3-0\.6b, main, control"):
        tables.steering_rows([measured, measured])


def test_the_figure_shows_what_the_table_holds(rows):
    drawn = style.drawn(figure.draw, rows, title="who", models=[["qwen3-0.6b", "main"]], style={})
    panels = drawn.axes[:4]
    for axes, measure, split in zip(
        panels, ("flip_rate", "flip_rate", "margin_shift"), ("q1", "q2", "all"), strict=False
    ):
        own = rows[(rows["states"] == "own_prompt") & (rows["measure"] == measure) & (rows["split"] == split)]
        for method in ("probe", "means"):
            wanted = own[own["method"] == method].dropna(subset=["value"]).sort_values("alpha")
            if len(wanted):
                found = line(axes, f"_{method}")
                assert found.get_xdata().tolist() == wanted["alpha"].tolist()
                assert found.get_ydata().tolist() == wanted["value"].tolist()
    said = words(drawn)
    assert overlapping(drawn, said) == []
    assert beyond(drawn, said) == []


def test_several_models_stand_in_rows_and_a_missing_one_is_named(measured, tmp_path):
    other = framed({name: measured[name] for name in ("probe", "tasks")}, model="other")
    rows = written([measured], tmp_path)
    both = pd.concat([rows, written([other], tmp_path)], ignore_index=True)
    asked = [["qwen3-0.6b", "main"], ["other", "main"], ["third", "main"]]
    drawn = figure.draw(both, title="who", models=asked, states="bare")
    assert len(drawn.axes) == 2 * 4 + 1
    assert "No row at all: third." in drawn._supxlabel.get_text().replace("\n", " ")
    said = words(drawn)
    assert overlapping(drawn, said) == []
    assert beyond(drawn, said) == []


def test_figures_refuse_what_they_cannot_show(measured, tmp_path):
    rows = written([measured], tmp_path)
    with pytest.raises(StrataprobeError, match="nothing of task 'paraphrase'"):
        figure.draw(rows, title="who", task="paraphrase")
    later = written(
        [framed({name: measured[name] for name in ("probe", "tasks")}, revision="late")], tmp_path
    )
    with pytest.raises(StrataprobeError, match="one revision of each model"):
        figure.draw(pd.concat([rows, later], ignore_index=True), title="who")
