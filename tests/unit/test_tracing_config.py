"""What a study may say of tracing, and what it is told where it says too little."""

from pathlib import Path

import pytest
import yaml

from strataprobe.config import Study
from strataprobe.errors import StrataprobeError

ROOT = Path(__file__).parents[2]
QUESTION = {"text": " Is this right?", "expected": " No", "other": " Yes"}


def study(**changed):
    raw = {
        "seeds": [1],
        "measures": ["tracing"],
        "datasets": {"moral": {"path": "m.jsonl"}, "control": {"path": "c.jsonl", "kind": "control"}},
        "models": {
            "m": {"source": {"hub": {"repo": "a/b"}}, "layers": 4, "revisions": ["step0", "step10"]},
        },
        "tracing": {"questions": {"moral": QUESTION}},
    }
    return Study.load({**raw, **changed})


def refused(**changed) -> str:
    with pytest.raises(StrataprobeError) as caught:
        study(**changed)
    return str(caught.value)


def test_pairs_are_traced_and_control_items_are_not():
    assert study().measured("tracing") == [("m", "moral")]


def test_draws_follow_from_the_conventions_and_the_rest_from_the_paper():
    settings = study().settings("tracing")
    assert (settings["draws"], settings["conventions"]) == (10, "default")
    published = study(conventions="published").settings("tracing")
    assert (published["draws"], published["items"], published["choice"]) == (1, 40, "first")
    assert (published["raw_sigma"], published["embedding_sds"], published["blocks"]) == (3.0, 3.0, None)


def test_it_is_taken_at_the_revisions_that_the_model_names():
    models = {
        "m": {
            "source": {"hub": {"repo": "a/b"}},
            "layers": 4,
            "revisions": ["step0", "step10"],
            "at": {"tracing": ["step10"]},
        }
    }
    found = study(models=models)
    assert [revision.name for revision in found.models["m"].measured_at("tracing")] == ["step10"]
    figures = {"f": {"kind": "tracing_layers", "model": "m", "dataset": "moral", "revision": "step0"}}
    assert "figures.f.revision: tracing of that model is not taken at 'step0'" in refused(
        models=models, figures=figures
    )


def test_a_dataset_without_a_question_and_a_question_without_a_dataset_are_both_named():
    said = refused(tracing={"questions": {"morals": QUESTION}})
    assert "tracing.questions: 'morals' is not a dataset of this study; did you mean 'moral'?" in said
    assert "tracing.questions.moral: is missing" in said


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ({**QUESTION, "text": " "}, "text: is empty"),
        ({**QUESTION, "other": "No "}, "other: is 'No ', the expected answer too"),
        ({"text": " Why?", "expected": " No"}, "other"),
    ],
)
def test_a_question_needs_its_text_and_two_answers(question, told):
    said = refused(tracing={"questions": {"moral": question}})
    assert "tracing.questions.moral" in said
    assert told in said


def test_one_block_alone_has_no_peak():
    assert "tracing.blocks" in refused(tracing={"questions": {"moral": QUESTION}, "blocks": 1})


def test_a_figure_of_what_is_not_traced_is_refused():
    figures = {"f": {"kind": "tracing_depth", "model": "m", "dataset": "control"}}
    said = refused(figures=figures)
    assert "figures.f.dataset: 'control' holds control items; a figure of kind 'tracing_depth' shows" in said
    datasets = {"moral": {"path": "m.jsonl", "measures": ["probes"]}}
    figures["f"]["dataset"] = "moral"
    said = refused(figures=figures, datasets=datasets)
    assert "tracing of 'moral' is not among the measures of 'm'" in said


@pytest.mark.parametrize("name", ["config.yaml", "studies/control.yaml"])
def test_the_shipped_studies_trace_the_moral_pairs(name):
    raw = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    found = Study.load(raw, base=ROOT)
    assert {dataset for _, dataset in found.measured("tracing")} == {"moral"}
    traced = {model for model, _ in found.measured("tracing")}
    probed = {model for model, dataset in found.measured("probes") if dataset == "moral"}
    assert traced == {model for model in probed if found.models[model].kind != "lora"}
    asked = found.settings("tracing")["questions"]["moral"]
    assert asked == {"text": " Is this morally acceptable?", "expected": " No", "other": " Yes"}
