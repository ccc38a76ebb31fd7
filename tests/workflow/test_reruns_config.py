"""What a change in the config, or in a dataset, makes Snakemake do.

To have something to compare with, the finished study is cut back to what it was before the change, brought
to rest, and then changed: it must come out as the one that never was anything else.
"""

import csv
import json

from tests.workflow.study import (
    FIGURES,
    NOTHING,
    REVISIONS,
    SEEDS,
    capturing,
    checking,
    drawing,
    identifying,
    job,
    joining,
    measuring,
    tabulating,
)
from tests.workflow.trees import differing, half_files


def test_a_new_seed_adds_its_own_files_to_the_same_caches(study, finished):
    with study.changed_config() as config:
        config["seeds"] = [42]
    study.remove("results/probes/*/*/*/seed43", "results/fragility/*/*/*/seed43")
    redrawn = drawing([figure for figure in FIGURES if figure != "noise_curves"])
    assert study.run().done == tabulating() | joining() | redrawn
    with study.changed_config() as config:
        config["seeds"] = list(SEEDS)
    assert study.run().done == measuring(seeds=[43]) | tabulating() | joining() | redrawn
    assert differing(study.results(), finished.results()) == []


def test_a_new_dataset_makes_its_own_files_and_no_other_capture(study, finished):
    with study.changed_config() as config:
        figure, dataset = config["figures"].pop("scale"), config["datasets"].pop("size")
        config["models"]["tiny"]["revisions"] = ["step0200"]
    study.remove("results/*/tiny/step0000", "results/*/tiny/step0100", "results/*/tiny/*/size*")
    study.remove("results/tables/parts/*/tiny/size.csv", "results/figures/scale.*", "results/datasets/size")
    before = study.run().done
    assert before == checking([]) | tabulating(["care", "truth"]) | joining() | drawing(
        ["saturation", "depth", "layer_profile"]
    )
    with study.changed_config() as config:
        config["figures"]["scale"], config["datasets"]["size"] = figure, dataset
    assert study.run().done == (
        checking(["size"])
        | capturing(["step0200"], ["size"])
        | measuring(revisions=["step0200"], datasets=["size"])
        | tabulating(["size"])
        | joining()
        | drawing(["scale"])
    )
    kept = ("activations/tiny/step0200/*", "probes/tiny/step0200/**/*", "fragility/tiny/step0200/**/*")
    assert differing(study.results(*kept), finished.results(*kept)) == []


def test_a_new_revision_of_a_local_model_runs_its_own_chain(study, finished):
    with study.changed_config() as config:
        config["models"]["tiny"]["revisions"] = list(REVISIONS[:2])
    study.remove("results/*/tiny/step0200*")
    study.run()
    with study.changed_config() as config:
        config["models"]["tiny"]["revisions"] = list(REVISIONS)
    new = ["step0200"]
    assert study.run().done == (
        identifying(new) | capturing(new) | measuring(revisions=new) | tabulating() | joining() | drawing()
    )

    assert differing(study.results(), finished.results()) == []


def test_another_noise_grid_measures_every_curve_again_but_trains_no_probe(study, finished):
    with study.changed_config() as config:
        config["fragility"]["noise_levels"] = [0.2, 2.0, 20.0]
    done = study.run().done
    assert done == (
        measuring(["measure_fragility"]) | tabulating(of=["fragility"])
        | joining(["fragility", "scale", "trajectory"]) | drawing()
    )  # fmt: skip
    assert differing(study.results("probes/**/*"), finished.results("probes/**/*")) == []
    assert differing(study.results("activations/**/*"), finished.results("activations/**/*")) == []
    curve = "results/fragility/tiny/step0100/care/seed42/layer01.json"
    new, old = (json.loads((tree / curve).read_text()) for tree in (study, finished))
    assert list(new["accuracy_by_noise"]) == ["0.2", "2.0", "20.0"]
    # The continuous critical noise is read off no grid.
    assert new["controls"]["raw"]["continuous"] == old["controls"]["raw"]["continuous"]


def test_a_decision_rule_and_the_paper_s_tables_come_from_tables_that_are_there(study, finished):
    rule = {"model": "tiny", "dataset": "care", "first": "step0000", "second": "step0200", "means": "capped"}
    with study.changed_config() as config:
        config["paper_tables"] = True
        config["decision_rules"] = {"decline": rule}
    assert study.run().done == {job("tabulate_decisions"), job("tabulate_paper")}
    (row,) = csv.DictReader((study / "results/tables/decisions.csv").read_text().splitlines())
    assert (row["rule"], row["first"], row["n_a"], row["least_drop"]) == ("decline", "step0000", "2", "1")
    assert row["real"] in ("yes", "no")
    page = (study / "results/tables/paper/table3.html").read_text()
    assert "<table" in page
    assert "step0200" not in page, "the paper's tables are by step"
    added = {"decisions.csv", *(f"paper/table{n}.{form}" for n in (1, 2, 3) for form in ("csv", "html"))}
    assert set(differing(study.results(), finished.results())) == {f"tables/{name}" for name in added}
    with study.changed_config() as config:
        config["decision_rules"]["decline"]["least_drop"] = 0.5
    assert study.plan() == {job("tabulate_decisions")}


def test_the_style_of_a_figure_redraws_that_figure(study, finished):
    with study.changed_config() as config:
        config["figures"]["saturation"]["style"] = {"step_scale": "symlog"}
    assert study.run().done == drawing(["saturation"])
    changed = ["figures/saturation.png", "figures/saturation.svg"]
    assert differing(study.results(), finished.results()) == changed


def test_a_changed_row_moves_its_bundle_and_no_other(study, finished):
    study.edit("data/care.jsonl", "The nurse rescued a child", "The nurse sheltered a child")
    assert study.plan() == (
        checking(["care"])
        | capturing(bundles=["core"])
        | measuring(datasets=["care", "truth"])
        | tabulating(["care", "truth"])
        | joining()
        | drawing([figure for figure in FIGURES if figure != "scale"])
    )
    wanted = "results/probes/tiny/step0000/care/seed42/summary.json"
    assert study.run(wanted).done == (
        capturing(["step0000"], ["core"]) | measuring(["train_probes"], ["step0000"], ["care"], [42])
    )
    place = "probes/tiny/step0000/care/seed42"
    files = {f"{place}/{name}" for name in ("layer00.json", "layer01.json", "summary.json", "weights.h5")}
    changed = set(differing(study.results(), finished.results()))
    assert {f"{place}/summary.json", "activations/tiny/step0000/care.h5"} <= changed
    assert changed <= files | {"activations/tiny/step0000/care.h5"}
    assert half_files(study) == []
    assert study.plan("results/figures/scale.svg") == NOTHING
