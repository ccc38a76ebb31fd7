"""The section on perplexity, a model's own text, and the figure that shows it."""

import copy
from pathlib import Path

import pytest

from strataprobe.config import Study, check
from strataprobe.errors import ConfigError

RAW = {
    "seeds": [42],
    "datasets": {"own": {"path": "own.jsonl"}},
    "models": {
        "tiny": {
            "source": {"local": {"directory": "weights/{revision}"}},
            "layers": 2,
            "revisions": ["step0", "step1"],
        },
        "read": {
            "source": {"published": {"directory": "elsewhere"}},
            "layers": 2,
            "revisions": ["step0"],
            "datasets": ["own"],
            "seeds": [42],
        },
    },
    "perplexity": {"text": "plain.txt"},
    "figures": {"checkpoints": {"kind": "checkpoints", "model": "tiny"}},
}


@pytest.fixture
def base(tmp_path) -> Path:
    for name in ("own.jsonl", "plain.txt", "mine.txt"):
        (tmp_path / name).write_text("")
    for name in ("weights", "elsewhere"):
        (tmp_path / name).mkdir()
    return tmp_path


def faults(raw, base=None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        check(raw, base=base)
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


def test_every_model_that_can_be_run_has_a_text_its_own_or_the_studys(base):
    raw = copy.deepcopy(RAW)
    raw["models"]["other"] = {**raw["models"]["tiny"], "perplexity_text": "mine.txt"}
    study = Study.load(raw, base=base)
    texts = {name: model.perplexity_text for name, model in study.models.items()}
    assert texts == {"tiny": "plain.txt", "other": "mine.txt", "read": None}
    assert study.settings("perplexity") == {
        "bos_nats": 0.5, "jump_nats": 0.5, "text": "plain.txt", "uniform_nats": 2.0
    }  # fmt: skip


def test_without_the_section_no_model_has_one(base):
    raw = copy.deepcopy(RAW)
    del raw["perplexity"], raw["figures"]
    assert {model.perplexity_text for model in Study.load(raw, base=base).models.values()} == {None}


def test_texts_that_are_not_there_are_named_with_the_nearest(base):
    raw = copy.deepcopy(RAW)
    raw["perplexity"]["text"] = "plane.txt"
    raw["models"]["tiny"]["perplexity_text"] = "min.txt"
    assert faults(raw, base) == [
        "perplexity.text: there is no file 'plane.txt'; did you mean 'plain.txt'?",
        "models.tiny.perplexity_text: there is no file 'min.txt'; did you mean 'mine.txt'?",
    ]


def test_a_text_or_a_figure_without_the_section_is_refused():
    raw = copy.deepcopy(RAW)
    del raw["perplexity"]
    raw["models"]["tiny"]["perplexity_text"] = "mine.txt"
    missing = "the study measures no perplexity; add a section perplexity with its text"
    assert faults(raw) == [f"figures.checkpoints: {missing}", f"models.tiny.perplexity_text: {missing}"]


def test_results_that_others_published_have_no_checkpoints_to_try():
    raw = copy.deepcopy(RAW)
    raw["models"]["read"]["perplexity_text"] = "mine.txt"
    raw["figures"]["checkpoints"]["model"] = "read"
    assert faults(raw) == [
        "figures.checkpoints.model: 'read' holds published results; checkpoints are of a model",
        "models.read.perplexity_text: published results have no model to try it on; leave it out",
    ]


def test_a_figure_of_checkpoints_needs_a_model_and_thresholds_are_positive():
    raw = copy.deepcopy(RAW)
    del raw["figures"]["checkpoints"]["model"]
    raw["perplexity"]["bos_nats"] = 0
    assert faults(raw) == [
        "perplexity.bos_nats: 0 is not a number greater than 0",
        "figures.checkpoints.model: is missing; a figure of kind 'checkpoints' needs one",
    ]
