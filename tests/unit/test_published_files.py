"""Published files are read for what they are: step 0 is a step, null is a censored layer, faults are named.

Golden tests read the authors' files where they are; the same arithmetic is tested on small files made here.
"""

import json
from pathlib import Path

import pytest

from strataprobe import tables
from strataprobe.errors import StrataprobeError
from strataprobe.files import canonical_json
from strataprobe.published import paper_tables, read_numbers
from strataprobe.published.curves import read_curves
from strataprobe.published.files import read_directory

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT.parent / "shared/reference/deepsteer"
golden = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference's files (deepsteer) are not here")


def info(layers: int, step: int | None) -> dict:
    return {"name": "lab/Tiny-LM", "provider": "huggingface", "n_layers": layers, "checkpoint_step": step}


def probe_file(step: int | None = 0, accuracy: tuple = (0.5, 0.75, 1.0)) -> dict:
    scores = [{"layer": place, "accuracy": value, "loss": 0.5} for place, value in enumerate(accuracy)]
    return {
        "benchmark_name": "layer_wise_moral_probe",
        "model_info": info(len(accuracy), step),
        "metadata": {"onset_threshold": 0.6, "train_pairs": 8, "test_pairs": 2},
        "layer_scores": scores,
        **({} if step is None else {"checkpoint_step": step}),
    }


def fragility_file(step: int | None = 0) -> dict:
    """Layer 0 below the threshold at once, 1 crosses at 3, 2 never falls below it."""
    layers = [
        (0.5, [0.55, 0.50, 0.50], 1.0),
        (0.9, [0.80, 0.55, 0.50], 3.0),
        (0.9, [0.90, 0.80, 0.60], None),
    ]
    scores = [
        {
            "layer": place,
            "baseline_accuracy": clean,
            "accuracy_by_noise": dict(zip(("1.0", "3.0", "10.0"), curve, strict=True)),
            "critical_noise": critical,
        }
        for place, (clean, curve, critical) in enumerate(layers)
    ]
    return {
        "benchmark_name": "moral_fragility_test",
        "model_info": info(3, step),
        "metadata": {"fragility_threshold": 0.6, "train_pairs": 8, "test_pairs": 2},
        "layer_scores": scores,
        "noise_levels": [1.0, 3.0, 10.0],
        "mean_critical_noise": 2.0,
    }


def foundation_file(step: int = 0) -> dict:
    scores = [
        {"foundation": name, "layer": layer, "accuracy": value, "loss": 0.5, "n_pairs": 4}
        for name, values in (("care_harm", (0.5, 0.75)), ("authority", (1.0, 0.5)))
        for layer, value in enumerate(values)
    ]
    return {"benchmark_name": "foundation_specific_probe", "model_info": info(2, step),
            "foundation_layer_scores": scores}  # fmt: skip


def tracing_file(step: int = 0) -> dict:
    prompts = [
        {"prompt": "A secret sentence.", "layer_effects": [
            {"layer": layer, "indirect_effect": effect} for layer, effect in enumerate(effects)]}
        for effects in ((1.0, 2.0), (0.0, 4.0))
    ]  # fmt: skip
    return {"benchmark_name": "moral_causal_tracer", "model_info": info(2, step), "prompt_results": prompts}


def lora_file() -> dict:
    snapshots = [
        {
            "step": step,
            "probing": {"layer_accuracies": [0.5, 0.75]},
            "fragility": {"layer_critical_noise": [3.0, None], "mean_critical_noise": 3.0},
        }
        for step in (0, 100)
    ]
    return {
        "benchmark_name": "lora_experiment", "model_info": info(2, 1000), "corpus_name": "declarative",
        "corpus_tokens": 10, "base_step": 1000, "probe_snapshots": snapshots,
        "training_steps": [{"step": 1, "loss": 5.5, "lr": 0.1}, {"step": 2, "loss": 1.0, "lr": 0.1}],
    }  # fmt: skip


def put(root: Path, **files: dict) -> Path:
    """Write files into `root`; a double underscore in a name is a folder."""
    for name, obj in files.items():
        path = root / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(obj))
    return root


def test_files_become_the_summaries_that_our_tables_take(tmp_path) -> None:
    put(
        tmp_path, step0__any_name=probe_file(0), step0__b=fragility_file(0),
        step1000__a=probe_file(1000), step1000__b=fragility_file(1000),
    )  # fmt: skip
    found = read_directory(tmp_path, dataset="moral", seed=42)
    rows = tables.probing_rows(found.probing)
    assert [(row["model"], row["revision"], row["step"], row["seed"]) for row in rows[::3]] == [
        ("tiny-lm", "step0", 0, 42),
        ("tiny-lm", "step1000", 1000, 42),
    ]
    assert [row["accuracy"] for row in rows[:3]] == [0.5, 0.75, 1.0]
    assert (rows[0]["conventions"], rows[0]["pooling"], rows[0]["auc"]) == ("published", "mean", None)
    assert (rows[0]["train_pairs"], rows[0]["test_pairs"]) == (8, 2)
    fragile = tables.fragility_rows(found.fragility)
    assert [(row["critical_noise"], row["state"], row["band"]) for row in fragile[:3]] == [
        (1.0, "below_threshold", "early"),
        (3.0, "value", "mid"),
        (None, "censored", "late"),
    ]
    assert {(row["control"], row["statistic"]) for row in fragile} == {("raw", "grid_sampled")}
    trajectory = tables.trajectory_rows(found.probing, found.fragility)
    tables.write_csv(tmp_path / "t.csv", trajectory, tables.COLUMNS["trajectory"])
    means = {
        (row["step"], row["means"]): row["value"]
        for row in trajectory
        if row["quantity"] == "mean_critical_noise" and row["band"] == "all" and row["seed"] == 42
    }
    assert means == {(step, kind): value for step in (0, 1000)
                     for kind, value in (("dropped", 2.0), ("capped", 14 / 3))}  # fmt: skip
    assert found.fragility[0]["stated_mean_is"] == "dropped"
    assert found.probing[0]["onset_layer"] == 1
    assert found.probing[0]["mean_accuracy"] == 0.75
    canonical_json(found.probing + found.fragility)  # nothing that JSON has no word for


def test_a_seed_nobody_told_is_unknown_not_invented(tmp_path) -> None:
    found = read_directory(put(tmp_path, a=probe_file()), dataset="moral", model="mine")
    assert (found.probing[0]["seed"], found.probing[0]["model"]) == ("unknown", "mine")
    assert {row["seed"] for row in tables.trajectory_rows(found.probing, [])} == {"unknown", "mean"}


@pytest.mark.parametrize("folder", ["step1000", "stage1-step1000-tokens3B", "1000", "Step_01000"])
def test_the_folder_says_the_step_where_the_file_does_not(tmp_path, folder) -> None:
    found = read_directory(put(tmp_path, **{f"{folder}__x": probe_file(None)}), dataset="moral")
    assert (found.probing[0]["step"], found.probing[0]["revision"]) == (1000, folder)


def test_step_0_is_a_step_in_file_and_folder(tmp_path) -> None:
    stated = read_directory(put(tmp_path / "a", first__x=probe_file(0)), dataset="moral")
    named = read_directory(put(tmp_path / "b", step0__x=probe_file(None)), dataset="moral")
    assert (stated.probing[0]["step"], named.probing[0]["step"]) == (0, 0)


def test_foundations_are_summed_up_again_and_prompts_are_not_kept(tmp_path) -> None:
    found = read_directory(put(tmp_path, a=foundation_file(), b=tracing_file()), dataset="moral")
    groups = found.foundations[0]["groups"]
    assert (groups["authority"]["peak_accuracy"], groups["authority"]["peak_layer"]) == (1.0, 0)
    assert (groups["care_harm"]["onset_layer"], groups["care_harm"]["train_pairs"]) == (1, 4)
    traced = found.tracing[0]
    assert [row["mean_indirect_effect"] for row in traced["layer_scores"]] == [0.5, 3.0]
    assert (traced["peak_causal_layer"], traced["peak_mean_indirect_effect"], traced["prompts"]) == (
        1,
        3.0,
        2,
    )
    assert "secret" not in canonical_json(traced)


def test_lora_snapshots_are_checkpoints_of_a_model_of_their_own(tmp_path) -> None:
    found = read_directory(put(tmp_path, x=lora_file()), dataset="moral", model="tiny")
    assert [(row["model"], row["revision"], row["step"]) for row in found.probing] == [
        ("tiny-lora-declarative", "step0000", 0),
        ("tiny-lora-declarative", "step0100", 100),
    ]
    last = found.fragility[1]
    assert last["means"]["raw"]["grid_sampled"]["all"] == {
        "capped": 6.5, "dropped": 3.0, "layers": 2, "counted": 1,
    }  # fmt: skip
    assert [score["baseline_accuracy"] for score in last["layer_scores"]] == [None, None]
    assert found.training[0]["loss"] == [[1, 5.5], [2, 1.0]]
    tables.fragility_rows(found.fragility)


def test_a_file_of_many_checkpoints_gives_one_summary_each(tmp_path) -> None:
    whole = {
        "model": "lab/Tiny-LM",
        "per_checkpoint": {
            str(step): {"step": step, "revision": f"r{step}", "probe": probe_file(step),
                        "fragility": fragility_file(step)}
            for step in (1000, 0)
        },
    }  # fmt: skip
    found = read_directory(put(tmp_path, x=whole), dataset="compositional", seed=42)
    assert [(row["model"], row["revision"], row["step"]) for row in found.fragility] == [
        ("tiny-lm", "r0", 0),
        ("tiny-lm", "r1000", 1000),
    ]
    assert found.probing[1]["mean_accuracy"] == 0.75


@pytest.mark.parametrize(
    ("stated", "said"), [(2.0, "dropped"), (14 / 3, "capped"), (5.0, "neither"), (None, "none stated")]
)
def test_the_mean_that_a_file_states_is_named_and_never_believed(tmp_path, stated, said) -> None:
    file = fragility_file() | {"mean_critical_noise": stated}
    (found,) = read_directory(put(tmp_path, x=file), dataset="moral").fragility
    assert (found["stated_mean_is"], found["mean_critical_noise"]) == (said, 2.0)


def test_faults_of_a_lora_file_and_of_a_tracer_name_the_entry(tmp_path) -> None:
    tuned, traced = lora_file(), tracing_file()
    tuned["probe_snapshots"][1]["fragility"]["layer_critical_noise"] = [7.0, None, 3.0]
    del tuned["probe_snapshots"][0]["step"]
    traced["prompt_results"][1]["layer_effects"][0]["indirect_effect"] = "large"
    traced["prompt_results"].append({"layer_effects": [{"layer": 0, "indirect_effect": 1.0}]})
    with pytest.raises(StrataprobeError) as caught:
        read_directory(put(tmp_path, tuned=tuned, traced=traced), dataset="moral")
    said = str(caught.value)
    for part in (
        "field 'probe_snapshots[1].fragility.layer_critical_noise[0]' is 7.0, which is no noise level",
        "field 'probe_snapshots[1]' has 2 layer_accuracies, but 3 layer_critical_noise",
        "field 'probe_snapshots[0].step' is missing",
        "field 'prompt_results[1].layer_effects[0].indirect_effect' is 'large', not a finite number",
        "field 'prompt_results' has prompts with different numbers of layers",
    ):
        assert part in said, part


def test_all_faults_of_all_files_are_listed_with_file_and_field(tmp_path) -> None:
    holed = probe_file(1000)
    del holed["layer_scores"][1]["accuracy"]
    holed["layer_scores"][2]["accuracy"] = 1.5
    wrong = fragility_file(2000)
    wrong["layer_scores"][0]["critical_noise"] = None  # though it is below the threshold on the grid
    del wrong["layer_scores"][1]["accuracy_by_noise"]["3.0"]
    del wrong["layer_scores"][2]["critical_noise"]
    short = probe_file(3000)
    short["layer_scores"].pop()
    put(
        tmp_path, step1000__holed=holed, step2000__wrong=wrong, step3000__short=short,
        step5__other=probe_file(4000), nameless__x=probe_file(None),
        step6__nothing={"benchmark_name": "moral_fragility_test", "model_info": info(3, 6)},
    )  # fmt: skip
    (tmp_path / "step1000/torn.json").write_text('{"benchmark_name": ')
    with pytest.raises(StrataprobeError) as caught:
        read_directory(tmp_path, dataset="moral")
    said = str(caught.value)
    for part in (
        "step1000/holed.json: field 'layer_scores[1].accuracy' is missing",
        "field 'layer_scores[2].accuracy' is 1.5, not in [0, 1]",
        "step2000/wrong.json: field 'layer_scores[0].critical_noise' is null, but the first level",
        "field 'layer_scores[1].accuracy_by_noise' has other levels",
        "field 'layer_scores[2].critical_noise' is missing (a censored layer has it as null)",
        "step3000/short.json: field 'layer_scores' has 2 layers, but model_info.n_layers is 3",
        "step5/other.json: the file has several steps: checkpoint_step says 4000",
        "nameless/x.json: the file has no step",
        "step6/nothing.json: field 'noise_levels' is missing",
        "step6/nothing.json: field 'layer_scores' is missing",
        "torn.json is not readable JSON",
    ):
        assert part in said, part


def test_two_files_of_one_checkpoint_are_refused_and_strangers_are_left_alone(tmp_path) -> None:
    put(tmp_path, step1__a=probe_file(1), notes={"hello": 1}, timing={"curves": {}})
    assert read_directory(tmp_path, dataset="moral").skipped == ["notes.json", "timing.json"]
    put(tmp_path, step1__b=probe_file(1))
    with pytest.raises(
        StrataprobeError, match=r"step1/b.json: probing of tiny-lm at step 1 stands in step1/a.json"
    ):
        read_directory(tmp_path, dataset="moral")


def test_a_folder_without_results_says_what_it_looked_for(tmp_path) -> None:
    with pytest.raises(StrataprobeError, match="holds no result file; known are foundation_specific_probe"):
        read_directory(tmp_path, dataset="moral")
    with pytest.raises(StrataprobeError, match="is not a folder"):
        read_directory(tmp_path / "none", dataset="moral")


def test_a_fragility_file_of_censored_layers_alone_has_a_capped_mean_only(tmp_path) -> None:
    whole = fragility_file()
    whole["layer_scores"] = [dict(whole["layer_scores"][2], layer=layer) for layer in range(3)]
    whole["mean_critical_noise"] = None
    found = read_directory(put(tmp_path, x=whole), dataset="moral").fragility[0]
    assert found["means"]["raw"]["grid_sampled"]["all"] == {
        "capped": 10.0, "dropped": None, "layers": 3, "counted": 0,
    }  # fmt: skip
    assert found["mean_critical_noise"] is None
    assert found["stated_mean_is"] == "none stated"


def test_tables_2_and_3_show_both_means_and_the_scaled_value_beside_the_published(tmp_path) -> None:
    numbers = read_numbers(ROOT / "resources/published")
    put(tmp_path, step0__a=probe_file(0), step0__b=fragility_file(0))
    found = read_directory(tmp_path, dataset="moral", seed=42)
    trajectory = tables.trajectory_rows(found.probing, found.fragility)
    rows = paper_tables.table2(trajectory, numbers)
    assert {tuple(row) for row in rows} == {paper_tables.COLUMNS}
    by = {(row["quantity"], row["group"], row["means"]): row for row in rows}
    assert (by["mean_accuracy", "", ""]["value"], by["mean_accuracy", "", ""]["published"]) == (0.75, 0.59)
    dropped = by["mean_critical_noise", "", "dropped"]
    assert (dropped["value"], dropped["published"], dropped["published_status"]) == (2.0, 0.77, "ok")
    assert by["mean_critical_noise", "", "capped"]["published"] is None
    assert by["mean_critical_noise", "early", "capped"]["published"] == 1.6
    assert by["mean_critical_noise", "late", "dropped"]["value"] is None
    (row,) = paper_tables.table3(trajectory, numbers)
    assert (row["value"], row["spread"], row["n"], row["published"]) == (2.0, None, 1, None)
    assert paper_tables.table3(trajectory, numbers, steps=[7]) == []


def test_curves_of_the_authors_summaries_are_read_by_dataset_and_by_seed(tmp_path) -> None:
    timing = {"curves": {"moral": {"steps": [0, 1000], "mean_accuracies": [0.5, 0.76]}}}
    replicated = {
        "per_checkpoint": {
            "0": {"step": 0, "seeds": [42, 43], "mean_critical_noise": {"mean": 0.1, "values": [0.1, None]}}
        }
    }
    put(tmp_path, timing=timing, replicated=replicated, other={"x": 1})
    assert read_curves(tmp_path / "timing.json") == {
        "mean_accuracy": {"moral": {"unknown": [(0, 0.5), (1000, 0.76)]}}
    }
    assert read_curves(tmp_path / "replicated.json", dataset="compositional") == {
        "mean_critical_noise": {"compositional": {42: [(0, 0.1)], 43: [(0, None)]}}
    }
    with pytest.raises(StrataprobeError, match="has no curves"):
        read_curves(tmp_path / "other.json")
    timing["curves"]["moral"]["steps"].pop()
    replicated["per_checkpoint"]["0"]["seeds"].pop()
    put(tmp_path, timing=timing, replicated=replicated)
    with pytest.raises(StrataprobeError, match="has 1 entries, but mean_accuracies has 2"):
        read_curves(tmp_path / "timing.json")
    with pytest.raises(StrataprobeError, match="has 2 values for 1 seeds"):
        read_curves(tmp_path / "replicated.json")


# Golden: the authors' own files


@golden
def test_golden_both_means_at_all_37_steps() -> None:
    found = read_directory(REFERENCE / "olmo2-1b-early", dataset="moral", seed=42)
    assert [len(part) for part in (found.probing, found.fragility, found.foundations)] == [37, 37, 37]
    assert [summary["step"] for summary in found.fragility] == list(range(0, 37000, 1000))
    for summary in found.fragility:
        path = REFERENCE / "olmo2-1b-early" / summary["provenance"]["file"]
        raw = json.loads(path.read_text())
        given = [score["critical_noise"] for score in raw["layer_scores"]]
        kept = [value for value in given if value is not None]
        both = summary["means"]["raw"]["grid_sampled"]["all"]
        assert both["dropped"] == pytest.approx(raw["mean_critical_noise"], abs=1e-9)
        assert both["dropped"] == pytest.approx(sum(kept) / len(kept), abs=1e-9)
        assert both["capped"] == pytest.approx((sum(kept) + 10 * (16 - len(kept))) / 16, abs=1e-9)
        assert summary["stated_mean_is"] in ("dropped", "both")
    last = found.fragility[36]["means"]["raw"]["grid_sampled"]["all"]
    assert (round(last["dropped"], 3), last["capped"]) == (5.267, 5.5625)
    first = [score["critical_noise_state"] for score in found.fragility[0]["layer_scores"]]
    assert first.count("below_threshold") == 15
    for summary in found.probing:
        raw = json.loads((REFERENCE / "olmo2-1b-early" / summary["provenance"]["file"]).read_text())
        for name in ("onset_layer", "peak_layer", "peak_accuracy", "moral_encoding_breadth"):
            assert summary[name] == pytest.approx(raw[name])


@golden
def test_golden_every_other_folder_reads_and_says_what_its_files_say() -> None:
    early = read_directory(REFERENCE / "olmo2-1b-early", dataset="moral", seed=42)
    for summary in early.foundations[::12]:
        raw = json.loads((REFERENCE / "olmo2-1b-early" / summary["provenance"]["file"]).read_text())
        assert {n: g["peak_accuracy"] for n, g in summary["groups"].items()} == {
            name: group["peak_accuracy"] for name, group in raw["per_foundation_summary"].items()
        }
    large = read_directory(REFERENCE / "olmo3-7b", dataset="moral")
    assert (len(large.fragility), len(large.tracing)) == (5, 3)
    for summary in large.tracing:
        raw = json.loads((REFERENCE / "olmo3-7b" / summary["provenance"]["file"]).read_text())
        assert summary["peak_causal_layer"] == raw["peak_causal_layer"]
        assert summary["peak_mean_indirect_effect"] == pytest.approx(raw["peak_mean_indirect_effect"])
    tuned = read_directory(REFERENCE / "lora", dataset="moral", seed=42)
    assert (len(tuned.probing), len(tuned.fragility), len(tuned.training)) == (33, 33, 3)
    assert {one["condition"] for one in tuned.training} == {
        "declarative_moral", "general_control", "narrative_moral",
    }  # fmt: skip
    assert all(len(one["loss"]) == 1000 for one in tuned.training)
    assert {summary["stated_mean_is"] for summary in tuned.fragility} <= {"dropped", "both"}
