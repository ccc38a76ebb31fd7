"""Tables say what the summaries say: nothing dropped, nothing invented, the same bytes every time."""

import copy
import csv
import statistics

import pytest

from strataprobe import tables
from strataprobe.errors import StrataprobeError


def probe_summary(step: int = 0, seed: int = 42, mean: float = 0.75, onset: int | None = 1) -> dict:
    layers = [
        {
            "layer": layer,
            "depth": layer / 2,
            "accuracy": mean + 0.1 * layer - 0.05,
            "loss": 0.5,
            "auc": 0.9,
            "d_prime": 2.5,
            "log_loss": 0.25,
            "accuracy_interval": [0.5, 0.9],
        }
        for layer in range(2)
    ]
    return {
        "benchmark_name": "layer_wise_moral_probe",
        "model_info": {"name": "nano", "extra": {}},
        "layer_scores": layers,
        "onset_layer": onset,
        "peak_layer": 1,
        "peak_accuracy": mean + 0.05,
        "mean_accuracy": mean,
        "mean_accuracy_interval": [mean - 0.1, mean + 0.1],
        "model": "nano",
        "revision": f"step{step:04d}",
        "step": step,
        "dataset": "moral",
        "seed": seed,
        "metadata": {
            "solver": "adam",
            "conventions": "default",
            "pooling": "mean_rest",
            "train_pairs": 192,
            "test_pairs": 48,
        },
    }


def found(value: float | None, state: str, interval: list | None = None) -> dict:
    return {"value": value, "state": state, **({"interval": interval} if interval else {})}


def controls(raw: float | None) -> dict:
    """Layer controls whose raw continuous value is `raw` (None: below the threshold)."""
    state = "value" if raw is not None else "below_threshold"
    each = {
        "noise_levels": [0.1, 1.0, 10.0],
        "sampled_accuracy": [0.9, 0.8, 0.7],
        "exact_accuracy": [0.9, 0.8, 0.7],
        "grid_sampled": found(None, "censored"),
        "grid_exact": found(10.0, "value"),
        "continuous": found(raw, state, [raw * 0.5, raw * 2] if raw is not None else None),
    }
    return {name: copy.deepcopy(each) for name in ("within_class", "rms_after", "raw", "rms_before")}


def fragility_summary(step: int = 0, seed: int = 42, raw: float | None = 4.0) -> dict:
    geometry = {
        "activation_rms": 2.0,
        "mean_norm": 16.0,
        "first_token_share": 0.25,
        "weight_norm": 1.5,
        "margin_mean": 1.0,
        "margin_sd": 0.5,
        "margin_over_rms": 0.5,
        "gaussian_critical_noise": None,
    }
    layers = [
        {
            "layer": layer,
            "depth": layer / 2,
            "band": ("early", "late")[layer],
            "baseline_accuracy": 0.9,
            "controls": controls(raw),
            "geometry": geometry,
            "ceiling": {"continuous": found(None, "censored") if layer else found(30.0, "value")},
        }
        for layer in range(2)
    ]
    counted = 2 if raw is not None else 0
    mean = {"capped": raw, "dropped": raw, "layers": 2, "counted": counted}
    grid = {"capped": 10.0, "dropped": None, "layers": 2, "counted": 0}
    means = {
        control: {
            "continuous": {"late": mean, "all": mean},
            "grid_exact": {"all": mean},
            "grid_sampled": {"all": grid},
        }
        for control in ("rms_after", "raw")
    }
    return {
        "model": "nano",
        "revision": f"step{step:04d}",
        "step": step,
        "dataset": "moral",
        "seed": seed,
        "layer_scores": layers,
        "means": means,
        "mean_intervals": {"raw": [3.0, 5.0], "rms_after": None} if raw is not None else {},
        "metadata": {"conventions": "default", "pooling": "mean_rest"},
    }


def one(rows: list[dict], **equal) -> dict:
    chosen = [row for row in rows if all(row[name] == value for name, value in equal.items())]
    assert len(chosen) == 1, (equal, chosen)
    return chosen[0]


def test_every_row_has_exactly_the_columns_of_its_table():
    probes, fragile = [probe_summary()], [fragility_summary()]
    made = {
        "probing": tables.probing_rows(probes),
        "fragility": tables.fragility_rows(fragile),
        "trajectory": tables.trajectory_rows(probes, fragile),
        "scale": tables.scale_rows(fragile),
    }
    for name, rows in made.items():
        assert rows
        assert {frozenset(row) for row in rows} == {frozenset(tables.COLUMNS[name])}


def test_probing_rows_carry_the_scores_of_each_layer_and_seed():
    rows = tables.probing_rows([probe_summary(seed=42), probe_summary(seed=43, mean=0.8)])
    assert [(row["seed"], row["layer"]) for row in rows] == [(42, 0), (42, 1), (43, 0), (43, 1)]
    row = one(rows, seed=43, layer=1)
    assert row["accuracy"] == pytest.approx(0.85)
    assert (row["pooling"], row["conventions"], row["test_pairs"]) == ("mean_rest", "default", 48)
    assert (row["interval_low"], row["interval_high"]) == (0.5, 0.9)


def test_a_censored_layer_is_a_row_without_a_value_never_the_end_of_the_grid():
    rows = tables.fragility_rows([fragility_summary()])
    assert len(rows) == 2 * 4 * 3
    row = one(rows, layer=1, control="raw", statistic="grid_sampled")
    assert (row["critical_noise"], row["state"]) == (None, "censored")
    row = one(rows, layer=1, control="raw", statistic="continuous")
    assert (row["critical_noise"], row["interval_low"], row["interval_high"]) == (4.0, 2.0, 8.0)
    # The order of the summary's keys is not the order of the table.
    assert [row["control"] for row in rows[:12:3]] == ["raw", "rms_before", "rms_after", "within_class"]


def test_scale_rows_keep_the_ceilings_state_beside_its_value():
    first, second = tables.scale_rows([fragility_summary()])
    assert (first["ceiling_critical_noise"], first["ceiling_state"]) == (30.0, "value")
    assert (second["ceiling_critical_noise"], second["ceiling_state"]) == (None, "censored")
    assert (first["activation_rms"], first["first_token_share"]) == (2.0, 0.25)


def test_the_seed_mean_and_its_interval_are_mean_and_sd_with_ddof_one():
    means = {42: 0.70, 43: 0.74, 44: 0.84}
    probes = [probe_summary(seed=seed, mean=mean) for seed, mean in means.items()]
    rows = tables.trajectory_rows(probes, [])
    row = one(rows, quantity="mean_accuracy", seed="mean")
    # By hand: mean 0.76, deviations -0.06, -0.02, 0.08, variance (36 + 4 + 64) / 2 = 52 in 1e-4.
    assert row["value"] == pytest.approx(0.76)
    assert row["interval_high"] - row["value"] == pytest.approx(0.0052**0.5)
    assert row["value"] - row["interval_low"] == pytest.approx(0.0052**0.5)
    single = one(rows, quantity="mean_accuracy", seed=43)
    assert (single["interval_low"], single["interval_high"]) == (pytest.approx(0.64), pytest.approx(0.84))


def test_one_seed_has_a_mean_row_without_an_interval():
    rows = tables.trajectory_rows([probe_summary()], [fragility_summary()])
    for row in rows:
        if row["seed"] == "mean":
            assert (row["interval_low"], row["interval_high"]) == (None, None)
    assert one(rows, quantity="peak_accuracy", seed="mean")["value"] == pytest.approx(0.80)


def test_step_zero_is_a_checkpoint_like_any_other():
    rows = tables.trajectory_rows([probe_summary(0), probe_summary(10)], [])
    assert {row["step"] for row in rows if row["seed"] == "mean"} == {0, 10}


def test_seeds_without_a_value_do_not_enter_the_mean_and_are_seen_in_counted():
    fragile = [fragility_summary(seed=42, raw=4.0), fragility_summary(seed=43, raw=None)]
    rows = tables.trajectory_rows([], fragile)
    which = {"control": "raw", "statistic": "continuous", "band": "all", "means": "dropped"}
    row = one(rows, seed="mean", **which)
    assert (row["value"], row["layers"], row["counted"]) == (4.0, 2, 1.0)
    assert row["interval_low"] is None
    assert one(rows, seed=43, **which)["value"] is None


def test_no_seed_with_a_value_gives_an_empty_mean_and_not_zero():
    rows = tables.trajectory_rows([probe_summary(onset=None)], [fragility_summary(raw=None)])
    row = one(rows, seed="mean", control="raw", statistic="continuous", band="all", means="dropped")
    assert (row["value"], row["counted"]) == (None, 0)
    assert one(rows, seed="mean", quantity="onset_layer")["value"] is None


def test_the_bootstrap_interval_stands_only_by_the_mean_it_belongs_to():
    summary = fragility_summary()
    summary["means"]["raw"]["continuous"]["all"] = {"capped": 9.0, "dropped": 4.0, "layers": 2, "counted": 1}
    rows = tables.trajectory_rows([], [summary])
    bounded = [row for row in rows if row["interval_low"] is not None]
    assert [(r["control"], r["statistic"], r["band"], r["means"]) for r in bounded] == [
        ("raw", "continuous", "all", "dropped")
    ]
    assert (bounded[0]["interval_low"], bounded[0]["interval_high"]) == (3.0, 5.0)


def test_both_means_over_layers_are_there_by_name():
    rows = tables.trajectory_rows([], [fragility_summary()])
    which = {"seed": 42, "control": "raw", "statistic": "grid_sampled", "band": "all"}
    assert one(rows, **which, means="capped")["value"] == 10.0
    assert one(rows, **which, means="dropped")["value"] is None


def test_a_missing_seed_has_no_row_and_the_mean_is_over_the_others():
    probes = [probe_summary(0, 42, 0.6), probe_summary(0, 43, 0.7), probe_summary(10, 43, 0.9)]
    rows = tables.trajectory_rows(probes, [])
    values = [row["value"] for row in rows if row["quantity"] == "mean_accuracy" and row["step"] == 10]
    assert values == [0.9, 0.9]
    assert one(rows, quantity="mean_accuracy", step=0, seed="mean")["value"] == statistics.fmean([0.6, 0.7])


def test_a_summary_given_twice_or_without_a_key_field_is_refused_with_all_faults():
    lacking = probe_summary(seed=44)
    del lacking["metadata"]["pooling"], lacking["dataset"]
    with pytest.raises(StrataprobeError) as caught:
        tables.probing_rows([probe_summary(), probe_summary(), lacking])
    said = str(caught.value)
    assert "2 problems" in said
    assert "probe summary 1: there twice (model nano, revision step0000, step 0" in said
    assert "probe summary 2: missing dataset, pooling" in said


def test_csv_has_six_digits_empty_cells_and_unix_line_ends(tmp_path):
    rows = [
        {"name": "a,b", "value": 1 / 3, "step": 123456789},
        {"name": 'say "x"', "value": None, "step": 0},
        {"name": "", "value": 1e-9, "step": 2},
    ]
    tables.write_csv(tmp_path / "t.csv", rows, ("step", "name", "value"))
    assert (tmp_path / "t.csv").read_bytes() == (
        b'step,name,value\n123456789,"a,b",0.333333\n0,"say ""x""",\n2,,1e-09\n'
    )
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_csv_refuses_wrong_fields_and_numbers_that_are_not_finite(tmp_path):
    rows = [{"a": float("nan")}, {"a": 1.0, "b": 2.0}, {}]
    with pytest.raises(StrataprobeError) as caught:
        tables.write_csv(tmp_path / "t.csv", rows, ("a",))
    said = str(caught.value)
    assert "3 problems" in said
    assert "row 1: 'a' is nan" in said
    assert "row 2: fields missing or not in the table: b" in said
    assert not (tmp_path / "t.csv").exists()


def test_concatenated_parts_have_one_header_and_all_rows_in_order(tmp_path):
    for name, step in (("b", 1), ("a", 2)):
        tables.write_csv(tmp_path / f"{name}.csv", [{"step": step, "name": "x,\ny"}], ("step", "name"))
    tables.write_csv(tmp_path / "none.csv", [], ("step", "name"))
    tables.concatenate([tmp_path / f"{name}.csv" for name in ("b", "none", "a")], tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(encoding="utf-8", newline="") as handle:
        assert list(csv.reader(handle)) == [["step", "name"], ["1", "x,\ny"], ["2", "x,\ny"]]


def test_parts_with_other_columns_or_no_part_at_all_are_refused(tmp_path):
    for name, columns in (("a", ("x", "y")), ("b", ("y", "x")), ("c", ("x",))):
        tables.write_csv(tmp_path / f"{name}.csv", [], columns)
    (tmp_path / "empty.csv").write_text("")
    parts = [tmp_path / f"{name}.csv" for name in ("a", "b", "c", "empty")]
    with pytest.raises(StrataprobeError) as caught:
        tables.concatenate(parts, tmp_path / "all.csv")
    assert "3 problems" in str(caught.value)
    assert all(name in str(caught.value) for name in ("b.csv", "c.csv", "empty.csv"))
    with pytest.raises(StrataprobeError, match="no part"):
        tables.concatenate([], tmp_path / "all.csv")
    assert not (tmp_path / "all.csv").exists()


def test_names_that_look_like_missing_values_are_read_back_as_names(tmp_path):
    row = dict.fromkeys(tables.COLUMNS["trajectory"], "") | {"model": "NA", "revision": "nan", "seed": "mean"}
    row |= {"step": 0, "value": None, "layers": 16, "interval_low": 0.5}
    tables.write_csv(tmp_path / "t.csv", [row], tables.COLUMNS["trajectory"])
    frame = tables.read_table(tmp_path / "t.csv")
    assert (frame["model"][0], frame["revision"][0], frame["control"][0]) == ("NA", "nan", "")
    assert (frame["step"][0], frame["layers"][0], frame["interval_low"][0]) == (0, 16, 0.5)
    assert frame["value"].isna().all()


def test_a_number_column_with_words_in_it_is_refused_with_its_line(tmp_path):
    (tmp_path / "t.csv").write_text("model,step,value\na,0,0.5\nb,one,0.5\n")
    with pytest.raises(StrataprobeError, match=r"t\.csv:3: 'step' is not a number: 'one'"):
        tables.read_table(tmp_path / "t.csv")
