"""What a study may say of steering."""

import copy

import pytest

from strataprobe.config import Study
from strataprobe.errors import ConfigError

BASE = {
    "seeds": [42],
    "measures": ["levels", "steering"],
    "datasets": {"who": {"path": "who.jsonl", "kind": "control", "prompts": "prompts.json"}},
    "models": {"m": {"source": {"local": {"directory": "w"}}, "layers": 4, "revisions": ["main"]}},
}


def loaded(steering=None, **changed):
    raw = copy.deepcopy(BASE) | changed
    return Study.load(raw | ({"steering": steering} if steering is not None else {}))


def faults(steering=None, **changed) -> str:
    with pytest.raises(ConfigError) as said:
        loaded(steering, **changed)
    return str(said.value)


def test_without_a_word_everything_is_tried_as_published_and_more():
    section = loaded().settings("steering")
    assert section["alphas"] == [-5, -3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 5]
    assert section["methods"] == ["probe", "means"]
    assert section["random"] >= 20
    assert section["conventions"] == "default"
    assert loaded(conventions="published").settings("steering")["conventions"] == "published"


def test_it_is_of_control_items():
    assert loaded().measured("steering") == [("m", "who")]


def test_strengths_without_0_are_refused():
    assert "alphas: without 0" in faults({"alphas": [-1, 1], "random_alphas": [1]})


def test_random_strengths_that_stand_beside_nothing_are_refused():
    assert "random_alphas: [4.0] are not among alphas" in faults(
        {"alphas": [-5, 0, 5], "random_alphas": [4, 5]}
    )
    assert loaded({"alphas": [-5, 0], "random_alphas": [5]})
    assert loaded({"alphas": [-5, 0], "random": 0})


def test_a_mistyped_key_gets_the_nearest_one():
    assert "did you mean 'erasures'" in faults({"erasure": 3})


def test_a_figure_of_steering_shows_control_items_that_are_steered():
    figures = {"pushed": {"kind": "steering", "models": ["m"], "dataset": "who"}}
    assert loaded(figures=figures)
    assert "steering of 'who' is not among the measures of 'm'" in faults(
        figures=figures, measures=["levels"]
    )


def test_it_needs_the_levels_it_starts_from():
    assert "steering of 'who' starts from the results of levels" in faults(measures=["steering"])
