"""The paper's tables from our own csv files, the published numbers beside ours."""

import csv
import json

import tabulate_paper
from strataprobe import tables
from strataprobe.published.files import read_directory
from tests.unit.test_published_files import fragility_file, probe_file

NUMBERS = """paper,place,model,revision,step,dataset,quantity,group,layer,value,spread,n,unit,status,note
fragility,Table 1,olmo2-1b-early,,,moral,onset_step,,,1000,,1,steps,ok,
fragility,Table 1,olmo2-1b-early,,,moral,plateau_accuracy,,,0.96,,1,fraction,contradicted,another has 0.954
fragility,Table D.2,,,,moral,lexical_floor,care,,0.64,,1,fraction,ok,
"""


def read(path):
    with path.open(newline="") as handle:
        return list(csv.DictReader(handle))


def trajectory(folder):
    """The trajectory part of three published checkpoints, as the workflow writes it."""
    for place, step in enumerate((0, 1000, 2000)):
        at = folder / f"files/step{step}"
        at.mkdir(parents=True)
        (at / "p.json").write_text(json.dumps(probe_file(step, (0.5, (6 + place) / 10, (7 + place) / 10))))
        (at / "f.json").write_text(json.dumps(fragility_file(step)))
    found = read_directory(folder / "files", dataset="moral", model="paper", seed=42)
    rows = tables.trajectory_rows(found.probing, found.fragility)
    tables.write_csv(folder / "trajectory.csv", rows, tables.COLUMNS["trajectory"])
    return folder / "trajectory.csv"


def test_a_table_has_ours_and_the_published_number_with_its_status(tmp_path):
    (tmp_path / "numbers.csv").write_text(NUMBERS)
    floors = dict.fromkeys(tables.COLUMNS["floors"], "") | {
        "dataset": "moral", "scheme": "folds", "kind": "unigrams", "group": "care", "floor": 0.6,
    }  # fmt: skip
    tables.write_csv(tmp_path / "floors.csv", [floors], tables.COLUMNS["floors"])
    names = ("table1", "table2", "table3", "tableD2")
    out = {name: tmp_path / f"{name}.csv" for name in names}
    out |= {f"{name}_page": tmp_path / f"{name}.html" for name in names}
    tabulate_paper.main(
        tmp_path / "numbers.csv", [trajectory(tmp_path)], [], [tmp_path / "floors.csv"], out, onset=0.7
    )
    by_quantity = {row["quantity"]: row for row in read(out["table1"])}
    onset, plateau = by_quantity["onset_step"], by_quantity["plateau_accuracy"]
    assert (onset["value"], onset["published"], onset["published_status"]) == ("2000", "1000", "ok")
    assert float(plateau["value"]) == 0.733333
    assert (plateau["published"], plateau["published_status"]) == ("0.96", "contradicted")
    assert {row["step"] for row in read(out["table2"])} == {"0", "1000", "2000"}
    noise = [row for row in read(out["table3"]) if row["quantity"] == "mean_critical_noise"]
    assert [row["value"] for row in noise] == ["2", "2", "2"]
    (floor,) = read(out["tableD2"])
    assert (floor["value"], floor["published"]) == ("0.6", "0.64")
    assert not (tmp_path / "tableA.csv").exists(), "a table that was not asked for"
    pages = {name: out[f"{name}_page"].read_text(encoding="utf-8") for name in names}
    assert all(page.startswith("<!DOCTYPE html>") for page in pages.values())
    assert "0.96†" in pages["table1"]
    assert "another has 0.954" in pages["table1"]
    assert pages["table2"].count("<tr>") == 2 + 3, "two rows of headings, and one a checkpoint"
    assert "0.600" in pages["tableD2"]
    assert "0.64<" in pages["tableD2"]


def test_rows_come_back_as_they_were_written(tmp_path):
    rows = tables.read_rows(trajectory(tmp_path))
    assert {row["step"] for row in rows} == {0, 1000, 2000}
    assert {type(row["value"]) for row in rows} <= {float, type(None)}
    curves = tables.curves_of(rows, quantity="mean_accuracy")
    assert list(curves) == ["42"]
    assert [step for step, _ in curves["42"]] == [0, 1000, 2000]
