"""What a missing, asked-for or replaced result makes Snakemake do."""

import json
import shutil

import pytest

from tests.workflow.study import NOTHING, capturing, drawing, joining, measuring, tabulating
from tests.workflow.trees import differing, half_files

PLACE = "tiny/step0100/care/seed42"
AT_PLACE = {"revisions": ["step0100"], "datasets": ["care"], "seeds": [42]}


def test_a_finished_study_has_nothing_to_do(study):
    run = study.run()
    assert run.done == NOTHING
    assert "Nothing to be done" in run.output


def test_a_deleted_figure_is_the_only_thing_drawn_again_and_comes_out_the_same(study, finished):
    study.remove("results/figures/depth.svg")
    assert study.run().done == drawing(["depth"])
    assert differing(study.results(), finished.results()) == []


@pytest.mark.parametrize(
    ("kind", "rule", "file"),
    [
        ("probes", "train_probes", "layer01.json"),
        ("fragility", "measure_fragility", "layer00.json"),
    ],
    ids=["probe", "curve"],
)
def test_a_deleted_layer_file_asked_for_by_name_is_one_job_and_moves_nothing_else(
    study, finished, kind, rule, file
):
    wanted = f"results/{kind}/{PLACE}/{file}"
    study.remove(wanted)
    assert study.run(wanted).done == measuring([rule], **AT_PLACE)
    assert differing(study.results(), finished.results()) == []
    assert study.plan() == NOTHING, "files written again with the same content moved what hangs on them"


def test_probe_weights_with_another_content_move_what_hangs_on_them_and_no_probe(study):
    probes = study / f"results/probes/{PLACE}"
    shutil.copyfile(probes.parent / "seed43/weights.h5", probes / "weights.h5")
    assert study.plan() == (
        measuring(["measure_fragility"], **AT_PLACE)
        | tabulating(["care"], of=["fragility"])
        | joining(["fragility", "scale", "trajectory"])
        | drawing(["saturation", "depth", "layer_profile"])
    )


def test_a_deleted_cache_is_captured_again_when_asked_for_and_only_then(study, finished):
    cache = "results/activations/tiny/step0100/size.h5"
    study.remove(cache)
    assert study.plan() == NOTHING
    assert study.run(cache).done == capturing(["step0100"], ["size"])
    assert differing(study.results(), finished.results()) == []
    assert study.plan() == NOTHING
    assert half_files(study) == []


def test_a_seed_that_the_config_does_not_have_can_still_be_asked_for(study, finished):
    place = "results/probes/tiny/step0000/size/seed44"
    done = study.run(f"{place}/layer00.json").done
    assert done == measuring(["train_probes"], ["step0000"], ["size"], [44])
    assert json.loads((study / f"{place}/summary.json").read_text())["seed"] == 44
    new = {f"probes/tiny/step0000/size/seed44/{name}" for name in ("layer00.json", "layer01.json")}
    new |= {f"probes/tiny/step0000/size/seed44/{name}" for name in ("summary.json", "weights.h5")}
    assert set(differing(study.results(), finished.results())) == new
    assert study.plan() == NOTHING
