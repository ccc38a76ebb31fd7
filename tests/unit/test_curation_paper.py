"""Section 4.3 of the fragility paper: what is shown of ours, and which published number stands beside it."""

import pytest

import tabulate_curation_paper
from strataprobe.published import curation_tables, formatted, read_numbers
from strataprobe.published.curation_tables import section4_3
from strataprobe.tabular import write_csv
from strataprobe.tabular.curation_columns import CURATION_COLUMNS
from tests.unit.test_formatted import Page
from tests.unit.test_paper_tables import read
from tests.unit.test_published import FOLDER

NOISE = {"quantity": "mean_critical_noise", "control": "raw", "statistic": "grid_sampled", "means": "capped"}
NO_PROBE = ("loss", "corpus_tokens")
FRAGILE = {"quantity": "fragile_layers", "control": "raw", "statistic": "grid_sampled"}


@pytest.fixture(scope="module")
def numbers():
    return read_numbers(FOLDER / "fragility.csv")


def row(value: float | None, run: str = "1", seed: str = "42", **given) -> dict:
    """A row of the table `curation`; by default the peak accuracy of a run's last step."""
    shared = {"experiment": "ours", "condition": "narrative", "dataset": "moral", "step": 60}
    shared["quantity"] = "peak_accuracy"
    blank = dict.fromkeys(CURATION_COLUMNS["curation"], "")
    return {**blank, **shared, "run": run, "seed": seed, "value": value, **given}


def of_base(value: float | None, seed: str = "42", **given) -> dict:
    return row(value, run="", seed=seed, condition="base", **{"step": 0, **given})


def shown() -> list[dict]:
    """What the paper's table shows, as columns of the table `curation`."""
    names = ("quantity", "control", "statistic", "means")
    return [dict(zip(names, which, strict=True)) for which in curation_tables.HEADINGS]


def table(*conditions: str, dataset: str = "moral") -> list[dict]:
    """The base, and one run of each condition with all that is shown."""
    rows = [of_base(0.75, dataset=dataset, **which) for which in shown() if which["quantity"] not in NO_PROBE]
    for condition in conditions or ("narrative",):
        own = {"condition": condition, "dataset": dataset}
        for which in shown():
            seed = "" if which["quantity"] in NO_PROBE else "42"
            rows.append(row(2.0, seed=seed, **own, **which))
        rows.append(row(5.0, seed="", step=0, quantity="loss", **own))
    return rows


def one(rows: list[dict], **equal) -> dict:
    (found,) = (row for row in rows if all(row[name] == value for name, value in equal.items()))
    return found


def beside(rows: list[dict]) -> dict[tuple, float]:
    """(condition, quantity, statistic, step) -> published value, where there is one."""
    return {
        (own["group"], own["quantity"], own["statistic"], own["step"]): own["published"]
        for own in rows
        if own["published"] is not None
    }


# Ours


def test_a_value_is_the_mean_over_runs_of_each_run_s_mean_over_seeds(numbers):
    """Run 1 has one seed more: the mean of all four values would be 0.65, not 0.6."""
    rows = [row(0.7, seed="42"), row(0.7, seed="43"), row(0.7, seed="44"), row(0.5, run="2")]
    rows += [row(0.9, run="mean", seed="mean"), row(0.9, step=20), row(None, run="3")]
    (found,) = section4_3(rows, numbers)
    assert (found["value"], found["n"], found["step"]) == (pytest.approx(0.6), 2, 60)
    assert found["spread"] == pytest.approx(0.2 / 2**0.5), "over the runs' means 0.7 and 0.5, ddof 1"
    assert (found["model"], found["group"], found["note"]) == ("ours", "narrative", "")


def test_the_base_has_no_runs_its_spread_is_over_seeds_and_it_comes_first(numbers):
    rows = section4_3([row(0.7), of_base(0.6, "42"), of_base(0.8, "43")], numbers)
    assert [own["group"] for own in rows] == ["base", "narrative"]
    assert (rows[0]["value"], rows[0]["n"], rows[0]["note"]) == (pytest.approx(0.7), 2, "over seeds")
    assert rows[0]["spread"] == pytest.approx(0.2 / 2**0.5)
    assert (rows[1]["n"], rows[1]["spread"]) == (1, None)


def test_a_condition_ends_at_its_own_last_step_and_its_loss_is_shown_at_both_ends(numbers):
    steps = (("narrative", 0), ("narrative", 20), ("narrative", 60), ("general", 0), ("general", 80))
    rows = [row(4.5, quantity="loss", seed="", step=step, condition=name) for name, step in steps]
    found = [(own["group"], own["step"]) for own in section4_3(rows, numbers)]
    assert found == [("narrative", 0), ("narrative", 60), ("general", 0), ("general", 80)]


def test_where_no_run_has_a_value_the_row_says_so_with_the_published_one_beside_it(numbers):
    """Every layer below the threshold without noise: a mean that does not exist is not left out."""
    (found,) = section4_3([row(None, **NOISE)], numbers)
    assert (found["value"], found["n"], found["difference"]) == (None, 0, None)
    assert found["published"] == 7.38


def test_experiments_and_datasets_are_kept_apart(numbers):
    rows = [row(0.7), row(0.9, experiment="other"), row(0.5, dataset="compositional")]
    found = {(own["model"], own["dataset"]): own["value"] for own in section4_3(rows, numbers)}
    assert found == {("ours", "moral"): 0.7, ("other", "moral"): 0.9, ("ours", "compositional"): 0.5}


# The published beside ours


def test_every_number_that_the_paper_prints_stands_beside_one_of_ours(numbers):
    printed = numbers.find(paper="fragility", place="section 4.3")
    rows = section4_3(table("narrative", "declarative", "general"), numbers)
    found = [own["published"] for own in rows if own["published"] is not None]
    assert sorted(found) == sorted(number.value for number in printed)
    assert len(found) == 3 * 6 + 1


def test_the_ends_of_the_loss_have_the_paper_s_ends_beside_them(numbers):
    found = beside(section4_3(table("declarative"), numbers))
    assert found["declarative", "loss", "", 0] == 5.5
    assert found["declarative", "loss", "", 60] == 1.0, "our last step, whatever its number"
    assert found["base", "peak_accuracy", "", 0] == 0.8


def test_only_the_published_way_of_measuring_has_a_published_number_beside_it(numbers):
    """Exact values on the grid, continuous ones and those in units of RMS are not what the paper prints."""
    found = beside(section4_3(table(), numbers))
    assert {which[2] for which in found if which[1] == "mean_critical_noise"} == {"grid_sampled"}
    assert "mean_accuracy" not in {which[1] for which in found}


@pytest.mark.parametrize(
    ("condition", "published"),
    [("narrative", 0.74), ("narrative-sized", 0.74), ("narratives", None), ("poems", None), ("base2", None)],
)
def test_a_condition_is_compared_by_the_name_it_begins_with(condition, published, numbers):
    (found,) = section4_3([row(0.7, condition=condition)], numbers)
    assert found["published"] == published
    assert found["difference"] == (None if published is None else pytest.approx(-0.04))


def test_another_dataset_has_only_the_numbers_beside_it_that_are_of_none(numbers):
    found = beside(section4_3(table(dataset="compositional"), numbers))
    assert {quantity for _, quantity, _, _ in found} == {"loss", "corpus_tokens"}


def test_counts_of_other_totals_have_no_difference_and_say_of_what_they_are(numbers):
    """Three fragile of our four layers are not three fewer than six of sixteen."""
    rows = section4_3(table(), numbers)
    fragile, tokens = (one(rows, group="narrative", quantity=name) for name in curation_tables.COUNTS)
    assert (fragile["published"], fragile["difference"]) == (6, None)
    assert fragile["published_note"].endswith("; of 16 layers")
    assert (tokens["published"], tokens["difference"]) == (247000, None)
    assert tokens["note"] == "published: of another corpus"
    (alone,) = section4_3([row(9.0, condition="poems", quantity="corpus_tokens", seed="")], numbers)
    assert alone["note"] == "", "nothing beside it"


# The files


def test_the_script_joins_parts_and_writes_table_and_page(tmp_path):
    parts = []
    for dataset in ("moral", "compositional"):
        parts.append(tmp_path / f"{dataset}.csv")
        write_csv(parts[-1], table(dataset=dataset), CURATION_COLUMNS["curation"])
    out = {"section4_3": tmp_path / "out.csv", "section4_3_page": tmp_path / "out.html"}
    tabulate_curation_paper.main(FOLDER / "fragility.csv", parts, out)
    rows = read(out["section4_3"])
    assert [own["dataset"] for own in rows if own["quantity"] == "peak_accuracy"] == [
        *("moral", "moral", "compositional", "compositional")
    ]
    noise = one(rows, dataset="moral", group="narrative", **NOISE)
    assert (noise["value"], noise["published"], noise["difference"]) == ("2", "7.38", "-5.38")
    page = Page(out["section4_3_page"].read_text(encoding="utf-8"))
    assert page.titles == [formatted.TITLES["section4_3"]] * 2
    assert [cells[:3] for cells in page.body] == [
        ["ours", "moral", "base"], ["", "", "narrative"], ["", "compositional", "base"], ["", "", "narrative"]
    ]  # fmt: skip


def test_a_page_has_every_number_in_a_cell_of_its_own(numbers):
    rows = section4_3([*table(), row(3.0, seed="43", **FRAGILE)], numbers)
    frame = formatted.wide("section4_3", rows)
    assert (frame != "").to_numpy().sum() == len(rows) + len(beside(rows))
    own = frame.loc[("ours", "moral", "narrative")]
    assert own["fragile layers", "ours"] == "2.5"
    assert own["fragile layers", "published"] == "6"
    assert own["corpus tokens", "ours"] == "2 (published: of another corpus)"
    assert own["corpus tokens", "published"] == "247000"
    assert own["loss at the first step", "ours"] == "5.000"
    assert own["loss before the last snapshot", "published"] == "4"
