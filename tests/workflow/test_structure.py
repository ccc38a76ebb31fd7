"""What a probe rests on, from datasets to figures: gates, floors, transfer, single groups, controls."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from strataprobe import cache
from tests.workflow.structure import (
    ALL_FIGURES,
    GROUPS,
    PAIRS,
    READ,
    READ_TABLES,
    SEED_OF,
    STEPS,
    flooring,
    on_care,
    structure_config,
    transferring,
    worded,
)
from tests.workflow.study import (
    NOTHING,
    capturing,
    checking,
    drawing,
    identifying,
    job,
    joining,
    measuring,
    tabulating,
    write_pairs,
)
from tests.workflow.trees import Run, Tree, built_once, differing, errors, half_files


def build(place: Path) -> None:
    from tests.tiny_models import save_tiny_model

    tree = Tree.new(place)
    for dataset, groups in GROUPS.items():
        write_pairs(tree / f"data/{dataset}.jsonl", worded(groups))
    write_pairs(tree / "data/again.jsonl", worded(GROUPS["care"], again=True))
    (tree / "data/keywords.txt").write_text("rescued\nkicked\n")
    for seed, step in enumerate(STEPS):
        save_tiny_model("llama", tree / f"weights/tiny/{step}", seed=seed, max_positions=64)
    (tree / "config.yaml").write_text(yaml.safe_dump(structure_config(), sort_keys=False))
    run = tree.run()
    (place.parent / "structure.json").write_text(json.dumps(vars(run)))


@pytest.fixture(scope="session")
def whole(shared) -> Tree:
    """The finished study: nobody changes it."""
    return Tree(built_once(shared / "structure" / "study", build))


@pytest.fixture
def mine(whole, tmp_path) -> Tree:
    """A copy of it, to do anything with."""
    return whole.copy(tmp_path / "study")


def read_in(tree: Tree, place: str) -> dict[str, Any]:
    return json.loads((tree / f"results/{place}").read_text())


def rows_of(tree: Tree, table: str) -> Iterator[dict[str, str]]:
    with (tree / f"results/tables/{table}.csv").open(newline="") as handle:
        yield from csv.DictReader(handle)


# what is done


def test_a_study_is_exactly_what_its_datasets_ask_for(whole):
    run = Run(**read_noted(whole))
    probes = [measuring(revisions=STEPS, datasets=[name], seeds=[seed]) for name, seed in SEED_OF.items()]
    assert run.done == set().union(
        identifying(STEPS),
        capturing(STEPS, ["core", "truth"]),
        checking(["care", "truth", "again"]),
        flooring(["care", "truth"]),
        transferring(["care", "truth"]),
        on_care("foundations", "controls"),
        *probes,
        tabulating(["care", "truth"], of=["probes", "onsets", "fragility", "transfer"]),
        tabulating(["care"], of=["foundations", "controls"]),
        joining([*READ_TABLES, "foundations", "controls"]),
        drawing(ALL_FIGURES),
    )
    assert half_files(whole) == []
    assert sorted({path.name for path in whole.path.glob("results/*/tiny/*/*")}) == [
        "again.h5", "care", "care.h5", "truth", "truth.h5",
    ], "a dataset that tests another was probed itself"  # fmt: skip
    for figure in ALL_FIGURES:
        assert (whole / f"results/figures/{figure}.svg").stat().st_size > 1000


def read_noted(tree: Tree) -> dict[str, Any]:
    return json.loads((tree.path.parent / "structure.json").read_text())


def test_a_finished_study_does_nothing(mine, whole):
    assert mine.run().done == NOTHING
    assert differing(mine.results(), whole.results()) == []


# what the files hold


def test_a_gate_that_does_not_hold_is_reported_and_is_no_error(whole):
    report = read_in(whole, "datasets/truth/gates.json")
    gate = next(gate for gate in report["gates"] if gate["name"] == "words_at_least")
    # "At noon the clerk stole the red coat." has 8 words, "The lawyer fooled an old man in town." too.
    assert (gate["threshold"], gate["value"], gate["passed"]) == (7, 8, True)
    assert read_in(whole, "datasets/again/gates.json")["profile"] == "paraphrase"
    table = list(rows_of(whole, "gates"))
    reports = [read_in(whole, f"datasets/{name}/gates.json") for name in ("care", "truth", "again")]
    assert len(table) == sum(len(report["gates"]) for report in reports)
    failed = [(row["dataset"], row["gate"]) for row in table if row["passed"] == "no"]
    assert ("care", "opening_uses_at_most") in failed, "ten pairs of a group begin alike, and nobody minds"
    assert {row["dataset"] for row in table if row["passed"] == "yes"} == {"care", "truth", "again"}


def test_transfer_stands_beside_the_floor_of_its_dataset(whole):
    for dataset, groups in GROUPS.items():
        floors = read_in(whole, f"datasets/{dataset}/floors.json")
        for step in STEPS:
            found = read_in(whole, f"transfer/tiny/{step}/{dataset}/summary.json")
            assert found["floors"]["transfer"] == floors["transfer"]["unigrams"]
            assert set(found["floors"]["whole"]) == {"tokens", "embedding"}
            assert found["pairs"] == dict.fromkeys(groups, PAIRS)
            for group in groups:
                lift, inside = found["lift"]["groups"][group], found["within_group"][group]
                floor = floors["groups"][group]["unigrams"]["floor"]
                assert lift["best"]["lift"] == pytest.approx(inside["best"] - floor)
    care = read_in(whole, "transfer/tiny/step0100/care/summary.json")
    assert list(care["lift"]["singled_out"]) == ["harm"]


def test_the_floor_of_transfer_is_the_same_in_both_tables(whole):
    of_datasets = {
        (row["dataset"], row["group"]): float(row["accuracy"])
        for row in rows_of(whole, "floors")
        if (row["scheme"], row["kind"]) == ("transfer", "unigrams")
    }
    of_transfer = {
        (row["dataset"], row["group"]): float(row["value"])
        for row in rows_of(whole, "transfer")
        if row["quantity"] == "transfer_floor"
    }
    assert len(of_transfer) == 2 * 3
    assert of_transfer == of_datasets


def test_transfer_to_a_group_is_what_scikit_learn_finds_on_the_same_cache(whole):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    found = read_in(whole, "transfer/tiny/step0100/care/summary.json")
    with cache.open_activations(whole / "results/activations/tiny/step0100/care.h5") as acts:
        states, labels, groups = acts.stack("mean_rest"), acts.labels, np.array(acts.groups)
    for group, by_layer in found["transfer"]["by_layer"].items():
        held = groups == group
        assert len(by_layer) == 2, "what enters the first block is a floor and no layer"
        for layer, accuracy in enumerate(by_layer):
            probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
            probe.fit(states[layer][~held], labels[~held])
            assert accuracy == pytest.approx(probe.score(states[layer][held], labels[held]))


def test_groups_by_themselves_have_their_own_pairs_and_their_chance(whole):
    for step in STEPS:
        found = read_in(whole, f"foundations/tiny/{step}/care/seed42/summary.json")
        assert set(found["per_foundation_summary"]) == set(GROUPS["care"])
        assert {score["n_pairs"] for score in found["foundation_layer_scores"]} == {8}
        for chance in found["chance_peak"].values():
            assert chance["permutation"]["permutations"] == 10
            assert chance["test_items"] == 4


def test_controls_are_of_the_study_s_probe_and_try_it_on_the_other_dataset(whole):
    for step in STEPS:
        probes = read_in(whole, f"probes/tiny/{step}/care/seed42/summary.json")
        found = read_in(whole, f"controls/tiny/{step}/care/seed42/summary.json")
        accuracy = [score["accuracy"] for score in probes["layer_scores"]]
        assert [layer["accuracy"] for layer in found["layers"]] == pytest.approx(accuracy)
        assert list(found["validity"]) == ["again"]
        tried = found["validity"]["again"]["layers"]
        assert [layer["original"] for layer in tried] == pytest.approx(accuracy)
        assert found["lexeme_split"]["refused"] is None
    rows = list(rows_of(whole, "controls"))
    own = {row["quantity"] for row in rows if row["tested_on"] == ""}
    assert {"accuracy", "selectivity", "q", "codelength_bits"} <= own
    elsewhere = {(row["tested_on"], row["quantity"]) for row in rows if row["tested_on"] != ""}
    of_again = {("again", quantity) for quantity in ("accuracy", "difference", "agreement")}
    assert elsewhere == {("lexeme_split", "accuracy"), *of_again}


def test_onsets_are_by_the_dataset_s_own_seeds_and_of_their_mean(whole):
    found = {(row["dataset"], row["seed"]) for row in rows_of(whole, "onsets")}
    assert found == {("care", "42"), ("care", "mean"), ("truth", "43"), ("truth", "mean")}


# what a change makes


def test_a_new_dataset_adds_its_own_files_and_what_lists_all_datasets(mine):
    write_pairs(mine / "data/size.jsonl", worded(["large", "theft"]))
    with mine.changed_config() as config:
        config["datasets"]["size"] = {"path": "data/size.jsonl", "measures": list(READ)}
    assert mine.plan() == (
        capturing(STEPS, ["size"])
        | checking(["size"])
        | flooring(["size"])
        | measuring(revisions=STEPS, datasets=["size"], seeds=[42])
        | transferring(["size"])
        | tabulating(["size"], of=["probes", "onsets", "fragility", "transfer"])
        | joining(READ_TABLES)
        | drawing(["floors", "gates"])
    )


def test_a_new_dataset_that_tests_another_measures_the_controls_of_that_one_again(mine):
    write_pairs(mine / "data/hard.jsonl", worded(["lies", "theft"]))
    with mine.changed_config() as config:
        config["datasets"]["hard"] = {"path": "data/hard.jsonl", "tests": "care"}
    new = on_care("controls") | tabulating(["care"], of=["controls"]) | joining(["controls"])
    assert mine.run().done == new | capturing(STEPS, ["hard"]) | checking(["hard"]) | drawing(
        ["gates", "controls"]
    )
    found = read_in(mine, "controls/tiny/step0100/care/seed42/summary.json")["validity"]
    assert list(found) == ["again", "hard"]
    assert list(found["hard"]["groups"]) == ["lies", "theft"], "paraphrases alone go by id"


def test_another_threshold_makes_the_gate_report_anew_and_nothing_else(mine):
    with mine.changed_config() as config:
        config["datasets"]["truth"]["thresholds"]["words_at_least"] = 9
    assert mine.run().done == checking(["truth"]) | drawing(["gates"])
    (row,) = [row for row in rows_of(mine, "gates") if row["gate"] == "words_at_least"]
    assert (row["dataset"], row["passed"]) == ("truth", "no")
    assert not read_in(mine, "datasets/truth/gates.json")["passed"]


CHANGED_SETTINGS = {
    "controls.permutations": on_care("controls")
    | tabulating(["care"], of=["controls"])
    | joining(["controls"])
    | drawing(["controls"]),
    "foundations.permutations": on_care("foundations")
    | tabulating(["care"], of=["foundations"])
    | joining(["foundations"])
    | drawing(["foundations"]),
    "transfer.bootstrap": transferring(["care", "truth"])
    | tabulating(["care", "truth"], of=["transfer"])
    | joining(["transfer"])
    | drawing(["transfer"]),
}


@pytest.mark.parametrize("place", CHANGED_SETTINGS)
def test_another_setting_of_a_measure_repeats_that_measure_and_no_other(mine, place):
    section, key = place.split(".")
    with mine.changed_config() as config:
        config[section][key] = 12
    assert mine.plan() == CHANGED_SETTINGS[place]


@pytest.mark.parametrize(
    ("module", "changed"),
    [
        ("strataprobe/transfer/lift.py", "transfer.bootstrap"),
        ("strataprobe/controls/tasks.py", "controls.permutations"),
    ],
    ids=["transfer", "controls"],
)
def test_another_module_of_a_measure_repeats_that_measure_and_no_other(mine, module, changed):
    with (mine / "workflow_scripts" / module).open("a") as handle:
        handle.write("\n# another content\n")
    assert mine.plan() == CHANGED_SETTINGS[changed]


def test_a_deleted_result_asked_for_by_name_is_one_job(mine, whole):
    for place, wanted in (
        ("transfer/tiny/step0000/truth/summary.json", transferring(["truth"])),
        ("controls/tiny/step0000/care/seed42/summary.json", on_care("controls")),
    ):
        mine.remove(f"results/{place}")
        (done,) = mine.run(f"results/{place}").done
        assert done in wanted
    assert differing(mine.results(), whole.results()) == []
    assert mine.plan() == NOTHING


# bad input


@pytest.fixture(scope="session")
def bad(shared, whole) -> tuple[Tree, Run]:
    """The study with three more datasets: one group, one pair in a group, and no contrast words."""

    def build_bad(place: Path) -> None:
        tree = whole.copy(place)
        write_pairs(tree / "data/single.jsonl", worded(["lies"]))
        write_pairs(tree / "data/lone.jsonl", worded(["large", "theft"])[: PAIRS + 1])
        write_pairs(tree / "data/bare.jsonl", worded(["help", "harm"], contrast=False))
        with tree.changed_config() as config:
            config["datasets"]["single"] = {"path": "data/single.jsonl", "measures": ["probes", "transfer"]}
            config["datasets"]["lone"] = {"path": "data/lone.jsonl", "measures": ["transfer"]}
            config["datasets"]["bare"] = {"path": "data/bare.jsonl", "measures": ["controls"]}
            config["models"]["tiny"]["revisions"] = [STEPS[1]]
            config["figures"] = {}
        run = tree.run(fails=True)
        (place.parent / "bad.json").write_text(json.dumps(vars(run)))

    place = built_once(shared / "bad_structure" / "study", build_bad)
    return Tree(place), Run(**json.loads((place.parent / "bad.json").read_text()))


def test_bad_datasets_fail_alone_each_with_one_clear_error(bad):
    said = sorted(set(errors(bad[1].output)))
    assert len(said) == 2, said
    lone, single = said
    assert "dataset 'lone'" in lone
    assert "group 'theft' has 1 pair, and 5 folds by pair need at least 5" in lone
    assert "transfer between groups" in single
    assert "there is only the group 'lies'; at least 2 groups are needed" in single
    assert "Traceback" not in bad[1].output
    assert half_files(bad[0]) == []


def test_bad_datasets_do_not_keep_the_rest_from_being_done(bad, whole):
    last, new = [STEPS[1]], ["single", "lone", "bare"]
    of_last = {"rules": ["train_probes"], "revisions": last, "datasets": ["single", "bare"], "seeds": [42]}
    old = tabulating(["care", "truth"], of=["probes", "onsets", "fragility", "transfer"])
    assert bad[1].done == set().union(
        capturing(last, new),
        checking(new),
        {job("measure_floors", dataset=dataset) for dataset in ("single", "lone")},
        measuring(**of_last),
        {job("measure_transfer_tiny", revision=STEPS[1], dataset="single")},
        measuring(["measure_controls"], last, ["bare"], [42]),
        tabulating(["single"], of=["probes", "onsets"]),
        tabulating(["bare", "care"], of=["controls"]),
        tabulating(["care"], of=["foundations"]),
        old,
        joining(["probing", "onsets", "fragility", "trajectory", "scale", "controls", "foundations"]),
    )
    kept = ("probes/**/*", "transfer/**/*", "controls/**/*", "foundations/**/*", "datasets/**/*")
    now, before = bad[0].results(*kept), whole.results(*kept)
    assert [name for name in differing(now, before) if name in before] == []


def test_without_contrast_words_controls_say_what_they_leave_out(bad):
    found = read_in(bad[0], "controls/tiny/step0100/bare/seed42/summary.json")
    reason = "the dataset gives no contrast words (field 'contrast')"
    assert found["control"] == {"refused": reason}
    assert found["lexeme_split"]["refused"] == reason
    assert [layer["selectivity"] for layer in found["layers"]] == [None, None]
    rows = [row for row in rows_of(bad[0], "controls") if row["dataset"] == "bare"]
    assert {row["value"] for row in rows if row["quantity"] == "selectivity"} == {""}
    assert all(row["value"] for row in rows if row["quantity"] == "null_high")
