"""Rows of the three levels say what was measured, and scripts write them where they are asked to."""

import copy
import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tabulate_levels
import tabulate_levels_models
from strataprobe import files, tables
from strataprobe.errors import StrataprobeError
from tests import levels_cases as cases

SETTINGS = {"bootstrap": 30, "conventions": "default", "seed": 3}
NAMES = ("levels", "levels_layers", "levels_models")


def one(rows: list[dict], **equal) -> dict:
    chosen = [row for row in rows if all(row[name] == value for name, value in equal.items())]
    assert len(chosen) == 1, (equal, chosen)
    return chosen[0]


@pytest.fixture(scope="module")
def summaries():
    return [[one] for one in cases.summaries()]


@pytest.fixture(scope="module")
def made(summaries) -> dict[str, list[dict]]:
    both = [
        [*column, other] for column, other in zip(summaries, cases.summaries(1, model="tuned"), strict=True)
    ]
    models = [{"name": "tuned", "base": "made-up", "family": "x"}]
    return {
        "levels": tables.levels_rows(*summaries, SETTINGS),
        "levels_layers": tables.levels_layers_rows(*summaries, SETTINGS),
        "levels_models": tables.levels_models_rows(*both, models, SETTINGS),
    }


@pytest.mark.parametrize("name", NAMES)
def test_rows_have_the_columns_of_their_table_and_are_read_back_the_same(name, made, tmp_path):
    assert {frozenset(row) for row in made[name]} == {frozenset(tables.COLUMNS[name])}
    tables.write_csv(tmp_path / "t.csv", made[name], tables.COLUMNS[name])
    read = tables.read_rows(tmp_path / "t.csv")
    assert len(read) == len(made[name])
    for row, back in zip(made[name], read, strict=True):
        for column, value in row.items():
            if isinstance(value, float):
                assert back[column] == pytest.approx(value, rel=1e-5)
            else:
                assert back[column] == value, column
                assert type(back[column]) is type(value), column


@pytest.mark.parametrize("name", NAMES)
def test_no_row_is_there_twice(name, made):
    numbers = {"value", "interval_low", "interval_high", "n", "clusters", "note", "sd", "depth"}
    which = [column for column in tables.COLUMNS[name] if column not in numbers]
    seen = [tuple(row[column] for column in which) for row in made[name]]
    assert len(set(seen)) == len(seen)


def test_a_value_lies_in_the_range_of_its_replicates_and_says_of_how_many_items_it_is(made):
    row = one(made["levels"], level="behavior", measure="qa", split="en:object_control")
    assert (row["n"], row["clusters"]) == (8, 8)
    row = one(made["levels"], level="behavior", measure="mean_behavior", split="all")
    assert (row["n"], row["clusters"]) == (48, 16)
    assert row["interval_low"] < row["value"] < row["interval_high"]
    row = one(made["levels"], level="behavior", measure="contrastive", split="all")
    assert row["n"] == 47, "one item lacks the prompt"
    row = one(made["levels"], level="behavior", measure="both_right:qa", split="all")
    assert (row["n"], row["clusters"], row["note"]) == (24, 8, "n is pairs")


def test_every_measure_of_the_behavior_summary_has_its_rows(summaries, made):
    behavior = summaries[0][0]
    for name, found in behavior["measures"].items():
        if name in ("d_prime", "criterion", "both_right"):
            for task, by_split in found.items():
                for split, value in by_split.items():
                    row = one(made["levels"], level="behavior", measure=f"{name}:{task}", split=split)
                    assert row["value"] == pytest.approx(value)
            continue
        for split, value in found["accuracy"].items():
            row = one(made["levels"], level="behavior", measure=name, split=split)
            assert row["value"] == pytest.approx(value)
        for order, raw in found.get("orders", {}).items():
            row = one(made["levels"], level="behavior", measure=f"{name}:{order}", split="all")
            assert row["value"] == pytest.approx(raw["accuracy"]["all"])


def test_readout_rows_have_the_best_its_place_and_its_null(summaries, made):
    for name, found in summaries[1][0]["definitions"].items():
        for split, best in found["best"].items():
            row = one(made["levels"], level="readout", measure=name, split=split)
            assert row["value"] == pytest.approx(best["accuracy"])
            row = one(made["levels"], level="readout", measure=f"layer:{name}", split=split)
            assert (row["value"], row["note"]) == (best["layer"], best["task"])
            for what, key in (("null_mean", "mean"), ("null_high", "quantile_95"), ("p", "p")):
                row = one(made["levels"], level="readout", measure=f"{what}:{name}", split=split)
                assert row["value"] == found["null"][split][key]
                assert (row["interval_low"], row["n"]) == (None, None)


def test_recoverability_rows_have_both_codings_every_seed_and_what_selection_is_worth(summaries, made):
    rows = [row for row in made["levels"] if row["level"] == "recoverability"]
    for coding, found in summaries[2][0]["codings"].items():
        pick = found["pick"]
        row = one(rows, measure=coding, split="all")
        assert row["value"] == pytest.approx(pick["global"]["accuracy"])
        assert one(rows, measure=f"sd:{coding}", split="all")["value"] == pytest.approx(pick["global"]["sd"])
        for seed, best in pick["seeds"].items():
            value = one(rows, measure=f"{coding}:seed{seed}", split="all")["value"]
            assert value == pytest.approx(best["splits"]["all"])
            at_mean = one(rows, measure=f"at_mean:{coding}:seed{seed}", split="all")["value"]
            assert at_mean == pytest.approx(pick["global"]["seeds"][seed])
            place = one(rows, measure=f"layer:{coding}:seed{seed}", split="all")
            assert (place["value"], place["note"]) == (best["layer"], best["mode"])
        for scheme, nested in found["nested"].items():
            name = coding if scheme == "item_out" else f"{scheme}:{coding}"
            for split, value in nested["accuracy"].items():
                row = one(rows, measure=f"nested:{name}", split=split)
                assert (row["value"], row["note"]) == (pytest.approx(value), "ridge")
            null = found["null"][scheme]
            assert one(rows, measure=f"p:{name}", split="all")["value"] == null["p"]
            assert one(rows, measure=f"null_high:{name}", split="all")["value"] == null["quantile_95"]


def test_the_clean_window_of_verb_out_is_named_by_its_ends(summaries):
    behavior, readout, recoverability = copy.deepcopy([own[0] for own in summaries])
    found = recoverability["codings"]["paper"]["verb_out"]["clean_window"]
    for modes in found.values():
        modes.update(dict.fromkeys(modes))
    found["subject_control"]["bv"] = {"layers": [2, 3], "blocks": [1, 2], "depth": [0.6, 1.0]}
    rows = tables.levels_rows([behavior], [readout], [recoverability], SETTINGS)
    ends = [one(rows, measure=f"clean_{end}:paper:bv", split="subject_control") for end in ("first", "last")]
    assert [(row["value"], row["note"]) for row in ends] == [(2, "bv"), (3, "bv")]
    windows = [row["measure"] for row in rows if row["measure"].startswith("clean_")]
    assert sum(":paper:" in name for name in windows) == 2


def test_summary_rows_say_what_they_compare(made):
    for measure in ("surplus", "surplus:qa", "surplus:paraphrase", "ratio", "ordering", "erasure"):
        row = one(made["levels"], level="summary", measure=measure, split="zh")
        assert row["note"].endswith("readout default; coding pair_out:decorrelated, mean over seeds"), measure
    probe = one(made["levels"], level="recoverability", measure="at_pick:pair_out:decorrelated", split="zh")[
        "value"
    ]
    behavior = one(made["levels"], level="behavior", measure="mean_behavior", split="zh")["value"]
    surplus = one(made["levels"], level="summary", measure="surplus", split="zh")
    assert surplus["value"] == pytest.approx(probe - behavior)
    splits = {row["split"] for row in made["levels"] if row["measure"] == "deficit"}
    assert splits == {"all", "en", "zh", "de"}


def test_layers_are_hidden_states_as_the_paper_counts_them_and_blocks_as_we_do(summaries, made):
    rows = made["levels_layers"]
    assert {(row["hidden_state"], row["layer"]) for row in rows} == {(0, None), (1, 0), (2, 1), (3, 2)}
    assert {row["depth"] for row in rows} == {0, 1 / 3, 2 / 3, 1}
    for name, found in summaries[1][0]["definitions"].items():
        for task in set(found) & {"qa", "paraphrase", "sentence"}:
            for split in ("all", "de", "object_control"):
                values = [
                    row["value"]
                    for row in rows
                    if (row["level"], row["measure"], row["mode"], row["split"])
                    == ("readout", name, task, split)
                ]
                assert values == pytest.approx(found[task]["accuracy"][split])


def test_layers_of_probes_are_means_over_seeds_with_their_sd(summaries, made):
    rows = [row for row in made["levels_layers"] if row["level"] == "recoverability"]
    for coding, found in summaries[2][0]["codings"].items():
        for name, own in ((coding, found), (f"group_out:{coding}", found["group_out"])):
            for mode, profile in own["modes"].items():
                chosen = [
                    row for row in rows if (row["measure"], row["mode"], row["split"]) == (name, mode, "all")
                ]
                assert [row["value"] for row in chosen] == pytest.approx(profile["accuracy"]["all"])
                assert [row["sd"] for row in chosen] == pytest.approx(profile["sd"])


def test_verb_out_rows_have_gap_verdict_and_the_sd_of_their_type(summaries, made):
    found = summaries[2][0]["codings"]["paper"]
    for mode, table in found["verb_out"]["modes"].items():
        for kind, own in table["types"].items():
            for layer in range(cases.BLOCKS + 1):
                at = {"mode": mode, "split": kind, "hidden_state": layer}
                item_out = one(made["levels_layers"], measure="paper", **at)
                verb_out = one(made["levels_layers"], measure="verb_out:paper", **at)
                gap = one(made["levels_layers"], measure="gap:paper", **at)
                assert item_out["sd"] == pytest.approx(own["item_out_sd"][layer])
                assert verb_out["sd"] == pytest.approx(own["verb_out_sd"][layer])
                assert gap["value"] == pytest.approx(item_out["value"] - verb_out["value"])
                assert gap["note"] == own["verdict"][layer]


def test_critical_noise_is_the_mean_of_the_seeds_that_have_one(summaries):
    behavior, readout, recoverability = copy.deepcopy([own[0] for own in summaries])
    units = recoverability["codings"]["paper"]["critical_noise"]["item_out"]["ab"]
    for unit, factor in (("raw", 10.0), ("rms", 1.0)):
        units[unit] = {
            "1729": [None, factor, None, 1],
            "2718": [None, 3 * factor, 2, 1],
            "3141": [None, 5 * factor, 4, 1],
        }
    rows = tables.levels_layers_rows([behavior], [readout], [recoverability], SETTINGS)
    own = [row for row in rows if row["measure"] == "critical_noise_rms:paper" and row["mode"] == "ab"]
    assert [row["value"] for row in own] == [None, 3, 3, 1]
    assert [row["sd"] for row in own] == [None, 2, pytest.approx(2**0.5), 0]
    assert [row["note"] for row in own] == ["0 of 3 seeds", "", "2 of 3 seeds", ""]
    raw = [row for row in rows if row["measure"] == "critical_noise:paper" and row["mode"] == "ab"]
    assert raw[1]["value"] == 30


def test_a_checkpoint_that_is_there_twice_or_lacks_a_level_is_refused(summaries):
    with pytest.raises(StrataprobeError, match="there twice: model made-up, revision step0"):
        tables.levels_rows(*(column * 2 for column in summaries), SETTINGS)
    with pytest.raises(
        StrataprobeError, match="1 summaries of behaviour, 0 of readout and 1 of recoverability"
    ):
        tables.levels_rows(summaries[0], [], summaries[2], SETTINGS)


def test_the_scripts_write_the_tables_of_all_checkpoints(tmp_path):
    steps, levels = (0, 5), ("behavior", "readout", "recoverability")
    paths = {level: [] for level in levels}
    for step in steps:
        for level, summary in zip(levels, cases.summaries(step, step=step), strict=True):
            paths[level].append(tmp_path / f"{level}{step}.json")
            files.write_json(paths[level][-1], summary)
    out = [tmp_path / f"{name}.csv" for name in NAMES]
    tabulate_levels.main(*paths.values(), *out[:2], settings=SETTINGS)
    tabulate_levels_models.main(*paths.values(), out[2], models=[{"name": "made-up"}], settings=SETTINGS)
    for path, name in zip(out, NAMES, strict=True):
        with path.open(newline="") as handle:
            assert tuple(next(csv.reader(handle))) == tables.COLUMNS[name]
    for path in out[:2]:
        assert {row["step"] for row in tables.read_rows(path)} == set(steps)
    assert {row["dataset"] for row in tables.read_rows(out[2])} == {"control"}
    again = tmp_path / "again.csv"
    tabulate_levels.main(*paths.values(), again, tmp_path / "x.csv", settings=SETTINGS)
    assert again.read_bytes() == out[0].read_bytes()
    assert np.isfinite([row["value"] for row in tables.read_rows(again) if row["value"] is not None]).all()


def test_a_small_job_loads_no_large_library():
    said = "import sys, tabulate_levels, strataprobe.levels; print(*sys.modules)"
    place = Path(tabulate_levels.__file__).parent
    run = subprocess.run([sys.executable, "-c", said], cwd=place, capture_output=True, text=True, check=True)
    assert not {"torch", "sklearn", "scipy.stats", "pandas", "h5py"} & set(run.stdout.split())
