"""The tables of a LoRA experiment: what each run has, the base as step 0, and the means over runs."""

import json
import statistics

import pytest

import tabulate_curation
from strataprobe import tabular
from strataprobe.errors import StrataprobeError
from strataprobe.tables import curation

RUNS = [("narrative", 1), ("narrative", 2), ("general", 1), ("general", 2)]
STEPS = [["step0020", 20], ["step0040", 40]]
EXPERIMENT = {
    "name": "nano-lora",
    "base": {"model": "nano", "revision": "step0100"},
    "noise_levels": {"raw": [0.1, 1.0, 10.0], "rms": [0.1, 1.0, 100.0]},
    "runs": [
        {"model": f"nano-lora-{name}-s{seed}", "condition": name, "seed": seed, "revisions": STEPS}
        for name, seed in RUNS
    ],
}


def key(model, revision, seed):
    return {
        "model": model, "revision": revision, "step": 7, "twin_of": "", "dataset": "moral",
        "conventions": "default", "pooling": "mean_rest", "seed": str(seed),
    }  # fmt: skip


def trajectory(model, revision, seed, value, noise=4.0):
    low_high = {"interval_low": value - 0.1, "interval_high": value + 0.1}
    none = {"control": "", "statistic": "", "band": "all", "means": ""}
    counted = {"layers": 3, "counted": 3}
    given = [{**none, "quantity": name, "value": value, **low_high, **counted} for name in
             ("mean_accuracy", "peak_accuracy", "onset_layer")]  # fmt: skip
    for band in ("all", "late"):
        which = {"control": "raw", "statistic": "grid_sampled", "band": band, "means": "capped"}
        bounds = {"interval_low": None, "interval_high": None}
        given.append({**which, "quantity": "mean_critical_noise", "value": noise, **bounds, **counted})
    return [{**key(model, revision, seed), **row} for row in given]


def fragility(model, revision, seed, states, control="raw", statistic="grid_sampled"):
    rest = {"band": "all", "baseline_accuracy": 0.7, "interval_low": None, "interval_high": None}
    return [
        {
            **key(model, revision, seed), **rest, "layer": layer, "depth": layer / len(states),
            "control": control, "statistic": statistic, "critical_noise": value, "state": state,
        }
        for layer, (value, state) in enumerate(states)
    ]  # fmt: skip


def probing(model, revision, seed, accuracies):
    rest = dict.fromkeys(("loss", "auc", "d_prime", "log_loss", "interval_low", "interval_high"))
    return [
        {
            **key(model, revision, seed), **rest, "layer": layer, "depth": layer / len(accuracies),
            "accuracy": accuracy, "train_pairs": 192, "test_pairs": 48,
        }
        for layer, accuracy in enumerate(accuracies)
    ]  # fmt: skip


STATES = [
    (1.0, "value"), (10.0, "value"), (None, "censored"), (None, "undefined"), (0.1, "below_threshold"),
    (10.0, "below_threshold"), (None, "below_threshold"),
]  # fmt: skip


def parts(seeds=(42, 43)):
    """Tables of the base and of each run; accuracy is 0.5, and 0.01 x run, 0.002 x (seed - 42) more."""
    base = [
        row
        for revision in ("step0050", "step0100")
        for seed in (*seeds, 99)
        for row in trajectory("nano", revision, seed, 0.6 + (seed - 42) / 100)
    ]
    means = [base + trajectory("nano", "step0100", "mean", 0.99)]
    layers = [fragility("nano", "step0100", 42, STATES[:2]) + fragility("nano", "step0100", 99, STATES)]
    accuracies = [probing("nano", "step0100", 42, [0.6, 0.7]) + probing("nano", "step0050", 42, [0.5, 0.5])]
    for run in EXPERIMENT["runs"]:
        model, step_value = run["model"], {"step0020": 0.0, "step0040": 0.1}
        means.append([])
        for revision, more in step_value.items():
            for seed in seeds:
                value = 0.5 + 0.01 * run["seed"] + 0.002 * (seed - 42) + more
                noise = None if (run["seed"], seed) == (2, 43) else 2.0 * run["seed"] + seed - 42
                means[-1] += trajectory(model, revision, seed, value, noise)
        layers.append(fragility(model, "step0040", 42, STATES))
        layers[-1] += fragility(model, "step0040", 42, STATES, control="rms_after", statistic="grid_exact")
        layers[-1] += fragility(model, "step0040", 42, STATES, statistic="continuous")
        accuracies.append(probing(model, "step0040", 42, [0.5, 0.75]))
    return {"trajectory": means, "probing": accuracies, "fragility": layers}


def losses(run):
    """Step t costs 5 - t/20, a tenth more in the second run."""
    more = 0.1 * (run["seed"] - 1)
    return [{"step": step, "loss": 5 - step / 20 + more} for step in range(1, 41)]


def made(experiment=EXPERIMENT, **changed):
    given = {
        **{name: part for name, part in parts().items() if name != "probing"},
        "losses": [losses(run) for run in EXPERIMENT["runs"]],
        "corpora": [{"tokens": 999, "tokens_used": 640, "rows": 10, "passes": 4.0} for _ in RUNS],
    }
    return curation.curation_rows(experiment, **{**given, **changed})


def one(rows, **equal):
    found = [row for row in rows if all(row[name] == value for name, value in equal.items())]
    assert len(found) == 1, (equal, found)
    return found[0]


@pytest.fixture(scope="module")
def rows():
    return made()


def test_every_row_has_the_columns_of_its_table(rows):
    layers = curation.curation_layers_rows(
        EXPERIMENT, **{name: part for name, part in parts().items() if name != "trajectory"}
    )
    for table, found in (("curation", rows), ("curation_layers", layers)):
        assert found
        assert {frozenset(row) for row in found} == {frozenset(tabular.COLUMNS[table])}


def test_of_the_base_only_its_revision_and_the_probe_seeds_of_the_runs_stand_as_step_zero(rows):
    base = [row for row in rows if row["condition"] == "base" and row["run"] == ""]
    assert {(row["model"], row["revision"], row["step"]) for row in base} == {("nano", "step0100", 0)}
    assert {row["seed"] for row in base} == {"42", "43"}
    row = one(base, quantity="mean_accuracy", seed="43")
    assert (row["value"], row["interval_low"]) == (pytest.approx(0.61), pytest.approx(0.51))
    assert not {"loss", "passes", "corpus_tokens"} & {row["quantity"] for row in base}


def test_rows_of_a_run_keep_value_and_interval_and_count_their_own_steps(rows):
    row = one(rows, condition="general", run="2", step=40, seed="43", quantity="peak_accuracy")
    assert (row["model"], row["revision"]) == ("nano-lora-general-s2", "step0040")
    assert (row["value"], row["interval_high"]) == (pytest.approx(0.622), pytest.approx(0.722))
    # Means over a band are not means over layers, and onsets not of this table.
    one(rows, condition="general", run="1", step=40, seed="42", quantity="mean_critical_noise")
    assert {row["quantity"] for row in rows} == {
        "loss", "corpus_tokens", "passes", "peak_accuracy", "mean_accuracy", "mean_critical_noise",
        "fragile_layers",
    }  # fmt: skip


def test_the_mean_over_runs_is_of_the_runs_means_with_their_spread(rows):
    row = one(rows, condition="narrative", run="mean", step=40, quantity="mean_accuracy")
    # Runs: 0.61 and 0.62 on average over seeds 0.001 more; their sd is 0.01 / sqrt(2).
    assert (row["model"], row["revision"], row["seed"]) == ("", "", "mean")
    assert row["value"] == pytest.approx(0.616)
    assert row["interval_high"] - row["value"] == pytest.approx(0.01 / 2**0.5)
    assert row["value"] - row["interval_low"] == pytest.approx(0.01 / 2**0.5)
    base = one(rows, condition="base", run="mean", quantity="mean_accuracy")
    assert base["value"] == pytest.approx(0.605)
    assert base["interval_high"] - base["value"] == pytest.approx(statistics.stdev([0.60, 0.61]))


def test_a_seed_without_a_value_does_not_enter_its_runs_mean(rows):
    row = one(rows, condition="narrative", run="mean", step=40, quantity="mean_critical_noise")
    assert row["value"] == pytest.approx((2.5 + 4.0) / 2)
    gone = one(rows, condition="narrative", run="2", step=40, seed="43", quantity="mean_critical_noise")
    assert gone["value"] is None


def test_one_run_has_a_mean_without_an_interval():
    small = {**EXPERIMENT, "runs": EXPERIMENT["runs"][:1]}
    tables = {name: part[:2] for name, part in parts().items() if name != "probing"}
    found = made(
        small, **tables, losses=[losses(small["runs"][0])], corpora=[{"tokens_used": 1, "passes": 1}]
    )
    row = one(found, condition="narrative", run="mean", step=40, quantity="mean_accuracy")
    assert (row["value"], row["interval_low"], row["interval_high"]) == (pytest.approx(0.611), None, None)


def test_loss_at_a_snapshot_is_the_mean_since_the_one_before(rows):
    kept = {
        row["step"]: row
        for row in rows
        if (row["quantity"], row["condition"], row["run"]) == ("loss", "narrative", "2")
    }
    # Steps 1 to 20 average 10.5, steps 21 to 40 average 30.5.
    assert {step: row["value"] for step, row in kept.items()} == pytest.approx(
        {0: 5.05, 20: 5.1 - 10.5 / 20, 40: 5.1 - 30.5 / 20}
    )
    assert (kept[0]["model"], kept[0]["revision"]) == ("nano-lora-narrative-s2", "")
    assert {row["seed"] for row in kept.values()} == {""}
    assert {row["dataset"] for row in kept.values()} == {"moral"}
    mean = one(rows, quantity="loss", condition="narrative", run="mean", step=0)
    assert mean["value"] == pytest.approx(5.0)


def test_a_corpus_stands_at_the_last_step(rows):
    for quantity, value in (("corpus_tokens", 640), ("passes", 4.0)):
        row = one(rows, quantity=quantity, condition="general", run="1")
        assert (row["step"], row["value"], row["seed"]) == (40, value, "")
        assert one(rows, quantity=quantity, condition="general", run="mean")["value"] == value


def test_fragile_layers_are_below_the_grids_largest_level_or_below_the_threshold_from_the_start(rows):
    # Of STATES: 1.0, and the three that are below without noise; 10.0 is not below 10, but it is below 100.
    raw = one(rows, run="1", condition="general", quantity="fragile_layers", control="raw")
    assert (raw["statistic"], raw["value"], raw["step"]) == ("grid_sampled", 4, 40)
    scaled = one(rows, run="1", condition="general", quantity="fragile_layers", control="rms_after")
    assert (scaled["statistic"], scaled["value"]) == ("grid_exact", 5)
    assert one(rows, run="", condition="base", quantity="fragile_layers")["value"] == 1
    assert curation.fragile_layers([], 10.0) == 0


def test_the_published_counts_are_those_of_their_capped_means():
    """Of 16 layers on a grid that ends at 10: n at 3 and the others never below give 10 - 7 n / 16."""
    for fragile, capped in ((6, 7.375), (10, 5.625)):
        found = [(3.0, "value")] * fragile + [(10.0, "value")] * 2 + [(None, "censored")] * (14 - fragile)
        assert curation.fragile_layers(found, 10.0) == fragile
        assert sum(10.0 if value is None else value for value, _ in found) / 16 == capped


def test_layers_have_accuracy_and_critical_noise_with_its_state():
    tables = {name: part for name, part in parts().items() if name != "trajectory"}
    rows = curation.curation_layers_rows(EXPERIMENT, **tables)
    row = one(rows, condition="narrative", run="2", quantity="accuracy", layer=1)
    assert (row["value"], row["depth"], row["step"], row["state"]) == (0.75, 0.5, 40, "")
    which = {"quantity": "critical_noise", "control": "raw", "statistic": "grid_sampled", "layer": 2}
    row = one(rows, condition="narrative", run="2", **which)
    assert (row["value"], row["state"]) == (None, "censored")
    base = [row for row in rows if row["condition"] == "base"]
    assert {(row["step"], row["revision"], row["seed"]) for row in base} == {(0, "step0100", "42")}
    assert "mean" not in {row["run"] for row in rows}


def test_parts_that_are_not_those_of_the_experiment_are_refused():
    tables = parts()
    swapped = [tables["trajectory"][0], *reversed(tables["trajectory"][1:])]
    with pytest.raises(StrataprobeError) as caught:
        made(trajectory=swapped)
    said = str(caught.value)
    assert "4 problems" in said
    assert "part 2 of trajectory: of nano-lora-general-s2, expected nano-lora-narrative-s1" in said
    with pytest.raises(StrataprobeError) as caught:
        made(trajectory=tables["trajectory"][1:], fragility=tables["fragility"][:2])
    assert "4 parts of trajectory; one of the base and of each run would be 5" in str(caught.value)
    assert "2 parts of fragility" in str(caught.value)
    with pytest.raises(StrataprobeError, match="1 parts of losses; one of a run would be 4"):
        made(losses=[[]])


def test_a_condition_that_is_not_there_yet_leaves_the_others():
    tables = {name: [*part[:3], [], []] for name, part in parts().items()}
    found = made(trajectory=tables["trajectory"], fragility=tables["fragility"])
    measured = {row["condition"] for row in found if row["quantity"] == "mean_accuracy"}
    assert measured == {"base", "narrative"}
    assert made(trajectory=[[]] * 5, fragility=[[]] * 5) == []


def test_the_script_writes_both_tables_and_they_are_read_as_they_were_written(tmp_path):
    given = {}
    for table, each in parts().items():
        given[table] = [tmp_path / f"{table}{place}.csv" for place in range(len(each))]
        for path, part in zip(given[table], each, strict=True):
            tabular.write_csv(path, part, tabular.COLUMNS[table])
    given["losses"], given["corpora"] = (
        [tmp_path / f"{kind}{place}" for place in range(4)] for kind in ("loss", "corpus")
    )
    for run, path, corpus in zip(EXPERIMENT["runs"], given["losses"], given["corpora"], strict=True):
        lines = [f"{row['step']},{row['loss']:.6g},0.0002,{64 * row['step']}" for row in losses(run)]
        path.write_text("\n".join(["step,loss,learning_rate,tokens", *lines]) + "\n")
        corpus.write_text(json.dumps({"tokens": 999, "tokens_used": 640, "rows": 10, "passes": 4.0}))
    outputs = {name: tmp_path / f"{name}.csv" for name in ("curation", "layers")}
    tabulate_curation.main(*given.values(), outputs, experiment=EXPERIMENT)
    read = tabular.read_rows(outputs["curation"])
    written = made()
    assert len(read) == len(written)
    numbers = ("value", "interval_low", "interval_high")
    for got, expected in zip(read, written, strict=True):
        assert {**got, **dict.fromkeys(numbers)} == {**expected, **dict.fromkeys(numbers)}
        for name in numbers:
            same = got[name] == expected[name]  # both empty
            assert same or got[name] == pytest.approx(expected[name], rel=1e-5)
    assert {row["run"] for row in read} == {"", "1", "2", "mean"}
    assert len(tabular.read_rows(outputs["layers"])) == (2 + 2) + 4 * (2 + 3 * 7)
