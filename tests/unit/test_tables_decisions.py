"""A configured test of a decline says what the rows of the trajectory table say, seed by seed."""

import pytest

import tabulate_decisions
from strataprobe import tables

RULE = {
    "model": "mine", "dataset": "moral", "first": "early", "second": "end", "control": "raw",
    "statistic": "grid_sampled", "band": "all", "means": "dropped", "least_drop": 1.0,
}  # fmt: skip
# Seed -> (at the first, at the second): means 5 and 2.5, standard deviations sqrt(2) and sqrt(0.5).
VALUES = {42: (4.0, 2.0), 43: (6.0, 3.0)}


def trajectory(values=VALUES, **other) -> list[dict]:
    """Rows at both checkpoints, with the mean over seeds that the table has too."""
    rows = []
    for place, (revision, step) in enumerate((("early", 100), ("end", 900))):
        own = {seed: each[place] for seed, each in values.items()}
        there = [value for value in own.values() if value is not None]
        for seed, value in {**own, "mean": sum(there) / len(there) if there else None}.items():
            rows.append(
                {
                    "model": "mine", "revision": revision, "step": step, "twin_of": "", "dataset": "moral",
                    "conventions": "default", "pooling": "mean_rest", "seed": str(seed),
                    "quantity": "mean_critical_noise", "control": "raw", "statistic": "grid_sampled",
                    "band": "all", "means": "dropped", "value": value, "interval_low": None,
                    "interval_high": None, "layers": 4, "counted": 4, **other,
                }
            )  # fmt: skip
    return rows


def test_a_row_holds_the_numbers_and_the_answers_of_the_rule():
    row = tables.decision_row("decline", RULE, trajectory())
    assert tuple(row) == tables.COLUMNS["decisions"]
    assert (row["mean_a"], row["mean_b"], row["gap"], row["n_a"], row["n_b"]) == (5.0, 2.5, 2.5, 2, 2)
    assert row["sd_a"] == row["largest_sd"] == pytest.approx(2**0.5)  # ddof 1
    assert row["sd_b"] == pytest.approx(0.5**0.5)
    assert [row[name] for name in ("falls", "above_spread", "real")] == ["yes", "yes", "yes"]
    assert {name: row[name] for name in RULE} == RULE
    assert row["rule"] == "decline"


@pytest.mark.parametrize(
    ("values", "least", "answers"),
    [
        ({42: (1.0, 2.0), 43: (9.0, 3.0)}, 1.0, ["yes", "no", "no"]),  # gap 2.5, sd 5.7
        ({42: (3.0, 2.5), 43: (3.1, 2.6)}, 1.0, ["no", "yes", "no"]),  # gap 0.5, sd 0.07
        ({42: (3.0, 2.5), 43: (3.1, 2.6)}, 0.25, ["yes", "yes", "yes"]),
        ({42: (2.0, 4.0), 43: (3.0, 6.0)}, 1.0, ["no", "no", "no"]),  # it rises
    ],
)
def test_a_decline_is_real_only_if_it_falls_enough_and_more_than_seeds_differ(values, least, answers):
    row = tables.decision_row("decline", {**RULE, "least_drop": least}, trajectory(values))
    assert [row[name] for name in ("falls", "above_spread", "real")] == answers


@pytest.mark.parametrize(
    "other",
    [
        {"model": "other"}, {"dataset": "other"}, {"control": "rms_after"}, {"statistic": "continuous"},
        {"band": "late"}, {"means": "capped"}, {"quantity": "mean_accuracy"}, {"revision": "middle"},
    ],
    ids=str,
)  # fmt: skip
def test_rows_of_anything_else_do_not_count(other):
    mixed = [*trajectory({42: (50.0, 0.0), 43: (90.0, 70.0)}, **other), *trajectory()]
    assert tables.decision_row("decline", RULE, mixed) == tables.decision_row("decline", RULE, trajectory())


def test_a_seed_without_a_value_is_left_out_and_said():
    row = tables.decision_row("decline", RULE, trajectory({**VALUES, 44: (None, 2.5)}))
    assert (row["n_a"], row["n_b"], row["mean_b"]) == (2, 3, 2.5)


def test_without_enough_values_the_answers_are_empty_and_the_note_says_why():
    """A checkpoint that failed, or one with every layer below the threshold, must not stop a study."""
    row = tables.decision_row("decline", RULE, trajectory({42: (4.0, 2.0), 43: (None, 3.0)}))
    assert [row[name] for name in ("falls", "above_spread", "real", "gap")] == ["", "", "", None]
    assert "first step: 1 of 2 seeds have a value; a spread needs at least 2" in row["note"]
    assert "second step" not in row["note"]
    gone = tables.decision_row("decline", {**RULE, "first": "start", "second": "gone"}, trajectory())
    assert "first step: 0 of 0" in gone["note"]
    assert "second step: 0 of 0" in gone["note"]
    assert gone["real"] == ""


def test_the_script_writes_a_row_a_rule_from_the_tables_of_all_models(tmp_path):
    for model in ("mine", "other"):
        values = VALUES if model == "mine" else {42: (1.0, 0.5), 43: (1.1, 0.6)}
        rows = trajectory(values, model=model)
        tables.write_csv(tmp_path / f"{model}.csv", rows, tables.COLUMNS["trajectory"])
    rules = {"decline": RULE, "elsewhere": {**RULE, "model": "other", "least_drop": 0.25}}
    parts = [tmp_path / "mine.csv", tmp_path / "other.csv"]
    tabulate_decisions.main(parts, tmp_path / "decisions.csv", rules=rules)
    first, second = tables.read_rows(tmp_path / "decisions.csv")
    assert (first["rule"], first["model"], first["gap"], first["real"]) == ("decline", "mine", 2.5, "yes")
    assert (second["rule"], second["mean_a"], second["mean_b"]) == ("elsewhere", 1.05, 0.55)
    assert (second["falls"], second["n_a"]) == ("yes", 2)
