"""The levels paper's tables from our own csv files, and its arithmetic on its own numbers."""

import pytest

import tabulate_levels
import tabulate_levels_paper
from strataprobe import files, tables
from strataprobe.errors import StrataprobeError
from strataprobe.published import formatted, levels_tables, read_numbers
from strataprobe.published.levels_results import Results
from strataprobe.recoverability.verbs import verdict
from tests import levels_cases as cases
from tests import levels_paper as paper
from tests.unit.test_formatted import Page
from tests.unit.test_published import FOLDER

SETTINGS = {"bootstrap": 0, "conventions": "default", "seed": 1}
TYPES = {"object": "object_control", "subject": "subject_control"}


@pytest.fixture(scope="module")
def numbers():
    return read_numbers(FOLDER)


@pytest.fixture(scope="module")
def of_the_paper(numbers):
    """Results with the right answers of the paper's Tables 1, 4 and 5."""
    columns = list(map(list, zip(*(paper.summaries(numbers, model) for model in paper.MODELS), strict=True)))
    return Results.last(
        tables.levels_rows(*columns, paper.SETTINGS), tables.levels_layers_rows(*columns, paper.SETTINGS)
    )


@pytest.fixture(scope="module")
def ours():
    """Results of a made-up checkpoint, and its rows."""
    columns = [[one] for one in cases.summaries(model="small")]
    levels, layers = tables.levels_rows(*columns, SETTINGS), tables.levels_layers_rows(*columns, SETTINGS)
    return Results.last(levels, layers)[0], levels, layers


def made(results, numbers, table: str, models=()) -> list[dict]:
    rows = [row for one in results for row in levels_tables.OF_RESULTS[table](one)]
    return levels_tables.beside(rows, numbers, table, models)


def one(rows: list[dict], **equal) -> dict:
    chosen = [row for row in rows if all(row[name] == value for name, value in equal.items())]
    assert len(chosen) == 1, (equal, chosen)
    return chosen[0]


def by_hand(model: str, levels=(), layers=()) -> Results:
    """Results with these values of `levels` (level, measure, split) and of `levels_layers`."""
    own = {"model": model, "revision": "main", "step": None, "dataset": "control"}
    rows = [
        {**own, "level": level, "measure": measure, "split": split, "value": value, "n": 24, "note": note}
        for level, measure, split, value, note in levels
    ]
    places = ("measure", "mode", "split", "hidden_state", "value", "sd", "note")
    (found,) = Results.last(
        rows, [{**own, "level": "recoverability", **dict(zip(places, row, strict=True))} for row in layers]
    )
    return found


# The paper's own numbers


@pytest.mark.parametrize(
    ("table", "count"), [("levels_table1", 49), ("levels_table4", 28), ("levels_table5", 84)]
)
def test_every_printed_number_follows_from_the_right_answers_behind_it(of_the_paper, numbers, table, count):
    rows = [row for row in made(of_the_paper, numbers, table) if row["published"] is not None]
    assert len(rows) == count == len(numbers.find(paper="levels", place=f"Table {table[-1]}"))
    for row in rows:
        assert row["published_model"] == row["model"]
        assert row["published_status"] == "ok"
        assert row["value"] == pytest.approx(row["published"], abs=0.000501), row
        if row["published_spread"] is not None:
            assert row["spread"] == pytest.approx(row["published_spread"], abs=0.000501), "ddof 0"


def test_what_other_definitions_give_stands_beside_nothing(of_the_paper, numbers):
    """The mean over seeds is Table 4's; Table 1 is of seed 1729."""
    rows = made(of_the_paper, numbers, "levels_table1")
    other = [row for row in rows if row["definition"] == "paper, mean over seeds"]
    assert len(other) == len(paper.MODELS)
    assert {(row["published"], row["published_model"], row["published_status"]) for row in other} == {
        (None, "", "")
    }


def test_gaps_of_table_7_are_probe_less_behaviour_as_printed(numbers):
    for model in ("qwen3-0.6b-base", "qwen3-0.6b-instruct", "qwen3-14b-instruct"):
        levels = []
        for short, kind in TYPES.items():
            probe = numbers.look_up(
                paper="levels", place="Table 7", model=model, quantity="probe", group=f"qa/{short}"
            )
            mode = probe.note.split(";")[0].removeprefix("mode ")
            levels += [
                ("recoverability", "paper", kind, round(probe.value * 72) / 72, ""),
                ("recoverability", "layer:paper", kind, probe.layer, mode),
            ]
            for task in ("qa", "paraphrase"):
                of = {"model": model, "quantity": "behaviour", "group": f"{task}/{short}"}
                value = numbers.look_up(paper="levels", place="Table 7", **of).value
                levels.append(("behavior", task, kind, round(value * 24) / 24, ""))
        rows = made([by_hand(model, levels)], numbers, "levels_table7")
        assert len(rows) == 12
        for row in rows:
            assert row["difference"] == pytest.approx(0, abs=0.000501), row
        probes = [row for row in rows if row["quantity"] == "probe"]
        assert all(row["hidden_state"] == row["published_hidden_state"] for row in probes)
        assert all(row["layer"] == row["hidden_state"] - 1 == row["published_layer"] for row in probes)


@pytest.mark.parametrize("table", ["levels_table8", "levels_table9"])
def test_gaps_and_verdicts_of_verb_out_are_as_printed(numbers, table):
    place, limits = f"Table {table[-1]}", {"clean_gap": 0.1, "leak_gap": 0.3, "least_item_out": 0.75}
    checked = 0
    for model in {number.model for number in numbers.find(paper="levels", place=place)}:
        layers = []
        for number in numbers.find(paper="levels", place=place, model=model, quantity="item_out"):
            mode, short = number.group.split("/")
            held = numbers.look_up(
                paper="levels", place=place, model=model, quantity="verb_out", group=number.group
            )
            item_out, out = (round(value.value * 72) / 72 for value in (number, held))
            said = verdict(item_out - out, item_out, limits)
            at = (mode, TYPES[short], number.layer)
            layers += [
                ("paper", *at, item_out, number.spread, ""),
                ("verb_out:paper", *at, out, held.spread, ""),
                ("gap:paper", *at, item_out - out, None, said),
                # A layer that is no better is not the peak.
                ("paper", mode, TYPES[short], number.layer + 1, item_out, 0.0, ""),
            ]
            printed = numbers.look_up(
                paper="levels", place=place, model=model, quantity="verb_out_gap", group=number.group
            )
            assert ("leak" in said) == ("verdict leak" in printed.note)
        if table == "levels_table8":
            layers.append(("paper", "v", "all", 17, 0.986, 0.0, ""))
        found = by_hand(model, [("behavior", "qa", "all", 0.5, "")], layers)
        rows = made([found], numbers, table)
        assert len(rows) == 3 * (10 if table == "levels_table8" else 1)
        for row in rows:
            assert row["hidden_state"] == row["published_hidden_state"]
            assert row["difference"] == pytest.approx(0, abs=0.000501), row
            checked += 1
    assert checked == {"levels_table8": 30, "levels_table9": 21}[table]


def test_the_first_of_equal_layers_is_the_peak_and_missing_values_are_none(numbers):
    layers = [
        ("paper", "bv", "subject_control", layer, value, 0.0, "")
        for layer, value in ((3, 0.9), (2, 0.9), (1, None), (4, 0.1))
    ]
    found = by_hand("m", [("behavior", "qa", "all", 0.5, "")], layers)
    (row,) = levels_tables.table9(found)
    assert (row["hidden_state"], row["layer"], row["value"]) == (2, 1, 0.9)


# Ours


def test_tables_3_and_6_say_what_the_tables_of_levels_say(ours, numbers):
    found, levels, layers = ours
    value = {(row["level"], row["measure"], row["split"]): row["value"] for row in levels}
    rows = made([found], numbers, "levels_table3")
    assert [row["group"] for row in rows] == ["ab", "av", "bv", "abv", "v"]
    for row in rows:
        own = [
            (line["value"], -line["hidden_state"])
            for line in layers
            if (line["measure"], line["mode"], line["split"]) == ("paper", row["group"], "all")
            and line["level"] == "recoverability"
        ]
        assert (row["value"], -row["hidden_state"]) == max(own)
        assert (row["n"], row["published_model"]) == (3, "qwen3-0.6b-base")
    rows = made([found], numbers, "levels_table6")
    assert len(rows) == 11
    row = one(rows, quantity="debiased", group="label_choice/subject")
    assert row["value"] == value["behavior", "label_choice", "subject_control"]
    assert row["published"] == 0.562
    assert one(rows, quantity="order_gap", group="forced_choice")["published"] == 0.062
    assert one(rows, quantity="behaviour", group="contrastive")["n"] == 47


def test_table_8_is_at_the_best_layer_of_mode_v_and_has_every_mode(ours, numbers):
    found, _, layers = ours
    rows = made([found], numbers, "levels_table8")
    own = [
        (line["value"], -line["hidden_state"])
        for line in layers
        if (line["level"], line["measure"], line["mode"], line["split"])
        == ("recoverability", "paper", "v", "all")
    ]
    assert {row["hidden_state"] for row in rows} == {-max(own)[1]}
    assert len(rows) == 2 * 5 * 3
    assert {row["published_model"] for row in rows} == {"qwen3-14b-instruct"}, (
        "the only one that the table has"
    )
    row = one(rows, quantity="verb_out_gap", group="bv/subject")
    parts = [one(rows, quantity=name, group="bv/subject")["value"] for name in ("item_out", "verb_out")]
    assert row["value"] == pytest.approx(parts[0] - parts[1])
    assert row["note"]


def test_a_study_without_the_published_readout_or_seed_has_nothing_beside_them(numbers):
    levels = [("behavior", "mean_behavior", "all", 0.5, ""), ("readout", "default", "all", 0.6, "")]
    rows = made([by_hand("m", levels)], numbers, "levels_table1")
    assert {row["quantity"] for row in rows} == {"behaviour", "lm_head"}
    assert one(rows, quantity="lm_head")["published"] is None


@pytest.mark.parametrize(
    ("model", "tuned", "expected"),
    [
        ("qwen3-0.6b-base", False, "qwen3-0.6b-base"),
        ("qwen3-0.6b", True, "qwen3-0.6b-instruct"),
        ("qwen3-14b", False, "qwen3-14b-instruct"),  # the paper has no base model of that size
        ("llama-3.2-1b", False, "llama-3.2-1b-base"),
        ("llama-3.2-1b-instruct", True, "llama-3.2-1b-instruct"),
        ("gemma-4-e4b-it", True, "gemma-4-e4b-instruct"),
        ("gemma-4-e4b-it", False, "gemma-4-e4b-instruct"),
        ("llama-3.2-3b", False, None),  # in the text, in no table
        ("smollm2-135m", False, "qwen3-0.6b-base"),
    ],
)
def test_beside_a_model_of_the_paper_stands_that_one_alone(numbers, model, tuned, expected):
    known = levels_tables.known_models(numbers)
    there = {number.model for number in numbers.find(paper="levels", place="Table 1")}
    assert levels_tables.published_model(model, known, there, tuned=tuned) == expected


def test_a_tuned_model_is_known_by_its_base(numbers):
    levels = [("behavior", "qa", "all", 0.5, "")]
    for models, expected in (((), 0.542), ([{"name": "qwen3-0.6b", "base": "qwen3-0.6b-base"}], 0.417)):
        (row,) = made([by_hand("qwen3-0.6b", levels)], numbers, "levels_table1", models)
        assert row["published"] == expected


def test_results_are_those_of_the_last_checkpoint_of_each_model_and_dataset():
    own = {"level": "behavior", "measure": "qa", "split": "all", "n": 1, "note": ""}
    rows = [
        {"model": model, "revision": f"r{step}", "step": step, "dataset": dataset, "value": step, **own}
        for model, dataset in (("a", "x"), ("a", "y"), ("b", "x"))
        for step in (30, 4, 200)
    ]
    found = Results.last(rows, [])
    assert [(one.model, one.dataset, one.revision) for one in found] == [
        ("a", "x", "r200"), ("a", "y", "r200"), ("b", "x", "r200"),
    ]  # fmt: skip
    assert {one.value("behavior", "qa") for one in found} == {200}


# Pages and files


def test_the_prompts_are_both_formats_of_one_subject_control_item_a_language(tmp_path):
    rows = levels_tables.prompt_rows(cases.dataset())
    assert [(row["language"], row["variant"]) for row in rows] == [
        (language, variant) for language in ("en", "zh", "de") for variant in ("qa", "paraphrase")
    ]
    for row in rows:
        item = next(own for own in cases.dataset().controls if own.id == row["item"])
        assert item.control_type == row["control_type"] == "subject_control"
        assert item.sentence in row["prompt"]
        assert item.a in row["a"]
        assert item.b in row["b"]
    formatted.write_page(tmp_path / "page.html", "levels_table2", rows)
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert [cells[-4:] for cells in page.body] == [
        [row[name] for name in ("prompt", "a", "b", "gold")] for row in rows
    ]


@pytest.mark.parametrize("table", list(levels_tables.OF_RESULTS))
def test_a_page_has_every_number_of_its_table_once(table, ours, of_the_paper, numbers):
    rows = made([ours[0], *of_the_paper], numbers, table)
    frame = formatted.wide(table, rows)
    filled = (frame != "").to_numpy().sum()
    assert filled == len(rows) + sum(row["published"] is not None for row in rows)


def test_pages_name_layers_types_and_the_model_that_stands_beside(ours, numbers, tmp_path):
    rows = made([ours[0]], numbers, "levels_table7")
    frame = formatted.wide("levels_table7", rows)
    assert frame.index[0] == ("small", "control", "qa", "object")
    assert frame.columns.to_list() == [
        (name, side) for name in ("behaviour", "probe", "gap") for side in ("ours", "published")
    ]
    row = one(rows, quantity="probe", group="qa/subject")
    cell = frame.loc[("small", "control", "qa", "subject")]
    assert cell["probe", "ours"] == f"{row['value']:.3f} (layer {row['hidden_state']} {row['mode']})"
    assert cell["probe", "published"] == "0.931 (layer 18)"
    formatted.write_page(tmp_path / "page.html", "levels_table7", rows)
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert page.titles == [formatted.TITLES["levels_table7"]] * 2
    assert "Beside small: qwen3-0.6b-base." in page.paragraphs


@pytest.mark.parametrize(
    ("table", "headings"),
    [
        ("levels_table4", ["probe, seed 1729", "probe, seed 2718", "probe, seed 3141", "probe, mean"]),
        ("levels_table5", ["behaviour", "LM-head", "probe", "surplus"]),
        ("levels_table6", ["accuracy", "accuracy, object", "accuracy, subject", "order gap"]),
        ("levels_table9", ["item out, bv, subject", "verb out, bv, subject", "verb out gap, bv, subject"]),
    ],
)
def test_headings_are_what_differs_within_a_row(table, headings, ours, numbers):
    frame = formatted.wide(table, made([ours[0]], numbers, table))
    assert list(dict.fromkeys(heading for heading, _ in frame.columns)) == headings


def test_the_script_writes_the_tables_that_are_asked_for(tmp_path, numbers):
    paths = []
    for level, summary in zip(("b", "r", "p"), cases.summaries(), strict=True):
        files.write_json(tmp_path / f"{level}.json", summary)
        paths.append([tmp_path / f"{level}.json"])
    parts = tmp_path / "levels.csv", tmp_path / "layers.csv"
    tabulate_levels.main(*paths, *parts, settings=SETTINGS)
    names = [name for name in levels_tables.TABLES if name != "levels_table4"]
    out = {name: tmp_path / f"{name}.csv" for name in names}
    out |= {f"{name}_page": tmp_path / f"{name}.html" for name in names}
    entry = {
        "kind": "control", "name": "control", "path": str(cases.DATASETS / "control.jsonl"),
        "prompts": str(cases.DATASETS / "control_prompts.json"), "fields": None,
    }  # fmt: skip
    tabulate_levels_paper.main(
        FOLDER / "levels.csv", [parts[0]], [parts[1]], out, datasets=[entry], models=[{"name": "made-up"}]
    )
    for name in names:
        header = out[name].read_text(encoding="utf-8").splitlines()[0]
        assert header == ",".join(levels_tables.columns(name))
        assert Page(out[f"{name}_page"].read_text(encoding="utf-8")).body, name
    assert not (tmp_path / "levels_table4.csv").exists()


def test_numbers_of_another_paper_s_file_are_refused(tmp_path):
    (tmp_path / "wrong.csv").write_text("a,b\n")
    with pytest.raises(StrataprobeError, match="its header is not"):
        tabulate_levels_paper.main(tmp_path / "wrong.csv", [], [], {})
